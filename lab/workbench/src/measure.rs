//! Compares trials: runs in alternation, and the median of each figure.

use std::sync::Arc;
use std::time::Duration;

use convoy_dataplane::costs::Costs;
use serde::Serialize;

use super::DemoError;
use super::arrivals::Load;
use super::delivery::DeliveryLatency;
use super::platform::Platform;
use super::report::TrialReport;
use super::rule::Rule;
use super::traffic::Traffic;
use super::trial::{Trial, run_trial};

/// Result of one trial; each figure is the median over its rounds.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The rule.
    pub rule: Rule,
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
    /// Packets sent, over all rounds.
    pub sent: u64,
    /// Packets that arrived unchanged and in order.
    pub good: u64,
    /// Whether all packets sent did.
    pub is_perfect: bool,
    /// ESP packets between the gateways, over all rounds.
    pub esp_packets: u64,
    /// Their bytes as they would occupy an Ethernet, over all rounds; see
    /// [`TrialReport::ethernet_bytes`].
    pub ethernet_bytes: u64,
    /// Processor time of each packet, in ns; see [`TrialReport::cpu_ns_per_packet`].
    pub cpu_ns_per_packet: f64,
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
    /// Measures each rule. The rounds of the rules alternate, so that other load on the machine
    /// affects all rules alike.
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
        in_turns(&trials, rounds, self.traffic, self.costs)
    }
}

/// Measures each trial. Their rounds alternate, in reversed order every second round, so that other
/// load on the machine affects all alike.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn in_turns(
    trials: &[Trial<'_>],
    rounds: usize,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
) -> Result<Vec<Measurement>, DemoError> {
    let mut reports: Vec<Vec<TrialReport>> = trials.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds.max(1) {
        for place in 0..trials.len() {
            let at = if round % 2 == 0 { place } else { trials.len() - 1 - place };
            reports[at].push(run_trial(&trials[at], traffic, costs, &mut |_| {})?);
        }
    }
    Ok(reports.iter().map(|rounds| Measurement::of(rounds)).collect())
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

    fn of(rounds: &[TrialReport]) -> Self {
        let of = |figure: &dyn Fn(&TrialReport) -> f64| median(rounds.iter().map(figure).collect());
        let sum = |count: fn(&TrialReport) -> u64| rounds.iter().map(count).sum();
        let engines = rounds[0].engines.len();
        Self {
            rule: rounds[0].rule,
            packets_per_second: of(&|round| round.packets_per_second),
            mbps: of(&|round| round.mbps),
            refused: of(&|round| round.refused as f64 / (round.sent + round.refused).max(1) as f64),
            packets_per_multi_packet: of(&|round| round.packets_per_multi_packet),
            latency: DeliveryLatency {
                p50_us: of(&|round| round.latency.p50_us),
                p99_us: of(&|round| round.latency.p99_us),
                p999_us: of(&|round| round.latency.p999_us),
            },
            shares: (0..engines).map(|at| of(&|round| round.engines[at].share)).collect(),
            sent: sum(|round| round.sent),
            good: sum(|round| round.good),
            is_perfect: rounds.iter().all(|round| round.is_perfect),
            esp_packets: sum(|round| round.esp_packets),
            ethernet_bytes: sum(|round| round.ethernet_bytes),
            cpu_ns_per_packet: of(&|round| round.cpu_ns_per_packet),
        }
    }
}

#[cfg(test)]
impl Measurement {
    /// A measurement of no packets.
    pub(crate) fn blank(rule: Rule) -> Self {
        Self {
            rule,
            packets_per_second: 0.0,
            mbps: 0.0,
            refused: 0.0,
            packets_per_multi_packet: 1.0,
            latency: DeliveryLatency::default(),
            shares: Vec::new(),
            sent: 0,
            good: 0,
            is_perfect: true,
            esp_packets: 0,
            ethernet_bytes: 0,
            cpu_ns_per_packet: 0.0,
        }
    }
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    figures[figures.len() / 2]
}
