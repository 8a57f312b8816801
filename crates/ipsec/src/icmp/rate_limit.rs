//! A rate limit by the generic cell rate algorithm: one number of state.

/// A rate per second, and a burst.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RateLimit {
    interval_ns: u64,
    burst_ns: u64,
    /// When the next would be due if all were evenly spaced.
    due_ns: u64,
}

impl RateLimit {
    /// `per_second` on average, `burst` at once; neither is 0.
    pub(crate) const fn new(per_second: u32, burst: u32) -> Self {
        let interval_ns = 1_000_000_000 / if per_second == 0 { 1 } else { per_second as u64 };
        Self { interval_ns, burst_ns: interval_ns * burst as u64, due_ns: 0 }
    }

    /// Whether one more is allowed at `now_ns`; if so, it is counted.
    pub(crate) fn admits(&mut self, now_ns: u64) -> bool {
        let due_ns = self.due_ns.max(now_ns) + self.interval_ns;
        let admitted = due_ns - now_ns <= self.burst_ns;
        if admitted {
            self.due_ns = due_ns;
        }
        admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_rate_holds() {
        let mut limit = RateLimit::new(10, 3);
        let passed = (0..10).filter(|_| limit.admits(5_000_000_000)).count();
        assert_eq!(passed, 3);
        let passed = (0..1_000u64).filter(|ms| limit.admits(5_000_000_000 + ms * 1_000_000)).count();
        assert_eq!(passed, 9, "one every 100 ms of the second that follows");
    }
}
