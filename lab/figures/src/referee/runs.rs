//! The runs of the comparison.

use std::collections::HashMap;

use convoy_sim::{Arrivals, Platform, Served, Setting, Traffic};

use super::bound::{Drawn, Packet, bound, online_bound};
use super::rows::{CANDIDATE, ROWS, Row, RowKind, by_name};
use super::scenarios::{DISTURBED, NAMES, SCENARIOS, Scenario, Scenarios};
use super::statistic::Statistic;
use crate::FigureError;

/// How packets arrive; loads are in percent of what [`CANDIDATE`] carries when packets always wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Load {
    /// Another packet always waits.
    Saturated,
    /// As a Poisson process.
    Poisson(u32),
    /// In bursts.
    Bursty(u32),
}

/// Loads below the capacity without disturbances.
pub(super) const BELOW: [Load; 4] =
    [Load::Poisson(50), Load::Poisson(80), Load::Poisson(95), Load::Bursty(80)];
/// The load below the capacity with disturbances.
pub(super) const WITH_DISTURBANCE: Load = Load::Poisson(60);
/// Packets that the source's queue holds where it does not wait.
const QUEUE: usize = 512;
/// In place of a policy: the bound, and that on policies that do not know the future.
const BOUND: &str = "bound";
const ONLINE_BOUND: &str = "online bound";

/// Identifies a run, which is repeated with several seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) scenario: usize,
    pub(super) policy: &'static str,
    pub(super) load: Load,
}

/// The result of a run over all seeds.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Packets per second that were carried; of [`BOUND`] those that no policy exceeds.
    pub(super) rate: Statistic,
    /// Percent of the packets that were lost.
    pub(super) lost: Statistic,
    /// Percentiles of the time from arrival to completion, in us.
    pub(super) p50_us: Statistic,
    pub(super) p99_us: Statistic,
    pub(super) p999_us: Statistic,
    /// Packets per multi-packet.
    grouped: Statistic,
    /// Percent of packets that were completed before an earlier one of their SA.
    out_of_order: Statistic,
    /// Mean percent of time for which engines were idle.
    idle: Statistic,
}

/// Whether a policy is compared in a scenario under a load.
pub(super) fn is_compared(scenario: usize, row: &Row, load: Load) -> bool {
    match (scenario < DISTURBED, load) {
        (true, Load::Saturated) => true,
        (true, _) => row.kind != RowKind::Other,
        (false, _) => row.kind != RowKind::Other,
    }
}

/// Whether there is a bound: not where times are only known when they have passed.
pub(super) fn is_bounded(platform: &Platform) -> bool {
    platform.processors.iter().filter_map(|of| of.deviation).all(|of| of.spread == 0.0 && of.ratio == 1.0)
}

/// The loads of a scenario.
pub(super) fn loads(scenario: usize) -> Vec<Load> {
    let below = if scenario < DISTURBED { &BELOW[..] } else { &[WITH_DISTURBANCE] };
    [Load::Saturated].iter().chain(below).copied().collect()
}

/// All runs.
pub(super) fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    for scenario in 0..SCENARIOS {
        let bounds = [BOUND, ONLINE_BOUND];
        keys.extend(bounds.map(|policy| Key { scenario, policy, load: Load::Saturated }));
        for load in loads(scenario) {
            let rows = ROWS.iter().filter(|row| is_compared(scenario, row, load));
            keys.extend(rows.map(|row| Key { scenario, policy: row.name, load }));
        }
    }
    keys
}

/// The platform of a run.
pub(super) fn platform_of(scenarios: &Scenarios, key: &Key) -> Result<Platform, FigureError> {
    let platform = &scenarios.all[key.scenario].platform;
    Ok(if [BOUND, ONLINE_BOUND].contains(&key.policy) {
        platform.clone()
    } else {
        by_name(key.policy).on(platform)
    })
}

