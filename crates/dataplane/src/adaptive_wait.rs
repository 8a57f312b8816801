//! A time that a worker spends on polling before it sleeps, only while packets come close together.

/// The weight of what was before the last wait is this part less one of it.
const MEMORY: u64 = 4;

/// A time to wait. Where packets come further apart than that, it is not spent at all, so that it
/// costs nothing at low load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdaptiveWait {
    longest_ns: u64,
    /// What waits have taken of late, on average.
    wait_ns: u64,
}

impl AdaptiveWait {
    /// Waiting for `longest_ns` at most; 0 is never.
    pub(crate) fn new(longest_ns: u64) -> Self {
        Self { longest_ns, wait_ns: 0 }
    }

    /// Whether it is ever done.
    pub(crate) fn is_on(&self) -> bool {
        self.longest_ns > 0
    }

    /// How long to wait now, in ns; 0 if waits have been too long for it to be worth while.
    pub(crate) fn budget_ns(&self) -> u64 {
        if self.wait_ns <= self.longest_ns { self.longest_ns } else { 0 }
    }

    /// Notes how long it took until there was something to do.
    pub(crate) fn note(&mut self, wait_ns: u64) {
        // One long wait does not end it, nor does one short wait begin it.
        let wait_ns = wait_ns.min(8 * self.longest_ns);
        self.wait_ns = (self.wait_ns * (MEMORY - 1) + wait_ns) / MEMORY;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_spent_while_packets_come_close_together_and_not_else() {
        let mut poll = AdaptiveWait::new(20_000);
        assert_eq!(poll.budget_ns(), 20_000);
        poll.note(50_000);
        assert_eq!(poll.budget_ns(), 20_000, "one long wait");
        (0..5).for_each(|_| poll.note(100_000_000));
        assert_eq!(poll.budget_ns(), 0);
        poll.note(1_000);
        assert_eq!(poll.budget_ns(), 0, "one short wait");
        (0..8).for_each(|_| poll.note(1_000));
        assert_eq!(poll.budget_ns(), 20_000, "close together again");
    }

    #[test]
    fn it_is_off_by_default() {
        assert!(!AdaptiveWait::default().is_on() && AdaptiveWait::new(1).is_on());
    }
}
