//! Reassembly of outer fragments before decapsulation (RFC 4303 section 3.4.1), with bounded memory.
//!
//! A datagram is put together in one jumbo frame, its payload at a fixed place: fragments are copied in
//! and go back to the pool at once. Any overlap condemns the datagram (RFC 5722, RFC 8200 section 4.5).

use convoy_packet::ipv6::{Extension, FRAGMENT_BYTES};
use convoy_packet::protocol::{FRAGMENT, NO_NEXT_HEADER};
use convoy_packet::{
    Fragment, Frame, FramePool, FrameSize, HEADROOM_BYTES, JUMBO_FRAME_BYTES, Layout, ip, ipv4,
};

use crate::drops::{DropCounters, DropReason};
use crate::tos::Ecn;

/// Fragments that one datagram may have.
const FRAGMENTS: usize = 64;
/// Bytes kept for the header of the first fragment; longer headers are malformed here.
const HEADER_ROOM: usize = 128;
/// The longest payload that is put together, in bytes.
const PAYLOAD_ROOM: usize = JUMBO_FRAME_BYTES - HEADROOM_BYTES - HEADER_ROOM;
/// The least payload of a fragment with others behind it, in bytes: what a path of IPv4's smallest MTU,
/// 68, carries behind a 20-byte header.
const TINY_PAYLOAD: usize = 48;

/// Limits of reassembly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReassemblyConfig {
    /// Datagrams that may be in reassembly at once; each holds one jumbo frame.
    pub datagrams: usize,
    /// Of these from one source address.
    pub per_source: usize,
    /// How long a datagram is waited for, in ns from its first fragment.
    pub timeout_ns: u64,
}

