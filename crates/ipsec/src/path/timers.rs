//! Timers: a call visits only those SAs whose time has come.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A timer for an SA, which an `S` identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Timer<S> {
    /// In ns.
    pub(crate) due_ns: u64,
    pub(crate) sa: S,
    /// The generation: counts the SAs that had the index one after another.
    pub(crate) generation: u32,
}

/// Timers, the next first. Those of removed SAs stay until they are due or [swept](Timers::sweep).
pub(crate) struct Timers<S> {
    heap: BinaryHeap<Reverse<Timer<S>>>,
    /// The number at which a sweep is due.
    crowded: usize,
}

/// Below this many they are never swept.
const FEW: usize = 64;

impl<S: Ord> Default for Timers<S> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), crowded: 0 }
    }
}

impl<S: Ord> Timers<S> {
    pub(crate) fn set(&mut self, timer: Timer<S>) {
        self.heap.push(Reverse(timer));
    }

    /// Removes and returns the next timer due at `now_ns`.
    pub(crate) fn pop(&mut self, now_ns: u64) -> Option<Timer<S>> {
        let Reverse(next) = self.heap.peek()?;
        if next.due_ns > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse(timer)| timer)
    }

    /// Removes timers for which `is_alive` is false whenever there are twice as many as were alive
    /// the last time, so that short-lived SAs do not fill the memory.
    pub(crate) fn sweep(&mut self, mut is_alive: impl FnMut(&Timer<S>) -> bool) {
        if self.heap.len() >= self.crowded.max(FEW) {
            self.heap.retain(|Reverse(timer)| is_alive(timer));
            self.crowded = 2 * self.heap.len();
        }
    }

    /// The number of timers.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(due_ns: u64, generation: u32) -> Timer<u32> {
        Timer { due_ns, sa: 0, generation }
    }

    #[test]
    fn what_is_due_comes_in_the_order_of_its_time() {
        let mut timers = Timers::default();
        [30, 10, 20].into_iter().for_each(|due_ns| timers.set(timer(due_ns, 1)));
        assert_eq!(timers.pop(9), None);
        assert_eq!(
            [25, 25, 25].map(|now_ns| timers.pop(now_ns).map(|timer| timer.due_ns)),
            [Some(10), Some(20), None]
        );
        assert_eq!(timers.len(), 1);
    }

    #[test]
    fn timers_of_what_is_gone_do_not_add_up() {
        let mut timers = Timers::default();
        for generation in 0..100_000 {
            timers.set(timer(u64::MAX, generation));
            timers.sweep(|timer| timer.generation + 100 > generation);
            assert!(timers.len() <= 256, "{} timers", timers.len());
        }
    }
}
