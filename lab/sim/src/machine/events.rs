//! The event queue. Each part of a platform has at most one pending event, so the queue is an array
//! of times with one slot for each part, and the next event is the minimum. For the few parts of a
//! platform, scanning one or two cache lines is faster than a heap, and nothing is allocated.

use crate::time::NEVER;

/// Times by slot. At the same instant, the event of the lower slot comes first.
pub(crate) struct Events {
    times: Vec<u64>,
}

impl Events {
    /// A queue of `slots` slots, at least one, without events.
    pub(crate) fn new(slots: usize) -> Self {
        Self { times: vec![NEVER; slots.max(1)] }
    }

    /// Sets the event of a slot.
    #[inline]
    pub(crate) fn set(&mut self, slot: usize, time: u64) {
        self.times[slot] = time;
    }

    /// Time and slot of the next event; the time is [`NEVER`] if there is none.
    #[inline]
    pub(crate) fn next(&self) -> (u64, usize) {
        let (mut time, mut slot) = (self.times[0], 0);
        for (at, candidate) in self.times.iter().enumerate().skip(1) {
            // This compiles to conditional moves, since a branch predictor cannot learn which part
            // comes next.
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
