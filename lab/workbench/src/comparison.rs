//! All rules on one platform in turns: their throughput, their latency under the same load, and
//! what the window gains.

use std::time::Duration;

use serde::Serialize;

use super::arrivals::Load;
use super::demo::{Setting, WINDOWS};
use super::error::DemoError;
use super::measure::{Measurement, run_round};
use super::platform::{DemoEngine, Platform};
use super::report::TrialReport;
use super::rule::Rule;
use super::spread::Spread;
use super::trial::Trial;
use super::turns::{Progress, TimeBudget};
use super::verdict::Verdict;

/// Load under which latencies are compared, relative to what the median of all rules carried in the
/// same round: on a machine that does nothing else, every rule carries it.
const LOAD: f64 = 0.5;

/// Comparison of all rules on one platform.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Description of the platform.
    pub about: String,
    /// Name of the platform in a few words.
    pub name: &'static str,
    /// The ESP proposal.
    pub proposal: &'static str,
    /// Costs of the platform's engines.
    pub engines: Vec<DemoEngine>,
    /// The scheduler's default with a window of 1, when saturated.
    pub without_window: Measurement,
    /// All rules with the usual window, when saturated.
    pub saturated: Vec<Measurement>,
    /// All rules with the usual window, under the same load in each round.
    pub offered: Vec<Measurement>,
    /// That load, in packets per second.
    pub offered_packets_per_second: Spread,
    /// The scheduler's gain.
    pub verdict: Option<Verdict>,
}

impl Comparison {
    /// Packets per second of the scheduler's default with the usual window, relative to a window
    /// of 1.
    pub fn window_gain(&self) -> Spread {
        self.saturated[0].relative_to(&self.without_window, |round| round.packets_per_second)
    }

    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measurement> {
        self.saturated.iter().chain(&self.offered).chain([&self.without_window])
    }
}

/// Runs of a platform in each round.
pub(crate) fn runs_per_round() -> usize {
    2 * Rule::demonstrated().len() + 1
}

/// Compares all rules on a platform in `rounds` rounds, in `time` together.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn compare(
    platform: Platform,
    rounds: usize,
    time: Duration,
    setting: &mut Setting<'_>,
) -> Result<Comparison, DemoError> {
    let mut turns = Turns::new(&platform, rounds, time);
    for round in 0..rounds {
        turns.run(round, rounds, setting)?;
    }
    let measured = |reports: &[Vec<TrialReport>]| reports.iter().map(|of| Measurement::of(of)).collect();
    let mut saturated: Vec<Measurement> = measured(&turns.saturated);
    let without_window = saturated.pop().expect("the last of the saturated trials has a window of 1");
    let offered: Vec<Measurement> = measured(&turns.offered);
    let verdict = Verdict::of(&saturated, &offered);
    let offered_packets_per_second = Spread::of(turns.loads);
    let Platform { about, name, proposal, engines, .. } = platform;
    Ok(Comparison {
        about,
        name,
        proposal,
        engines,
        without_window,
        saturated,
        offered,
        offered_packets_per_second,
        verdict,
    })
}

/// Reports of the rounds so far.
struct Turns<'a> {
    platform: &'a Platform,
    rules: Vec<Rule>,
    budget: TimeBudget,
    /// Of each rule with the usual window, the scheduler's default first; at last of the default
    /// with a window of 1.
    saturated: Vec<Vec<TrialReport>>,
    offered: Vec<Vec<TrialReport>>,
    /// The load of each round, in packets per second.
    loads: Vec<f64>,
}

impl<'a> Turns<'a> {
    fn new(platform: &'a Platform, rounds: usize, time: Duration) -> Self {
        let rules = Rule::demonstrated();
        let budget = TimeBudget::new(time, rounds * runs_per_round());
        let offered = vec![Vec::new(); rules.len()];
        let saturated = vec![Vec::new(); rules.len() + 1];
        Self { platform, rules, budget, saturated, offered, loads: Vec::new() }
    }

    fn run(&mut self, round: usize, rounds: usize, setting: &mut Setting<'_>) -> Result<(), DemoError> {
        let length = self.budget.run_length();
        let place = Some((round + 1, rounds));
        (setting.show)(&Progress {
            part: &format!("policies, {}", self.platform.name),
            round: place,
            view: None,
        });
        let [narrow, wide] = WINDOWS;
        let platform = self.platform;
        let trial = |rule: Rule, window: usize, load: Load| Trial {
            platform,
            rule,
            window,
            load,
            length,
            fail: None,
        };
        let saturating = |rule: &Rule| trial(*rule, wide, Load::Saturating);
        let mut trials: Vec<Trial<'_>> = self.rules.iter().map(saturating).collect();
        trials.push(trial(Rule::DEFAULT, narrow, Load::Saturating));
        self.budget.run(length, trials.len(), || {
            run_round(&trials, round, setting.traffic, setting.costs, &mut self.saturated)
        })?;
        let carried =
            self.saturated[..self.rules.len()].iter().map(|reports| reports[round].packets_per_second);
        let load = LOAD * Spread::of(carried).median;
        self.loads.push(load);
        let trials: Vec<Trial<'_>> =
            self.rules.iter().map(|rule| trial(*rule, wide, Load::Offered(load.max(1.0)))).collect();
        self.budget.run(length, trials.len(), || {
            run_round(&trials, round, setting.traffic, setting.costs, &mut self.offered)
        })
    }
}
