//! Search for the highest rate that loses no packets, or at most a given share (RFC 2544, section
//! 26.1), by bisection.

use serde::{Deserialize, Serialize};

use crate::simulation::SimulationError;

/// A search on any device: whatever tells how much it loses at a rate. [`NdrSearch`] searches a
/// simulated platform in the same way.
///
/// [`NdrSearch`]: crate::NdrSearch
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateSearch {
    /// The highest rate, which is tried first: the line rate. Packets per second or any other unit.
    pub high: f64,
    /// The lowest rate to try, in the same unit; 0 to go on down to 1e-12 of the highest.
    pub low: f64,
    /// Largest permitted share of lost packets; 0 gives the throughput of RFC 2544.
    pub loss_ratio: f64,
    /// Largest relative difference between the result and the lowest rate known to fail.
    pub resolution: f64,
}

/// One trial of a search on any device.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateTrial {
    /// The rate that was offered.
    pub rate: f64,
    /// Lost packets as a fraction of those sent.
    pub loss_ratio: f64,
    /// Whether the loss is within the permitted share.
    pub is_good: bool,
}

/// What a search on any device found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FoundRate {
    /// The highest rate that passed; `None` if no rate passed.
    pub rate: Option<f64>,
    /// The lowest rate that failed; `None` if the highest rate allowed passed.
    pub fails_at: Option<f64>,
    /// All trials, in order; the first is at the highest rate.
    pub trials: Vec<RateTrial>,
}

impl RateSearch {
    /// Runs the search. `trial` offers a rate and returns the lost packets as a fraction of those
    /// sent.
    ///
    /// ```
    /// use convoy_sim::{RateSearch, SimulationError};
    ///
    /// let search = RateSearch { high: 1e6, low: 0.0, loss_ratio: 0.0, resolution: 0.001 };
    /// let lost = |rate: f64| Ok::<_, SimulationError>((1.0 - 420_000.0 / rate).max(0.0));
    /// let found = search.run(lost)?;
    /// assert!(found.rate.is_some_and(|rate| (419_000.0..=420_000.0).contains(&rate)));
    /// # Ok::<(), SimulationError>(())
    /// ```
    ///
    /// # Errors
    /// [`SimulationError::Search`] if a value of the search or the result of a trial is out of
    /// range; any error of `trial`.
    pub fn run<E: From<SimulationError>>(
        &self,
        mut trial: impl FnMut(f64) -> Result<f64, E>,
    ) -> Result<FoundRate, E> {
        self.check()?;
        let mut trials = Vec::new();
        let mut offer = |rate: f64| -> Result<RateTrial, E> {
            let loss_ratio = trial(rate)?;
            if !(0.0..=1.0).contains(&loss_ratio) {
                let what =
                    format!("the lost share of packets must be 0 to 1, not {loss_ratio} at rate {rate}");
                return Err(SimulationError::Search(what).into());
            }
            let done = RateTrial { rate, loss_ratio, is_good: loss_ratio <= self.loss_ratio };
            trials.push(done);
            Ok(done)
        };
        let first = offer(self.high)?;
        if first.is_good {
            return Ok(FoundRate { rate: Some(self.high), fails_at: None, trials });
        }
        // What got through under overload is a first guess.
        let mut bracket = Bracket::new(self.high, self.high * (1.0 - first.loss_ratio), self.low);
        bracket.narrow_to(self.resolution, |rate| Ok::<_, E>(offer(rate)?.is_good))?;
        Ok(FoundRate {
            rate: (bracket.low > 0.0).then_some(bracket.low),
            fails_at: Some(bracket.high),
            trials,
        })
    }

    fn check(&self) -> Result<(), SimulationError> {
        check_limits(self.loss_ratio, self.resolution)?;
        let Self { low, high, .. } = *self;
        if high > 0.0 && high.is_finite() && (0.0..=high).contains(&low) {
            return Ok(());
        }
        let what =
            format!("the highest rate must be above 0 and no less than the lowest, not {high} and {low}");
        Err(SimulationError::Search(what))
    }
}

/// Checks what all searches have.
pub(crate) fn check_limits(loss_ratio: f64, resolution: f64) -> Result<(), SimulationError> {
    let is_share = |value: f64| (0.0..1.0).contains(&value);
    if !is_share(loss_ratio) {
        let what = format!("the loss ratio must be at least 0 and below 1, not {loss_ratio}");
        return Err(SimulationError::Search(what));
    }
    if !is_share(resolution) || resolution < 1e-9 {
        let what = format!("the resolution must be above 0 and below 1, such as 0.001, not {resolution}");
        return Err(SimulationError::Search(what));
    }
    Ok(())
}

/// Bounds of the rate: the highest that passed and the lowest that failed, which is the line rate
/// at first. The first guess is the rate that the overloaded device carried. The search then moves
/// outwards in growing steps until both bounds are known, and from there on halves the interval
/// between them.
pub(crate) struct Bracket {
    low: f64,
    high: f64,
    line: f64,
    least: f64,
    guess: f64,
    step: f64,
}

