//! The highest rate at which no more is lost than may be: RFC 2544's throughput (NDR), and rates
//! with a loss ratio (PDR).
//!
//! The rules are those of MLRsearch (draft-ietf-bmwg-mlrsearch): one search for several goals, each
//! with a loss ratio, the length of a trial that counts, the time over which a rate is judged, and
//! the part of that time which may exceed the loss ratio. Short trials only tell where to look.
//! What a trial says counts for all goals.

use std::time::Instant;

use serde::Serialize;

use crate::device::{DeviceUnderTest, MeasureError, Outcome, Trial, Ways};
use crate::lengths::Lengths;
use crate::schedule::Phase;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Goal {
    /// Part of the packets that may be lost; 0 for the NDR.
    pub loss_ratio: f64,
    /// How near the rate that passes is to one that fails, as a part of the latter.
    pub width: f64,
    /// How long a trial is that counts, in seconds.
    pub trial_s: f64,
    /// For how long a rate is tried until it is judged, in seconds; a multiple of the trial's time.
    pub sum_s: f64,
    /// Part of that time in which more may be lost: where other programs of a machine disturb
    /// single trials, a half.
    pub exceed_ratio: f64,
}

/// The shortest trial that tells where to look, as a part of one that counts.
const SHORT: f64 = 0.25;
/// How much less exact that is.
const COARSE: f64 = 4.0;
/// A tester that fell behind tries again so often.
const AGAIN: usize = 2;
/// What it then tries at most, as a part of what it sent.
const BELOW_CEILING: f64 = 0.99;

impl Goal {
    /// The same in a hurry.
    fn coarse(&self) -> Self {
        let trial_s = self.trial_s * SHORT;
        Self { trial_s, sum_s: trial_s, exceed_ratio: 0.0, width: self.width * COARSE, ..*self }
    }
}

/// Within which rates to search, in packets per second each way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Below this nothing is tried.
    pub least: f64,
    /// What the line, or the tester, can carry.
    pub most: f64,
}

/// Packets of a search's trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shape {
    /// How long they are.
    pub lengths: Lengths,
    /// Which ways they go.
    pub ways: Ways,
}

impl Shape {
    /// A trial of such packets.
    pub fn trial(&self, packets_per_second: f64, seconds: f64) -> Trial {
        let phases = vec![Phase { packets_per_second, seconds }];
        Trial { phases, lengths: self.lengths, ways: self.ways }
    }
}

/// A trial that was held.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// Its rate each way, in packets per second.
    pub packets_per_second: f64,
    /// Its length in seconds.
    pub seconds: f64,
    /// Packets lost, as a part of those sent.
    pub loss_ratio: f64,
    /// Of these, packets that came to the tester and found no room there, as a part of those sent.
    pub missed_ratio: f64,
    /// Whether the tester could not keep the rate, which then counts as one that fails.
    pub is_behind: bool,
    /// What arrived, each way, in packets per second.
    pub received_per_second: f64,
}

impl Held {
    fn passes(&self, goal: &Goal) -> bool {
        !self.is_behind && self.loss_ratio <= goal.loss_ratio
    }

    /// Whether it does not pass, and that is the tester's doing.
    fn fails_by_tester(&self, goal: &Goal) -> bool {
        self.is_behind || (!self.passes(goal) && self.loss_ratio - self.missed_ratio <= goal.loss_ratio)
    }
}

/// What was found for a goal, in packets per second each way.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Found {
    /// What was looked for.
    pub goal: Goal,
    /// The highest rate that passes; nothing where all that were tried fail.
    pub packets_per_second: Option<f64>,
    /// The lowest rate above that fails; nothing where the highest that can be tried passes.
    pub fails_at: Option<f64>,
    /// Whether what fails is the tester, or the highest rate that it was to try: the device may be
    /// faster.
    pub is_limited_by_tester: bool,
    /// Whether the search ended by itself. One whose time was up before knows no more than that the
    /// rate lies between these two, or what short trials have told.
    pub is_settled: bool,
}

