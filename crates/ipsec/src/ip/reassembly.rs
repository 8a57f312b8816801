//! Reassembly of outer fragments before decapsulation (RFC 4303 section 3.4.1), with bounded
//! memory.
//!
//! A datagram is assembled in one frame, its payload at a fixed position: fragments are copied in
//! and returned to the pool at once. It starts in a jumbo frame and moves to a huge one when it
//! outgrows that; each source is limited to a share of the huge ones. Any overlap condemns the
//! datagram (RFC 5722, RFC 8200 section 4.5).

mod datagram;

use convoy_packet::ipv6::{Extension, FRAGMENT_BYTES};
use convoy_packet::protocol::{FRAGMENT, NO_NEXT_HEADER};
use convoy_packet::{Frame, FramePool, FrameSize, Layout, ip};

use crate::drops::{DropCounters, DropReason};
use datagram::{PAYLOAD_AT, PartialDatagram, Piece};

/// Limits of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// Datagrams in reassembly at once; each holds one frame.
    pub datagrams: usize,
    /// Datagrams in reassembly at once from one source address.
    pub per_source: usize,
    /// Datagrams that need a huge frame at once: above some 9,400 bytes.
    pub huge: usize,
    /// Datagrams that need a huge frame at once from one source address.
    pub huge_per_source: usize,
    /// How long a datagram may take, in ns from its first fragment.
    pub timeout_ns: u64,
}

impl Default for ReassemblyConfig {
    /// 64 datagrams, 16 from one source; of these 32 huge ones, 8 from one source, for 30 s: 2.6 MB
    /// in all, 0.6 MB from one source.
    fn default() -> Self {
        Self { datagrams: 64, per_source: 16, huge: 32, huge_per_source: 8, timeout_ns: 30_000_000_000 }
    }
}

/// What identifies the fragments of one datagram.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FragmentKey {
    source: u128,
    destination: u128,
    id: u32,
    /// Of IPv4 only; IPv6 fragments are identified without it.
    protocol: u8,
    is_v6: bool,
}

impl FragmentKey {
    fn of(packet: &[u8], layout: &Layout, id: u32) -> Self {
        let (source, destination) = layout.address_numbers(packet);
        let protocol = if layout.is_v6 { 0 } else { layout.protocol };
        Self { source, destination, id, protocol, is_v6: layout.is_v6 }
    }

    fn is_from_same_source(&self, other: &Self) -> bool {
        self.source == other.source && self.is_v6 == other.is_v6
    }
}

/// How many datagrams there may be.
#[derive(Clone, Copy)]
struct Shares {
    in_all: usize,
    per_source: usize,
}

/// One worker's datagrams in reassembly.
pub(crate) struct Reassembly {
    config: ReassemblyConfig,
    datagrams: Vec<PartialDatagram>,
}

impl Reassembly {
    pub(crate) fn new(config: ReassemblyConfig) -> Self {
        Self { config, datagrams: Vec::with_capacity(config.datagrams) }
    }

    /// Takes one fragment and returns the datagram if it is now complete. Losses are counted in
    /// `drops`, one per fragment.
    pub(crate) fn take_in(
        &mut self,
        now_ns: u64,
        frame: Frame,
        layout: &Layout,
        pool: &mut FramePool,
        drops: &mut DropCounters,
    ) -> Option<Frame> {
        let Some(fields) = layout.fragment else { return Some(frame) };
        if !fields.is_piece() {
            return strip_fragment_header(frame, layout, pool, drops);
        }
        let mut whole = match Piece::parse(&frame, *layout, fields) {
            Ok(piece) => self.place(now_ns, &frame, &piece, pool, drops),
            Err(reason) => {
                drops.count(reason);
                None
            }
        };
        if let Some(whole) = &mut whole {
            whole.set_received_ns(frame.received_ns());
        }
        pool.give_back(frame);
        whole
    }

    fn place(
        &mut self,
        now_ns: u64,
        packet: &[u8],
        piece: &Piece,
        pool: &mut FramePool,
        drops: &mut DropCounters,
    ) -> Option<Frame> {
        if self.find(&piece.key).is_none() {
            self.open(now_ns, piece.key, pool, drops)?;
        }
        if piece.frame_size() == FrameSize::Huge {
            self.widen(&piece.key, pool, drops);
        }
        let slot = self.find(&piece.key)?;
        let datagram = &mut self.datagrams[slot];
        if let Err(reason) = datagram.add(packet, piece) {
            drops.count(reason);
            if reason != DropReason::FragmentDuplicate {
                datagram.condemn(reason, pool, drops);
            }
            return None;
        }
        if !datagram.is_whole() {
            return None;
        }
        self.datagrams.swap_remove(slot).close(pool, drops)
    }

    fn find(&self, key: &FragmentKey) -> Option<usize> {
        self.datagrams.iter().position(|datagram| datagram.key == *key)
    }

