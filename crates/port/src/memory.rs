//! An in-process link between two ports, with optional faults; for tests, the demo and
//! measurements.

mod faults;

use convoy_packet::{Frame, FramePool, Offload};
use rtrb::{Consumer, Producer, RingBuffer};

use crate::{Port, PortCounters, PortDescription, PortError, PortKind, PortSide, PortTraits, QueueCount};

/// Its kind, which no configuration names.
pub const KIND: PortKind = PortKind::unnamed("memory", &TRAITS);

/// Properties of both ends of every link.
const TRAITS: PortTraits = PortTraits {
    side: PortSide::AsNamed,
    carries_udp: true,
    carries_native: true,
    carries_ike: true,
    queues: QueueCount::EachWorker,
    hears_reports: false,
    is_engine: false,
    is_interface: false,
    uses_kernel_routes: false,
    is_beside_kernel: false,
    has_ike_socket: false,
    why_alone: None,
    system_calls: &[],
};

use faults::FaultyLink;
pub use faults::{FaultCounts, LinkFaults, ReadNs};

/// One end of a link. Frames change hands; nothing is copied. A frame from the other end's pool
/// returns there when it is released.
pub struct Memory {
    description: PortDescription,
    counters: PortCounters,
    to_peer: Producer<Frame>,
    from_peer: Consumer<Frame>,
    /// Reads the departure time of packets, for the faults at the other end.
    now: Option<ReadNs>,
    /// The faults of what this end receives.
    wire: Option<FaultyLink>,
}

/// Two ports with a link of `capacity` packets each way between them; `mtu` is in bytes.
pub fn link(name_a: &str, name_b: &str, capacity: usize, mtu: usize) -> (Memory, Memory) {
    let (to_b, from_a) = RingBuffer::new(capacity);
    let (to_a, from_b) = RingBuffer::new(capacity);
    let end = |name: &str, to_peer, from_peer| Memory {
        description: PortDescription { name: name.to_owned(), kind: KIND, mtu },
        counters: PortCounters::default(),
        to_peer,
        from_peer,
        now: None,
        wire: None,
    };
    (end(name_a, to_b, from_b), end(name_b, to_a, from_a))
}

/// Like [`link`], with faults each way: of what `b` receives, and of what `a` receives. `now` reads
/// the clock for delays.
pub fn faulty_link(
    name_a: &str,
    name_b: &str,
    capacity: usize,
    mtu: usize,
    [to_b, to_a]: [LinkFaults; 2],
    now: &ReadNs,
) -> (Memory, Memory) {
    let (a, b) = link(name_a, name_b, capacity, mtu);
    let with = |end: Memory, faults| Memory {
        now: Some(now.clone()),
        wire: Some(FaultyLink::new(faults, now.clone())),
        ..end
    };
    (with(a, to_a), with(b, to_b))
}

impl Memory {
    /// The faults injected into packets to this end.
    pub fn fault_counts(&self) -> FaultCounts {
        self.wire.as_ref().map(FaultyLink::counts).unwrap_or_default()
    }

    fn take(&mut self, pool: &mut FramePool, limit: usize, burst: &mut Vec<Frame>) {
        let Some(wire) = &mut self.wire else {
            let most = burst.len() + limit;
            while burst.len() < most
                && let Ok(frame) = self.from_peer.pop()
            {
                burst.push(frame);
            }
            return;
        };
        while let Ok(frame) = self.from_peer.pop() {
            wire.enter(frame, pool);
        }
        wire.leave(limit, burst);
    }
}

impl Port for Memory {
    fn description(&self) -> &PortDescription {
        &self.description
    }

    fn receive(
        &mut self,
        pool: &mut FramePool,
        limit: usize,
        burst: &mut Vec<Frame>,
    ) -> Result<usize, PortError> {
        let before = burst.len();
        self.take(pool, limit, burst);
        // A wire does not show what the other end's devices did to it.
        for frame in &mut burst[before..] {
            frame.set_offload(Offload::None);
            self.counters.received_bytes += frame.len() as u64;
        }
        let received = burst.len() - before;
        self.counters.received_packets += received as u64;
        Ok(received)
    }

