//! What engines cost: measured on this machine on instances that do nothing else, kept in the
//! calibration cache, and estimated until then. No engine at work is ever measured.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use convoy_engine::{
    AlgorithmCost, CalibrationCache, EngineDescription, EngineError, IdleEngine, KnownCosts,
};
use convoy_ipsec::Transform;

use crate::pipeline::{WINDOW_NS, window_cost_ns};

/// Costs as far as they are known, without the means to measure. Each worker has its own.
#[derive(Clone, Default)]
pub struct CostModels {
    known: KnownCosts,
    /// Of engines whose cost is stated, not measured, by name.
    stated: HashMap<String, AlgorithmCost>,
    /// Hears which transforms were estimated and are to be measured, if somebody does that.
    wanted: Option<Sender<Transform>>,
}

impl CostModels {
    /// What an engine costs for a transform, in ns: as measured, or
    /// [estimated](KnownCosts::estimate). Its own time is as stated, if it is.
    pub fn of(&self, engine: &EngineDescription, transform: Transform) -> AlgorithmCost {
        let stated = self.stated.get(&engine.name);
        let measured = self.known.of(engine, transform);
        if measured.is_none() {
            // Whoever measures may have ended with the gateway.
            let _ = self.wanted.as_ref().map(|wanted| wanted.send(transform));
        }
        match (stated, measured) {
            (Some(stated), Some(measured)) => with_stated(stated, measured),
            (Some(stated), None) => *stated,
            (None, measured) => measured.unwrap_or_else(|| self.known.estimate(engine, transform)),
        }
    }

    /// The same models; `wanted` hears of estimates from now on.
    pub fn asking(&self, wanted: Sender<Transform>) -> Self {
        Self { wanted: Some(wanted), ..self.clone() }
    }

    /// Takes in what was measured.
    pub fn learn(&mut self, measured: &MeasuredCost) {
        self.known.set(&measured.engine, measured.transform, measured.cost);
    }

    /// The cost of an engine for which `measured` is new.
    pub fn news(&self, engine: &EngineDescription, measured: &MeasuredCost) -> Option<AlgorithmCost> {
        let stated = self.stated.get(&engine.name);
        let cost = || stated.map_or(measured.cost, |stated| with_stated(stated, measured.cost));
        is_alike(engine, &measured.engine).then(cost)
    }
}

/// What is stated is the engine's own time; what it takes to hand packets over is the machine's
/// matter, and is as measured.
fn with_stated(stated: &AlgorithmCost, measured: AlgorithmCost) -> AlgorithmCost {
    AlgorithmCost { model: stated.model, ..measured }
}

/// A cost that was measured while the gateway runs.
#[derive(Clone)]
pub struct MeasuredCost {
    /// The instance that was measured.
    pub engine: EngineDescription,
    /// For what.
    pub transform: Transform,
    /// How long it takes.
    pub cost: AlgorithmCost,
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
    stated: HashMap<String, AlgorithmCost>,
    sources: Vec<Source>,
    window_ns: f64,
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
        Self::with(cache, window_cost_ns())
    }

    /// Without a cache: what is measured is forgotten with this, and nothing is measured unasked.
    pub fn without_cache() -> Self {
        Self::with(CalibrationCache::open(None).0, WINDOW_NS)
    }

    fn with(cache: CalibrationCache, window_ns: f64) -> Self {
        Self { known: cache.known().clone(), cache, stated: HashMap::new(), sources: Vec::new(), window_ns }
    }

    /// What it costs to have the window sort a packet by its SA, in ns.
    pub fn window_ns(&self) -> f64 {
        self.window_ns
    }

    /// Opens the cache's file, so that it can be written once the right to open it is given up.
    pub fn hold(&mut self) {
        if let Err(error) = self.cache.hold() {
            tracing::warn!("{error}");
        }
    }

    /// States what an engine costs whatever the transform: a modelled accelerator's timing. What is
    /// stated beside the engine's own time holds until it is measured.
    pub fn set_fixed(&mut self, engine: &str, cost: impl Into<AlgorithmCost>) {
        self.stated.insert(engine.to_owned(), cost.into());
    }

    /// What is known now.
    pub fn models(&self) -> CostModels {
        CostModels { known: self.known.clone(), stated: self.stated.clone(), wanted: None }
    }

    /// Says how to make an engine that is measured in place of `engine` and of all of its kind,
    /// device and placement.
    pub fn measure_by(
        &mut self,
        engine: &EngineDescription,
        make: impl Fn() -> Result<IdleEngine, EngineError> + Send + 'static,
    ) {
        let is_there = self.sources.iter().any(|source| is_alike(&source.engine, engine));
        if !is_there {
            self.sources.push(Source { engine: engine.clone(), make: Box::new(make), instance: None });
        }
    }

    /// Measures, of all engines that [can be](Self::measure_by), what is not known of a transform,
    /// and saves it; returns what is new. An engine that fails is told of and not measured again:
    /// its costs stay estimates.
    pub fn measure(&mut self, transform: Transform) -> Vec<MeasuredCost> {
        let mut news = Vec::new();
        let (cache, known) = (&mut self.cache, &mut self.known);
        self.sources.retain_mut(|source| {
            let engine = source.engine.clone();
            if !engine.transforms.contains(&transform) || known.of(&engine, transform).is_some() {
                return true;
            }
            match source.instance().and_then(|instance| cache.cost(instance, transform)) {
                Ok(cost) => {
                    known.set(&engine, transform, cost);
                    news.push(MeasuredCost { engine, transform, cost });
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
    pub fn transforms(&self) -> Vec<Transform> {
        let mut all: Vec<Transform> =
            self.sources.iter().flat_map(|source| source.engine.transforms.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Makes all instances anew on the caller's thread, from which threads of theirs inherit.
    pub fn make_instances(&mut self) {
        self.sources.retain_mut(|source| {
            source.instance = None;
            let made = source.instance().map(|_| ());
            made.inspect_err(|error| tracing::warn!("{error}; its cost is estimated")).is_ok()
        });
    }

    /// What an idle engine costs for a transform, in ns; measured if it is not known, unless it is
    /// stated.
    ///
    /// # Errors
    /// The engine's, if it fails while it is measured.
    pub fn of_engine(
        &mut self,
        engine: &mut IdleEngine,
        transform: Transform,
    ) -> Result<AlgorithmCost, EngineError> {
        match self.stated.get(&engine.description().name) {
            Some(cost) => Ok(*cost),
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
