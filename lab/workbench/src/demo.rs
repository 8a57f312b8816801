//! The demonstration: all engines at work, the rules in turns, tunnel mode beside IP-TFS, the card.

use std::sync::Arc;
use std::time::Duration;

use convoy_assembly::assemble;
use convoy_capture::Unread;
use convoy_dataplane::costs::Costs;
use serde::Serialize;

use super::TRAFFIC_PACKETS;
use super::arrivals::Load;
use super::capture::{Captured, DemoCapture};
use super::comparison::{Comparison, compare};
use super::core_use::CoreUse;
use super::error::DemoError;
use super::failing::fails_after;
use super::iptfs::{ModeComparison, compare_modes};
use super::machine::{DemoMachine, HostTime};
use super::measure::Measurement;
use super::platform::Platform;
use super::report::TrialReport;
use super::rule::Rule;
use super::sites::TUNNELS;
use super::traffic::{Traffic, both_ways};
use super::trial::{Trial, run_trial};
use super::turns::Progress;
use super::verdict::WorstCase;

/// Windows to compare, in packets.
pub(crate) const WINDOWS: [usize; 2] = [1, 32];

/// Settings of the demo.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// Duration of the first part: all engines under finishing time with a window of 32.
    pub live: Duration,
    /// Duration of all comparisons together.
    pub comparisons: Duration,
    /// Rounds of each comparison; odd, so that there is a median.
    pub rounds: usize,
    /// Duration of all runs in tunnel mode and with IP-TFS together.
    pub iptfs: Duration,
    /// Duration of all runs with the card only together, if it is built in.
    pub card: Duration,
    /// A capture of real traffic.
    pub capture: DemoCapture,
    /// Engine of the first gateway that is to fail half-way, if any.
    pub fail: Option<String>,
    /// Seed of the IMIX traffic.
    pub seed: u64,
}

impl DemoConfig {
    /// Duration of all parts together.
    pub fn length(&self) -> Duration {
        let card = if cfg!(feature = "card") { self.card } else { Duration::ZERO };
        self.live + self.comparisons + self.iptfs + card
    }
}

/// What all parts of the demo use.
pub(crate) struct Setting<'a> {
    /// The traffic of each direction.
    pub(crate) traffic: &'a [Arc<Traffic>; 2],
    /// Costs of engines that were measured so far.
    pub(crate) costs: &'a mut Costs,
    /// Is given what the demo does at present.
    pub(crate) show: &'a mut dyn FnMut(&Progress<'_>),
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
    /// The machine.
    pub machine: DemoMachine,
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
    pub card: Vec<Measurement>,
}

impl DemoReport {
    /// Whether every packet of every part arrived exactly once, unchanged and in the order of its
    /// SA.
    pub fn is_perfect(&self) -> bool {
        self.live.is_perfect && self.measured().all(|measured| measured.is_perfect)
    }

    /// Packets sent in all parts, and those that arrived unchanged and in order.
    pub fn sent_and_good(&self) -> (u64, u64) {
        let measured = self.measured().map(|measured| (measured.sent, measured.good));
        let live = (self.live.sent, self.live.good);
        measured.fold(live, |(sent, good), of| (sent + of.0, good + of.1))
    }

    fn measured(&self) -> impl Iterator<Item = &Measurement> {
        let modes = self.iptfs.iter().flat_map(ModeComparison::modes).map(|(_, measured)| measured);
        self.comparisons.iter().flat_map(Comparison::measured).chain(modes).chain(&self.card)
    }
}

/// Runs the demo; calls `show` at each new round, and a few times per second in parts without
/// rounds.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub fn run(config: &DemoConfig, show: &mut dyn FnMut(&Progress<'_>)) -> Result<DemoReport, DemoError> {
    let began = HostTime::now();
    let Captured { packets: capture, unreadable, damage } = Captured::read(&config.capture)?;
    let capture_packets = capture.len();
    let traffic = both_ways(capture, TUNNELS, TRAFFIC_PACKETS, config.seed).map(Arc::new);
    let setting = &mut Setting { traffic: &traffic, costs: &mut assemble::costs(), show };
    let live = run_live(config, setting)?;
    let comparisons = compare_rules(config, setting)?;
    let saturated: Vec<&[Measurement]> = comparisons.iter().map(|of| &of.saturated[..]).collect();
    let worst_cases = if saturated.len() > 1 { WorstCase::of_all(&saturated) } else { Vec::new() };
    let iptfs = compare_modes(config.iptfs, config.seed, setting)?;
    let card = on_card(config, setting)?;
    Ok(DemoReport {
        capture_packets,
        capture_unreadable: unreadable,
        capture_damage: damage,
        machine: DemoMachine::here(core_use(&live, &comparisons, &iptfs), began),
        live,
        comparisons,
        worst_cases,
        iptfs,
        card,
    })
}

/// What the threads had of the cores in all parts but that of the card, which counts its own
/// cycles.
fn core_use(live: &TrialReport, comparisons: &[Comparison], iptfs: &[ModeComparison]) -> CoreUse {
    let modes = iptfs.iter().flat_map(ModeComparison::modes).map(|(_, measured)| measured);
    let measured = comparisons.iter().flat_map(Comparison::measured).chain(modes);
    let rounds = measured.flat_map(|measured| &measured.rounds);
    CoreUse::of_all(rounds.map(|round| round.core_use).chain([live.core_use]))
}

