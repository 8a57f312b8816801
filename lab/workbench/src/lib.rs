//! Gateways in one process, whose packets are counted and compared one by one.
//!
//! Two gateways, connected by a link in memory, are set up from a configuration
//! ([`convoy_gateway::assemble`]) and fed with traffic; every packet that arrives is compared with
//! what was sent, and results are returned as plain data, which the caller prints.
//!
//! A [`Platform`] is a set of engines, a [`Rule`] a policy with its options, and a [`Trial`] runs
//! both under a load; [`Bench`] alternates trials of several rules and returns a [`Measurement`] of
//! medians for each. The demonstration ([`run()`]) and the benches of policies and accelerators are
//! built on these; a [`ModeComparison`] has the same traffic in tunnel mode and with IP-TFS.
//!
//! `benches/throughput` measures engines and the whole path against ipsec-mb on its own. Gateways
//! that are measured only by the packets that they forward, as third-party ones are, belong to
//! `convoy-measure`.
//!
//! Nothing here prints or parses arguments, and no product crate depends on it.

mod arrivals;
mod capture;
mod comparison;
mod cores;
mod cpu;
mod delivery;
mod error;
mod failing;
mod iptfs;
mod measure;
mod platform;
mod port;
mod report;
mod rule;
mod sites;
mod traffic;
mod trial;
mod verdict;

pub use arrivals::Load;
pub use comparison::Comparison;
pub use delivery::DeliveryLatency;
pub use error::DemoError;
pub use iptfs::ModeComparison;
pub use measure::{Bench, Measurement, Plan};
pub use platform::{DemoEngine, Platform, TunnelSet};
pub use report::{DemoEngineReport, LiveView, TrialReport};
pub use rule::Rule;
pub use traffic::{IMIX, Traffic};
pub use trial::Trial;
pub use verdict::{Against, Verdict, WorstCase};

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use convoy_capture::Unread;
use convoy_dataplane::costs::Costs;
use convoy_gateway::assemble;
use serde::Serialize;

use capture::{Captured, read_capture};
use comparison::compare;
use failing::fails_after;
use iptfs::compare_modes;
use sites::TUNNELS;
use traffic::{both_ways, mixed};
use trial::run_trial;

/// Packets per direction before they repeat.
const TRAFFIC_PACKETS: usize = 20_000;
/// Windows to compare, in packets.
const WINDOWS: [usize; 2] = [1, 32];
/// Rounds of each comparison; odd, so that there is a median.
const ROUNDS: usize = 3;

/// Settings of the demo.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// Duration of the first part: a live view of finishing time with a window of 32.
    pub live: Duration,
    /// Duration of all comparisons together.
    pub comparisons: Duration,
    /// Duration of all runs in tunnel mode and with IP-TFS together.
    pub iptfs: Duration,
    /// Duration of each of the two runs with the card only, if it is built in.
    pub card: Duration,
    /// A capture of real traffic; `None` for IMIX only.
    pub capture: Option<PathBuf>,
    /// Engine of the first gateway that is to fail half-way, if any.
    pub fail: Option<String>,
    /// Seed of the IMIX traffic.
    pub seed: u64,
}

impl DemoConfig {
    /// Duration of all parts together.
    pub fn length(&self) -> Duration {
        let card = if cfg!(feature = "card") { self.card * WINDOWS.len() as u32 } else { Duration::ZERO };
        self.live + self.comparisons + self.iptfs + card
    }
}

/// Result of the demo.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// Packets of the capture that were used, in both directions.
    pub capture_packets: usize,
    /// Unusable packets of the capture, by reason.
    pub capture_unreadable: Unread,
    /// Where the capture is truncated or damaged, if it is; the rest was not read.
    pub capture_damage: Option<String>,
    /// Result of the first part.
    pub live: TrialReport,
    /// Comparisons by platform.
    pub comparisons: Vec<Comparison>,
    /// How each rule compares on the platform that suits it least, if there are several.
    pub worst_cases: Vec<WorstCase>,
    /// Tunnel mode and IP-TFS by traffic.
    pub iptfs: Vec<ModeComparison>,
    /// Runs with the verilated card only, with a window of 1 and with the usual one; empty if it is
    /// not built in.
    pub card: Vec<TrialReport>,
}

