//! Searches for the highest rate within a loss limit: RFC 2544's throughput (NDR), and rates with
//! partial drop (PDR).
//!
//! The rules are those of MLRsearch (draft-ietf-bmwg-mlrsearch): one search for several goals, each
//! with a loss ratio, the duration of a full trial, the total duration over which a rate is judged,
//! and the fraction of that time which may exceed the loss ratio. Shorter trials only narrow the
//! range. Each trial counts for all goals.

use std::time::Instant;

use serde::Serialize;

use crate::device::{DeviceOutcome, DeviceTrial, DeviceUnderTest, MeasureError, Ways};
use crate::lengths::Lengths;
use crate::schedule::Phase;

/// A goal of the search.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Fraction of packets that may be lost; 0 for the NDR.
    pub loss_ratio: f64,
    /// Relative resolution: the search ends once the passing and the failing rate differ by less
    /// than this fraction of the latter.
    pub width: f64,
    /// Duration of a full trial, in seconds.
    pub trial_s: f64,
    /// Total duration of trials after which a rate is judged, in seconds; a multiple of `trial_s`.
    pub sum_s: f64,
    /// Fraction of `sum_s` in which the loss ratio may be exceeded; 0.5 tolerates disturbances by
    /// other programs.
    pub exceed_ratio: f64,
}

/// Duration of trials that narrow the range, relative to a full trial.
const SHORT: f64 = 0.25;
/// Resolution of that coarse search, relative to the goal's.
const COARSE: f64 = 4.0;
/// How often a trial is repeated when the tester fell behind.
const RETRIES: usize = 2;
/// Highest rate tried after the tester fell behind, relative to what it sent.
const BELOW_CEILING: f64 = 0.99;

impl Goal {
    /// The goal of the coarse search.
    fn coarse(&self) -> Self {
        let trial_s = self.trial_s * SHORT;
        Self { trial_s, sum_s: trial_s, exceed_ratio: 0.0, width: self.width * COARSE, ..*self }
    }
}

/// Range of the search, in packets per second and direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The lowest rate to try.
    pub least: f64,
    /// The highest rate to try: what the line or the tester can carry.
    pub most: f64,
}

/// Lengths and directions of a search's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// Packet lengths.
    pub lengths: Lengths,
    /// Directions.
    pub ways: Ways,
}

impl Shape {
    /// A trial with such packets.
    pub fn trial(&self, packets_per_second: f64, seconds: f64) -> DeviceTrial {
        let phases = vec![Phase { packets_per_second, seconds }];
        DeviceTrial { phases, lengths: self.lengths, ways: self.ways }
    }
}

/// Result of one trial of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialResult {
    /// Rate in each direction, in packets per second.
    pub packets_per_second: f64,
    /// Duration in seconds.
    pub seconds: f64,
    /// Lost packets as a fraction of those sent.
    pub loss_ratio: f64,
    /// Packets that the tester itself dropped on receipt, as a fraction of those sent; included in
    /// `loss_ratio`.
    pub missed_ratio: f64,
    /// Whether the tester could not keep the rate. The trial then counts as failed.
    pub is_behind: bool,
    /// Rate received in each direction, in packets per second.
    pub received_per_second: f64,
}

impl TrialResult {
    fn passes(&self, goal: &Goal) -> bool {
        !self.is_behind && self.loss_ratio <= goal.loss_ratio
    }

    /// Whether it fails because of the tester.
    fn fails_because_of_tester(&self, goal: &Goal) -> bool {
        self.is_behind || (!self.passes(goal) && self.loss_ratio - self.missed_ratio <= goal.loss_ratio)
    }
}

/// Result of one goal, in packets per second and direction.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// The goal.
    pub goal: Goal,
    /// The highest rate that passes; `None` if all rates tried fail.
    pub packets_per_second: Option<f64>,
    /// The lowest failing rate above it; `None` if the highest rate allowed passes.
    pub fails_at: Option<f64>,
    /// Whether the limit is the tester or the highest rate allowed: the device may be faster.
    pub is_limited_by_tester: bool,
    /// Whether the search reached its resolution. If time ran out before, the true rate is only
    /// known to lie between the two rates, or only short trials were run.
    pub is_settled: bool,
}

