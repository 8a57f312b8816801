//! Cuts a super-packet of the kernel into packets that fit the MTU: each segment goes straight into
//! its frame.

use convoy_packet::{Frame, FramePool, Layout, checksum, ip, ipv4, protocol, tcp, udp};

use super::TAILROOM;
use super::offload::{OffloadHeader, Segments};

const IDENTIFICATION_AT: usize = 4;
const SEQUENCE_AT: usize = 4;
/// Flags of the last segment alone, and of the first one.
const OF_THE_LAST: u8 = tcp::FIN | tcp::PSH;
const OF_THE_FIRST: u8 = tcp::CWR;

/// What is left to be cut off a packet or super-packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cut {
    /// `None` for a packet that is handed out unchanged.
    segments: Option<Segments>,
    /// Where the transport header starts, and where the payload does.
    transport: usize,
    payload: usize,
    /// Payload of each segment but the last, in bytes.
    segment_bytes: usize,
    /// From `at` on it is left, up to `end`.
    at: usize,
    end: usize,
    /// Segments that were cut off.
    count: u16,
}

/// The outcome for the next segment.
#[derive(Debug)]
pub(crate) enum NextSegment {
    /// It is in a frame.
    Frame(Frame),
    /// No frame was free; it stays.
    NoFrame,
    /// No frame is large enough; it is gone.
    TooLong,
}

impl Cut {
    /// Parses what was read, and completes the checksum of a packet that is whole. `None` if it is
    /// malformed.
    pub(crate) fn of(header: &OffloadHeader, packet: &mut [u8]) -> Option<Self> {
        let end = packet.len();
        let Some(segments) = header.segments else {
            if let Some((start, offset)) = header.checksum {
                complete_checksum(packet, start.into(), offset.into())?;
            }
            return Some(Self { end, payload: 0, segment_bytes: end.max(1), ..Self::default() });
        };
        let layout = Layout::parse(packet).ok().filter(|layout| layout.fragment.is_none())?;
        let transport = layout.payload;
        let (wanted, len) = match segments {
            Segments::TcpV4 | Segments::TcpV6 => (protocol::TCP, tcp::header_len(&packet[transport..])?),
            Segments::Udp => (protocol::UDP, udp::HEADER_BYTES),
        };
        let (payload, segment_bytes) = (transport + len, usize::from(header.segment_bytes));
        let is_good = layout.protocol == wanted && payload < end && segment_bytes > 0;
        is_good.then_some(Self {
            segments: Some(segments),
            transport,
            payload,
            segment_bytes,
            at: payload,
            end,
            count: 0,
        })
    }

    /// Whether nothing is left.
    pub(crate) fn is_done(&self) -> bool {
        self.at >= self.end
    }

    /// Cuts the next segment off `packet`.
    pub(crate) fn next(&mut self, packet: &[u8], pool: &mut FramePool) -> NextSegment {
        let bytes = self.segment_bytes.min(self.end - self.at);
        let len = self.payload + bytes;
        let Some(size) = pool.size_for(len, TAILROOM) else {
            self.advance(bytes);
            return NextSegment::TooLong;
        };
        let Some(mut frame) = pool.take(size) else { return NextSegment::NoFrame };
        let Ok(place) = frame.append(len) else {
            pool.give_back(frame);
            self.advance(bytes);
            return NextSegment::TooLong;
        };
        let (headers, payload) = place.split_at_mut(self.payload);
        headers.copy_from_slice(&packet[..self.payload]);
        payload.copy_from_slice(&packet[self.at..self.at + bytes]);
        if let Some(segments) = self.segments {
            self.fit_headers(segments, place);
        }
        self.advance(bytes);
        NextSegment::Frame(frame)
    }

    fn advance(&mut self, bytes: usize) {
        self.at += bytes;
        self.count = self.count.wrapping_add(1);
    }

    /// Adapts the super-packet's headers to the next segment.
    fn fit_headers(&self, segments: Segments, packet: &mut [u8]) {
        if !ip::is_v6(packet) {
            add16(packet, IDENTIFICATION_AT, self.count);
            ipv4::set_total_length(packet, packet.len() as u16);
            ipv4::fill_checksum(packet);
        } else {
            ip::set_length(packet);
        }
        let len = packet.len() - self.transport;
        match segments {
            Segments::TcpV4 | Segments::TcpV6 => {
                let is_last = self.at + self.segment_bytes >= self.end;
                let pseudo = checksum::pseudo_header(packet, protocol::TCP, len);
                let segment = &mut packet[self.transport..];
                add32(segment, SEQUENCE_AT, (self.at - self.payload) as u32);
                segment[tcp::FLAGS_AT] &= !((if is_last { 0 } else { OF_THE_LAST })
                    | (if self.count == 0 { 0 } else { OF_THE_FIRST }));
                tcp::fill_checksum(segment, pseudo);
            }
            Segments::Udp => {
                let pseudo = checksum::pseudo_header(packet, protocol::UDP, len);
                let datagram = &mut packet[self.transport..];
                datagram[4..6].copy_from_slice(&(len as u16).to_be_bytes());
                udp::fill_checksum(datagram, pseudo);
            }
        }
    }
}

fn add16(bytes: &mut [u8], at: usize, more: u16) {
    let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    bytes[at..at + 2].copy_from_slice(&old.wrapping_add(more).to_be_bytes());
}

fn add32(bytes: &mut [u8], at: usize, more: u32) {
    let old = u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    bytes[at..at + 4].copy_from_slice(&old.wrapping_add(more).to_be_bytes());
}

/// Computes the checksum of the bytes from `start`, whose field already has the pseudo header's
/// sum.
fn complete_checksum(packet: &mut [u8], start: usize, offset: usize) -> Option<()> {
    let body = packet.get_mut(start..).filter(|body| body.len() >= offset + 2)?;
    let sum = match checksum::of(body, 0) {
        // 0 is no checksum in UDP, and the same number everywhere else.
        0 => 0xffff,
        sum => sum,
    };
    body[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    Some(())
}