impl DemoReport {
    /// Whether every packet of every part arrived exactly once, unchanged and in the order of its
    /// SA.
    pub fn is_perfect(&self) -> bool {
        self.trials().all(|trial| trial.is_perfect) && self.measured().all(|measured| measured.is_perfect)
    }

    /// Packets sent in all parts, and those that arrived unchanged and in order.
    pub fn sent_and_good(&self) -> (u64, u64) {
        let trials = self.trials().map(|trial| (trial.sent, trial.good));
        let measured = self.measured().map(|measured| (measured.sent, measured.good));
        trials.chain(measured).fold((0, 0), |(sent, good), of| (sent + of.0, good + of.1))
    }

    fn trials(&self) -> impl Iterator<Item = &TrialReport> {
        self.card.iter().chain([&self.live])
    }

    fn measured(&self) -> impl Iterator<Item = &Measurement> {
        let modes = self.iptfs.iter().flat_map(ModeComparison::modes).map(|(_, measured)| measured);
        self.comparisons.iter().flat_map(Comparison::measured).chain(modes)
    }
}

/// Runs the demo; calls `show` a few times per second with the current state.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub fn run(config: &DemoConfig, show: &mut dyn FnMut(&LiveView)) -> Result<DemoReport, DemoError> {
    let Captured { packets: capture, unreadable, damage } =
        config.capture.as_deref().map(read_capture).transpose()?.unwrap_or_default();
    let capture_packets = capture.len();
    let traffic: [Arc<Traffic>; 2] = both_ways(capture, TUNNELS, TRAFFIC_PACKETS, config.seed).map(Arc::new);
    let mut costs = assemble::costs();
    let platform = Platform::all(&mut costs);
    let live = Trial {
        platform: &platform,
        rule: Rule::DEFAULT,
        window: 32,
        load: Load::Saturating,
        length: config.live,
        fail: config.fail.as_deref(),
    };
    let live = run_trial(&live, &traffic, &mut costs, show)?;
    if let Some(engine) = &config.fail {
        has_failed(&live, engine, config.live)?;
    }
    let platforms = [Some(Platform::accelerators(&mut costs)), Platform::own_core(&mut costs)];
    let platforms: Vec<Platform> = platforms.into_iter().flatten().collect();
    // In each round on each platform, every rule runs with a window of 1, saturated, and under
    // load.
    let runs = platforms.len() * ROUNDS * Rule::compared().len() * 3;
    let length = config.comparisons / runs as u32;
    let compare = |platform| compare(platform, &traffic, &mut costs, length);
    let comparisons = platforms.into_iter().map(compare).collect::<Result<Vec<_>, _>>()?;
    let saturated: Vec<&[Measurement]> = comparisons.iter().map(|of| &of.saturated[..]).collect();
    let worst_cases = if saturated.len() > 1 { WorstCase::of_all(&saturated) } else { Vec::new() };
    let iptfs = compare_modes(&traffic, &mut costs, config.iptfs, config.seed)?;
    let card = on_card(config, &traffic, &mut costs, show)?;
    Ok(DemoReport {
        capture_packets,
        capture_unreadable: unreadable,
        capture_damage: damage,
        live,
        comparisons,
        worst_cases,
        iptfs,
        card,
    })
}

/// Checks that the engine that was to fail has failed.
fn has_failed(trial: &TrialReport, engine: &str, length: Duration) -> Result<(), DemoError> {
    if trial.quarantined.iter().any(|name| name == engine) {
        return Ok(());
    }
    let report = trial.engines.iter().find(|report| report.name == engine);
    Err(DemoError::DidNotFail {
        engine: engine.to_owned(),
        after: fails_after(report.is_some_and(|report| report.is_model)),
        given: report.map_or(0.0, |report| report.packets as f64 / report.packets_per_multi_packet.max(1.0)),
        seconds: length.as_secs_f64(),
    })
}

