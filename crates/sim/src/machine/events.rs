//! The event queue. Every part of a platform has at most one event ahead of it, so the queue is an
//! array of times, one slot a part, and the next event is its least. For the few parts of a
//! platform a scan of one or two cache lines beats any heap, and nothing is ever allocated.

use crate::time::NEVER;

/// Times by slot. At one instant lower slots go first.
pub(crate) struct Events {
    times: Vec<u64>,
}

impl Events {
    /// Nothing ahead of any of `slots` parts; there is at least one.
    pub(crate) fn new(slots: usize) -> Self {
        Self { times: vec![NEVER; slots.max(1)] }
    }

    /// Sets a slot's only event.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, time: u64) {
        self.times[slot] = time;
    }

    /// The next event's time and slot; [`NEVER`] when nothing is ahead.
    #[inline]
    pub(crate) fn next(&self) -> (u64, usize) {
        let (mut time, mut slot) = (self.times[0], 0);
        for (at, candidate) in self.times.iter().enumerate().skip(1) {
            // Compiles to conditional moves: which part is next is nothing that a branch predictor
            // could learn.
            (time, slot) = if *candidate < time { (*candidate, at) } else { (time, slot) };
        }
        (time, slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_at_one_instant_in_order_of_slot() {
        let mut events = Events::new(4);
        for (slot, time) in [(3, 5), (1, 7), (2, 5)] {
            events.set(slot, time);
        }
        let order = std::iter::from_fn(|| {
            let (time, slot) = events.next();
            events.set(slot, NEVER);
            (time != NEVER).then_some((time, slot))
        });
        assert_eq!(order.collect::<Vec<_>>(), [(5, 2), (5, 3), (7, 1)]);
    }
}