impl Default for ReassemblyConfig {
    /// 64 datagrams, 16 from one source, 30 s.
    fn default() -> Self {
        Self { datagrams: 64, per_source: 16, timeout_ns: 30_000_000_000 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    source: u128,
    destination: u128,
    id: u32,
    /// Of IPv4 only; IPv6 fragments are told apart without it.
    protocol: u8,
    is_v6: bool,
}

/// One datagram in reassembly.
struct Datagram {
    key: Key,
    deadline_ns: u64,
    /// Where it grows; `None` once it is condemned and only swallows what is still to come.
    frame: Option<Frame>,
    header: [u8; HEADER_ROOM],
    /// 0 until the first fragment is there.
    header_len: usize,
    /// First byte and the one past the last, per fragment.
    pieces: [(u16, u16); FRAGMENTS],
    count: usize,
    received: usize,
    /// The payload's length, known from the last fragment.
    total: Option<usize>,
    /// A bit per ECN field met.
    ecn_met: u8,
}

/// One worker's datagrams in reassembly.
pub(crate) struct Reassembly {
    config: ReassemblyConfig,
    datagrams: Vec<Datagram>,
}

/// One fragment, taken apart.
struct Piece {
    key: Key,
    layout: Layout,
    fields: Fragment,
    /// First byte of its payload in the datagram and the one past the last.
    start: usize,
    end: usize,
    /// Where its payload stands in the packet.
    payload_at: usize,
}

impl Piece {
    fn parse(packet: &[u8], layout: Layout, fields: Fragment) -> Result<Self, DropReason> {
        let payload_at = layout.unfragmentable + if layout.is_v6 { FRAGMENT_BYTES } else { 0 };
        let len = layout.total_len.checked_sub(payload_at).ok_or(DropReason::FragmentMalformed)?;
        let start = fields.offset;
        let end = start + len;
        let uneven = fields.more && len % 8 != 0;
        if len == 0 || uneven || end > usize::from(u16::MAX) || layout.unfragmentable > HEADER_ROOM {
            return Err(DropReason::FragmentMalformed);
        }
        if fields.more && len < TINY_PAYLOAD {
            return Err(DropReason::FragmentTiny);
        }
        if end > PAYLOAD_ROOM {
            return Err(DropReason::FragmentTooMany);
        }
        let (source, destination) = layout.address_numbers(packet);
        let protocol = if layout.is_v6 { 0 } else { layout.protocol };
        let key = Key { source, destination, id: fields.identification, protocol, is_v6: layout.is_v6 };
        Ok(Self { key, layout, fields, start, end, payload_at })
    }
}

impl Reassembly {
    pub(crate) fn new(config: ReassemblyConfig) -> Self {
        Self { config, datagrams: Vec::with_capacity(config.datagrams) }
    }

    /// Takes one fragment and returns the datagram if that made it whole. Losses are counted in `drops`,
    /// one per fragment.
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
        let known = self.datagrams.iter().position(|datagram| datagram.key == piece.key);
        let slot = match known {
            Some(slot) => slot,
            None => self.open(now_ns, piece.key, pool, drops)?,
        };
        let datagram = &mut self.datagrams[slot];
        if let Err(reason) = datagram.add(packet, piece) {
            drops.count(reason);
            if matches!(reason, DropReason::FragmentOverlap | DropReason::FragmentTooMany) {
                datagram.condemn(reason, pool, drops);
            }
            return None;
        }
        if !datagram.is_whole() {
            return None;
        }
        let mut datagram = self.datagrams.swap_remove(slot);
        match datagram.close() {
            Ok(frame) => Some(frame),
            Err(reason) => {
                datagram.condemn(reason, pool, drops);
                None
            }
        }
    }

    /// A place for a new datagram. The oldest makes room for it: of its own source, if that has its share, else
    /// of all. So whoever fills the table, be it in another's name, does not shut the others out.
    fn open(
        &mut self,
        now_ns: u64,
        key: Key,
        pool: &mut FramePool,
        drops: &mut DropCounters,
    ) -> Option<usize> {
        let same_source =
            |datagram: &Datagram| datagram.key.source == key.source && datagram.key.is_v6 == key.is_v6;
        let of_source = self.datagrams.iter().filter(|datagram| same_source(datagram)).count();
        let has_its_share = of_source >= self.config.per_source;
        if has_its_share || self.datagrams.len() >= self.config.datagrams {
            let oldest = (0..self.datagrams.len())
                .filter(|slot| !has_its_share || same_source(&self.datagrams[*slot]))
                .min_by_key(|slot| self.datagrams[*slot].deadline_ns);
            let Some(oldest) = oldest else {
                drops.count(DropReason::ReassemblyLimit);
                return None;
            };
            self.datagrams.swap_remove(oldest).condemn(DropReason::ReassemblyLimit, pool, drops);
        }
        let Some(mut frame) = pool.take(FrameSize::Jumbo) else {
            drops.count(DropReason::NoFrame);
            return None;
        };
        if frame.reset(HEADROOM_BYTES + HEADER_ROOM).is_err() {
            drops.count(DropReason::NoRoom);
            pool.give_back(frame);
            return None;
        }
        self.datagrams.push(Datagram {
            key,
            deadline_ns: now_ns.saturating_add(self.config.timeout_ns),
            frame: Some(frame),
            header: [0; HEADER_ROOM],
            header_len: 0,
            pieces: [(0, 0); FRAGMENTS],
            count: 0,
            received: 0,
            total: None,
            ecn_met: 0,
        });
        Some(self.datagrams.len() - 1)
    }

    /// Drops what was not whole in time; to be called once a burst.
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

impl Datagram {
    fn add(&mut self, packet: &[u8], piece: &Piece) -> Result<(), DropReason> {
        let frame = self.frame.as_mut().ok_or(DropReason::FragmentOverlap)?;
        let body = &packet[piece.payload_at..piece.layout.total_len];
        for (start, end) in self.pieces[..self.count].iter().map(|(a, b)| (usize::from(*a), usize::from(*b)))
        {
            if piece.start < end && start < piece.end {
                let same = (start, end) == (piece.start, piece.end) && frame[start..end] == *body;
                return Err(if same { DropReason::FragmentDuplicate } else { DropReason::FragmentOverlap });
            }
        }
        let past_the_end = match (self.total, piece.fields.more) {
            (Some(total), true) => piece.end > total,
            (Some(_), false) => true,
            (None, true) => false,
            (None, false) => self.pieces[..self.count].iter().any(|(_, end)| usize::from(*end) > piece.end),
        };
        if past_the_end {
            return Err(DropReason::FragmentOverlap);
        }
        if self.count == FRAGMENTS {
            return Err(DropReason::FragmentTooMany);
        }
        if frame.len() < piece.end {
            frame.append(piece.end - frame.len()).map_err(|_| DropReason::FragmentTooMany)?;
        }
        frame[piece.start..piece.end].copy_from_slice(body);
        self.note(packet, piece);
        Ok(())
    }

    fn note(&mut self, packet: &[u8], piece: &Piece) {
        self.pieces[self.count] = (piece.start as u16, piece.end as u16);
        self.count += 1;
        self.received += piece.end - piece.start;
        self.ecn_met |= 1 << (piece.layout.octet & 3);
        if !piece.fields.more {
            self.total = Some(piece.end);
        }
        if piece.start == 0 {
            self.header_len = piece.layout.unfragmentable;
            self.header[..self.header_len].copy_from_slice(&packet[..self.header_len]);
            if piece.layout.is_v6 {
                self.header[piece.layout.next_header_at] = behind_fragment_header(packet, &piece.layout);
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.total == Some(self.received) && self.header_len > 0
    }

    /// Puts the first fragment's header before the payload.
    fn close(&mut self) -> Result<Frame, DropReason> {
        let congested = self.ecn_met & 1 << Ecn::Ce as u8 != 0;
        if congested && self.ecn_met & 1 << Ecn::NotEct as u8 != 0 {
            return Err(DropReason::EcnCongestion);
        }
        let len = self.header_len;
        let Some(mut frame) = self.frame.take() else { return Err(DropReason::FragmentOverlap) };
        match frame.prepend(len) {
            Ok(room) => room.copy_from_slice(&self.header[..len]),
            Err(_) => {
                self.frame = Some(frame);
                return Err(DropReason::NoRoom);
            }
        }
        if congested {
            // What any fragment met counts for all (RFC 3168 section 5.3).
            let octet = ip::traffic_class(&frame) | Ecn::Ce as u8;
            ip::set_traffic_class(&mut frame, octet);
        }
        if !self.key.is_v6 {
            ipv4::set_fragment(&mut frame, Fragment { identification: self.key.id, offset: 0, more: false });
        }
        ip::set_length(&mut frame);
        Ok(frame)
    }

    /// Gives up: what had come is counted as lost, and what is still to come will be.
    fn condemn(&mut self, reason: DropReason, pool: &mut FramePool, drops: &mut DropCounters) {
        drops.add(reason, self.count as u64);
        self.count = 0;
        if let Some(frame) = self.frame.take() {
            pool.give_back(frame);
        }
    }
}

/// Takes the fragment header out of a packet that is whole in spite of it (RFC 6946).
fn strip_fragment_header(
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

/// The number of what follows an IPv6 packet's fragment header.
fn behind_fragment_header(packet: &[u8], layout: &Layout) -> u8 {
    Extension::parse(packet, FRAGMENT, layout.unfragmentable)
        .map_or(NO_NEXT_HEADER, |header| header.next_header)
}

#[cfg(test)]
#[path = "reassembly_tests.rs"]
mod tests;