/// The demo's traffic without a capture, for both directions.
pub fn imix(seed: u64) -> [Arc<Traffic>; 2] {
    both_ways(Vec::new(), TUNNELS, TRAFFIC_PACKETS, seed).map(Arc::new)
}

/// UDP packets between random hosts of `tunnels` tunnels, for both directions. `lengths` are
/// lengths in bytes, IP header included, with their weights. Lengths are limited to 1,400 bytes, so
/// that nothing is fragmented, and tunnels to 256.
pub fn lengths(lengths: &[(usize, u32)], tunnels: usize, seed: u64) -> [Arc<Traffic>; 2] {
    mixed(Vec::new(), lengths, tunnels, TRAFFIC_PACKETS, seed).map(Arc::new)
}

#[cfg(feature = "card")]
fn on_card(
    config: &DemoConfig,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    show: &mut dyn FnMut(&LiveView),
) -> Result<Vec<TrialReport>, DemoError> {
    let platform = Platform::card();
    let run = |window| {
        let (rule, load, length) = (Rule::DEFAULT, Load::Saturating, config.card);
        let trial = Trial { platform: &platform, rule, window, load, length, fail: None };
        run_trial(&trial, traffic, costs, show)
    };
    WINDOWS.into_iter().map(run).collect()
}

#[cfg(not(feature = "card"))]
fn on_card(
    _: &DemoConfig,
    _: &[Arc<Traffic>; 2],
    _: &mut Costs,
    _: &mut dyn FnMut(&LiveView),
) -> Result<Vec<TrialReport>, DemoError> {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demo_whose_engine_has_too_little_to_do_to_fail_does_not_end_well() {
        let fail = |engine: &str| {
            let [live, comparisons, iptfs, card] = [Duration::ZERO; 4];
            let fail = Some(engine.to_owned());
            let config = DemoConfig { live, comparisons, iptfs, card, capture: None, fail, seed: 1 };
            run(&config, &mut |_| {}).expect_err("it cannot have failed").to_string()
        };
        let wanted = "the engine model-a did not fail: it fails after 2 multi-packets, and got 0 in 0.0 s";
        assert!(fail("model-a").starts_with(wanted), "{}", fail("model-a"));
        assert!(fail("model-x").starts_with("there is no engine \"model-x\" to fail; the demo has "));
    }

    #[test]
    fn a_short_demo_delivers_every_packet_under_every_rule_and_says_what_it_measured() {
        let config = DemoConfig {
            live: Duration::from_millis(300),
            comparisons: Duration::from_secs(4),
            iptfs: Duration::from_millis(300),
            card: Duration::from_millis(50),
            capture: None,
            fail: None,
            seed: 1,
        };
        let mut report = run(&config, &mut |_| {}).expect("it needs nothing that is not everywhere");
        let (sent, good) = report.sent_and_good();
        assert!(report.is_perfect() && sent > 0 && sent == good, "{good} of {sent}");
        assert!(!report.comparisons.is_empty());
        for comparison in &report.comparisons {
            assert!(comparison.verdict.is_some());
            for rules in [&comparison.without_window, &comparison.saturated, &comparison.offered] {
                assert_eq!(rules.len(), Rule::compared().len());
                for measured in rules {
                    let DeliveryLatency { p50_us, p999_us, .. } = measured.latency;
                    assert!(0.0 < p50_us && p50_us <= p999_us, "{}: {:?}", measured.rule, measured.latency);
                }
            }
        }
        assert!(!report.iptfs.is_empty());
        report.iptfs[0].iptfs.is_perfect = false;
        assert!(!report.is_perfect(), "a packet that IP-TFS loses fails the demo");
    }
}
