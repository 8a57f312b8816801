//! What engines cost: measured on this machine on instances that do nothing else, kept in the calibration cache, and estimated until
//! then. No engine at work is ever measured.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use convoy_engine::{CalibrationCache, EngineDescription, EngineError, IdleEngine, KnownCosts};
use convoy_ipsec::Transform;
use convoy_scheduler::CostModel;

/// Cost models as far as they are known, without the means to measure. Each worker has its own.
#[derive(Clone, Default)]
pub struct CostModels {
    known: KnownCosts,
    /// Of engines whose cost is stated, not measured, by name.
    stated: HashMap<String, CostModel>,
    /// Hears which transforms were estimated and are to be measured, if somebody does that.
    wanted: Option<Sender<Transform>>,
}

impl CostModels {
    /// The cost model of an engine for a transform, in ns: as stated, as measured, or [estimated](KnownCosts::estimate).
    pub fn of(&self, engine: &EngineDescription, transform: Transform) -> CostModel {
        let certain = self.stated.get(&engine.name).copied().or_else(|| self.known.of(engine, transform));
        certain.unwrap_or_else(|| {
            // Whoever measures may have ended with the gateway.
            let _ = self.wanted.as_ref().map(|wanted| wanted.send(transform));
            self.known.estimate(engine, transform)
        })
    }

    /// The same models; `wanted` hears of estimates from now on.
    pub(crate) fn asking(&self, wanted: Sender<Transform>) -> Self {
        Self { wanted: Some(wanted), ..self.clone() }
    }

    /// Takes in what was measured.
    pub(crate) fn learn(&mut self, measured: &MeasuredCost) {
        self.known.set(&measured.engine, measured.transform, measured.model);
    }

    /// The model of an engine for which `measured` is new.
    pub(crate) fn news(&self, engine: &EngineDescription, measured: &MeasuredCost) -> Option<CostModel> {
        let is_meant = is_alike(engine, &measured.engine) && !self.stated.contains_key(&engine.name);
        is_meant.then_some(measured.model)
    }
}

/// A cost model that was measured while the gateway runs.
#[derive(Clone)]
pub(crate) struct MeasuredCost {
    /// The instance that was measured.
    pub(crate) engine: EngineDescription,
    pub(crate) transform: Transform,
    pub(crate) model: CostModel,
}

/// Whether what is measured of one engine holds for the other.
fn is_alike(one: &EngineDescription, other: &EngineDescription) -> bool {
    let what =
        |engine: &EngineDescription| (engine.kind, engine.device.clone(), engine.placement, engine.is_model);
    what(one) == what(other)
}

/// Makes an engine to be measured.
type Make = Box<dyn Fn() -> Result<IdleEngine, EngineError> + Send>;

/// Engines of one kind and placement, and the instance that is measured for all of them.
struct Source {
    engine: EngineDescription,
    make: Make,
    /// Made when it is needed.
    instance: Option<IdleEngine>,
}

impl Source {
    fn instance(&mut self) -> Result<&mut IdleEngine, EngineError> {
        match &mut self.instance {
            Some(instance) => Ok(instance),
            missing => Ok(missing.insert((self.make)()?)),
        }
    }
}

/// Measures what engines cost, and keeps it.
pub struct Costs {
    cache: CalibrationCache,
    /// What the cache has, and what was measured since, of modelled engines as well.
    known: KnownCosts,
    stated: HashMap<String, CostModel>,
    sources: Vec<Source>,
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
        Self::with(cache)
    }

    /// Without a cache: what is measured is forgotten with this.
    pub fn without_cache() -> Self {
        Self::with(CalibrationCache::open(None).0)
    }

    fn with(cache: CalibrationCache) -> Self {
        Self { known: cache.known().clone(), cache, stated: HashMap::new(), sources: Vec::new() }
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

    /// What is known now.
    pub fn models(&self) -> CostModels {
        CostModels { known: self.known.clone(), stated: self.stated.clone(), wanted: None }
    }

    /// Says how to make an engine that is measured in place of `engine` and of all of its kind, device and placement, unless its cost is stated.
    pub(crate) fn measure_by(
        &mut self,
        engine: &EngineDescription,
        make: impl Fn() -> Result<IdleEngine, EngineError> + Send + 'static,
    ) {
        let is_there = self.sources.iter().any(|source| is_alike(&source.engine, engine));
        if !is_there && !self.stated.contains_key(&engine.name) {
            self.sources.push(Source { engine: engine.clone(), make: Box::new(make), instance: None });
        }
    }

    /// Measures, of all engines that [can be](Self::measure_by), what is not known of a transform, and saves it; returns what is new. An
    /// engine that fails is told of and not measured again: its costs stay estimates.
    pub(crate) fn measure(&mut self, transform: Transform) -> Vec<MeasuredCost> {
        let mut news = Vec::new();
        let (cache, known) = (&mut self.cache, &mut self.known);
        self.sources.retain_mut(|source| {
            let engine = source.engine.clone();
            if !engine.transforms.contains(&transform) || known.of(&engine, transform).is_some() {
                return true;
            }
            match source.instance().and_then(|instance| cache.cost(instance, transform)) {
                Ok(model) => {
                    known.set(&engine, transform, model);
                    news.push(MeasuredCost { engine, transform, model });
                }
                Err(error) => {
                    tracing::warn!("{error}; its cost is estimated");
                    return false;
                }
            }
            true
        });
        if !news.is_empty() {
            self.save();
        }
        news
    }

    /// What may have to be measured: all that the engines can do.
    pub(crate) fn transforms(&self) -> Vec<Transform> {
        let mut all: Vec<Transform> =
            self.sources.iter().flat_map(|source| source.engine.transforms.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Makes all instances anew on the caller's thread, from which threads of theirs inherit.
    pub(crate) fn make_instances(&mut self) {
        self.sources.retain_mut(|source| {
            source.instance = None;
            let made = source.instance().map(|_| ());
            made.inspect_err(|error| tracing::warn!("{error}; its cost is estimated")).is_ok()
        });
    }

    /// The cost model of an idle engine for a transform, in ns; measured if it is not known.
    ///
    /// # Errors
    /// The engine's, if it fails while it is measured.
    pub fn of_engine(
        &mut self,
        engine: &mut IdleEngine,
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