    fn send(&mut self, pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<usize, PortError> {
        let count = burst.len().min(self.to_peer.slots());
        if let Some(now) = &self.now {
            let now_ns = now();
            burst[..count].iter_mut().for_each(|frame| frame.set_received_ns(now_ns));
        }
        for frame in burst.drain(..count) {
            if frame.len() > self.description.mtu {
                self.counters.send_dropped += 1;
                pool.give_back(frame);
                continue;
            }
            self.counters.count_sent(frame.len());
            if let Err(rtrb::PushError::Full(frame)) = self.to_peer.push(frame) {
                // Only this end pushes, so the counted slots are still free.
                pool.give_back(frame);
            }
        }
        Ok(count)
    }

    fn is_ended(&self) -> bool {
        let is_wire_empty = self.wire.as_ref().is_none_or(FaultyLink::is_empty);
        self.from_peer.is_abandoned() && self.from_peer.is_empty() && is_wire_empty
    }

    fn counters(&self) -> PortCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

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

    /// Sends numbered packets a microsecond apart, and returns which arrive when, in us.
    fn across(faults: LinkFaults, packets: u8) -> (Vec<(u64, u8)>, FaultCounts) {
        let time = Arc::new(AtomicU64::new(0));
        let clock = time.clone();
        let now: ReadNs = Arc::new(move || clock.load(Ordering::Relaxed));
        let (mut a, mut b) = faulty_link("a", "b", 8, 1500, [faults, LinkFaults::default()], &now);
        let (mut pool, mut burst, mut arrived) = (FramePool::new(512, 0), Vec::new(), Vec::new());
        for us in 0..20_000u64 {
            time.store(us * 1000, Ordering::Relaxed);
            if us < u64::from(packets) {
                burst.push(pool.take_filled(&[us as u8; 30], 0).expect("a frame"));
                a.send(&mut pool, &mut burst).expect("memory does not fail");
            }
            b.receive(&mut pool, 64, &mut burst).expect("memory does not fail");
            arrived.extend(burst.iter().map(|frame| (us, frame[0])));
            pool.give_back_burst(&mut burst);
        }
        assert_eq!(pool.available(FrameSize::Small), 512, "every frame comes home");
        (arrived, b.fault_counts())
    }

    #[test]
    fn a_link_has_its_delay_and_its_rate_and_loses_what_its_queue_has_no_room_for() {
        let (arrived, _) = across(LinkFaults { delay_ns: 7_000, ..LinkFaults::default() }, 3);
        assert_eq!(arrived, [(7, 0), (8, 1), (9, 2)]);
        // Every 4 us one leaves, and two others wait.
        let slow = LinkFaults { packets_per_second: 250_000.0, queue_packets: 2, ..LinkFaults::default() };
        let (arrived, counts) = across(slow, 40);
        assert_eq!(arrived[..3], [(4, 0), (8, 1), (12, 2)]);
        assert!(arrived.windows(2).all(|pair| pair[1].0 == pair[0].0 + 4));
        assert_eq!(counts.overflowed + arrived.len() as u64, 40);
        assert!((10..=13).contains(&arrived.len()), "{}", arrived.len());
    }

    #[test]
    fn a_link_loses_doubles_and_holds_back_so_many_as_it_counts() {
        let faults = LinkFaults {
            loss: 0.1,
            duplication: 0.2,
            reordering: 0.1,
            overtaken_by: 3,
            ..LinkFaults::default()
        };
        let (arrived, counts) = across(faults, 200);
        let FaultCounts { lost, duplicated, overtaken, overflowed } = counts;
        assert!(lost > 5 && duplicated > 10 && overtaken > 5 && overflowed == 0, "{counts:?}");
        assert_eq!(arrived.len() as u64, 200 - lost + duplicated);
        assert_eq!(across(faults, 200).0, arrived, "a seed repeats itself");
    }

    #[test]
    fn so_many_packets_overtake_as_the_link_says() {
        let faults = LinkFaults { reordering: 0.05, overtaken_by: 4, ..LinkFaults::default() };
        let (arrived, counts) = across(faults, 200);
        let numbers: Vec<u8> = arrived.iter().map(|(_, number)| *number).collect();
        let is_late = |at: &usize| numbers[..*at].iter().any(|earlier| *earlier > numbers[*at]);
        let late: Vec<usize> = (0..numbers.len()).filter(is_late).collect();
        assert_eq!(late.len() as u64, counts.overtaken);
        // Near the end fewer follow.
        for at in late.into_iter().filter(|at| numbers[*at] < 190) {
            let overtook = numbers[..at].iter().filter(|earlier| **earlier > numbers[at]).count();
            assert!((4..=8).contains(&overtook), "{overtook} overtook {}", numbers[at]);
        }
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
