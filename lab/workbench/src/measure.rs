//! Compares trials: runs in turns, and the figures of each round.

use std::sync::Arc;
use std::time::Duration;

use convoy_dataplane::costs::Costs;
use serde::Serialize;

use super::DemoError;
use super::arrivals::Load;
use super::core_use::CoreUse;
use super::delivery::DeliveryLatency;
use super::platform::Platform;
use super::report::TrialReport;
use super::rule::Rule;
use super::spread::Spread;
use super::traffic::Traffic;
use super::trial::{Trial, run_trial};
use super::turns::order;

/// Result of one trial; each figure is the median over its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The rule.
    pub rule: Rule,
    /// The window, in packets.
    pub window: usize,
    /// Packets delivered per second, in both directions.
    pub packets_per_second: f64,
    /// Their throughput in Mbit/s.
    pub mbps: f64,
    /// Fraction of the arrivals that found the port's ring full, 0 to 1.
    pub refused: f64,
    /// Packets per multi-packet.
    pub packets_per_multi_packet: f64,
    /// Latency of the packets.
    pub latency: DeliveryLatency,
    /// Share of each engine in the packets, 0 to 1.
    pub shares: Vec<f64>,
    /// The part of the time in which each engine worked, by its own clock, 0 to 1; 0 if it does not
    /// report it.
    pub busy: Vec<f64>,
    /// Packets sent, over all rounds.
    pub sent: u64,
    /// Packets that arrived unchanged and in order.
    pub good: u64,
    /// Whether all packets sent did.
    pub is_perfect: bool,
    /// How often an engine of the gateway under test was quarantined, over all rounds.
    pub quarantined: u64,
    /// ESP packets between the gateways, over all rounds.
    pub esp_packets: u64,
    /// Their bytes as they would occupy an Ethernet, over all rounds; see
    /// [`TrialReport::ethernet_bytes`].
    pub ethernet_bytes: u64,
    /// Processor time of each packet, in ns; see [`TrialReport::cpu_ns_per_packet`].
    pub cpu_ns_per_packet: f64,
    /// Figures of each round, in order.
    pub rounds: Vec<RoundFigures>,
}

/// Figures of one round, to compare with those of another trial in the same round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct RoundFigures {
    /// Packets delivered per second, in both directions.
    pub packets_per_second: f64,
    /// Fraction of the arrivals that found the port's ring full, 0 to 1.
    pub refused: f64,
    /// 99th percentile of latency, in µs.
    pub p99_us: f64,
    /// Processor time of each packet, in ns; see [`TrialReport::cpu_ns_per_packet`].
    pub cpu_ns_per_packet: f64,
    /// Time per packet of the first engine by its own clock, in ns; 0 if it does not report it.
    pub service_ns: f64,
    /// What the threads had of the cores.
    pub core_use: CoreUse,
}

impl RoundFigures {
    fn of(trial: &TrialReport) -> Self {
        Self {
            packets_per_second: trial.packets_per_second,
            refused: trial.refused as f64 / (trial.sent + trial.refused).max(1) as f64,
            p99_us: trial.latency.p99_us,
            cpu_ns_per_packet: trial.cpu_ns_per_packet,
            service_ns: trial.engines.first().map_or(0.0, |engine| engine.service_ns),
            core_use: trial.core_use,
        }
    }
}

/// How each rule is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The window, in packets.
    pub window: usize,
    /// Offered load.
    pub load: Load,
    /// Number of rounds.
    pub rounds: usize,
    /// Duration of a round.
    pub length: Duration,
}

/// Measures rules on one platform.
pub struct Bench<'a> {
    /// The platform, with its engines.
    pub platform: &'a Platform,
    /// The traffic of each direction.
    pub traffic: &'a [Arc<Traffic>; 2],
    /// Costs of the engines.
    pub costs: &'a mut Costs,
}

impl Bench<'_> {
    /// Measures each rule. The rules take turns, in another order each round, so that other load on
    /// the machine affects all rules alike.
    ///
    /// # Errors
    /// [`DemoError`] if something cannot be set up.
    pub fn measure(&mut self, rules: &[Rule], plan: Plan) -> Result<Vec<Measurement>, DemoError> {
        let Plan { window, load, rounds, length } = plan;
        let trial = |rule: &Rule| {
            let (platform, rule) = (self.platform, *rule);
            Trial { platform, rule, window, load, length, fail: None }
        };
        let trials: Vec<Trial<'_>> = rules.iter().map(trial).collect();
        let mut reports: Vec<Vec<TrialReport>> = trials.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds.max(1) {
            run_round(&trials, round, self.traffic, self.costs, &mut reports)?;
        }
        Ok(reports.iter().map(|rounds| Measurement::of(rounds)).collect())
    }
}

