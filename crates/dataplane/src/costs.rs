//! Cost models of engines: measured on this machine on instances of their own, kept in the
//! calibration cache, and estimated until then. An engine in use is never measured.

use std::collections::HashMap;
use std::sync::mpsc::Sender;

use convoy_engine::{
    AlgorithmCost, CacheError, CalibrationCache, EngineDescription, EngineError, IdleEngine, KnownCosts,
};
use convoy_ipsec::Transform;

use crate::pipeline::{WINDOW_NS, window_cost_ns};

/// Known costs, without the means to measure. Each worker has its own.
#[derive(Clone, Default)]
pub struct CostModels {
    known: KnownCosts,
    /// Costs that are configured rather than measured, by engine name.
    stated: HashMap<String, AlgorithmCost>,
    /// Receives the transforms whose costs were estimated and should be measured, if somebody
    /// measures.
    wanted: Option<Sender<Transform>>,
}

impl CostModels {
    /// The cost of a transform on an engine, in ns: measured, or [estimated](KnownCosts::estimate).
    /// A configured cost replaces the engine's own time.
    pub fn of(&self, engine: &EngineDescription, transform: Transform) -> AlgorithmCost {
        let stated = self.stated.get(&engine.name);
        let measured = self.known.of(engine, transform);
        if measured.is_none() {
            // The receiver may be gone if the gateway is stopping.
            let _ = self.wanted.as_ref().map(|wanted| wanted.send(transform));
        }
        match (stated, measured) {
            (Some(stated), Some(measured)) => with_stated(stated, measured),
            (Some(stated), None) => *stated,
            (None, measured) => measured.unwrap_or_else(|| self.known.estimate(engine, transform)),
        }
    }

    /// The same models; estimated transforms are reported to `wanted` from now on.
    pub fn asking(&self, wanted: Sender<Transform>) -> Self {
        Self { wanted: Some(wanted), ..self.clone() }
    }

    /// Adds a measurement.
    pub fn learn(&mut self, measured: &MeasuredCost) {
        self.known.set(&measured.engine, measured.transform, measured.cost);
    }

    /// The new cost of an engine to which `measured` applies.
    pub fn news(&self, engine: &EngineDescription, measured: &MeasuredCost) -> Option<AlgorithmCost> {
        let stated = self.stated.get(&engine.name);
        let cost = || stated.map_or(measured.cost, |stated| with_stated(stated, measured.cost));
        is_alike(engine, &measured.engine).then(cost)
    }
}

/// Configured is the engine's own time; the cost of handing packets over depends on the machine and
/// is as measured.
fn with_stated(stated: &AlgorithmCost, measured: AlgorithmCost) -> AlgorithmCost {
    AlgorithmCost { model: stated.model, train: None, ..measured }
}

/// A cost that was measured while the gateway runs.
#[derive(Clone)]
pub struct MeasuredCost {
    /// The instance that was measured.
    pub engine: EngineDescription,
    /// The transform it was measured for.
    pub transform: Transform,
    /// The measured cost.
    pub cost: AlgorithmCost,
}

/// Whether a measurement of one engine applies to the other.
fn is_alike(one: &EngineDescription, other: &EngineDescription) -> bool {
    let what =
        |engine: &EngineDescription| (engine.kind, engine.device.clone(), engine.placement, engine.is_model);
    what(one) == what(other)
}

/// Creates an engine to be measured.
type Make = Box<dyn Fn() -> Result<IdleEngine, EngineError> + Send>;

/// Engines of one kind and placement, with the instance that is measured for all of them.
struct CostSource {
    engine: EngineDescription,
    make: Make,
    /// Created on demand.
    instance: Option<IdleEngine>,
}

impl CostSource {
    fn instance(&mut self) -> Result<&mut IdleEngine, EngineError> {
        match &mut self.instance {
            Some(instance) => Ok(instance),
            missing => Ok(missing.insert((self.make)()?)),
        }
    }
}