/// Runs the simulations of all seeds.
pub(super) fn run(scenarios: &Scenarios, key: &Key, packets: u64) -> Result<Outcome, FigureError> {
    let scenario = &scenarios.all[key.scenario];
    let mut outcome = Outcome::default();
    for seed in 1..=scenarios.seeds {
        let setting = setting(scenario, packets, seed);
        if key.policy == BOUND {
            if is_bounded(&scenario.platform) {
                outcome.rate.add(bound(&scenario.platform, &traffic(&setting, &scenario.platform)?, seed));
            }
        } else if key.policy == ONLINE_BOUND {
            if let Some(drawn) = drawn(scenario, &traffic(&setting, &scenario.platform)?) {
                outcome.rate.add(online_bound(&scenario.platform, &drawn));
            }
        } else {
            let row = by_name(key.policy);
            let arrivals = arrivals(scenario, key.load, packets)?;
            one(&row.on(&scenario.platform), &setting, arrivals, &mut outcome)?;
        }
    }
    Ok(outcome)
}

fn setting(scenario: &Scenario, packets: u64, seed: u64) -> Setting {
    Setting {
        pattern: Some(scenario.pattern.to_owned()),
        packets: Some(packets * scenario.length),
        sas: Some(scenario.sas),
        popularity: Some(scenario.popularity),
        seed: Some(seed),
        ..Setting::default()
    }
}

/// The packets of a run, as the bound sees them.
fn traffic(setting: &Setting, platform: &Platform) -> Result<Vec<Packet>, FigureError> {
    let mut traffic = setting.traffic()?;
    let mut packets = Vec::new();
    while let Some(packet) = traffic.next_packet().map_err(FigureError::Trace)? {
        packets.push(Packet { sa: packet.sa, bytes: packet.payload_bytes + platform.source.header_bytes });
    }
    Ok(packets)
}

/// What the traffic is drawn from, with its own frequencies of sizes; `None` where packets are not
/// independent, there are too many groups, or engines' times do not depend on groups alone.
fn drawn(scenario: &Scenario, traffic: &[Packet]) -> Option<Drawn> {
    const SIZES: usize = 3;
    // Groups of three sizes grow with the third power of the window.
    const WINDOW: usize = 32;
    let platform = &scenario.platform;
    let depends = platform.processors.iter().any(|of| of.deviation.is_some() || of.cache.is_some());
    if depends || scenario.pattern == "trace" || platform.scheduler.window > WINDOW {
        return None;
    }
    let mut sizes = std::collections::BTreeMap::new();
    for packet in traffic {
        *sizes.entry(packet.bytes).or_insert(0u32) += 1;
    }
    let weights = (1..=scenario.sas).map(|rank| f64::from(rank).powf(-scenario.popularity));
    let sum: f64 = weights.clone().sum();
    let all = traffic.len() as f64;
    (sizes.len() <= SIZES).then(|| Drawn {
        sizes: sizes.into_iter().map(|(bytes, count)| (bytes, f64::from(count) / all)).collect(),
        shares: weights.map(|weight| weight / sum).collect(),
    })
}

fn arrivals(scenario: &Scenario, load: Load, packets: u64) -> Result<Arrivals, FigureError> {
    let of = |percent: u32, kind: fn(f64) -> Arrivals| {
        Ok(kind(capacity(scenario, packets)? * f64::from(percent) / 100.0))
    };
    match load {
        Load::Saturated => Ok(Arrivals::BackToBack),
        Load::Poisson(percent) => of(percent, Arrivals::Poisson),
        Load::Bursty(percent) => of(percent, Arrivals::Bursty),
    }
}

/// What [`CANDIDATE`] carries when packets always wait.
fn capacity(scenario: &Scenario, packets: u64) -> Result<f64, FigureError> {
    if let Some(known) = scenario.capacity.get() {
        return Ok(*known);
    }
    let mut outcome = Outcome::default();
    let platform = by_name(CANDIDATE).on(&scenario.platform);
    one(&platform, &setting(scenario, packets, 1), Arrivals::BackToBack, &mut outcome)?;
    Ok(*scenario.capacity.get_or_init(|| outcome.rate.mean()))
}

