//! Offsets of the parts of an IP packet: one walk over its headers, done once per packet, that
//! classification, encapsulation, fragmentation and reassembly all use.

use std::net::IpAddr;

use crate::field::u16_at;
use crate::protocol::{ICMP, ICMP_V6, has_ports};
use crate::{Fragment, HeaderError, Ipv4, Ipv6, ip, ipv4, ipv6};

/// The fields and places of one packet. Places are in bytes from its start.
///
/// ```
/// use convoy_packet::Layout;
/// let mut packet = vec![0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 9];
/// packet.extend([0x12, 0x34, 0, 53, 0, 8, 0, 0]);
/// let layout = Layout::parse(&packet)?;
/// assert_eq!((layout.protocol, layout.payload), (17, 20));
/// assert_eq!(layout.ports(&packet), Some((0x1234, 53)));
/// # Ok::<(), convoy_packet::HeaderError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Whether the packet is IPv6.
    pub is_v6: bool,
    /// The packet's length as its header says; never more than there is, unless it is
    /// [quoted](Self::parse_quoted).
    pub total_len: usize,
    /// The protocol behind all extension headers; AH and ESP count as protocols (RFC 4301 section
    /// 4.4.1.1).
    pub protocol: u8,
    /// Where its header starts; in a fragment other than the first, where the piece starts.
    pub payload: usize,
    /// DSCP in the upper six bits and ECN in the lower two.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hops: u8,
    /// IPv4's DF; true for IPv6.
    pub dont_fragment: bool,
    /// The fragment fields, where the packet is a piece or has an IPv6 fragment header.
    pub fragment: Option<Fragment>,
    /// End of the headers that every fragment repeats: where a fragment header, or in transport
    /// mode ESP and AH, go.
    pub unfragmentable: usize,
    /// Where the number of what follows those stands.
    pub next_header_at: usize,
}

impl Layout {
    /// Walks the headers of an IPv4 or IPv6 packet.
    ///
    /// # Errors
    /// [`HeaderError`] if they are malformed or cut short.
    #[inline]
    pub fn parse(packet: &[u8]) -> Result<Self, HeaderError> {
        match Self::of_plain_ipv4(packet).or_else(|| Self::of_plain_ipv6(packet)) {
            Some(layout) => Ok(layout),
            None => Self::walk(packet),
        }
    }

    /// The layout of most packets: IPv4 without options, and no fragment.
    #[inline]
    fn of_plain_ipv4(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<{ ipv4::HEADER_BYTES }>()?;
        let (total_len, flags) = (usize::from(u16_at(header, 2)), u16_at(header, 6));
        let is_whole = flags & (ipv4::MORE_FRAGMENTS | ipv4::OFFSET_MASK) == 0;
        let is_plain = header[0] == 0x45 && is_whole && (header.len()..=packet.len()).contains(&total_len);
        is_plain.then(|| Self {
            is_v6: false,
            total_len,
            protocol: header[ipv4::PROTOCOL_AT],
            payload: ipv4::HEADER_BYTES,
            traffic_class: header[1],
            hops: header[8],
            dont_fragment: flags & ipv4::DONT_FRAGMENT != 0,
            fragment: None,
            unfragmentable: ipv4::HEADER_BYTES,
            next_header_at: ipv4::PROTOCOL_AT,
        })
    }

    /// The layout of most packets of the other family: IPv6 without extension headers.
    #[inline]
    fn of_plain_ipv6(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<{ ipv6::HEADER_BYTES }>()?;
        let total_len = ipv6::HEADER_BYTES + usize::from(u16_at(header, 4));
        let protocol = header[ipv6::NEXT_HEADER_AT];
        let is_plain = header[0] >> 4 == 6 && !ipv6::is_extension(protocol) && total_len <= packet.len();
        is_plain.then(|| Self {
            is_v6: true,
            total_len,
            protocol,
            payload: ipv6::HEADER_BYTES,
            traffic_class: ipv6::traffic_class(header),
            hops: header[7],
            dont_fragment: true,
            fragment: None,
            unfragmentable: ipv6::HEADER_BYTES,
            next_header_at: ipv6::NEXT_HEADER_AT,
        })
    }