/// Runs each trial once, in the [order](order) of the round, and appends its report to its reports.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn run_round(
    trials: &[Trial<'_>],
    round: usize,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    reports: &mut [Vec<TrialReport>],
) -> Result<(), DemoError> {
    for place in order(round, trials.len()) {
        reports[place].push(run_trial(&trials[place], traffic, costs, &mut |_| {})?);
    }
    Ok(())
}

impl Measurement {
    /// ESP packets for each packet that arrived.
    pub fn esp_packets_per_packet(&self) -> f64 {
        self.esp_packets as f64 / self.good.max(1) as f64
    }

    /// Bytes on the Ethernet for each packet that arrived.
    pub fn ethernet_bytes_per_packet(&self) -> f64 {
        self.ethernet_bytes as f64 / self.good.max(1) as f64
    }

    /// A figure over the rounds.
    pub fn spread(&self, figure: fn(&RoundFigures) -> f64) -> Spread {
        Spread::of(self.rounds.iter().map(figure))
    }

    /// A figure divided by that of another trial, round by round.
    pub fn relative_to(&self, other: &Self, figure: fn(&RoundFigures) -> f64) -> Spread {
        Spread::of_ratios(self.rounds.iter().map(figure), other.rounds.iter().map(figure))
    }

    pub(crate) fn of(rounds: &[TrialReport]) -> Self {
        let of = |figure: &dyn Fn(&TrialReport) -> f64| Spread::of(rounds.iter().map(figure)).median;
        let sum = |count: fn(&TrialReport) -> u64| rounds.iter().map(count).sum();
        let engines = rounds[0].engines.len();
        Self {
            rule: rounds[0].rule,
            window: rounds[0].window,
            packets_per_second: of(&|round| round.packets_per_second),
            mbps: of(&|round| round.mbps),
            refused: of(&|round| RoundFigures::of(round).refused),
            packets_per_multi_packet: of(&|round| round.packets_per_multi_packet),
            latency: DeliveryLatency {
                p50_us: of(&|round| round.latency.p50_us),
                p99_us: of(&|round| round.latency.p99_us),
                p999_us: of(&|round| round.latency.p999_us),
            },
            shares: (0..engines).map(|at| of(&|round| round.engines[at].share)).collect(),
            busy: (0..engines).map(|at| of(&|round| round.engines[at].busy_s() / round.elapsed_s)).collect(),
            sent: sum(|round| round.sent),
            good: sum(|round| round.good),
            is_perfect: rounds.iter().all(|round| round.is_perfect),
            quarantined: sum(|round| round.quarantined.len() as u64),
            esp_packets: sum(|round| round.esp_packets),
            ethernet_bytes: sum(|round| round.ethernet_bytes),
            cpu_ns_per_packet: of(&|round| round.cpu_ns_per_packet),
            rounds: rounds.iter().map(RoundFigures::of).collect(),
        }
    }
}

#[cfg(test)]
impl Measurement {
    /// A measurement of no packets with these rounds.
    pub(crate) fn blank(rule: Rule, rounds: Vec<RoundFigures>) -> Self {
        let of = |figure: fn(&RoundFigures) -> f64| Spread::of(rounds.iter().map(figure)).median;
        Self {
            rule,
            window: 32,
            packets_per_second: of(|round| round.packets_per_second),
            mbps: 0.0,
            refused: of(|round| round.refused),
            packets_per_multi_packet: 1.0,
            latency: DeliveryLatency { p99_us: of(|round| round.p99_us), ..DeliveryLatency::default() },
            shares: Vec::new(),
            busy: Vec::new(),
            sent: 0,
            good: 0,
            is_perfect: true,
            quarantined: 0,
            esp_packets: 0,
            ethernet_bytes: 0,
            cpu_ns_per_packet: of(|round| round.cpu_ns_per_packet),
            rounds,
        }
    }
}