/// Adds a simulation.
fn one(
    platform: &Platform,
    setting: &Setting,
    arrivals: Arrivals,
    outcome: &mut Outcome,
) -> Result<(), FigureError> {
    let mut platform = platform.clone();
    platform.source.queue_packets = (arrivals != Arrivals::BackToBack).then_some(QUEUE);
    let mut simulation = setting.simulation(&platform)?;
    simulation.arrivals = arrivals;
    let (mut latest, mut late) = (HashMap::new(), 0);
    let mut observe = |served: &Served<'_>| {
        let latest = latest.entry(served.sa).or_insert(0);
        late += served.packets.iter().filter(|packet| packet.arrived_ticks < *latest).count();
        *latest = served.packets.iter().map(|packet| packet.arrived_ticks).fold(*latest, u64::max);
    };
    let report = simulation.run_observed(setting.traffic()?, &mut observe)?;
    let engines = report.processors.len() as f64;
    let busy: f64 = report.processors.iter().map(|engine| engine.utilisation).sum();
    outcome.rate.add(report.packets as f64 / report.end_ms.max(1e-9) * 1e3);
    outcome.lost.add((1.0 - report.success_ratio) * 100.0);
    outcome.p50_us.add(report.sojourn_percentiles_ms.p50 * 1e3);
    outcome.p99_us.add(report.sojourn_percentiles_ms.p99 * 1e3);
    outcome.p999_us.add(report.sojourn_percentiles_ms.p999 * 1e3);
    outcome.grouped.add(report.packets_per_multipacket);
    outcome.out_of_order.add(late as f64 / report.packets.max(1) as f64 * 100.0);
    outcome.idle.add((1.0 - busy / engines) * 100.0);
    Ok(())
}

/// The runs of one case.
pub(super) struct Runs(pub(super) HashMap<Key, Outcome>);

impl Runs {
    /// The result of a run; all are in [`keys`].
    pub(super) fn of(&self, scenario: usize, policy: &'static str, load: Load) -> &Outcome {
        self.0.get(&Key { scenario, policy, load }).expect("every run that is asked for is among the keys")
    }

    /// The rate as a percentage of the bound, seed by seed; empty without a bound.
    pub(super) fn of_bound(&self, scenario: usize, policy: &'static str) -> Statistic {
        let rates = &self.of(scenario, policy, Load::Saturated).rate;
        rates.over(&self.of(scenario, BOUND, Load::Saturated).rate)
    }

    /// The rate as a percentage of the bound on policies that do not know the future; empty without
    /// one.
    pub(super) fn of_online_bound(&self, scenario: usize, policy: &'static str) -> Statistic {
        let rates = &self.of(scenario, policy, Load::Saturated).rate;
        rates.over(&self.of(scenario, ONLINE_BOUND, Load::Saturated).rate)
    }

    /// A table with one row for each run: means over the seeds, and half of the 95 % interval.
    pub(super) fn csv(&self) -> String {
        let mut text = String::from(
            "scenario,policy,load,seeds,packets_per_second,packets_per_second_95,of_bound_percent,of_bound_percent_95,of_online_bound_percent,of_online_bound_percent_95,lost_percent,lost_percent_95,p50_us,p99_us,p99_us_95,p999_us,packets_per_multi_packet,out_of_order_percent,idle_percent\n",
        );
        for (scenario, (name, _)) in NAMES.iter().enumerate() {
            for load in loads(scenario) {
                for row in ROWS.iter().filter(|row| is_compared(scenario, row, load)) {
                    text += &self.line(scenario, row, load, name);
                }
            }
        }
        text
    }

    fn line(&self, scenario: usize, row: &Row, load: Load, name: &str) -> String {
        let it = self.of(scenario, row.name, load);
        let of_bounds = match load {
            Load::Saturated => [self.of_bound(scenario, row.name), self.of_online_bound(scenario, row.name)],
            _ => [Statistic::default(), Statistic::default()],
        };
        let load = match load {
            Load::Saturated => "saturated".to_owned(),
            Load::Poisson(percent) => format!("{percent} %"),
            Load::Bursty(percent) => format!("{percent} % in bursts"),
        };
        let percent = |of: Statistic| match of.count() {
            0 => ",".to_owned(),
            _ => format!("{:.2},{:.2}", of.mean(), of.half_interval()),
        };
        let [bound, online_bound] = of_bounds.map(percent);
        format!(
            "\"{name}\",\"{}\",{load},{},{:.0},{:.0},{bound},{online_bound},{:.3},{:.3},{:.1},{:.1},{:.1},{:.1},{:.2},{:.2},{:.1}\n",
            row.name,
            it.rate.count(),
            it.rate.mean(),
            it.rate.half_interval(),
            it.lost.mean(),
            it.lost.half_interval(),
            it.p50_us.mean(),
            it.p99_us.mean(),
            it.p99_us.half_interval(),
            it.p999_us.mean(),
            it.grouped.mean(),
            it.out_of_order.mean(),
            it.idle.mean()
        )
    }
}
