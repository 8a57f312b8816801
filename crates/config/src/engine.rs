//! `[[engine]]` and `[[bus]]`.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use convoy_engine::{BusTiming, EngineSettings, EngineTable};
use convoy_settings::{Checker, Kind, unknown};
use toml::Spanned;

use super::EngineConfig;
use super::file::{self, EngineEntry};

/// Allowed clocks of a bus, in MHz: a transfer's cycle then lasts at most a second.
const CLOCK_MHZ: RangeInclusive<f64> = 1e-6..=1e6;

/// A bus that modelled engines share, with the keys of the simulator's platforms.
#[derive(Clone, Debug, PartialEq)]
pub struct BusConfig {
    /// Clock in MHz.
    pub clock_mhz: f64,
    /// Cycles of each transfer that carry no data.
    pub address_cycles: u32,
    /// Bytes of each cycle.
    pub width_bytes: u32,
    /// Bytes transferred with each packet, each way, and not processed.
    pub packet_bytes: u32,
}

impl BusConfig {
    /// The timing for modelled engines.
    pub fn timing(&self) -> BusTiming {
        BusTiming {
            t_cycle_ns: 1e3 / self.clock_mhz,
            c_address: self.address_cycles,
            width_bytes: self.width_bytes,
            packet_bytes: self.packet_bytes,
        }
    }
}

pub(super) fn buses(c: &mut Checker<'_>, file: &[file::Bus]) -> HashMap<String, BusConfig> {
    let mut buses = HashMap::new();
    for bus in file {
        let name = c.needed(&bus.at, bus.name.as_ref(), "bus.name", "\"pci\"");
        let clock_mhz = c.needed(&bus.at, bus.clock_mhz.as_ref(), "bus.clock_mhz", "66.0");
        let clock_mhz = c.in_range(clock_mhz, "bus.clock_mhz", 66.0, CLOCK_MHZ);
        let width_bytes = c.needed(&bus.at, bus.width_bytes.as_ref(), "bus.width_bytes", "4");
        let width_bytes = c.in_range(width_bytes, "bus.width_bytes", 4, 1..=1 << 16);
        let or_none = |number: &Option<Spanned<u32>>| number.as_ref().map_or(0, |it| *it.get_ref());
        if let Some(name) = name.map(|name| name.get_ref().clone()) {
            let (address_cycles, packet_bytes) = (or_none(&bus.address_cycles), or_none(&bus.packet_bytes));
            buses.insert(name, BusConfig { clock_mhz, address_cycles, width_bytes, packet_bytes });
        }
    }
    buses
}

/// Checks that every bus has an engine, and that every engine's bus exists.
pub(super) fn buses_are_used(
    c: &mut Checker<'_>,
    file: &file::File,
    buses: &HashMap<String, BusConfig>,
    kinds: &EngineTable,
) {
    if !kinds.rows.iter().any(|row| row.keys().contains(&"bus")) {
        for bus in &file.bus {
            let what =
                format!("a bus is {}", kinds.where_else.replacen("a simulated engine", "simulated", 1));
            c.add(&bus.at.span, "bus", what);
        }
        return;
    }
    let named = || file.engine.iter().filter_map(|engine| engine.kind.as_ref()?.bus());
    for bus in named().filter(|bus| !buses.contains_key(bus.get_ref())) {
        let mut known: Vec<&str> = buses.keys().map(String::as_str).collect();
        known.sort_unstable();
        let what = match known[..] {
            [] => "there is no [[bus]] of this name".to_owned(),
            _ => unknown("[[bus]]", bus.get_ref(), &known),
        };
        c.add(&bus.span(), "engine.bus", what);
    }
    let has_unread = file.engine.iter().any(|engine| engine.common.at.unread.contains(&"bus"));
    for name in file.bus.iter().filter_map(|bus| bus.name.as_ref()) {
        let has_it = |bus: &Spanned<String>| bus.get_ref() == name.get_ref();
        if !has_unread && !named().any(has_it) {
            let what =
                format!("no [[engine]] has bus = {:?}; assign an engine to it, or remove it", name.get_ref());
            c.add(&name.span(), "bus.name", what);
        }
    }
}

pub(super) fn engines(c: &mut Checker<'_>, file: &[EngineEntry], workers: u16) -> Vec<EngineConfig> {
    let mut engines: Vec<EngineConfig> = Vec::new();
    let mut checked: Vec<(usize, &EngineEntry, EngineSettings)> = Vec::new();
    for (at, entry) in file.iter().enumerate() {
        checked.extend(entry.kind.as_ref().map(|keys| (at, entry, keys.check(c))));
    }
    let shareable = checked.iter().filter(|(_, _, settings)| settings.is_shareable()).count();
    let are_few = shareable < usize::from(workers);
    for (at, entry, settings) in checked {
        let name = name(c, entry, at, &settings, &engines);
        let worker = worker(c, entry, &settings, &engines, workers, are_few);
        engines.push(EngineConfig { name, worker, settings });
    }
    let is_idle = |worker: &u16| !engines.iter().any(|engine| engine.workers(workers).contains(worker));
    if engines.len() == file.len()
        && let (Some(worker), Some(last)) = ((0..workers).find(is_idle), file.last())
    {
        let what =
            format!("worker {worker} has no engine; add one without core, or one with worker = {worker}");
        c.add(&last.common.at.span, "engine", what);
    }
    engines
}

/// The given name, or one from the kind and position.
fn name(
    c: &mut Checker<'_>,
    entry: &EngineEntry,
    at: usize,
    settings: &EngineSettings,
    others: &[EngineConfig],
) -> String {
    let given = entry.common.name.as_ref();
    let name = given.map_or_else(|| format!("{}{at}", settings.kind()), |name| name.get_ref().clone());
    if others.iter().any(|other| other.name == name) {
        let span = given.map_or_else(|| entry.span(), Spanned::span);
        c.add(&span, "engine.name", format!("{name:?} is used twice; names must differ"));
    }
    name
}

/// The worker that an engine with a thread or a device of its own serves; assigned in turn by
/// default. `None` for one that serves all: where those with cores of their own `are_few`, fewer
/// than workers.
fn worker(
    c: &mut Checker<'_>,
    entry: &EngineEntry,
    settings: &EngineSettings,
    others: &[EngineConfig],
    workers: u16,
    are_few: bool,
) -> Option<u16> {
    let (given, has_device) = (entry.common.worker.as_ref(), !settings.is_inline());
    let what = "it is only for engines with their own core or device; every worker uses all other engines";
    c.only(given, has_device, "engine.worker", what);
    let turn =
        others.iter().filter(|other| !other.settings.is_inline()).count() % usize::from(workers.max(1));
    let chosen = c.in_range(given, "engine.worker", turn as u16, 0..=workers.saturating_sub(1));
    let is_shared = given.is_none() && are_few && settings.is_shareable();
    (has_device && !is_shared).then_some(chosen)
}