/// Measures the costs of engines and caches them.
pub struct Costs {
    cache: CalibrationCache,
    /// Costs from the cache and measurements since, including those of modelled engines.
    known: KnownCosts,
    stated: HashMap<String, AlgorithmCost>,
    sources: Vec<CostSource>,
    window_ns: f64,
    /// Whether a cache that cannot be written has been reported: each measurement would be one more
    /// warning of a file that stays as it is.
    is_unsaved: bool,
}

impl Costs {
    /// With the machine's calibration cache, which the caller has opened.
    pub fn new(cache: CalibrationCache) -> Self {
        Self::with(cache, window_cost_ns())
    }

    /// Without a cache: measurements last as long as this value, and nothing is measured unasked.
    pub fn without_cache() -> Self {
        Self::with(CalibrationCache::open(None, "").0, WINDOW_NS)
    }

    fn with(cache: CalibrationCache, window_ns: f64) -> Self {
        let known = cache.known().clone();
        let (stated, sources) = (HashMap::new(), Vec::new());
        Self { cache, known, stated, sources, window_ns, is_unsaved: false }
    }

    /// Cost of sorting a packet by SA in the window, in ns.
    pub fn window_ns(&self) -> f64 {
        self.window_ns
    }

    /// Opens the cache file, so that it can still be written after privileges are dropped.
    pub fn hold(&mut self) {
        let held = self.cache.hold();
        self.report(held);
    }

    /// Fixes an engine's cost for every transform: the timing of a modelled accelerator. The costs
    /// beside the engine's own time are kept until they are measured.
    pub fn set_fixed(&mut self, engine: &str, cost: impl Into<AlgorithmCost>) {
        self.stated.insert(engine.to_owned(), cost.into());
    }

    /// The models as known now.
    pub fn models(&self) -> CostModels {
        CostModels { known: self.known.clone(), stated: self.stated.clone(), wanted: None }
    }

    /// Sets how to create the engine that is measured on behalf of `engine` and all others of its
    /// kind, device and placement.
    pub fn measure_by(
        &mut self,
        engine: &EngineDescription,
        make: impl Fn() -> Result<IdleEngine, EngineError> + Send + 'static,
    ) {
        let is_there = self.sources.iter().any(|source| is_alike(&source.engine, engine));
        if !is_there {
            self.sources.push(CostSource { engine: engine.clone(), make: Box::new(make), instance: None });
        }
    }

    /// Measures a transform on all engines that [can be measured](Self::measure_by) and for which
    /// it is unknown, saves the results and returns them. An engine that fails is logged and not
    /// measured again: its costs stay estimates.
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

    /// All transforms that the engines can do, and which may therefore have to be measured.
    pub fn transforms(&self) -> Vec<Transform> {
        let mut all: Vec<Transform> =
            self.sources.iter().flat_map(|source| source.engine.transforms.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Recreates all instances on the caller's thread, whose settings their own threads inherit.
    pub fn make_instances(&mut self) {
        self.sources.retain_mut(|source| {
            source.instance = None;
            let made = source.instance().map(|_| ());
            made.inspect_err(|error| tracing::warn!("{error}; its cost is estimated")).is_ok()
        });
    }

    /// The cost of a transform on an idle engine, in ns; measured if it is neither known nor fixed.
    ///
    /// # Errors
    /// The engine's, if it fails during the measurement.
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

    /// Writes the measurements to the cache. Failure to write is only logged, and once.
    pub fn save(&mut self) {
        let saved = self.cache.save();
        self.report(saved);
    }

    fn report(&mut self, written: Result<(), CacheError>) {
        match written {
            Ok(()) => self.is_unsaved = false,
            Err(_) if self.is_unsaved => {}
            Err(error) => {
                tracing::warn!("{error}; engines are calibrated again at each start");
                self.is_unsaved = true;
            }
        }
    }
}