/// Result of a search.
#[derive(Clone, Debug, Serialize)]
pub struct SearchResult {
    /// Results in the order of the goals.
    pub found: Vec<Found>,
    /// Rate received in each direction at the highest rate tried, in packets per second (CSIT's
    /// MRR).
    pub most_received_per_second: f64,
    /// The highest rate tried.
    pub most_sent_per_second: f64,
    /// All trials, in order.
    pub trials: Vec<TrialResult>,
}

#[derive(Clone, Copy, PartialEq)]
enum SearchVerdict {
    Passes,
    Fails,
    Open,
}

/// State of a running search.
struct Search<'a> {
    device: &'a mut dyn DeviceUnderTest,
    shape: Shape,
    rates: Rates,
    ceiling_is_tester: bool,
    trials: Vec<TrialResult>,
    until: Option<Instant>,
    observe: &'a mut dyn FnMut(&TrialResult),
}

/// Searches for the highest rates that meet the goals. Calls `observe` after each trial. Starts no
/// trial after `until`; goals that are unfinished by then are marked as not settled.
///
/// # Errors
/// [`MeasureError`] if a trial could not be run, or if the goals or rates are invalid.
pub fn search(
    device: &mut dyn DeviceUnderTest,
    shape: Shape,
    rates: Rates,
    goals: &[Goal],
    until: Option<Instant>,
    observe: &mut dyn FnMut(&TrialResult),
) -> Result<SearchResult, MeasureError> {
    check(rates, goals)?;
    let trials = Vec::new();
    let mut search = Search { device, shape, rates, ceiling_is_tester: false, trials, until, observe };
    let shortest = goals.iter().map(|goal| goal.trial_s).fold(f64::INFINITY, f64::min);
    let flood = search.find_ceiling(shortest)?;
    // The throughput under overload is a first guess of the throughput without loss.
    let mut guess = flood.received_per_second;
    let mut found = Vec::new();
    for goal in goals {
        let coarse = search.search_goal(&goal.coarse(), guess)?;
        let mut fine = search.search_goal(goal, coarse.packets_per_second.unwrap_or(search.rates.least))?;
        if !fine.is_settled && fine.packets_per_second.is_none() {
            let below = |rate: &f64| fine.fails_at.is_none_or(|fails_at| *rate < fails_at);
            fine.packets_per_second = coarse.packets_per_second.filter(below);
        }
        guess = fine.packets_per_second.unwrap_or(guess);
        found.push(fine);
    }
    // Trials for later goals may have narrowed earlier ones.
    Ok(SearchResult {
        found,
        most_received_per_second: flood.received_per_second,
        most_sent_per_second: flood.sent_per_second,
        trials: search.trials,
    })
}

fn check(rates: Rates, goals: &[Goal]) -> Result<(), MeasureError> {
    let wrong = |what: String| Err(MeasureError::Invalid(what));
    if !(rates.least > 0.0 && rates.least <= rates.most && rates.most.is_finite()) {
        return wrong(format!(
            "the range of rates is empty: from {} to {} packets/s",
            rates.least, rates.most
        ));
    }
    for goal in goals {
        if !(0.0..1.0).contains(&goal.loss_ratio) {
            return wrong(format!(
                "the loss ratio must be at least 0 and below 1, but is {}",
                goal.loss_ratio
            ));
        }
        if !(1e-6..1.0).contains(&goal.width) {
            return wrong(format!(
                "the resolution must be above 0 and below 1, such as 0.005, but is {}",
                goal.width
            ));
        }
        if !(goal.trial_s > 0.0 && goal.sum_s >= goal.trial_s && goal.sum_s.is_finite()) {
            let Goal { trial_s, sum_s, .. } = goal;
            return wrong(format!(
                "trials of {trial_s} s within {sum_s} s: both must be above 0, and the latter no shorter"
            ));
        }
    }
    Ok(())
}

