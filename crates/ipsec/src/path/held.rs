//! Authentic packets above the sequence numbers that may be accepted so far: they wait until more
//! are reserved, for a limited time.

use std::collections::VecDeque;

use convoy_packet::{Frame, FramePool};

use super::inbound::Inbound;
use super::tables::Tables;
use crate::drops::DropReason;
use crate::esp::job::CryptoPacket;
use crate::sa::id::InboundId;

/// Packets that may wait, at most: they bound the time in which all are tried again.
const MOST: usize = 512;
/// The longest time that a packet waits, in ns: the store of a cluster answers within some
/// milliseconds, and later the packet would be of no use.
const LONGEST_NS: u64 = 100_000_000;

/// Packets that wait, in the order in which they came.
#[derive(Debug)]
pub(super) struct Held {
    packets: VecDeque<(u64, CryptoPacket)>,
    /// When they are tried again; `u64::MAX` if none waits.
    due_ns: u64,
    /// Whether some have begun to wait since it was last asked.
    is_news: bool,
}

impl Default for Held {
    fn default() -> Self {
        Self { packets: VecDeque::new(), due_ns: u64::MAX, is_news: false }
    }
}

impl Held {
    pub(super) fn due_ns(&self) -> u64 {
        self.due_ns
    }

    /// Keeps a packet, or returns it if there is no room: as long as more than half of the worker's
    /// frames of its size are free, since without frames nothing is received.
    #[cold]
    pub(super) fn keep(
        &mut self,
        since_ns: u64,
        packet: CryptoPacket,
        pool: &FramePool,
    ) -> Option<CryptoPacket> {
        let size = packet.frame.size();
        if self.packets.len() >= MOST || !pool.has_more_than(size, pool.total(size) / 2) {
            return Some(packet);
        }
        self.put_back(since_ns, packet);
        self.is_news = true;
        None
    }

    /// Keeps a packet that has waited already.
    fn put_back(&mut self, since_ns: u64, packet: CryptoPacket) {
        self.packets.push_back((since_ns, packet));
        self.due_ns = self.due_ns.min(since_ns.saturating_add(LONGEST_NS));
    }
}

impl Tables {
    /// An authentic number above those reserved has come.
    #[cold]
    pub(super) fn note_unreserved(&mut self, id: InboundId, sequence: u64) {
        if let Some(cold) = self.sad.inbound.cold_mut(id.0) {
            cold.highest_unreserved = cold.highest_unreserved.max(sequence);
        }
        self.note_held(id.into());
    }
}

impl Inbound {
    /// Whether packets have begun to wait for numbers to be reserved since the last call.
    #[inline]
    pub fn has_held_more(&mut self) -> bool {
        std::mem::take(&mut self.held.is_news)
    }

    /// Has packets that wait for numbers tried again by the next
    /// [`give_up_payloads`](Self::give_up_payloads): more numbers are reserved.
    pub fn retry_held(&mut self) {
        if !self.held.packets.is_empty() {
            self.held.due_ns = 0;
        }
    }

    /// Tries all packets that wait again, and drops those that have waited too long.
    #[cold]
    pub(super) fn try_held(
        &mut self,
        tables: &mut Tables,
        now_ns: u64,
        pool: &mut FramePool,
        out: &mut Vec<Frame>,
    ) {
        let packets = std::mem::take(&mut self.held.packets);
        self.held.due_ns = u64::MAX;
        for (since_ns, packet) in packets {
            let sa = packet.sa.inbound().and_then(|id| tables.sad.inbound.hot(id.0));
            let waits = sa.is_some_and(|sa| {
                sa.generation == packet.context.generation
                    && sa.replay().is_unreserved(packet.context.sequence)
            });
            if !waits {
                self.finish_any(tables, now_ns, pool, packet, out);
            } else if now_ns.saturating_sub(since_ns) >= LONGEST_NS {
                tables.drop_frame(pool, packet.frame, Some(packet.sa), DropReason::InboundUnreserved);
            } else {
                self.held.put_back(since_ns, packet);
                // What was granted did not reach it.
                self.held.is_news = true;
            }
        }
    }

    /// Drops all packets that wait: no more numbers will be reserved.
    pub fn give_up_held(&mut self, tables: &mut Tables, pool: &mut FramePool) {
        for (_, packet) in std::mem::take(&mut self.held).packets {
            tables.drop_frame(pool, packet.frame, Some(packet.sa), DropReason::InboundUnreserved);
        }
    }
}
