//! How long a worker polls before it sleeps: only while packets arrive close together.

/// Weight of the history in the moving average: (MEMORY - 1) / MEMORY.
const MEMORY: u64 = 4;

/// An adaptive polling time. Where packets arrive further apart than the longest time, the worker
/// does not poll at all, so that polling costs nothing at low load.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AdaptiveWait {
    longest_ns: u64,
    /// Moving average of recent waits.
    wait_ns: u64,
}

impl AdaptiveWait {
    /// Polls for at most `longest_ns`; 0 switches polling off.
    pub(crate) fn new(longest_ns: u64) -> Self {
        Self { longest_ns, wait_ns: 0 }
    }

    /// Whether polling is switched on.
    pub(crate) fn is_on(&self) -> bool {
        self.longest_ns > 0
    }

    /// How long to poll now, in ns; 0 if recent waits were too long for polling to pay.
    pub(crate) fn budget_ns(&self) -> u64 {
        if self.wait_ns <= self.longest_ns { self.longest_ns } else { 0 }
    }

    /// Records how long it took until there was work.
    pub(crate) fn note(&mut self, wait_ns: u64) {
        // Clamped, so that one long wait does not stop polling and one short wait does not start
        // it.
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