impl Search<'_> {
    /// Tries the highest rate. If the tester cannot send that fast, lowers the limit to what it
    /// can.
    fn find_ceiling(&mut self, seconds: f64) -> Result<DeviceOutcome, MeasureError> {
        let outcome = self.run_trial(self.rates.most, seconds)?;
        if outcome.is_behind(self.rates.most) {
            self.ceiling_is_tester = true;
            self.rates.most = (outcome.sent_per_second * BELOW_CEILING).max(self.rates.least);
        }
        Ok(outcome)
    }

    fn run_trial(&mut self, packets_per_second: f64, seconds: f64) -> Result<DeviceOutcome, MeasureError> {
        let trial = self.shape.trial(packets_per_second, seconds);
        let mut outcome = self.device.trial(&trial)?;
        for _ in 0..RETRIES {
            let says_nothing = outcome.is_behind(packets_per_second)
                || (outcome.missed_by_tester > 0 && outcome.lost() <= outcome.missed_by_tester);
            // The first trial at the highest rate is what finds the tester's limit, so it is not
            // repeated.
            if !says_nothing || self.trials.is_empty() {
                break;
            }
            outcome = self.device.trial(&trial)?;
        }
        let result = TrialResult {
            packets_per_second,
            seconds,
            loss_ratio: outcome.loss_ratio(),
            missed_ratio: outcome.missed_ratio(),
            is_behind: outcome.is_behind(packets_per_second),
            received_per_second: outcome.received_per_second,
        };
        (self.observe)(&result);
        self.trials.push(result);
        Ok(outcome)
    }

    /// Judges a rate by the full trials so far.
    fn verdict(&self, goal: &Goal, rate: f64) -> SearchVerdict {
        let of_rate =
            |result: &&TrialResult| result.packets_per_second == rate && result.seconds >= goal.trial_s;
        let (mut good_s, mut bad_s) = (0.0, 0.0);
        for result in self.trials.iter().filter(of_rate) {
            *(if result.passes(goal) { &mut good_s } else { &mut bad_s }) += result.seconds;
        }
        // Decides only when no outcome of the remaining trials could change the result.
        const ROUNDING: f64 = 1e-9;
        if bad_s > goal.exceed_ratio * goal.sum_s + ROUNDING {
            SearchVerdict::Fails
        } else if good_s >= (1.0 - goal.exceed_ratio) * goal.sum_s - ROUNDING {
            SearchVerdict::Passes
        } else {
            SearchVerdict::Open
        }
    }

    /// The lowest rate that fails, and the highest passing rate below it, if any.
    fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let rates_that = |wanted: SearchVerdict| {
            let rates = self.trials.iter().map(|result| result.packets_per_second);
            // The trial that found the tester's limit may lie above it.
            rates
                .filter(|rate| *rate <= self.rates.most)
                .filter(move |rate| self.verdict(goal, *rate) == wanted)
        };
        let upper = rates_that(SearchVerdict::Fails).min_by(f64::total_cmp);
        let below = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        (rates_that(SearchVerdict::Passes).filter(below).max_by(f64::total_cmp), upper)
    }

    /// Extends the range from the guess in growing steps until one rate passes and one fails, then
    /// bisects it on a logarithmic scale.
    fn search_goal(&mut self, goal: &Goal, guess: f64) -> Result<Found, MeasureError> {
        let Rates { least, most } = self.rates;
        let mut step = goal.width;
        loop {
            let (lower, upper) = self.bounds(goal);
            let next = match (lower, upper) {
                (None, None) => guess,
                (Some(lower), None) if lower < most => lower * (1.0 + step),
                (None, Some(upper)) if upper > least => {
                    if guess < upper {
                        guess
                    } else {
                        upper * (1.0 - step).max(0.25)
                    }
                }
                (Some(lower), Some(upper)) if upper - lower > goal.width * upper => (lower * upper).sqrt(),
                (lower, upper) => return Ok(self.found(goal, lower, upper, true)),
            };
            if lower.is_none() != upper.is_none() {
                step *= 2.0;
            }
            let rate = next.clamp(least, most);
            if self.verdict(goal, rate) != SearchVerdict::Open {
                return Ok(self.found(goal, lower, upper, true));
            }
            while self.verdict(goal, rate) == SearchVerdict::Open {
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(self.found(goal, lower, upper, false));
                }
                self.run_trial(rate, goal.trial_s)?;
            }
        }
    }

    fn found(&self, goal: &Goal, lower: Option<f64>, upper: Option<f64>, is_settled: bool) -> Found {
        let failed = |rate: f64| {
            let of_rate =
                |result: &&TrialResult| result.packets_per_second == rate && result.seconds >= goal.trial_s;
            self.trials.iter().filter(of_rate).all(|result| result.fails_because_of_tester(goal))
        };
        Found {
            goal: *goal,
            packets_per_second: lower,
            fails_at: upper,
            is_limited_by_tester: match upper {
                None => is_settled,
                Some(upper) => failed(upper),
            },
            is_settled,
        }
    }
}

#[cfg(test)]
mod tests;