/// What a search found, and how.
#[derive(Clone, Debug, Serialize)]
pub struct Searched {
    /// For each goal, in their order.
    pub found: Vec<Found>,
    /// What arrived each way under the highest rate that was tried, in packets per second (CSIT's
    /// MRR).
    pub most_received_per_second: f64,
    /// The highest rate that was tried.
    pub most_sent_per_second: f64,
    /// All trials, in their order.
    pub trials: Vec<Held>,
}

#[derive(Clone, Copy, PartialEq)]
enum Judged {
    Passes,
    Fails,
    Open,
}

/// A search under way.
struct Search<'a> {
    device: &'a mut dyn DeviceUnderTest,
    shape: Shape,
    rates: Rates,
    ceiling_is_tester: bool,
    trials: Vec<Held>,
    until: Option<Instant>,
    observe: &'a mut dyn FnMut(&Held),
}

/// Searches for the highest rates that meet the goals. `observe` hears of each trial. After `until`
/// no trial begins any more, and what is known by then is told as not settled.
///
/// # Errors
/// [`MeasureError`] if a trial could not be held, or a goal or the rates make no sense.
pub fn search(
    device: &mut dyn DeviceUnderTest,
    shape: Shape,
    rates: Rates,
    goals: &[Goal],
    until: Option<Instant>,
    observe: &mut dyn FnMut(&Held),
) -> Result<Searched, MeasureError> {
    check(rates, goals)?;
    let trials = Vec::new();
    let mut search = Search { device, shape, rates, ceiling_is_tester: false, trials, until, observe };
    let shortest = goals.iter().map(|goal| goal.trial_s).fold(f64::INFINITY, f64::min);
    let flood = search.find_ceiling(shortest)?;
    // What an overloaded device carries is a first guess of what it carries without loss.
    let mut guess = flood.received_per_second;
    let mut found = Vec::new();
    for goal in goals {
        let coarse = search.meet(&goal.coarse(), guess)?;
        let mut fine = search.meet(goal, coarse.packets_per_second.unwrap_or(search.rates.least))?;
        if !fine.is_settled && fine.packets_per_second.is_none() {
            let below = |rate: &f64| fine.fails_at.is_none_or(|fails_at| *rate < fails_at);
            fine.packets_per_second = coarse.packets_per_second.filter(below);
        }
        guess = fine.packets_per_second.unwrap_or(guess);
        found.push(fine);
    }
    // Trials for later goals may have said more about earlier ones.
    Ok(Searched {
        found,
        most_received_per_second: flood.received_per_second,
        most_sent_per_second: flood.sent_per_second,
        trials: search.trials,
    })
}

fn check(rates: Rates, goals: &[Goal]) -> Result<(), MeasureError> {
    let wrong = |what: String| Err(MeasureError::Invalid(what));
    if !(rates.least > 0.0 && rates.least <= rates.most && rates.most.is_finite()) {
        return wrong(format!("no rate is at least {} and at most {} packets/s", rates.least, rates.most));
    }
    for goal in goals {
        if !(0.0..1.0).contains(&goal.loss_ratio) {
            return wrong(format!("a loss ratio of {}; it is 0 or more, and below 1", goal.loss_ratio));
        }
        if !(1e-6..1.0).contains(&goal.width) {
            return wrong(format!("a resolution of {}; it is above 0 and below 1, as 0.005", goal.width));
        }
        if !(goal.trial_s > 0.0 && goal.sum_s >= goal.trial_s && goal.sum_s.is_finite()) {
            let Goal { trial_s, sum_s, .. } = goal;
            return wrong(format!(
                "trials of {trial_s} s over {sum_s} s; both are above 0, the latter no less"
            ));
        }
    }
    Ok(())
}

