//! An in-process link between two ports; for tests and the demo.

use convoy_packet::{Frame, FramePool, Offload};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind, PortTraits, Queues, Side};

/// What holds for both ends of every link.
pub(crate) const TRAITS: PortTraits = PortTraits {
    side: Side::AsNamed,
    carries_udp: true,
    carries_native: true,
    carries_ike: true,
    queues: Queues::EachWorker,
    hears_reports: false,
    is_engine: false,
    why_alone: None,
    system_calls: &[],
};

/// One end of a link. Frames change hands; nothing is copied. A frame that came from the other end's pool goes back
/// there when it is given back.
pub struct Memory {
    description: PortDescription,
    counters: PortCounters,
    to_peer: Producer<Frame>,
    from_peer: Consumer<Frame>,
}

/// Two ports with a link of `capacity` packets each way between them; `mtu` is in bytes.
pub fn link(name_a: &str, name_b: &str, capacity: usize, mtu: usize) -> (Memory, Memory) {
    let (to_b, from_a) = RingBuffer::new(capacity);
    let (to_a, from_b) = RingBuffer::new(capacity);
    let end = |name: &str, to_peer, from_peer| Memory {
        description: PortDescription { name: name.to_owned(), kind: PortKind::Memory, mtu },
        counters: PortCounters::default(),
        to_peer,
        from_peer,
    };
    (end(name_a, to_b, from_b), end(name_b, to_a, from_a))
}

impl Port for Memory {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        _pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        burst.extend((0..limit).map_while(|_| self.from_peer.pop().ok()));
        // What the other end's devices did to it is not known on a wire.
        burst[before..].iter_mut().for_each(|frame| frame.set_offload(Offload::None));
        let received = &burst[before..];
        self.counters.received_packets += received.len() as u64;
        self.counters.received_bytes += received.iter().map(|frame| frame.len() as u64).sum::<u64>();
        Ok(received.len())
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len().min(self.to_peer.slots());
        for frame in burst.drain(..count) {
            if frame.len() > self.description.mtu {
                self.counters.send_dropped += 1;
                pool.give_back(frame);
                continue;
            }
            self.counters.sent_packets += 1;
            self.counters.sent_bytes += frame.len() as u64;
            if let Err(rtrb::PushError::Full(frame)) = self.to_peer.push(frame) {
                // Only this end pushes, so the slots that were counted are still free.
                pool.give_back(frame);
            }
        }
        Ok(count)
    }

    fn is_ended(&self) -> bool {
        self.from_peer.is_abandoned() && self.from_peer.is_empty()
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::FrameSize;

    #[test]
    fn what_one_end_sends_the_other_receives_in_order_and_the_frames_come_home() {
        let (mut a, mut b) = link("a", "b", 4, 1500);
        let (mut pool_a, mut pool_b) = (FramePool::new(8, 0), FramePool::new(8, 0));
        let mut burst: Vec<Frame> =
            (0..6u8).map(|byte| pool_a.take_filled(&[byte; 30], 0).expect("a frame")).collect();
        assert_eq!(a.send(&mut pool_a, &mut burst).expect("memory does not fail"), 4);
        assert_eq!(burst.len(), 2, "what has no room stays");
        let mut received = Vec::new();
        assert_eq!(b.receive(&mut pool_b, 64, &mut received).expect("memory does not fail"), 4);
        assert!(received.iter().zip(0..).all(|(frame, byte)| frame[0] == byte));
        pool_b.give_back_burst(&mut received);
        drop(burst);
        assert_eq!(pool_a.available(FrameSize::Small), 8);
        assert_eq!(pool_b.available(FrameSize::Small), 8);
    }

    #[test]
    fn a_packet_over_the_mtu_is_counted_and_goes_no_further() {
        let (mut a, mut b) = link("a", "b", 4, 20);
        let mut pool = FramePool::new(2, 0);
        let mut burst = vec![pool.take_filled(&[0; 21], 0).expect("a frame")];
        a.send(&mut pool, &mut burst).expect("memory does not fail");
        assert_eq!(a.counters().send_dropped, 1);
        assert_eq!(b.receive(&mut pool, 1, &mut burst).expect("memory does not fail"), 0);
    }
}
