//! The flow of a packet, and whether one packet of a flow continues another.

use convoy_packet::{checksum, ip, ipv4, ipv6, protocol, tcp, udp};

use super::Joins;

/// The flags of a segment that may be merged with others.
const JOINED_FLAGS: u8 = tcp::ACK | tcp::PSH | tcp::ECE;
const DONT_FRAGMENT: u16 = 0x4000;

/// Addresses, ports and protocol, mixed into a number: packets of one flow have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowHash(u64);

/// A packet that may be joined with others of its flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Joint {
    /// TCP or UDP.
    pub(crate) protocol: u8,
    /// The option under which it can be merged.
    pub(crate) needs: Joins,
    /// Where the transport header starts.
    pub(crate) transport: usize,
    /// Length of all headers in bytes.
    pub(crate) header_len: usize,
    /// Length of what is behind them in bytes, more than none.
    pub(crate) payload_len: usize,
    /// Whether nothing may be merged behind it.
    pub(crate) is_end: bool,
}

/// The flow of a TCP segment or UDP datagram, and what merging needs of it, if it may be merged.
/// Other packets, and fragments, have no flow.
pub(crate) fn flow_of(packet: &[u8]) -> (Option<FlowHash>, Option<Joint>) {
    match whole(packet) {
        Some((protocol, transport)) => {
            let flow = FlowHash::of(packet, protocol, transport);
            (flow, flow.and_then(|_| Joint::of(packet, protocol, transport)))
        }
        None => (None, None),
    }
}

/// Protocol and start of the transport header, of a packet without IP options or extension headers
/// that is no fragment, and as long as it says.
fn whole(packet: &[u8]) -> Option<(u8, usize)> {
    let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    match packet.first()? {
        0x45 if packet.len() > ipv4::HEADER_BYTES => {
            // A fragment, or the reserved bit.
            let is_whole = word(6) & !DONT_FRAGMENT == 0 && usize::from(word(2)) == packet.len();
            is_whole.then(|| (packet[ipv4::PROTOCOL_AT], ipv4::HEADER_BYTES))
        }
        0x60..=0x6f if packet.len() > ipv6::HEADER_BYTES => {
            let is_whole = usize::from(word(4)) == packet.len() - ipv6::HEADER_BYTES;
            is_whole.then(|| (packet[ipv6::NEXT_HEADER_AT], ipv6::HEADER_BYTES))
        }
        _ => None,
    }
}

impl FlowHash {
    fn of(packet: &[u8], protocol: u8, transport: usize) -> Option<Self> {
        if protocol != protocol::TCP && protocol != protocol::UDP {
            return None;
        }
        let ports = packet.get(transport..transport + 4)?.first_chunk::<4>()?;
        let (source, destination) = ip::address_numbers(packet, ip::is_v6(packet));
        let addresses = source.rotate_left(64) ^ destination.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let ports = u64::from(u32::from_ne_bytes(*ports)) << 8 | u64::from(protocol);
        let mixed = (addresses >> 64) as u64 ^ addresses as u64;
        Some(Self((mixed ^ ports.wrapping_mul(0xff51_afd7_ed55_8ccd)).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }
}

impl Joint {
    fn of(packet: &[u8], protocol: u8, transport: usize) -> Option<Self> {
        let body = &packet[transport..];
        let (len, is_end, needs) = if protocol == protocol::TCP {
            let len = tcp::header_len(body).filter(|len| *len <= body.len())?;
            let flags = body[tcp::FLAGS_AT];
            // Without ACK, or with a flag that only concerns this segment.
            if flags & tcp::ACK == 0 || flags & !JOINED_FLAGS != 0 {
                return None;
            }
            (len, flags & tcp::PSH != 0, Joins::Tcp)
        } else {
            // One without a checksum would come out with one.
            let has_checksum = body.len() > udp::HEADER_BYTES && body[6..8] != [0, 0];
            let needs = if has_checksum { Joins::TcpAndUdp } else { Joins::WithoutChecksum };
            let says = u16::from_be_bytes([*body.get(4)?, *body.get(5)?]);
            (usize::from(says) == body.len()).then_some((udp::HEADER_BYTES, false, needs))?
        };
        let payload_len = body.len() - len;
        let header_len = transport + len;
        (payload_len > 0).then_some(Self { protocol, needs, transport, header_len, payload_len, is_end })
    }

    /// Whether `packet` follows `packets` packets with `payload` bytes together, of which the first
    /// is `first`, and is equal in everything but length, position and PSH.
    pub(crate) fn is_continued_by(
        &self,
        first: &[u8],
        other: &Self,
        packet: &[u8],
        packets: usize,
        payload: usize,
    ) -> bool {
        (self.needs, self.transport, self.header_len) == (other.needs, other.transport, other.header_len)
            && other.payload_len <= self.payload_len
            && is_same_ip(first, packet, packets)
            && self.is_same_transport(first, packet, payload)
    }

    fn is_same_transport(&self, first: &[u8], packet: &[u8], payload: usize) -> bool {
        let (first, other) =
            (&first[self.transport..self.header_len], &packet[self.transport..self.header_len]);
        if first[..4] != other[..4] {
            return false;
        }
        if self.protocol == protocol::UDP {
            return true;
        }
        let number = |header: &[u8]| u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        number(other) == number(first).wrapping_add(payload as u32)
            // The acknowledgement, the header's length, flags but PSH, the window; the urgent
            // pointer and options.
            && first[8..13] == other[8..13]
            && (first[tcp::FLAGS_AT] ^ other[tcp::FLAGS_AT]) & !tcp::PSH == 0
            && first[14..16] == other[14..16]
            && first[18..] == other[18..]
    }

    /// Whether the receiver would accept the checksums of IP and transport: merged, they are
    /// recomputed.
    pub(crate) fn has_right_checksums(&self, packet: &[u8]) -> bool {
        let body = &packet[self.transport..];
        let is_right = || {
            let pseudo = checksum::pseudo_header(packet, self.protocol, body.len());
            checksum::of(body, pseudo) == 0
        };
        (ip::is_v6(packet) || checksum::of(&packet[..ipv4::HEADER_BYTES], 0) == 0)
            && (self.needs == Joins::WithoutChecksum || is_right())
    }
}

/// Whether the IP headers are the same but for what every packet has for itself.
fn is_same_ip(first: &[u8], other: &[u8], packets: usize) -> bool {
    if ip::is_v6(first) {
        // All but the length.
        return first[..4] == other[..4] && first[6..ipv6::HEADER_BYTES] == other[6..ipv6::HEADER_BYTES];
    }
    let word = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let has_next_identification = || word(other, 4) == word(first, 4).wrapping_add(packets as u16);
    first[..2] == other[..2]
        && first[6..10] == other[6..10]
        && first[12..ipv4::HEADER_BYTES] == other[12..ipv4::HEADER_BYTES]
        && (word(first, 6) & DONT_FRAGMENT != 0 || has_next_identification())
}
