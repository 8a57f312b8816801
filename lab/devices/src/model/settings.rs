//! The `model` engine in the configuration.

use convoy_engine::{
    AutoSelect, BusTiming, Cost, Engine, EngineBackend, EngineContext, EngineError, EngineStart,
    EngineTraits, FoundEngine, IdleEngine, Made, MissingEngine, Placement, transforms,
};
use convoy_scheduler::CostModel;
use convoy_settings::{Checker, Text, tables};

use super::{Model, ModelTiming, SharedBus};

/// The longest of all modelled times, in ns: a second.
const MOST_NS: f64 = 1e9;

tables! {
    /// Its own keys.
    pub ModelKeys {
        t_init_us: f64 => "; the costs of other engines are measured",
        t_block_ns: f64 => "; the costs of other engines are measured",
        depth: usize,
        bus: String,
    }
}

/// The settings of a `model` engine: its timing, with the costs of docs/lab/simulator.md.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelSettings {
    /// Initialisation of a multi-packet, in ns.
    pub t_init_ns: f64,
    /// A block of 16 bytes, in ns.
    pub t_block_ns: f64,
    /// Multi-packets that may wait.
    pub depth: usize,
    /// The bus by which it is reached, by name; `None` costs nothing.
    pub bus: Option<String>,
}

impl Default for ModelSettings {
    /// The accelerator of the small-packets paper: 2 us (open there) and 230 Mbit/s.
    fn default() -> Self {
        let ModelTiming { t_init_ns, t_block_ns, depth, .. } = ModelTiming::default();
        Self { t_init_ns, t_block_ns, depth, bus: None }
    }
}

impl ModelSettings {
    /// The timing of the device.
    pub fn timing(&self) -> ModelTiming {
        let Self { t_init_ns, t_block_ns, depth, .. } = *self;
        ModelTiming { t_init_ns, t_block_ns, depth, has_prefetch: false }
    }

    /// Its cost for the scheduler, in ns.
    pub fn cost(&self) -> CostModel {
        CostModel { t_init: self.t_init_ns, t_block: self.t_block_ns }
    }
}

impl EngineBackend for ModelSettings {
    type Keys = ModelKeys;

    const WORD: &'static str = "model";

    const TRAITS: EngineTraits = EngineTraits {
        summary: "a modelled accelerator: real ciphers, the timing of a device on a shared bus",
        is_model: true,
        auto_select: AutoSelect::Never,
        system_calls: &[],
    };

    fn check(keys: &ModelKeys, c: &mut Checker<'_>) -> Self {
        let (default, most_us) = (Self::default(), MOST_NS / 1000.0);
        let (t_init_us, t_block_ns) = (keys.t_init_us.as_ref(), keys.t_block_ns.as_ref());
        let init_us = c.in_range(t_init_us, "engine.t_init_us", default.t_init_ns / 1000.0, 0.0..=most_us);
        Self {
            t_init_ns: 1000.0 * init_us,
            t_block_ns: c.in_range(t_block_ns, "engine.t_block_ns", default.t_block_ns, 0.0..=MOST_NS),
            depth: c.in_range(keys.depth.as_ref(), "engine.depth", default.depth, 1..=1024),
            bus: keys.bus.as_ref().map(|bus| bus.get_ref().clone()),
        }
    }

    fn bus(keys: &ModelKeys) -> Option<&Text> {
        keys.bus.as_ref()
    }

    fn placement(&self) -> Placement {
        Placement::Lookaside
    }

    fn find() -> Result<FoundEngine, MissingEngine> {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Ok(FoundEngine { version, left_out: None, transforms: transforms(), devices: Vec::new() })
    }

    fn open(&self, name: &str) -> Result<EngineStart, String> {
        let (settings, name) = (self.clone(), name.to_owned());
        Ok(Box::new(move |context, _| {
            let bus = find_or_make(context, &name, settings.bus.as_deref())?;
            let engine: Box<dyn Engine> = Box::new(Model::new(name.clone(), settings.timing(), bus));
            let idle = move || idle(&name);
            Ok(Made { engines: vec![engine], cost: Cost::Stated(settings.cost(), Box::new(idle)) })
        }))
    }
}

/// A model on a bus of its own, to measure the cost of handing packets to its thread. Its device
/// takes no time, so that this is quick.
fn idle(name: &str) -> Result<IdleEngine, EngineError> {
    let failed = |error: std::io::Error| EngineError::Device {
        engine: name.to_owned(),
        reason: format!("the thread of its bus: {error}"),
    };
    let bus = SharedBus::new(BusTiming::FREE).map_err(failed)?;
    let timing = ModelTiming { t_init_ns: 0.0, t_block_ns: 0.0, ..ModelTiming::default() };
    Ok(IdleEngine::new(Model::new(name, timing, bus)))
}

/// The bus that engines share by its name, or one of this engine's own that costs nothing; created
/// when the first engine on it is.
fn find_or_make(context: &mut EngineContext, engine: &str, bus: Option<&str>) -> Result<SharedBus, String> {
    let name = bus.map_or_else(|| format!("the bus of {engine}"), |bus| format!("bus {bus}"));
    if let Some(bus) = context.shared.get(&name).and_then(|shared| shared.downcast_ref::<SharedBus>()) {
        return Ok(bus.clone());
    }
    let timing = bus.and_then(|bus| context.buses.get(bus)).copied().unwrap_or(BusTiming::FREE);
    let bus = SharedBus::new(timing).map_err(|error| format!("its bus's thread: {error}"))?;
    context.shared.insert(name, Box::new(bus.clone()));
    Ok(bus)
}
