//! The ingress queue. If the source does not wait, packets that arrive while the platform has no
//! room stand in this queue, or are lost if it is full.

use std::collections::VecDeque;

use super::stage::Single;
use super::{Carried, Machine, Observer};
use crate::platform::SourceSpec;
use crate::traffic::{Traffic, TrafficError};

/// A finite queue, and counters of the packets that it dropped.
pub(crate) struct Ingress {
    queue: VecDeque<Single>,
    /// Bytes `b` of the packets in the queue.
    bytes: u64,
    packets_max: usize,
    bytes_max: u64,
    pub(crate) dropped_packets: u64,
    /// Bytes `b` of the dropped packets.
    pub(crate) dropped_bytes: u64,
}

impl Ingress {
    /// The queue of this source, if it has one.
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

    /// Appends a packet, or drops it if the queue is full.
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
    /// Handles the arrival of the next packet. The source's clock goes on whether the packet is
    /// dropped or not.
    pub(super) fn arrive_or_drop(&mut self) -> Result<(), TrafficError> {
        self.now = self.arrival;
        let Some(packet) = self.source.next() else { return Ok(()) };
        let carried = Carried { arrived_ticks: self.now, bytes: packet.payload_bytes, class: packet.class };
        let single = Single { sa: packet.sa, carried };
        self.source.advance()?;
        self.source.stands_since = self.now;
        self.arrival = self.source.next().map_or(crate::time::NEVER, |next| self.now + next.gap_ticks);
        let Some(ingress) = &mut self.ingress else { return Ok(()) };
        // A packet that finds room in the platform needs no place in the queue, so that a queue of
        // 0 packets is possible.
        if ingress.is_empty() && self.has_room(single.carried.class) {
            self.enter(single);
        } else if let Some(ingress) = &mut self.ingress {
            ingress.push(single);
        }
        Ok(())
    }

    /// Runs the scheduler, and admits packets from the queue one at a time, as if each arrived at a
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
        // The second packet exceeds 100 bytes in total, and the last one is the fourth packet.
        assert_eq!((ingress.dropped_packets, ingress.dropped_bytes), (2, 50));
        assert_eq!(ingress.pop().map(|it| it.carried.bytes), Some(60));
        ingress.push(single(60));
        assert_eq!((ingress.dropped_packets, ingress.queue.len(), ingress.bytes), (2, 3, 100));
        assert!(Ingress::of(&SourceSpec::default()).is_none());
    }
}
