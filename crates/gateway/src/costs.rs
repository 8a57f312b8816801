//! Cost models of engines: measured once on this machine, then read from the calibration cache.

use std::collections::HashMap;

use convoy_engine::{CalibrationCache, Engine, EngineError};
use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;

use crate::pipeline::EngineSet;

/// Where the cost models come from.
pub struct Costs {
    cache: CalibrationCache,
    /// Of engines whose cost is stated, not measured, by name.
    stated: HashMap<String, CostModel>,
}

impl Default for Costs {
    fn default() -> Self {
        Self::new()
    }
}

impl Costs {
    /// With the machine's own cache.
    pub fn new() -> Self {
        let (cache, warning) = CalibrationCache::open(CalibrationCache::default_path());
        if let Some(warning) = warning {
            tracing::warn!("{warning}");
        }
        Self { cache, stated: HashMap::new() }
    }

    /// Opens the cache's file, so that it can be written once the right to open it is given up.
    pub fn hold(&mut self) {
        if let Err(error) = self.cache.hold() {
            tracing::warn!("{error}");
        }
    }

    /// States what an engine costs whatever the transform: a modelled accelerator's timing.
    pub fn state(&mut self, engine: &str, model: CostModel) {
        self.stated.insert(engine.to_owned(), model);
    }

    /// The cost model of one engine of a set for a transform, in ns; measured if it is not known.
    pub fn of(&mut self, engines: &mut EngineSet, engine: usize, transform: Transform) -> CostModel {
        self.of_engine(engines.engine_mut(engine), transform).unwrap_or_else(|error| {
            // It will be corrected from the first completion on, or found out as failed.
            tracing::warn!("{error}; its cost is assumed until it is measured");
            CostModel { t_init: 1_000.0, t_block: 10.0 }
        })
    }

    /// The cost model of an engine for a transform, in ns; measured if it is not known.
    ///
    /// # Errors
    /// The engine's, if it fails while it is measured.
    pub fn of_engine(
        &mut self,
        engine: &mut dyn Engine,
        transform: Transform,
    ) -> Result<CostModel, EngineError> {
        match self.stated.get(&engine.description().name) {
            Some(model) => Ok(*model),
            None => self.cache.cost(engine, transform),
        }
    }

    /// Writes what was measured to the cache. A cache that cannot be written is only told of.
    pub fn save(&mut self) {
        if let Err(error) = self.cache.save() {
            tracing::warn!("{error}");
        }
    }
}