impl Search<'_> {
    /// Tries the highest rate; where the tester cannot send so fast, the highest is what it can.
    fn find_ceiling(&mut self, seconds: f64) -> Result<Outcome, MeasureError> {
        let outcome = self.hold(self.rates.most, seconds)?;
        if outcome.is_behind(self.rates.most) {
            self.ceiling_is_tester = true;
            self.rates.most = (outcome.sent_per_second * BELOW_CEILING).max(self.rates.least);
        }
        Ok(outcome)
    }

    fn hold(&mut self, packets_per_second: f64, seconds: f64) -> Result<Outcome, MeasureError> {
        let trial = self.shape.trial(packets_per_second, seconds);
        let mut outcome = self.device.trial(&trial)?;
        for _ in 0..AGAIN {
            let says_nothing = outcome.is_behind(packets_per_second)
                || (outcome.missed_by_tester > 0 && outcome.lost() <= outcome.missed_by_tester);
            // The highest rate is tried to learn what the tester can do.
            if !says_nothing || self.trials.is_empty() {
                break;
            }
            outcome = self.device.trial(&trial)?;
        }
        let held = Held {
            packets_per_second,
            seconds,
            loss_ratio: outcome.loss_ratio(),
            missed_ratio: outcome.missed_ratio(),
            is_behind: outcome.is_behind(packets_per_second),
            received_per_second: outcome.received_per_second,
        };
        (self.observe)(&held);
        self.trials.push(held);
        Ok(outcome)
    }

    /// What is known of a rate, by trials that are long enough.
    fn judged(&self, goal: &Goal, rate: f64) -> Judged {
        let of_rate = |held: &&Held| held.packets_per_second == rate && held.seconds >= goal.trial_s;
        let (mut good_s, mut bad_s) = (0.0, 0.0);
        for held in self.trials.iter().filter(of_rate) {
            *(if held.passes(goal) { &mut good_s } else { &mut bad_s }) += held.seconds;
        }
        // Whatever the trials that are still missing would say.
        const ROUNDING: f64 = 1e-9;
        if bad_s > goal.exceed_ratio * goal.sum_s + ROUNDING {
            Judged::Fails
        } else if good_s >= (1.0 - goal.exceed_ratio) * goal.sum_s - ROUNDING {
            Judged::Passes
        } else {
            Judged::Open
        }
    }

    /// The lowest rate that fails, and the highest below that passes.
    fn bounds(&self, goal: &Goal) -> (Option<f64>, Option<f64>) {
        let rates_that = |judged: Judged| {
            let rates = self.trials.iter().map(|held| held.packets_per_second);
            // The trial that told what the tester can do may have been above that.
            rates
                .filter(|rate| *rate <= self.rates.most)
                .filter(move |rate| self.judged(goal, *rate) == judged)
        };
        let upper = rates_that(Judged::Fails).min_by(f64::total_cmp);
        let below = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        (rates_that(Judged::Passes).filter(below).max_by(f64::total_cmp), upper)
    }

    /// Goes outward from the guess in growing steps until a rate that passes and one that fails are
    /// known, and then halves what is between.
    fn meet(&mut self, goal: &Goal, guess: f64) -> Result<Found, MeasureError> {
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
            if self.judged(goal, rate) != Judged::Open {
                return Ok(self.found(goal, lower, upper, true));
            }
            while self.judged(goal, rate) == Judged::Open {
                if self.until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(self.found(goal, lower, upper, false));
                }
                self.hold(rate, goal.trial_s)?;
            }
        }
    }

    fn found(&self, goal: &Goal, lower: Option<f64>, upper: Option<f64>, is_settled: bool) -> Found {
        let failed = |rate: f64| {
            let of_rate = |held: &&Held| held.packets_per_second == rate && held.seconds >= goal.trial_s;
            self.trials.iter().filter(of_rate).all(|held| held.fails_by_tester(goal))
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
