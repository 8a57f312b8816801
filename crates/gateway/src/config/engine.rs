//! `[[engine]]` and `[[bus]]`.

use std::collections::HashMap;

use super::checker::Checker;
use super::file::{self, EngineKindName};
use super::{BusConfig, EngineConfig, ModelConfig};

/// The longest of all modelled times, in ns: a second.
const MOST_NS: f64 = 1e9;

pub(super) fn buses(c: &mut Checker<'_>, file: &[file::Bus]) -> HashMap<String, BusConfig> {
    let mut buses = HashMap::new();
    for bus in file {
        if *bus.width_bytes.get_ref() == 0 {
            c.add(&bus.width_bytes.span(), "bus.width_bytes", "a bus moves at least 1 byte a cycle");
        }
        let config = BusConfig {
            cycle_ns: c.in_range(Some(&bus.cycle_ns), "bus.cycle_ns", 0.0, (0.0, MOST_NS)),
            address_cycles: bus.address_cycles,
            width_bytes: *bus.width_bytes.get_ref(),
        };
        buses.insert(bus.name.get_ref().clone(), config);
    }
    buses
}

/// A bus that no engine is on would be ignored.
pub(super) fn buses_are_used(c: &mut Checker<'_>, file: &file::File) {
    for bus in &file.bus {
        let name = bus.name.get_ref();
        let has_it = |engine: &file::Engine| engine.bus.as_ref().is_some_and(|bus| bus.get_ref() == name);
        if !file.engine.iter().any(has_it) {
            let what = format!("no [[engine]] has bus = {name:?}; put one on it, or take it away");
            c.add(&bus.name.span(), "bus.name", what);
        }
    }
}

pub(super) fn engines(
    c: &mut Checker<'_>,
    file: &[file::Engine],
    buses: &HashMap<String, BusConfig>,
    workers: u16,
) -> Vec<EngineConfig> {
    let kinds = EngineKindName::ALL.map(|kind| (kind.to_string(), kind));
    let kinds: Vec<(&str, EngineKindName)> =
        kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let mut engines = Vec::new();
    for (at, engine) in file.iter().enumerate() {
        let kind = c.one_of(Some(&engine.kind), "engine.kind", &kinds);
        if let Some(bus) = engine.bus.as_ref().filter(|bus| !buses.contains_key(bus.get_ref())) {
            c.add(&bus.span(), "engine.bus", "there is no [[bus]] of this name");
        }
        let (t_init_us, t_block_ns) = (engine.t_init_us.as_ref(), engine.t_block_ns.as_ref());
        let default = ModelConfig::default();
        let model = ModelConfig {
            t_init_ns: 1000.0
                * c.in_range(
                    t_init_us,
                    "engine.t_init_us",
                    default.t_init_ns / 1000.0,
                    (0.0, MOST_NS / 1000.0),
                ),
            t_block_ns: c.in_range(t_block_ns, "engine.t_block_ns", default.t_block_ns, (0.0, MOST_NS)),
            depth: c.in_range(engine.depth.as_ref(), "engine.depth", default.depth, (1, 1024)),
            bus: engine.bus.as_ref().map(|bus| bus.get_ref().clone()),
        };
        let is_model = kind == EngineKindName::Model;
        let what = "it is for kind = \"model\"; what other engines cost is measured";
        c.only(t_init_us, is_model, "engine.t_init_us", what);
        c.only(t_block_ns, is_model, "engine.t_block_ns", what);
        c.only(engine.depth.as_ref(), is_model, "engine.depth", "it is for kind = \"model\"");
        c.only(engine.bus.as_ref(), is_model, "engine.bus", "it is for kind = \"model\"");
        let has_thread = kind == EngineKindName::Multibuffer;
        let what = "it is for kind = \"multibuffer\", which can have a thread of its own";
        c.only(engine.core.as_ref(), has_thread, "engine.core", what);
        let name = engine.name.as_ref().map_or_else(|| format!("{kind}{at}"), |name| name.get_ref().clone());
        if engines.iter().any(|other: &EngineConfig| other.name == name) {
            let span = engine.name.as_ref().unwrap_or(&engine.kind).span();
            c.add(&span, "engine.name", format!("{name:?} is there twice; names must differ"));
        }
        let core = engine.core.as_ref().map(|core| *core.get_ref());
        let has_device = is_model || kind == EngineKindName::Card || core.is_some();
        let what =
            "it is for engines with a core or a device of their own; every worker has one of the others";
        c.only(engine.worker.as_ref(), has_device, "engine.worker", what);
        // Dealt in turn where nothing is said.
        let turn = engines.iter().filter(|other| !other.is_inline()).count() % usize::from(workers.max(1));
        let chosen =
            c.in_range(engine.worker.as_ref(), "engine.worker", turn as u16, (0, workers.saturating_sub(1)));
        let worker = has_device.then_some(chosen);
        engines.push(EngineConfig { name, kind, core, worker, model: is_model.then_some(model) });
    }
    let is_idle = |worker: &u16| !engines.iter().any(|engine| engine.workers(workers).contains(worker));
    if let (Some(worker), Some(last)) = ((0..workers).find(is_idle), file.last()) {
        let what = format!("worker {worker} has none; add one without core, or one with worker = {worker}");
        c.add(&last.kind.span(), "engine", what);
    }
    engines
}
