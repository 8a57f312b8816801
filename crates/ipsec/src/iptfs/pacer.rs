//! A constant rate of payloads (RFC 9347 section 2.4.1): when the next one leaves, and what waits
//! for its turn.

use std::collections::{VecDeque, vec_deque};

use super::payload::Payload;

/// Payloads that leave at once, at most: beyond that, a worker that was busy or asleep does not
/// catch up.
const MOST_AT_ONCE: u64 = 32;
/// Payloads that wait, at most: each has a frame of the worker's.
const MOST_WAITING: usize = 1024;

/// Payloads that are to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) payloads: u64,
    /// Those whose time has passed.
    pub(super) missed: u64,
}

/// The queue of one SA, and the time of its next payload.
#[derive(Debug)]
pub(super) struct Pacer {
    /// Payloads a second.
    rate: u32,
    /// The time from which payloads are counted, in ns; `None` before the first.
    began_ns: Option<u64>,
    /// Payloads since then.
    sent: u64,
    waiting: VecDeque<Payload>,
    waiting_bytes: usize,
    most_bytes: usize,
}

impl Pacer {
    /// A rate of `rate` payloads a second, above 0, and a queue of `most_bytes`.
    pub(super) fn new(rate: u32, most_bytes: u32) -> Self {
        Self {
            rate,
            began_ns: None,
            sent: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            most_bytes: most_bytes as usize,
        }
    }

    /// Whether a packet of `len` bytes may join the queue.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.waiting.len() < MOST_WAITING && self.waiting_bytes + len <= self.most_bytes
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn queue(&mut self, payload: Payload) {
        self.waiting_bytes += payload.frame.len();
        self.waiting.push_back(payload);
    }

    pub(super) fn take(&mut self) -> Option<Payload> {
        let payload = self.waiting.pop_front()?;
        self.waiting_bytes -= payload.frame.len();
        Some(payload)
    }

    pub(super) fn take_all(&mut self) -> vec_deque::Drain<'_, Payload> {
        self.waiting_bytes = 0;
        self.waiting.drain(..)
    }

    /// When the next payload leaves, in ns; 0 before the first. Times are multiples of the interval
    /// from the start on, so that no rounding adds up.
    pub(super) fn next_ns(&self) -> u64 {
        let Some(began_ns) = self.began_ns else { return 0 };
        let since_ns = (u128::from(self.sent) * 1_000_000_000).div_ceil(self.rate.into());
        began_ns.saturating_add(since_ns.min(u64::MAX.into()) as u64)
    }

    /// The payloads whose time has come; they count as sent.
    pub(super) fn due(&mut self, now_ns: u64) -> Due {
        let began_ns = *self.began_ns.get_or_insert(now_ns);
        let elapsed_ns = u128::from(now_ns.saturating_sub(began_ns));
        let until_now = (elapsed_ns * u128::from(self.rate) / 1_000_000_000) as u64 + 1;
        let due = until_now.saturating_sub(self.sent);
        self.sent += due;
        let payloads = due.min(MOST_AT_ONCE);
        Due { payloads, missed: due - payloads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_due_at_multiples_of_the_interval() {
        let mut pacer = Pacer::new(3, 0);
        assert_eq!((pacer.next_ns(), pacer.due(1_000)), (0, Due { payloads: 1, missed: 0 }));
        assert_eq!(pacer.next_ns(), 1_000 + 333_333_334);
        assert_eq!(pacer.due(1_000 + 333_333_333), Due { payloads: 0, missed: 0 });
        assert_eq!(pacer.due(1_000 + 333_333_334), Due { payloads: 1, missed: 0 });
        assert_eq!(pacer.due(1_000 + 1_000_000_000), Due { payloads: 2, missed: 0 });
    }

    #[test]
    fn a_worker_that_slept_long_does_not_catch_up() {
        let mut pacer = Pacer::new(1_000_000, 0);
        pacer.due(0);
        assert_eq!(pacer.due(1_000_000), Due { payloads: MOST_AT_ONCE, missed: 1_000 - MOST_AT_ONCE });
        assert_eq!(pacer.due(1_000_000), Due { payloads: 0, missed: 0 });
        assert_eq!(pacer.next_ns(), 1_001_000);
    }
}
