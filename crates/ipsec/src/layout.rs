//! Where the parts of an IP packet stand: one walk over the headers that classification, fragmentation
//! and reassembly all use.

use std::net::IpAddr;

use crate::flow::{FlowKey, ICMP, ICMP_V6, number_address};

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
pub(crate) const ESP: u8 = 50;
pub(crate) const AH: u8 = 51;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
pub(crate) const FRAGMENT: u8 = 44;
const DESTINATION_OPTIONS: u8 = 60;
const PORTS_FIRST: [u8; 5] = [TCP, UDP, 33, 132, 136];

/// Length of an IPv6 header and of an IPv6 fragment header, in bytes.
pub(crate) const IPV6_HEADER: usize = 40;
pub(crate) const FRAGMENT_HEADER: usize = 8;
/// Extension headers that are walked; a packet with more is malformed.
const EXTENSION_LIMIT: usize = 8;

/// The packet is cut short or is not IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

/// What stands in the fragment fields of the IPv4 header or in the IPv6 fragment header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FragmentFields {
    pub(crate) id: u32,
    /// Offset of this piece in the datagram, in bytes.
    pub(crate) offset: u32,
    /// Whether more pieces follow.
    pub(crate) more: bool,
}

impl FragmentFields {
    /// Whether this is only a piece of a datagram.
    pub(crate) const fn is_piece(&self) -> bool {
        self.more || self.offset != 0
    }
}