/// The first part: all engines of this machine and the modelled ones.
fn run_live(config: &DemoConfig, setting: &mut Setting<'_>) -> Result<TrialReport, DemoError> {
    let platform = Platform::all(setting.costs);
    let trial = Trial {
        platform: &platform,
        rule: Rule::DEFAULT,
        window: WINDOWS[1],
        load: Load::Saturating,
        length: config.live,
        fail: config.fail.as_deref(),
    };
    let live = run_trial(&trial, setting.traffic, setting.costs, &mut |view| {
        (setting.show)(&Progress { part: "all engines", round: None, view: Some(view) });
    })?;
    if let Some(engine) = &config.fail {
        has_failed(&live, engine, config.live)?;
    }
    Ok(live)
}

fn compare_rules(config: &DemoConfig, setting: &mut Setting<'_>) -> Result<Vec<Comparison>, DemoError> {
    let platforms = [Some(Platform::accelerators(setting.costs)), Platform::own_core(setting.costs)];
    let platforms: Vec<Platform> = platforms.into_iter().flatten().collect();
    let time = config.comparisons / platforms.len() as u32;
    platforms.into_iter().map(|platform| compare(platform, config.rounds, time, setting)).collect()
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

#[cfg(feature = "card")]
fn on_card(config: &DemoConfig, setting: &mut Setting<'_>) -> Result<Vec<Measurement>, DemoError> {
    use super::measure::run_round;
    use super::turns::TimeBudget;

    /// Rounds of both windows; the card counts its own cycles, which other programs do not slow.
    const ROUNDS: usize = 3;
    let platform = Platform::card();
    let mut budget = TimeBudget::new(config.card, ROUNDS * WINDOWS.len());
    let mut reports = WINDOWS.map(|_| Vec::new());
    for round in 0..ROUNDS {
        (setting.show)(&Progress {
            part: "the simulated card",
            round: Some((round + 1, ROUNDS)),
            view: None,
        });
        let length = budget.run_length();
        let trials = WINDOWS.map(|window| Trial {
            platform: &platform,
            rule: Rule::DEFAULT,
            window,
            load: Load::Saturating,
            length,
            fail: None,
        });
        budget.run(length, trials.len(), || {
            run_round(&trials, round, setting.traffic, setting.costs, &mut reports)
        })?;
    }
    Ok(reports.iter().map(|rounds| Measurement::of(rounds)).collect())
}

#[cfg(not(feature = "card"))]
fn on_card(_: &DemoConfig, _: &mut Setting<'_>) -> Result<Vec<Measurement>, DemoError> {
    Ok(Vec::new())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::DeliveryLatency;

    fn config(seconds: f64) -> DemoConfig {
        let [live, comparisons, iptfs, card] =
            [0.1, 0.6, 0.2, 0.1].map(|share| Duration::from_secs_f64(share * seconds));
        let (capture, fail) = (DemoCapture::Generated, None);
        DemoConfig { live, comparisons, rounds: 1, iptfs, card, capture, fail, seed: 1 }
    }

    #[test]
    fn a_demo_whose_engine_has_too_little_to_do_to_fail_does_not_end_well() {
        let fail = |engine: &str| {
            let config = DemoConfig { fail: Some(engine.to_owned()), ..config(0.0) };
            run(&config, &mut |_| {}).expect_err("it cannot have failed").to_string()
        };
        let wanted = "the engine model-a did not fail: it fails after 2 multi-packets, and got 0 in 0.0 s";
        assert!(fail("model-a").starts_with(wanted), "{}", fail("model-a"));
        assert!(fail("model-x").starts_with("there is no engine \"model-x\" to fail; the demo has "));
    }

    #[test]
    fn short_demo_delivers_every_packet_under_every_rule_and_has_figures_of_each_round() {
        let mut parts = Vec::new();
        let config = DemoConfig { rounds: 3, ..config(4.0) };
        let mut report = run(&config, &mut |progress| parts.push(progress.part.to_owned()))
            .expect("it needs nothing that is not everywhere");
        let (sent, good) = report.sent_and_good();
        assert!(report.is_perfect() && sent > 0 && sent == good, "{good} of {sent}");
        assert!(!report.comparisons.is_empty());
        for comparison in &report.comparisons {
            assert!(comparison.verdict.is_some());
            for rules in [&comparison.saturated, &comparison.offered] {
                assert_eq!(rules.len(), Rule::demonstrated().len());
            }
            for measured in comparison.measured() {
                assert_eq!(measured.rounds.len(), 3);
                let DeliveryLatency { p50_us, p999_us, .. } = measured.latency;
                assert!(0.0 < p50_us && p50_us <= p999_us, "{}: {:?}", measured.rule, measured.latency);
            }
            assert!(comparison.without_window.window == 1 && comparison.window_gain().lowest > 0.0);
        }
        assert!(report.machine.core_use.ran_ns > 0, "the kernel says how long threads ran");
        assert!(parts.iter().any(|part| part == "policies, accelerators"), "{parts:?}");
        assert!(!report.iptfs.is_empty());
        report.iptfs[0].iptfs.is_perfect = false;
        assert!(!report.is_perfect(), "a packet that IP-TFS loses fails the demo");
    }
}