    /// Makes room for a new datagram.
    fn open(
        &mut self,
        now_ns: u64,
        key: FragmentKey,
        pool: &mut FramePool,
        drops: &mut DropCounters,
    ) -> Option<()> {
        let limits = Shares { in_all: self.config.datagrams, per_source: self.config.per_source };
        if !self.make_way(limits, &key, |_| true, pool, drops) {
            drops.count(DropReason::ReassemblyLimit);
            return None;
        }
        let Some(mut frame) = pool.take(FrameSize::Jumbo) else {
            drops.count(DropReason::NoFrame);
            return None;
        };
        if frame.reset(PAYLOAD_AT).is_err() {
            drops.count(DropReason::NoRoom);
            pool.give_back(frame);
            return None;
        }
        let deadline_ns = now_ns.saturating_add(self.config.timeout_ns);
        self.datagrams.push(PartialDatagram::new(key, deadline_ns, frame));
        Some(())
    }

    /// Moves a datagram to a huge frame unless it is in one; condemns it if none is available.
    fn widen(&mut self, key: &FragmentKey, pool: &mut FramePool, drops: &mut DropCounters) {
        let is_huge = |datagram: &PartialDatagram| datagram.frame_size() == Some(FrameSize::Huge);
        let is_small = |datagram: &PartialDatagram| datagram.frame_size() == Some(FrameSize::Jumbo);
        if !self.find(key).is_some_and(|slot| is_small(&self.datagrams[slot])) {
            return;
        }
        let limits = Shares { in_all: self.config.huge, per_source: self.config.huge_per_source };
        let frame = if self.make_way(limits, key, is_huge, pool, drops) {
            pool.take(FrameSize::Huge).ok_or(DropReason::NoFrame)
        } else {
            Err(DropReason::ReassemblyLimit)
        };
        let Some(slot) = self.find(key) else { return };
        match frame {
            Ok(frame) => self.datagrams[slot].move_to(frame, pool),
            Err(reason) => self.datagrams[slot].condemn(reason, pool, drops),
        }
    }

    /// Makes room for one more datagram of those that `counts` counts, within the limits in all and
    /// for one source. The oldest is dropped: of its own source if that has used its share,
    /// otherwise of all. So anyone who fills the table, even in another's name, does not shut the
    /// others out. Returns `false` if the limits allow none.
    fn make_way(
        &mut self,
        limits: Shares,
        key: &FragmentKey,
        counts: fn(&PartialDatagram) -> bool,
        pool: &mut FramePool,
        drops: &mut DropCounters,
    ) -> bool {
        let counted = || self.datagrams.iter().filter(|datagram| counts(datagram));
        let of_source = counted().filter(|datagram| datagram.key.is_from_same_source(key)).count();
        let has_its_share = of_source >= limits.per_source;
        if !has_its_share && counted().count() < limits.in_all {
            return true;
        }
        let gives_way = |datagram: &PartialDatagram| {
            counts(datagram) && (!has_its_share || datagram.key.is_from_same_source(key))
        };
        let candidates = (0..self.datagrams.len()).filter(|slot| gives_way(&self.datagrams[*slot]));
        let Some(oldest) = candidates.min_by_key(|slot| self.datagrams[*slot].deadline_ns) else {
            return false;
        };
        self.datagrams.swap_remove(oldest).condemn(DropReason::ReassemblyLimit, pool, drops);
        true
    }

    /// Drops datagrams that were incomplete for too long; call once a burst.
    pub(crate) fn expire(&mut self, now_ns: u64, pool: &mut FramePool, drops: &mut DropCounters) {
        let mut slot = 0;
        while slot < self.datagrams.len() {
            if self.datagrams[slot].deadline_ns <= now_ns {
                self.datagrams.swap_remove(slot).condemn(DropReason::ReassemblyTimeout, pool, drops);
            } else {
                slot += 1;
            }
        }
    }

    /// Datagrams in reassembly.
    pub(crate) const fn len(&self) -> usize {
        self.datagrams.len()
    }
}

/// Removes the fragment header of a packet that is whole in spite of it (RFC 6946).
pub(crate) fn strip_fragment_header(
    mut frame: Frame,
    layout: &Layout,
    pool: &mut FramePool,
    drops: &mut DropCounters,
) -> Option<Frame> {
    frame[layout.next_header_at] = behind_fragment_header(&frame, layout);
    frame.copy_within(..layout.unfragmentable, FRAGMENT_BYTES);
    if frame.trim_front(FRAGMENT_BYTES).is_err() {
        drops.count(DropReason::MalformedOuter);
        pool.give_back(frame);
        return None;
    }
    ip::set_length(&mut frame);
    Some(frame)
}

/// The next header of an IPv6 packet's fragment header.
fn behind_fragment_header(packet: &[u8], layout: &Layout) -> u8 {
    Extension::parse(packet, FRAGMENT, layout.unfragmentable)
        .map_or(NO_NEXT_HEADER, |header| header.next_header)
}

#[cfg(test)]
mod tests;