/// Where the parts of a packet stand. Offsets are in bytes from the packet's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) is_v6: bool,
    /// The packet's length as its header says; never more than there is.
    pub(crate) total_len: usize,
    /// The protocol behind all extension headers.
    pub(crate) protocol: u8,
    /// Where its header starts.
    pub(crate) payload: usize,
    /// Traffic class octet.
    pub(crate) octet: u8,
    /// TTL or hop limit.
    pub(crate) hops: u8,
    /// IPv4's DF; true for IPv6.
    pub(crate) dont_fragment: bool,
    /// The fragment fields, where the packet is a piece or has an IPv6 fragment header.
    pub(crate) fragment: Option<FragmentFields>,
    /// IPv6: end of the part that every fragment repeats.
    pub(crate) unfragmentable: usize,
    /// IPv6: where the number of the header behind that part stands.
    pub(crate) next_header_at: usize,
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The internet checksum of `bytes`, `initial` added (RFC 1071).
pub(crate) fn ones_complement(bytes: &[u8], initial: u32) -> u16 {
    let words = bytes.chunks(2).map(|word| match word {
        [upper, lower] => u64::from(u16::from_be_bytes([*upper, *lower])),
        _ => u64::from(word[0]) << 8,
    });
    let mut sum = words.sum::<u64>() + u64::from(initial);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

impl Layout {
    /// Of `len` bytes that are no IP packet, as a dummy packet's payload is.
    pub(crate) const fn dummy(len: usize) -> Self {
        Self {
            is_v6: false,
            total_len: len,
            protocol: 59,
            payload: 0,
            octet: 0,
            hops: 0,
            dont_fragment: false,
            fragment: None,
            unfragmentable: 0,
            next_header_at: 0,
        }
    }

    /// Walks the headers of `packet`.
    pub(crate) fn parse(packet: &[u8]) -> Result<Self, Malformed> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Self::parse_v4(packet),
            Some(6) => Self::parse_v6(packet),
            _ => Err(Malformed),
        }
    }

    fn parse_v4(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() < 20 {
            return Err(Malformed);
        }
        let header = usize::from(packet[0] & 15) * 4;
        let total_len = usize::from(be16(packet, 2));
        if header < 20 || total_len < header || total_len > packet.len() {
            return Err(Malformed);
        }
        let flags = be16(packet, 6);
        let fields = FragmentFields {
            id: be16(packet, 4).into(),
            offset: u32::from(flags & 0x1fff) * 8,
            more: flags & 0x2000 != 0,
        };
        Ok(Self {
            is_v6: false,
            total_len,
            protocol: packet[9],
            payload: header,
            octet: packet[1],
            hops: packet[8],
            dont_fragment: flags & 0x4000 != 0,
            fragment: fields.is_piece().then_some(fields),
            unfragmentable: header,
            next_header_at: 9,
        })
    }

    fn parse_v6(packet: &[u8]) -> Result<Self, Malformed> {
        if packet.len() < IPV6_HEADER {
            return Err(Malformed);
        }
        let total_len = IPV6_HEADER + usize::from(be16(packet, 4));
        if total_len > packet.len() {
            return Err(Malformed);
        }
        let mut layout = Self {
            is_v6: true,
            total_len,
            protocol: packet[6],
            payload: IPV6_HEADER,
            octet: (be16(packet, 0) >> 4) as u8,
            hops: packet[7],
            dont_fragment: true,
            fragment: None,
            unfragmentable: IPV6_HEADER,
            next_header_at: 6,
        };
        layout.walk_extensions(&packet[..total_len])?;
        Ok(layout)
    }

    fn walk_extensions(&mut self, packet: &[u8]) -> Result<(), Malformed> {
        let mut number_at = 6;
        for _ in 0..=EXTENSION_LIMIT {
            let at = self.payload;
            let is_extension = matches!(self.protocol, HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS | FRAGMENT);
            if !is_extension || self.fragment.is_some_and(|fields| fields.offset != 0) {
                return Ok(());
            }
            let Some(header) = packet.get(at..at + 8) else { return Err(Malformed) };
            let length = if self.protocol == FRAGMENT {
                if self.fragment.is_some() {
                    return Err(Malformed);
                }
                (self.unfragmentable, self.next_header_at) = (at, number_at);
                let flags = be16(header, 2);
                self.fragment = Some(FragmentFields {
                    id: be32(header, 4),
                    offset: (flags & 0xfff8).into(),
                    more: flags & 1 != 0,
                });
                FRAGMENT_HEADER
            } else {
                8 + usize::from(header[1]) * 8
            };
            // Options for the last destination come behind the fragment header; all others before it.
            if self.fragment.is_none() && matches!(self.protocol, HOP_BY_HOP | ROUTING) {
                (self.unfragmentable, self.next_header_at) = (at + length, at);
            }
            number_at = at;
            self.protocol = header[0];
            self.payload = at + length;
            if self.payload > packet.len() {
                return Err(Malformed);
            }
        }
        Err(Malformed)
    }

    /// Source and destination as numbers.
    pub(crate) fn address_numbers(&self, packet: &[u8]) -> (u128, u128) {
        if self.is_v6 {
            let number = |at: usize| {
                packet[at..at + 16].iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte))
            };
            (number(8), number(24))
        } else {
            (be32(packet, 12).into(), be32(packet, 16).into())
        }
    }

    /// Source and destination.
    pub(crate) fn addresses(&self, packet: &[u8]) -> (IpAddr, IpAddr) {
        let (source, destination) = self.address_numbers(packet);
        (number_address(self.is_v6, source), number_address(self.is_v6, destination))
    }

    /// The selector fields of `packet`.
    pub(crate) fn flow(&self, packet: &[u8]) -> FlowKey {
        let (source, destination) = self.address_numbers(packet);
        let is_first = self.fragment.is_none_or(|fields| fields.offset == 0);
        let transport = packet[self.payload..self.total_len].first_chunk::<4>().filter(|_| is_first);
        let ports = transport.and_then(|bytes| {
            let upper = u16::from_be_bytes([bytes[0], bytes[1]]);
            match self.protocol {
                ICMP | ICMP_V6 => Some((upper, upper)),
                protocol if PORTS_FIRST.contains(&protocol) => {
                    Some((upper, u16::from_be_bytes([bytes[2], bytes[3]])))
                }
                _ => None,
            }
        });
        let (source_port, destination_port) = ports.unwrap_or_default();
        FlowKey {
            source,
            destination,
            source_port,
            destination_port,
            protocol: self.protocol,
            is_v6: self.is_v6,
            ports_known: ports.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v6(next: u8, behind: &[u8]) -> Vec<u8> {
        let mut packet = vec![0u8; IPV6_HEADER];
        packet[0] = 0x6b;
        packet[1] = 0x80;
        packet[4..6].copy_from_slice(&(behind.len() as u16).to_be_bytes());
        packet[6] = next;
        packet[23] = 1;
        packet[39] = 2;
        packet.extend_from_slice(behind);
        packet
    }

    #[test]
    fn ipv6_extension_headers_are_walked_to_the_transport() {
        let mut behind = vec![ROUTING, 0, 0, 0, 0, 0, 0, 0];
        behind.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
        behind.extend([DESTINATION_OPTIONS, 0, 0, 1, 0, 0, 0, 9]);
        behind.extend([UDP, 0, 0, 0, 0, 0, 0, 0]);
        behind.extend([0x12, 0x34, 0, 53, 0, 8, 0, 0]);
        let packet = v6(HOP_BY_HOP, &behind);
        let layout = Layout::parse(&packet).expect("well-formed");
        assert_eq!((layout.protocol, layout.payload, layout.octet), (UDP, 72, 0xb8));
        assert_eq!((layout.unfragmentable, layout.next_header_at), (56, 48));
        assert_eq!(layout.fragment, Some(FragmentFields { id: 9, offset: 0, more: true }));
        let flow = layout.flow(&packet);
        assert_eq!((flow.source_port, flow.destination_port, flow.ports_known), (0x1234, 53, true));
        assert_eq!(flow.source().to_string(), "::1");
    }

    #[test]
    fn a_later_fragment_shows_no_ports() {
        let mut packet = vec![0x45, 0, 0, 28, 0, 7, 0x20, 1, 64, UDP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        packet.extend([0, 1, 0, 2, 0, 3, 0, 4]);
        let layout = Layout::parse(&packet).expect("well-formed");
        assert_eq!(layout.fragment, Some(FragmentFields { id: 7, offset: 8, more: true }));
        assert!(!layout.flow(&packet).ports_known);
        packet[7] = 0;
        let layout = Layout::parse(&packet).expect("well-formed");
        assert_eq!(layout.flow(&packet).destination_port, 2);
    }

    #[test]
    fn icmp_type_and_code_stand_for_both_ports() {
        let packet = v6(ICMP_V6, &[135, 7, 0, 0, 0, 0, 0, 0]);
        let flow = Layout::parse(&packet).expect("well-formed").flow(&packet);
        assert_eq!((flow.source_port, flow.destination_port), (0x8707, 0x8707));
    }

    #[test]
    fn a_chain_of_extension_headers_without_end_is_malformed() {
        let packet = v6(DESTINATION_OPTIONS, &[DESTINATION_OPTIONS, 0, 0, 0, 0, 0, 0, 0].repeat(100));
        assert_eq!(Layout::parse(&packet), Err(Malformed));
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_layout_inside_the_packet_or_an_error(
            mut packet in proptest::collection::vec(any::<u8>(), 0..200),
            version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
            next in prop_oneof![Just(44u8), Just(0), Just(43), Just(60), any::<u8>()],
            fits: bool,
        ) {
            if let Some(first) = packet.first_mut() { *first = version; }
            if packet.len() > 40 {
                packet[6] = next;
                if fits {
                    let len = packet.len() as u16;
                    packet[2..4].copy_from_slice(&len.to_be_bytes());
                    packet[4..6].copy_from_slice(&(len - 40).to_be_bytes());
                }
            }
            if let Ok(layout) = Layout::parse(&packet) {
                prop_assert!(layout.payload <= layout.total_len && layout.total_len <= packet.len());
                prop_assert!(layout.unfragmentable <= layout.payload);
                layout.flow(&packet);
            }
        }
    }
}
