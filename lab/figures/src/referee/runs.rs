//! The runs of the comparison.

use std::collections::HashMap;

use convoy_scheduler::{Policy, WindowOrder};
use convoy_sim::{Arrivals, Platform, Served, Setting};

use super::bound::Formed;
use super::scenarios::{NAMES, SCENARIOS, Scenario, Scenarios};
use crate::FigureError;

/// A load, in percent of what [`CANDIDATE`] carries when packets always wait; 0 for that itself.
pub(super) const LOADS: [u32; 6] = [0, 30, 60, 80, 95, 120];
/// Those under which nothing need be lost.
pub(super) const BELOW: [u32; 4] = [30, 60, 80, 95];

/// The full window by sufferage with credits, and the rule as published, which is the default.
pub(super) const CANDIDATE: &str = "by sufferage with 4 credits";
pub(super) const PUBLISHED: &str = "as published";
/// The credits of [`CANDIDATE`].
const CREDITS: usize = 4;
/// Packets that the source's queue holds where it does not wait.
const QUEUE: usize = 512;

/// Identifies a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) scenario: usize,
    pub(super) policy: &'static str,
    pub(super) load: u32,
}

/// The result of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Packets per second that were carried.
    pub(super) rate: f64,
    /// Percent of the packets that were lost.
    pub(super) lost: f64,
    /// Percentiles of the time from arrival to completion, in us.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    /// Packets per multi-packet.
    grouped: f64,
    /// Percent of packets that were completed before an earlier one of their SA.
    out_of_order: f64,
    /// Mean percent of time for which engines were idle.
    idle: f64,
    /// Bounds for the multi-packets of this run: see [`Formed::bounds`].
    pub(super) bound: f64,
    pub(super) split: f64,
}

/// The names of all policies: sufferage with credits, the published rule, the gateway's baselines,
/// the rivals.
pub(super) fn policies() -> Vec<&'static str> {
    let baselines = Policy::ALL.into_iter().filter(|policy| *policy != Policy::FinishingTime);
    let rivals = convoy_rivals::ALL.map(|rival| rival.name);
    [CANDIDATE, PUBLISHED].into_iter().chain(baselines.map(Policy::name)).chain(rivals).collect()
}

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    for scenario in 0..SCENARIOS {
        for policy in policies() {
            keys.extend(LOADS.map(|load| Key { scenario, policy, load }));
        }
    }
    keys
}

/// The platform of a run.
pub(super) fn platform_of(scenarios: &Scenarios, key: &Key) -> Result<Platform, FigureError> {
    Ok(with_policy(&scenarios[key.scenario].platform, key.policy))
}

fn with_policy(platform: &Platform, policy: &str) -> Platform {
    let mut platform = platform.clone();
    let scheduler = &mut platform.scheduler;
    match policy {
        CANDIDATE => {
            scheduler.window_order = WindowOrder::Sufferage.name().to_owned();
            scheduler.credits = Some(CREDITS);
        }
        PUBLISHED => {}
        other => other.clone_into(&mut scheduler.policy),
    }
    platform
}

/// Runs one simulation.
pub(super) fn run(scenarios: &Scenarios, key: &Key, packets: u64) -> Result<Outcome, FigureError> {
    let scenario = &scenarios[key.scenario];
    let capacity = match key.load {
        0 => None,
        percent => {
            let all = Key { policy: CANDIDATE, load: 0, ..*key };
            Some(one(scenario, all, packets.min(50_000), None)?.rate * f64::from(percent) / 100.0)
        }
    };
    one(scenario, *key, packets, capacity)
}

fn one(scenario: &Scenario, key: Key, packets: u64, offered: Option<f64>) -> Result<Outcome, FigureError> {
    let mut platform = with_policy(&scenario.platform, key.policy);
    platform.source.queue_packets = offered.map(|_| QUEUE);
    let setting = Setting {
        pattern: Some(scenario.pattern.to_owned()),
        packets: Some(packets),
        sas: Some(scenario.sas),
        popularity: Some(scenario.popularity),
        ..Setting::default()
    };
    let mut simulation = setting.simulation(&platform)?;
    simulation.arrivals = offered.map_or(Arrivals::BackToBack, Arrivals::Poisson);
    let (mut formed, mut latest, mut late) = (Formed::new(&platform), HashMap::new(), 0);
    let mut observe = |served: &Served<'_>| {
        formed.add(served);
        let latest = latest.entry(served.sa).or_insert(0);
        late += served.packets.iter().filter(|packet| packet.arrived_ticks < *latest).count();
        *latest = served.packets.iter().map(|packet| packet.arrived_ticks).fold(*latest, u64::max);
    };
    let report = simulation.run_observed(setting.traffic()?, &mut observe)?;
    let engines = report.processors.len() as f64;
    let busy: f64 = report.processors.iter().map(|engine| engine.utilisation).sum();
    let (bound, split) = if offered.is_none() { formed.bounds(&platform) } else { (0.0, 0.0) };
    Ok(Outcome {
        rate: report.packets as f64 / report.end_ms.max(1e-9) * 1e3,
        lost: (1.0 - report.success_ratio) * 100.0,
        p50_us: report.sojourn_percentiles_ms.p50 * 1e3,
        p99_us: report.sojourn_percentiles_ms.p99 * 1e3,
        grouped: report.packets_per_multipacket,
        out_of_order: late as f64 / report.packets.max(1) as f64 * 100.0,
        idle: (1.0 - busy / engines) * 100.0,
        bound,
        split,
    })
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Outcome>);

impl Runs {
    /// The result of a run; all are in [`keys`].
    pub(super) fn of(&self, scenario: usize, policy: &'static str, load: u32) -> &Outcome {
        self.0.get(&Key { scenario, policy, load }).expect("every run that is asked for is among the keys")
    }

    /// The highest rate that any policy could reach, whatever multi-packets it forms: the largest
    /// of the bounds for the multi-packets of each.
    pub(super) fn bound(&self, scenario: usize) -> f64 {
        policies().into_iter().map(|policy| self.of(scenario, policy, 0).bound).fold(0.0, f64::max)
    }

    /// The highest rate that a split by fixed fractions could reach.
    pub(super) fn split(&self, scenario: usize) -> f64 {
        policies().into_iter().map(|policy| self.of(scenario, policy, 0).split).fold(0.0, f64::max)
    }

    /// A table with one row for each run.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "scenario,policy,load,packets_per_second,of_bound,lost_percent,p50_us,p99_us,packets_per_multi_packet,out_of_order_percent,idle_percent\n",
        );
        for (scenario, name) in NAMES.iter().enumerate() {
            let bound = self.bound(scenario);
            for policy in policies() {
                for load in LOADS {
                    let it = self.of(scenario, policy, load);
                    let of_bound = if load == 0 { format!("{:.3}", it.rate / bound) } else { String::new() };
                    text += &format!(
                        "\"{name}\",{policy},{load},{:.0},{of_bound},{:.2},{:.1},{:.1},{:.2},{:.2},{:.1}\n",
                        it.rate, it.lost, it.p50_us, it.p99_us, it.grouped, it.out_of_order, it.idle
                    );
                }
            }
        }
        text
    }
}
