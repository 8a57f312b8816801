//! `convoy show` without a word: a gateway at a glance.

use std::collections::BTreeMap;

use convoy_config::counted;
use convoy_report::snapshot::{PeerState, Snapshot};
use serde::Serialize;

use super::units::{short, time};
use super::view::{ShownSnapshot, WIDTH};
use crate::rates::TrafficRate;
use crate::table::folded;

/// Tunnels and drop reasons that are named, at most.
const NAMED: usize = 5;
/// Width of the labels, in characters.
const LABELS: usize = 15;

/// A gateway at a glance.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    version: String,
    /// Seconds since the start.
    uptime_s: f64,
    /// The configuration's file.
    configuration: String,
    /// When it was last read, in seconds since 1970.
    configured_s: f64,
    workers: u16,
    /// How many tunnels are in each state.
    tunnels: BTreeMap<&'static str, usize>,
    /// Tunnels that are not up, without those that were removed and those that are silent.
    not_up: Vec<String>,
    /// Tunnels that are up, but whose peer was not heard lately.
    silent: Vec<String>,
    /// Nothing before there are two snapshots.
    outbound: Option<TrafficSummary>,
    inbound: Option<TrafficSummary>,
    engines: Vec<EngineSummary>,
    /// Dropped packets by reason since the start, and now, the most first.
    drops: Vec<DropSummary>,
    /// What an operator should look at.
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
struct TrafficSummary {
    packets_per_second: f64,
    bits_per_second: f64,
}

#[derive(Debug, Serialize)]
struct EngineSummary {
    name: String,
    /// Its workers.
    workers: Vec<u16>,
    is_model: bool,
    /// Why it is out of use; empty while it is in use.
    down: String,
}

#[derive(Debug, Serialize)]
struct DropSummary {
    reason: String,
    packets: u64,
    packets_per_second: Option<f64>,
}

impl Summary {
    pub(crate) fn of(view: &ShownSnapshot<'_>) -> Self {
        let now = view.now;
        let (mut tunnels, mut not_up, mut silent) = (BTreeMap::new(), Vec::new(), Vec::new());
        for peer in now.peers() {
            *tunnels.entry(peer.state.name()).or_insert(0) += 1;
            match peer.state {
                PeerState::Up | PeerState::Removed => {}
                PeerState::Silent => silent.push(peer.tunnel),
                _ => not_up.push(peer.tunnel),
            }
        }
        let traffic = |rate: TrafficRate| TrafficSummary {
            packets_per_second: rate.packets,
            bits_per_second: rate.bits,
        };
        let total = view.interval.map(|interval| interval.total());
        Self {
            version: now.version.clone(),
            uptime_s: now.uptime_s,
            configuration: now.configuration.clone(),
            configured_s: now.configured_s,
            workers: now.workers,
            tunnels,
            not_up,
            silent,
            outbound: total.map(|ways| traffic(ways.outbound)),
            inbound: total.map(|ways| traffic(ways.inbound)),
            engines: engines(now),
            drops: drops(view),
            warnings: now.warnings(),
        }
    }

    /// Adds warnings.
    pub(crate) fn warn(&mut self, warnings: Vec<String>) {
        self.warnings.extend(warnings);
    }

    /// As text, of at most 80 columns where words allow it.
    pub(crate) fn text(&self, taken_s: f64) -> String {
        let mut lines = vec![format!(
            "convoy {}, running for {}, {}",
            self.version,
            time(self.uptime_s),
            counted(self.workers, "worker")
        )];
        let mut say =
            |label: &str, text: &str| lines.push(folded(&format!("{label:LABELS$}"), text, WIDTH.into()));
        if !self.configuration.is_empty() {
            let age = time((taken_s - self.configured_s).max(0.0));
            say("configuration", &format!("{}, read {age} ago", self.configuration));
        }
        say("tunnels", &self.tunnels());
        for (label, traffic) in [("in", &self.inbound), ("out", &self.outbound)] {
            say(label, &traffic.as_ref().map_or_else(|| "-".to_owned(), TrafficSummary::text));
        }
        let (up, down): (Vec<&EngineSummary>, Vec<&EngineSummary>) =
            self.engines.iter().partition(|engine| engine.down.is_empty());
        say("engines in use", &list(up.iter().map(|engine| engine.text(self.workers))));
        for engine in down {
            say("  out of use", &format!("{}: {}", engine.text(self.workers), engine.down));
        }
        say("dropped", &list(self.drops.iter().take(NAMED).map(DropSummary::text)));
        for warning in &self.warnings {
            say("warning", warning);
        }
        lines.join("\n")
    }

    fn tunnels(&self) -> String {
        let count = |state: PeerState| Some((self.tunnels.get(state.name())?, state.name()));
        let counts = PeerState::ALL.into_iter().filter_map(count);
        let counts = list(counts.map(|(count, name)| format!("{count} {name}")));
        let parts = [("not up", &self.not_up), ("silent", &self.silent)];
        let named = parts.into_iter().filter(|(_, names)| !names.is_empty());
        let named = named.map(|(label, names)| format!("; {label}: {}", some(names)));
        named.fold(counts, |text, part| text + &part)
    }
}

/// The first few of some names, and how many there are beside them.
fn some(names: &[String]) -> String {
    let named: Vec<&str> = names.iter().take(NAMED).map(String::as_str).collect();
    let more = match names.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("{}{more}", named.join(", "))
}

impl TrafficSummary {
    fn text(&self) -> String {
        format!("{} packets/s, {} bit/s", short(self.packets_per_second), short(self.bits_per_second))
    }
}

impl EngineSummary {
    /// Its name, with its workers unless it is at all of `workers`.
    fn text(&self, workers: u16) -> String {
        let model = if self.is_model { " (model)" } else { "" };
        if self.workers.len() == usize::from(workers) {
            return format!("{}{model}", self.name);
        }
        let numbers: Vec<String> = self.workers.iter().map(ToString::to_string).collect();
        format!("{}{model} of worker {}", self.name, numbers.join(", "))
    }
}

impl DropSummary {
    fn text(&self) -> String {
        let rate = self.packets_per_second.filter(|rate| *rate >= 0.5);
        let rate = rate.map_or_else(String::new, |rate| format!(" ({}/s)", short(rate)));
        format!("{} {}{rate}", self.reason, short(self.packets as f64))
    }
}

fn list(words: impl Iterator<Item = String>) -> String {
    let words: Vec<String> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

/// Engines of one name and state, with their workers.
fn engines(snapshot: &Snapshot) -> Vec<EngineSummary> {
    let mut engines: Vec<EngineSummary> = Vec::new();
    for row in &snapshot.engines {
        match engines.iter_mut().find(|engine| engine.name == row.name && engine.down == row.down) {
            Some(engine) => engine.workers.push(row.worker),
            None => engines.push(EngineSummary {
                name: row.name.clone(),
                workers: vec![row.worker],
                is_model: row.is_model,
                down: row.down.clone(),
            }),
        }
    }
    engines
}

fn drops(view: &ShownSnapshot<'_>) -> Vec<DropSummary> {
    let row = |(reason, packets): (&String, &u64)| DropSummary {
        reason: reason.clone(),
        packets: *packets,
        packets_per_second: view.interval.map(|interval| interval.drops(reason)),
    };
    let mut drops: Vec<DropSummary> = view.now.drops.iter().map(row).collect();
    let rate = |drop: &DropSummary| drop.packets_per_second.unwrap_or_default();
    drops.sort_by(|one, other| rate(other).total_cmp(&rate(one)).then(other.packets.cmp(&one.packets)));
    drops
}
