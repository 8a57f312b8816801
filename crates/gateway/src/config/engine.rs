//! `[[engine]]` and `[[bus]]`.

use std::collections::HashMap;

use convoy_sim::BusSpec;
use toml::Spanned;

use super::checker::Checker;
use super::file::{self, EngineKindName};
use super::suggest::unknown;
use super::{EngineConfig, ModelConfig};

/// The longest of all modelled times, in ns: a second.
const MOST_NS: f64 = 1e9;
/// What the clock of a bus may be, in MHz: a transfer's cycle then lasts a second at most.
const CLOCK_MHZ: (f64, f64) = (1e-6, 1e6);

/// Buses in the words of the simulator's platforms.
pub(super) fn buses(c: &mut Checker<'_>, file: &[file::Bus]) -> HashMap<String, BusSpec> {
    let mut buses = HashMap::new();
    for bus in file {
        let name = c.needed(&bus.at, bus.name.as_ref(), "bus.name", "\"pci\"");
        let clock_mhz = c.needed(&bus.at, bus.clock_mhz.as_ref(), "bus.clock_mhz", "66.0");
        let clock_mhz = c.in_range(clock_mhz, "bus.clock_mhz", 66.0, CLOCK_MHZ);
        let width_bytes = c.needed(&bus.at, bus.width_bytes.as_ref(), "bus.width_bytes", "4");
        let width_bytes = c.in_range(width_bytes, "bus.width_bytes", 4, (1, 1 << 16));
        let or_none = |number: &Option<Spanned<u32>>| number.as_ref().map_or(0, |it| *it.get_ref());
        if let Some(name) = name.map(|name| name.get_ref().clone()) {
            let (address_cycles, packet_bytes) = (or_none(&bus.address_cycles), or_none(&bus.packet_bytes));
            let spec = BusSpec { name: name.clone(), clock_mhz, address_cycles, width_bytes, packet_bytes };
            buses.insert(name, spec);
        }
    }
    buses
}

/// A bus that no engine is on would be ignored.
pub(super) fn buses_are_used(c: &mut Checker<'_>, file: &file::File) {
    for name in file.bus.iter().filter_map(|bus| bus.name.as_ref()) {
        let has_it = |engine: &file::Engine| {
            engine.at.unread.contains(&"bus")
                || engine.bus.as_ref().is_some_and(|bus| bus.get_ref() == name.get_ref())
        };
        if !file.engine.iter().any(has_it) {
            let what =
                format!("no [[engine]] has bus = {:?}; assign an engine to it, or remove it", name.get_ref());
            c.add(&name.span(), "bus.name", what);
        }
    }
}

pub(super) fn engines(
    c: &mut Checker<'_>,
    file: &[file::Engine],
    buses: &HashMap<String, BusSpec>,
    workers: u16,
) -> Vec<EngineConfig> {
    let kinds = EngineKindName::ALL.map(|kind| (kind.to_string(), kind));
    let kinds: Vec<(&str, EngineKindName)> =
        kinds.iter().map(|(name, kind)| (name.as_str(), *kind)).collect();
    let mut engines: Vec<EngineConfig> = Vec::new();
    for (at, engine) in file.iter().enumerate() {
        let Some(kind_text) = c.needed(&engine.at, engine.kind.as_ref(), "engine.kind", "\"multibuffer\"")
        else {
            continue;
        };
        let Some(kind) = c.one_of(Some(kind_text), "engine.kind", &kinds) else { continue };
        let model = model(c, engine, kind, buses);
        let has_thread = kind == EngineKindName::Multibuffer;
        let what = "it is only for kind = \"multibuffer\", which can run on its own thread";
        c.only(engine.core.as_ref(), has_thread, "engine.core", what);
        let name = engine.name.as_ref().map_or_else(|| format!("{kind}{at}"), |name| name.get_ref().clone());
        if engines.iter().any(|other| other.name == name) {
            let span = engine.name.as_ref().unwrap_or(kind_text).span();
            c.add(&span, "engine.name", format!("{name:?} is used twice; names must differ"));
        }
        let core = engine.core.as_ref().map(|core| *core.get_ref());
        let has_device = model.is_some() || kind == EngineKindName::Card || core.is_some();
        let what = "it is only for engines with their own core or device; every worker has all others";
        c.only(engine.worker.as_ref(), has_device, "engine.worker", what);
        // Dealt in turn where nothing is said.
        let turn = engines.iter().filter(|other| !other.is_inline()).count() % usize::from(workers.max(1));
        let chosen =
            c.in_range(engine.worker.as_ref(), "engine.worker", turn as u16, (0, workers.saturating_sub(1)));
        engines.push(EngineConfig { name, kind, core, worker: has_device.then_some(chosen), model });
    }
    let is_idle = |worker: &u16| !engines.iter().any(|engine| engine.workers(workers).contains(worker));
    if engines.len() == file.len()
        && let (Some(worker), Some(last)) = ((0..workers).find(is_idle), file.last())
    {
        let what = format!("worker {worker} has none; add one without core, or one with worker = {worker}");
        c.add(&last.at.span, "engine", what);
    }
    engines
}

/// A modelled engine's timing; of other kinds none, and keys of it are refused.
fn model(
    c: &mut Checker<'_>,
    engine: &file::Engine,
    kind: EngineKindName,
    buses: &HashMap<String, BusSpec>,
) -> Option<ModelConfig> {
    let is_model = kind == EngineKindName::Model;
    let (t_init_us, t_block_ns) = (engine.t_init_us.as_ref(), engine.t_block_ns.as_ref());
    let what = "it is only for kind = \"model\"; the costs of other engines are measured";
    c.only(t_init_us, is_model, "engine.t_init_us", what);
    c.only(t_block_ns, is_model, "engine.t_block_ns", what);
    c.only(engine.depth.as_ref(), is_model, "engine.depth", "it is only for kind = \"model\"");
    c.only(engine.bus.as_ref(), is_model, "engine.bus", "it is only for kind = \"model\"");
    if !is_model {
        return None;
    }
    if let Some(bus) = engine.bus.as_ref().filter(|bus| !buses.contains_key(bus.get_ref())) {
        let mut known: Vec<&str> = buses.keys().map(String::as_str).collect();
        known.sort_unstable();
        let what = match known[..] {
            [] => "there is no [[bus]] of this name".to_owned(),
            _ => unknown("[[bus]]", bus.get_ref(), &known),
        };
        c.add(&bus.span(), "engine.bus", what);
    }
    let (default, most_us) = (ModelConfig::default(), MOST_NS / 1000.0);
    let init_us = c.in_range(t_init_us, "engine.t_init_us", default.t_init_ns / 1000.0, (0.0, most_us));
    Some(ModelConfig {
        t_init_ns: 1000.0 * init_us,
        t_block_ns: c.in_range(t_block_ns, "engine.t_block_ns", default.t_block_ns, (0.0, MOST_NS)),
        depth: c.in_range(engine.depth.as_ref(), "engine.depth", default.depth, (1, 1024)),
        bus: engine.bus.as_ref().map(|bus| bus.get_ref().clone()),
    })
}
