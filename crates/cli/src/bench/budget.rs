//! Time budget of a measurement, shared among its parts.

use std::time::{Duration, Instant};

/// The remaining time and the number of remaining parts.
pub(super) struct Budget {
    end: Instant,
    parts_left: u32,
    seconds: f64,
}

impl Budget {
    /// A budget for `parts` parts of `part_s` seconds each with some reserve, unless the user sets
    /// the total.
    pub(super) fn new(within_s: Option<f64>, parts: u32, part_s: f64) -> Self {
        /// Reserve for a busy machine.
        const ROOM: f64 = 1.2;
        let seconds = within_s.unwrap_or(f64::from(parts) * part_s * ROOM);
        Self { end: Instant::now() + Duration::from_secs_f64(seconds), parts_left: parts, seconds }
    }

    /// Deadline of the next part. Time that earlier parts did not use is shared among the remaining
    /// ones.
    pub(super) fn next(&mut self) -> Instant {
        let now = Instant::now();
        let share = self.end.saturating_duration_since(now) / self.parts_left.max(1);
        self.parts_left = self.parts_left.saturating_sub(1);
        now + share
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
        let mut budget = Budget::new(Some(1000.0), 4, 1.0);
        let shares: Vec<f64> = (0..4).map(|_| (budget.next() - began).as_secs_f64()).collect();
        // No part took any time, so each gets an equal share of all the time that is left.
        for (share, part) in shares.iter().zip([0.25, 1.0 / 3.0, 0.5, 1.0]) {
            assert!((share - 1000.0 * part).abs() < 100.0, "{share}");
        }
    }

    #[test]
    fn time_that_is_up_is_up_for_all() {
        let mut budget = Budget::new(Some(0.0), 2, 1.0);
        assert!(budget.next() <= Instant::now());
        assert!(budget.next() <= Instant::now());
    }

    #[test]
    fn durations_are_told_in_words() {
        let told = [0.2, 119.0, 299.5, 7200.0].map(duration);
        assert_eq!(told, ["1 s", "119 s", "5 min", "2.0 h"]);
    }
}