    /// The layout of any packet.
    fn walk(packet: &[u8]) -> Result<Self, HeaderError> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Ok(Self::of_ipv4(Ipv4::parse(packet)?)),
            Some(6) => Self::of_ipv6(Ipv6::parse(packet)?),
            version => Err(not_ip(version)),
        }
    }

    /// As [`Self::parse`], of a packet that an ICMP error quotes: it may end anywhere behind its IP
    /// headers.
    ///
    /// # Errors
    /// [`HeaderError`] if the IP headers are malformed or cut short.
    pub fn parse_quoted(packet: &[u8]) -> Result<Self, HeaderError> {
        match packet.first().map(|first| first >> 4) {
            Some(4) => Ok(Self::of_ipv4(Ipv4::parse_quoted(packet)?)),
            Some(6) => Self::of_ipv6(Ipv6::parse_quoted(packet)?),
            version => Err(not_ip(version)),
        }
    }

    fn of_ipv4(packet: Ipv4<'_>) -> Self {
        let header_len = packet.header_len();
        Self {
            is_v6: false,
            total_len: packet.total_length().into(),
            protocol: packet.protocol(),
            payload: header_len,
            traffic_class: packet.traffic_class(),
            hops: packet.time_to_live(),
            dont_fragment: packet.dont_fragment(),
            fragment: packet.fragment(),
            unfragmentable: header_len,
            next_header_at: ipv4::PROTOCOL_AT,
        }
    }

    fn of_ipv6(packet: Ipv6<'_>) -> Result<Self, HeaderError> {
        let upper = packet.upper_layer()?;
        Ok(Self {
            is_v6: true,
            total_len: crate::ipv6::HEADER_BYTES + usize::from(packet.payload_length()),
            protocol: upper.protocol,
            payload: upper.at,
            traffic_class: packet.traffic_class(),
            hops: packet.hop_limit(),
            dont_fragment: true,
            fragment: upper.fragment,
            unfragmentable: upper.unfragmentable,
            next_header_at: upper.next_header_at,
        })
    }

    /// The bytes behind the IP headers of `packet`, of which this is the layout.
    #[inline]
    pub fn body<'a>(&self, packet: &'a [u8]) -> &'a [u8] {
        &packet[self.payload..self.total_len]
    }

    /// Source and destination as numbers, for comparison without branches on the family.
    #[inline]
    pub fn address_numbers(&self, packet: &[u8]) -> (u128, u128) {
        ip::address_numbers(packet, self.is_v6)
    }

    /// Source and destination.
    pub fn addresses(&self, packet: &[u8]) -> (IpAddr, IpAddr) {
        let (source, destination) = self.address_numbers(packet);
        if self.is_v6 {
            (IpAddr::V6(source.into()), IpAddr::V6(destination.into()))
        } else {
            (IpAddr::V4((source as u32).into()), IpAddr::V4((destination as u32).into()))
        }
    }

    /// Source and destination port, or `type << 8 | code` of ICMP and ICMPv6 twice; `None` where
    /// they cannot be seen: in a fragment other than the first, in a protocol without ports.
    #[inline]
    pub fn ports(&self, packet: &[u8]) -> Option<(u16, u16)> {
        let is_first = self.fragment.is_none_or(|fragment| fragment.offset == 0);
        let transport = self.body(packet).first_chunk::<4>().filter(|_| is_first)?;
        let (upper, lower) = (u16_at(transport, 0), u16_at(transport, 2));
        match self.protocol {
            ICMP | ICMP_V6 => Some((upper, upper)),
            protocol if has_ports(protocol) => Some((upper, lower)),
            _ => None,
        }
    }
}

fn not_ip(version: Option<u8>) -> HeaderError {
    match version {
        Some(found) => HeaderError::Version { header: "IP", found },
        None => HeaderError::TooShort { header: "IP", need: 1, have: 0 },
    }
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