/// Fraction of the line rate below which the search gives up.
const LEAST_PART: f64 = 1e-12;

impl Bracket {
    /// `least` is the lowest rate to try.
    pub(crate) fn new(line: f64, guess: f64, least: f64) -> Self {
        Self { low: 0.0, high: line, line, least: least.max(line * LEAST_PART), guess, step: 0.01 }
    }

    /// Tries rates until the bounds are within the resolution or the lowest rate has failed.
    pub(crate) fn narrow_to<E>(
        &mut self,
        resolution: f64,
        mut passes: impl FnMut(f64) -> Result<bool, E>,
    ) -> Result<(), E> {
        while let Some(rate) = self.next(resolution) {
            let is_good = passes(rate)?;
            self.narrow(rate, is_good);
        }
        Ok(())
    }

    /// The rate to try next, or `None` once the bounds are within the resolution.
    fn next(&self, resolution: f64) -> Option<f64> {
        let is_done = self.high - self.low <= resolution * self.high || self.high <= self.least;
        let is_between = self.guess > self.low && self.guess < self.high;
        let rate = if is_between { self.guess } else { (self.low + self.high) / 2.0 };
        (!is_done).then_some(rate.max(self.least))
    }

    fn narrow(&mut self, rate: f64, is_good: bool) {
        if is_good {
            self.low = rate
        } else {
            self.high = rate
        }
        self.step *= 2.0;
        self.guess = if self.low == 0.0 {
            rate * (1.0 - self.step).max(0.5)
        } else if self.high == self.line {
            rate * (1.0 + self.step)
        } else {
            (self.low + self.high) / 2.0
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEARCH: RateSearch = RateSearch { high: 1e6, low: 0.0, loss_ratio: 0.0, resolution: 0.001 };

    /// A device that carries this rate and drops the rest.
    fn device(capacity: f64) -> impl FnMut(f64) -> Result<f64, SimulationError> {
        move |rate| Ok((1.0 - capacity / rate).max(0.0))
    }

    #[test]
    fn the_result_is_the_devices_capacity_within_the_resolution() {
        for capacity in [3.0, 900.0, 499_999.0, 999_999.0] {
            let found = SEARCH.run(device(capacity)).expect("in range");
            let (rate, fails_at) =
                (found.rate.expect("some rate passes"), found.fails_at.expect("1e6 fails"));
            assert!(rate <= capacity && capacity < fails_at, "{rate} {capacity} {fails_at}");
            assert!(fails_at - rate <= 0.001 * fails_at, "{rate} {fails_at}");
            assert_eq!(found.trials.iter().map(|trial| trial.rate).fold(0.0, f64::max), 1e6);
        }
    }

    #[test]
    fn some_loss_is_permitted_by_the_loss_ratio() {
        let found = RateSearch { loss_ratio: 0.1, ..SEARCH }.run(device(450_000.0)).expect("in range");
        assert!((found.rate.expect("passes") / 500_000.0 - 1.0).abs() < 0.001, "{found:?}");
    }

    #[test]
    fn a_highest_rate_that_passes_is_the_result() {
        let found = SEARCH.run(device(2e6)).expect("in range");
        assert_eq!((found.rate, found.fails_at, found.trials.len()), (Some(1e6), None, 1));
    }

    #[test]
    fn no_rate_below_the_lowest_is_tried() {
        for low in [1.0, 7e3, 1e6] {
            let found = RateSearch { low, ..SEARCH }.run(device(0.5)).expect("in range");
            assert_eq!((found.rate, found.fails_at), (None, Some(low)));
            assert_eq!(found.trials.last().map(|trial| trial.rate), Some(low));
        }
        let found = SEARCH.run(device(0.0)).expect("in range");
        assert!(found.rate.is_none() && found.trials.len() < 50, "{}", found.trials.len());
    }

    #[test]
    fn an_error_of_a_trial_ends_the_search() {
        let mut trials = 0;
        let error = SEARCH.run(|_| {
            trials += 1;
            if trials < 3 { Ok(1.0) } else { Err(SimulationError::Search("no device".into())) }
        });
        assert_eq!((error, trials), (Err(SimulationError::Search("no device".into())), 3));
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        for (search, what) in [
            (RateSearch { high: 0.0, ..SEARCH }, "highest rate"),
            (RateSearch { high: f64::INFINITY, ..SEARCH }, "highest rate"),
            (RateSearch { low: 2e6, ..SEARCH }, "highest rate"),
            (RateSearch { low: -1.0, ..SEARCH }, "highest rate"),
            (RateSearch { loss_ratio: 1.0, ..SEARCH }, "loss ratio"),
            (RateSearch { resolution: 0.0, ..SEARCH }, "resolution"),
        ] {
            let error = search.run(device(1.0)).expect_err("out of range").to_string();
            assert!(error.contains(what), "{error}");
        }
        for lost in [-0.1, 1.1, f64::NAN] {
            let error = SEARCH.run(|_| Ok::<_, SimulationError>(lost)).expect_err("no share").to_string();
            assert!(error.contains("the lost share"), "{error}");
        }
    }
}
