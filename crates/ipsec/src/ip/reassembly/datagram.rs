//! One datagram in reassembly: its bytes, and which of them have arrived.

use convoy_packet::{Fragment, Frame, FramePool, FrameSize, HEADROOM_BYTES, Layout, ip, ipv4};

use super::{FragmentKey, behind_fragment_header};
use crate::drops::{DropCounters, DropReason};
use crate::ip::tos::Ecn;

/// Fragments of one datagram, at most: the longest one, cut for IPv4's usual minimum MTU, 576, has
/// 119.
const FRAGMENTS: usize = 128;
/// Bytes kept for the header of the first fragment; longer headers are malformed here.
const HEADER_ROOM: usize = 128;
/// Offset of the payload in its frame, in bytes from the frame's start.
pub(super) const PAYLOAD_AT: usize = HEADROOM_BYTES + HEADER_ROOM;
/// The minimum payload of a fragment followed by others, in bytes: what a path of IPv4's smallest
/// MTU, 68, carries behind a 20-byte header.
const TINY_PAYLOAD: usize = 48;

const _: () = assert!(FrameSize::Huge.bytes() >= PAYLOAD_AT + u16::MAX as usize);

/// A parsed fragment.
pub(super) struct Piece {
    pub(super) key: FragmentKey,
    layout: Layout,
    fields: Fragment,
    /// First byte of its payload in the datagram, and one past the last.
    start: usize,
    end: usize,
    /// Position of its payload in the packet.
    payload_at: usize,
}

impl Piece {
    pub(super) fn parse(packet: &[u8], layout: Layout, fields: Fragment) -> Result<Self, DropReason> {
        let payload_at =
            layout.unfragmentable + if layout.is_v6 { convoy_packet::ipv6::FRAGMENT_BYTES } else { 0 };
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
        let key = FragmentKey::of(packet, &layout, fields.identification);
        Ok(Self { key, layout, fields, start, end, payload_at })
    }

    /// The size of frame that its datagram needs.
    pub(super) fn frame_size(&self) -> FrameSize {
        if PAYLOAD_AT + self.end <= FrameSize::Jumbo.bytes() { FrameSize::Jumbo } else { FrameSize::Huge }
    }
}

/// One datagram in reassembly.
pub(super) struct PartialDatagram {
    pub(super) key: FragmentKey,
    pub(super) deadline_ns: u64,
    /// The frame it is assembled in, or why it was condemned; then it only swallows what still
    /// arrives.
    frame: Result<Frame, DropReason>,
    header: [u8; HEADER_ROOM],
    /// 0 until the first fragment has arrived.
    header_len: usize,
    /// First byte and one past the last, per fragment.
    pieces: [(u16, u16); FRAGMENTS],
    count: usize,
    received: usize,
    /// The payload's length, known from the last fragment.
    total: Option<usize>,
    /// A bit per ECN field seen.
    ecn_met: u8,
}

impl PartialDatagram {
    /// An empty datagram in an empty frame with [`PAYLOAD_AT`] bytes of headroom.
    pub(super) fn new(key: FragmentKey, deadline_ns: u64, frame: Frame) -> Self {
        Self {
            key,
            deadline_ns,
            frame: Ok(frame),
            header: [0; HEADER_ROOM],
            header_len: 0,
            pieces: [(0, 0); FRAGMENTS],
            count: 0,
            received: 0,
            total: None,
            ecn_met: 0,
        }
    }

    /// The size of its frame; `None` if it was condemned.
    pub(super) fn frame_size(&self) -> Option<FrameSize> {
        self.frame.as_ref().ok().map(Frame::size)
    }

    /// Moves to a larger frame; the old one is returned to the pool.
    pub(super) fn move_to(&mut self, mut larger: Frame, pool: &mut FramePool) {
        let Ok(frame) = &mut self.frame else { return pool.give_back(larger) };
        let moved = larger.reset(PAYLOAD_AT).and_then(|()| larger.append(frame.len()).map(|_| ()));
        if moved.is_ok() {
            larger.copy_from_slice(frame);
            std::mem::swap(frame, &mut larger);
        }
        pool.give_back(larger);
    }

    /// Adds a fragment, or returns why it is lost.
    pub(super) fn add(&mut self, packet: &[u8], piece: &Piece) -> Result<(), DropReason> {
        let frame = self.frame.as_mut().map_err(|condemned| *condemned)?;
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
            frame.append(piece.end - frame.len()).map_err(|_| DropReason::NoRoom)?;
        }
        frame[piece.start..piece.end].copy_from_slice(body);
        self.note(packet, piece);
        Ok(())
    }

    fn note(&mut self, packet: &[u8], piece: &Piece) {
        self.pieces[self.count] = (piece.start as u16, piece.end as u16);
        self.count += 1;
        self.received += piece.end - piece.start;
        self.ecn_met |= 1 << (piece.layout.traffic_class & 3);
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

    pub(super) fn is_whole(&self) -> bool {
        self.total == Some(self.received) && self.header_len > 0
    }

    /// The complete datagram, with the first fragment's header before its payload; `None` if it is
    /// no valid packet.
    pub(super) fn close(mut self, pool: &mut FramePool, drops: &mut DropCounters) -> Option<Frame> {
        if let Err(reason) = self.make_whole() {
            self.condemn(reason, pool, drops);
        }
        self.frame.ok()
    }

    fn make_whole(&mut self) -> Result<(), DropReason> {
        let congested = self.ecn_met & 1 << Ecn::Ce as u8 != 0;
        if congested && self.ecn_met & 1 << Ecn::NotEct as u8 != 0 {
            return Err(DropReason::EcnCongestion);
        }
        let frame = self.frame.as_mut().map_err(|condemned| *condemned)?;
        // IPv6's length field would allow its header on top; the positions kept of packets here
        // would not.
        if self.header_len + frame.len() > usize::from(u16::MAX) {
            return Err(DropReason::FragmentTooMany);
        }
        let header = &self.header[..self.header_len];
        frame.prepend(header.len()).map_err(|_| DropReason::NoRoom)?.copy_from_slice(header);
        if congested {
            // ECN marks of any fragment count for the datagram (RFC 3168 section 5.3).
            let traffic_class = ip::traffic_class(frame) | Ecn::Ce as u8;
            ip::set_traffic_class(frame, traffic_class);
        }
        if !self.key.is_v6 {
            ipv4::set_fragment(frame, Fragment { identification: self.key.id, offset: 0, more: false });
        }
        ip::set_length(frame);
        Ok(())
    }

    /// Gives up: fragments that have arrived are counted as lost, and so will be those that still
    /// arrive.
    pub(super) fn condemn(&mut self, reason: DropReason, pool: &mut FramePool, drops: &mut DropCounters) {
        drops.add(reason, self.count as u64);
        self.count = 0;
        if let Ok(frame) = std::mem::replace(&mut self.frame, Err(reason)) {
            pool.give_back(frame);
        }
    }
}
