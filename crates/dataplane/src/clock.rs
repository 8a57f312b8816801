//! The time of a gateway: the machine's, or one that a simulation advances.

mod machine;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Monotonic time of one gateway, in ns since its start. Every worker has a copy.
#[derive(Clone, Debug)]
pub struct Clock(ClockSource);

#[derive(Clone, Debug)]
enum ClockSource {
    /// The machine's time at the gateway's start.
    Machine(u64),
    Virtual(VirtualTime),
}

impl Clock {
    /// A clock of the machine that reads 0 now.
    pub fn start() -> Self {
        Self(ClockSource::Machine(machine::now_ns()))
    }

    /// Now, in ns.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        match &self.0 {
            // Another thread, whose time is slightly ahead, may have started the clock.
            ClockSource::Machine(start_ns) => machine::now_ns().saturating_sub(*start_ns),
            ClockSource::Virtual(time) => time.now_ns(),
        }
    }
}

/// Time that passes only when advanced. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct VirtualTime(Arc<AtomicU64>);

impl VirtualTime {
    /// Time that starts at 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that reads this time.
    pub fn clock(&self) -> Clock {
        Clock(ClockSource::Virtual(self.clone()))
    }

    /// Now, in ns.
    pub fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Advances the time to `now_ns`.
    ///
    /// # Panics
    /// If `now_ns` is in the past.
    pub fn advance_to(&self, now_ns: u64) {
        let before = self.0.swap(now_ns, Ordering::Relaxed);
        assert!(before <= now_ns, "time went back from {before} to {now_ns} ns");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_passes_for_all_of_its_clocks_and_only_when_it_is_ordered_to() {
        let time = VirtualTime::new();
        let clocks = [time.clock(), time.clock().clone()];
        time.advance_to(7);
        std::thread::sleep(std::time::Duration::from_millis(1));
        assert_eq!(clocks.map(|clock| clock.now_ns()), [7, 7]);
    }

    #[test]
    #[should_panic(expected = "time went back from 7 to 6 ns")]
    fn virtual_time_never_goes_back() {
        let time = VirtualTime::new();
        time.advance_to(7);
        time.advance_to(6);
    }
}
