//! A bad link's faults: a rate, a queue, delay, loss, duplication, reordering.

use std::collections::VecDeque;
use std::sync::Arc;

use convoy_packet::{Frame, FramePool};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Reads a monotonic clock in ns.
pub type ReadNs = Arc<dyn Fn() -> u64 + Send + Sync>;

/// The faults of packets that one end of a link receives. By default there are none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkFaults {
    /// The highest rate in packets per second; infinite for none.
    pub packets_per_second: f64,
    /// Packets that may wait at that rate; further ones are lost.
    pub queue_packets: usize,
    /// The additional delay of a packet, in ns.
    pub delay_ns: u64,
    /// The fraction of packets that is lost.
    pub loss: f64,
    /// The fraction of the others that arrives twice, the second time right behind the first.
    pub duplication: f64,
    /// The fraction of packets that others overtake.
    pub reordering: f64,
    /// How many packets overtake each of those; fewer if fewer follow.
    pub overtaken_by: u32,
    /// Selects the packets; the same seed and packets give the same selection.
    pub seed: u64,
}

impl Default for LinkFaults {
    fn default() -> Self {
        Self {
            packets_per_second: f64::INFINITY,
            queue_packets: usize::MAX,
            delay_ns: 0,
            loss: 0.0,
            duplication: 0.0,
            reordering: 0.0,
            overtaken_by: 1,
            seed: 1,
        }
    }
}

/// The faults of a link so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts {
    /// Packets that found the queue full.
    pub overflowed: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that others have overtaken.
    pub overtaken: u64,
}

/// An overtaken packet waits no longer than this for others, in ns.
const LONGEST_HOLD_NS: u64 = 10_000_000;

/// A packet that others overtake.
struct Overtaken {
    frame: Frame,
    still_to_pass: u32,
    at_latest_ns: u64,
}

/// A link with faults: the packets on it.
pub(super) struct FaultyLink {
    faults: LinkFaults,
    now: ReadNs,
    random: Xoshiro256PlusPlus,
    /// The arrival time of each packet, in order.
    on_the_way: VecDeque<(u64, Frame)>,
    held: Vec<Overtaken>,
    /// When the last packet passed the rate limit, in ns.
    clear_ns: f64,
    counts: FaultCounts,
}

impl FaultyLink {
    pub(super) fn new(faults: LinkFaults, now: ReadNs) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(faults.seed);
        let (on_the_way, held) = (VecDeque::new(), Vec::new());
        Self { faults, now, random, on_the_way, held, clear_ns: 0.0, counts: FaultCounts::default() }
    }

    pub(super) fn now_ns(&self) -> u64 {
        (self.now)()
    }

    pub(super) fn counts(&self) -> FaultCounts {
        self.counts
    }

    fn happens(&mut self, part: f64) -> bool {
        // 53 bits fit a float.
        part > 0.0 && (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64 <= part
    }

    /// Takes a packet that entered the link when its frame says.
    pub(super) fn enter(&mut self, frame: Frame, pool: &mut FramePool) {
        let entered_ns = frame.received_ns() as f64;
        let gap_ns = 1e9 / self.faults.packets_per_second;
        let waiting_ns = (self.clear_ns - entered_ns).max(0.0);
        if gap_ns > 0.0 && waiting_ns / gap_ns > self.faults.queue_packets as f64 {
            self.counts.overflowed += 1;
            return pool.give_back(frame);
        }
        self.clear_ns = self.clear_ns.max(entered_ns) + gap_ns;
        let arrives_ns = self.clear_ns as u64 + self.faults.delay_ns;
        if self.happens(self.faults.loss) {
            self.counts.lost += 1;
            return pool.give_back(frame);
        }
        if self.happens(self.faults.reordering) {
            self.counts.overtaken += 1;
            let (still_to_pass, at_latest_ns) = (self.faults.overtaken_by, arrives_ns + LONGEST_HOLD_NS);
            return self.held.push(Overtaken { frame, still_to_pass, at_latest_ns });
        }
        let copy = if self.happens(self.faults.duplication) { pool.take_filled(&frame, 0) } else { None };
        self.on_the_way.push_back((arrives_ns, frame));
        self.let_pass(arrives_ns);
        if let Some(copy) = copy {
            self.counts.duplicated += 1;
            self.on_the_way.push_back((arrives_ns, copy));
        }
    }

    /// One more packet has overtaken those that are held.
    fn let_pass(&mut self, arrives_ns: u64) {
        self.held.iter_mut().for_each(|held| held.still_to_pass -= 1);
        for held in self.held.extract_if(.., |held| held.still_to_pass == 0) {
            self.on_the_way.push_back((arrives_ns, held.frame));
        }
    }

    /// Hands out up to `limit` packets that have arrived.
    pub(super) fn leave(&mut self, limit: usize, burst: &mut Vec<Frame>) {
        let now_ns = self.now_ns();
        for held in self.held.extract_if(.., |held| held.at_latest_ns <= now_ns) {
            self.on_the_way.push_back((held.at_latest_ns, held.frame));
        }
        let has_arrived = |(arrives_ns, _): &&(u64, Frame)| *arrives_ns <= now_ns;
        let arrived = self.on_the_way.iter().take(limit).take_while(has_arrived).count();
        burst.extend(self.on_the_way.drain(..arrived).map(|(_, frame)| frame));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.on_the_way.is_empty() && self.held.is_empty()
    }
}
