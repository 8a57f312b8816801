//! The ingress queue: where the source does not wait, what arrives stands here until there is room
//! behind, or is lost.

use std::collections::VecDeque;

use super::stage::Single;
use super::{Carried, Machine, Observer};
use crate::platform::SourceSpec;
use crate::traffic::{Traffic, TrafficError};

/// A finite queue, and what it has dropped.
pub(crate) struct Ingress {
    queue: VecDeque<Single>,
    /// Of those that wait.
    bytes: u64,
    packets_max: usize,
    bytes_max: u64,
    pub(crate) dropped_packets: u64,
    /// Bytes `b` of these.
    pub(crate) dropped_bytes: u64,
}

impl Ingress {
    /// The queue of a source that has one.
    pub(crate) fn of(source: &SourceSpec) -> Option<Self> {
        source.is_lossy().then(|| Self {
            queue: VecDeque::new(),
            bytes: 0,
            packets_max: source.queue_packets.unwrap_or(usize::MAX),
            bytes_max: source.queue_bytes.unwrap_or(u64::MAX),
            dropped_packets: 0,
            dropped_bytes: 0,
        })
    }

    /// Puts a packet at the end, or drops it.
    fn push(&mut self, single: Single) {
        let bytes = u64::from(single.carried.bytes);
        if self.queue.len() < self.packets_max && self.bytes + bytes <= self.bytes_max {
            self.bytes += bytes;
            self.queue.push_back(single);
        } else {
            self.dropped_packets += 1;
            self.dropped_bytes += bytes;
        }
    }

    fn pop(&mut self) -> Option<Single> {
        let single = self.queue.pop_front()?;
        self.bytes -= u64::from(single.carried.bytes);
        Some(single)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Lets the packet arrive that is due. The source's clock goes on whatever becomes of it.
    pub(super) fn arrive_or_drop(&mut self) -> Result<(), TrafficError> {
        self.now = self.arrival;
        let Some(packet) = self.source.next() else { return Ok(()) };
        let carried = Carried { arrived_ticks: self.now, bytes: packet.payload_bytes, class: packet.class };
        let single = Single { sa: packet.sa, carried };
        self.source.advance()?;
        self.source.stands_since = self.now;
        self.arrival = self.source.next().map_or(crate::time::NEVER, |next| self.now + next.gap_ticks);
        let Some(ingress) = &mut self.ingress else { return Ok(()) };
        // A packet that finds room behind the queue does not need a place in it, even if that has
        // none.
        if ingress.is_empty() && self.has_room(single.carried.class) {
            self.enter(single);
        } else if let Some(ingress) = &mut self.ingress {
            ingress.push(single);
        }
        Ok(())
    }

    /// Schedules, and lets packets in from the queue one after the other, as they would arrive at a
    /// window that has room again.
    pub(super) fn schedule_and_let_in(&mut self) {
        loop {
            self.schedule();
            let class = self.ingress.as_ref().and_then(|it| it.queue.front()).map(|it| it.carried.class);
            if !class.is_some_and(|class| self.has_room(class)) {
                return;
            }
            let Some(single) = self.ingress.as_mut().and_then(Ingress::pop) else { return };
            self.enter(single);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn single(bytes: u32) -> Single {
        Single { sa: 0, carried: Carried { arrived_ticks: 0, bytes, class: 0 } }
    }

    #[test]
    fn a_queue_is_full_in_packets_or_in_bytes_whichever_comes_first() {
        let source = SourceSpec { queue_packets: Some(3), queue_bytes: Some(100), ..SourceSpec::default() };
        let mut ingress = Ingress::of(&source).expect("it has a queue");
        for bytes in [60, 50, 40, 0, 0] {
            ingress.push(single(bytes));
        }
        // 50 bytes more than 100, and the fourth packet.
        assert_eq!((ingress.dropped_packets, ingress.dropped_bytes), (2, 50));
        assert_eq!(ingress.pop().map(|it| it.carried.bytes), Some(60));
        ingress.push(single(60));
        assert_eq!((ingress.dropped_packets, ingress.queue.len(), ingress.bytes), (2, 3, 100));
        assert!(Ingress::of(&SourceSpec::default()).is_none());
    }
}
