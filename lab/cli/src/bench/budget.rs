//! Time budget of a measurement, shared among its parts.

use std::time::{Duration, Instant};

/// The remaining time, and what the remaining parts are expected to take of it.
pub(super) struct Budget {
    end: Instant,
    /// Expected duration of the remaining parts.
    left_s: f64,
    seconds: f64,
}

impl Budget {
    /// A budget for parts that are expected to take this long together, with some reserve, unless
    /// the user sets the total.
    pub(super) fn new(within_s: Option<f64>, expected_s: f64) -> Self {
        /// Reserve for a busy machine.
        const ROOM: f64 = 1.2;
        let seconds = within_s.unwrap_or(expected_s * ROOM);
        Self { end: Instant::now() + Duration::from_secs_f64(seconds), left_s: expected_s, seconds }
    }

    /// Deadline of the next part, which is expected to take `part_s`. Each part gets its share of
    /// the time that is left, so what earlier ones did not use is for the others.
    pub(super) fn next(&mut self, part_s: f64) -> Instant {
        let now = Instant::now();
        let share = if self.left_s > part_s { part_s / self.left_s } else { 1.0 };
        self.left_s -= part_s;
        now + self.end.saturating_duration_since(now).mul_f64(share)
    }

    /// Announces the time limit on standard error.
    pub(super) fn announce(&self, what: &str) {
        eprintln!("{what}: at most about {} (--within sets it).", duration(self.seconds));
    }
}

/// Formats a duration in rounded units.
fn duration(seconds: f64) -> String {
    let whole = seconds.ceil().max(1.0) as u64;
    match whole {
        0..120 => format!("{whole} s"),
        120..7200 => format!("{} min", whole.div_ceil(60)),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_part_leaves_is_for_the_others() {
        let began = Instant::now();
        let mut budget = Budget::new(Some(1000.0), 4.0);
        let shares: Vec<f64> = (0..4).map(|_| (budget.next(1.0) - began).as_secs_f64()).collect();
        // No part took any time, so each gets an equal share of all the time that is left.
        for (share, part) in shares.iter().zip([0.25, 1.0 / 3.0, 0.5, 1.0]) {
            assert!((share - 1000.0 * part).abs() < 100.0, "{share}");
        }
    }

    #[test]
    fn a_part_that_takes_longer_has_more_time_and_without_a_limit_each_has_what_it_takes() {
        let began = Instant::now();
        let mut budget = Budget::new(None, 1000.0);
        for part_s in [100.0, 700.0, 200.0] {
            assert!((budget.next(part_s) - began).as_secs_f64() > part_s, "{part_s}");
        }
    }

    #[test]
    fn time_that_is_up_is_up_for_all() {
        let mut budget = Budget::new(Some(0.0), 2.0);
        assert!(budget.next(1.0) <= Instant::now());
        assert!(budget.next(1.0) <= Instant::now());
    }

    #[test]
    fn durations_are_reported_in_words() {
        let reported = [0.2, 119.0, 299.5, 7200.0].map(duration);
        assert_eq!(reported, ["1 s", "119 s", "5 min", "2.0 h"]);
    }
}
