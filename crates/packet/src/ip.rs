//! Reading and writing the header of a packet that is IPv4 or IPv6. Functions on packets are for
//! those whose headers were parsed, or written, before: of others they may read nonsense or panic.

use std::net::IpAddr;

use crate::HeaderError;
use crate::field::{u32_at, u128_at};
use crate::ipv4::{self, Ipv4Header};
use crate::ipv6::{self, Extension, Ipv6Header};

/// A header of either family without options or extension headers, to be written. The addresses are
/// of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// Time to live or hop limit.
    pub hop_limit: u8,
    /// IPv4: what the fragments of one datagram share.
    pub identification: u16,
    /// IPv4: DF.
    pub dont_fragment: bool,
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
}

impl IpHeader {
    /// A header with a hop limit of 64 and nothing else set.
    pub const fn new(protocol: u8, source: IpAddr, destination: IpAddr) -> Self {
        Self {
            traffic_class: 0,
            protocol,
            hop_limit: 64,
            identification: 0,
            dont_fragment: false,
            source,
            destination,
        }
    }

    /// Length of the header, in bytes.
    pub const fn header_len(&self) -> usize {
        if self.source.is_ipv4() { ipv4::HEADER_BYTES } else { ipv6::HEADER_BYTES }
    }

    /// Writes the header to the front of `packet`, whose length is final. An IPv4 destination from
    /// an IPv6 source is written as mapped.
    ///
    /// # Panics
    /// If `packet` is shorter than the header.
    pub fn write(&self, packet: &mut [u8]) {
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Ipv4Header {
                traffic_class: self.traffic_class,
                total_length: packet.len() as u16,
                identification: self.identification,
                dont_fragment: self.dont_fragment,
                time_to_live: self.hop_limit,
                protocol: self.protocol,
                source,
                destination,
            }
            .write(packet),
            (source, destination) => {
                let mapped = |address: IpAddr| match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                    IpAddr::V6(v6) => v6,
                };
                Ipv6Header {
                    traffic_class: self.traffic_class,
                    flow_label: 0,
                    payload_length: (packet.len() - ipv6::HEADER_BYTES) as u16,
                    next_header: self.protocol,
                    hop_limit: self.hop_limit,
                    source: mapped(source),
                    destination: mapped(destination),
                }
                .write(packet);
            }
        }
    }
}

/// Source and destination as numbers, for comparison without branches on the family.
#[inline]
pub fn address_numbers(packet: &[u8], is_v6: bool) -> (u128, u128) {
    if is_v6 {
        (u128_at(packet, 8), u128_at(packet, 24))
    } else {
        (u32_at(packet, 12).into(), u32_at(packet, 16).into())
    }
}

/// Whether the packet is IPv6; if not, it is IPv4.
#[inline]
pub fn is_v6(packet: &[u8]) -> bool {
    packet[0] >> 4 == 6
}

/// DSCP in the upper six bits and ECN in the lower two.
#[inline]
pub fn traffic_class(packet: &[u8]) -> u8 {
    if is_v6(packet) { ipv6::traffic_class(packet) } else { packet[1] }
}

/// Sets DSCP and ECN, and corrects IPv4's checksum.
pub fn set_traffic_class(packet: &mut [u8], value: u8) {
    if is_v6(packet) {
        ipv6::set_traffic_class(packet, value);
    } else {
        ipv4::set_traffic_class(packet, value);
    }
}

/// Writes the packet's length into its header, and IPv4's checksum again.
pub fn set_length(packet: &mut [u8]) {
    let len = packet.len();
    if is_v6(packet) {
        ipv6::set_payload_length(packet, (len - ipv6::HEADER_BYTES) as u16);
    } else {
        ipv4::set_total_length(packet, len as u16);
        ipv4::fill_checksum(packet);
    }
}

/// One hop less, and IPv4's checksum with it. A packet at its end stays there.
pub fn decrement_hop_limit(packet: &mut [u8]) {
    if is_v6(packet) {
        ipv6::set_hop_limit(packet, packet[7].saturating_sub(1));
    } else {
        ipv4::set_time_to_live(packet, packet[8].saturating_sub(1));
    }
}

/// The source address.
pub fn source(packet: &[u8]) -> IpAddr {
    if is_v6(packet) { ipv6::source(packet).into() } else { ipv4::source(packet).into() }
}

/// The protocol behind the first header, which with IPv6 may be an extension header; nothing if it
/// is no IP packet. The packet need not have been parsed.
#[inline]
pub fn first_protocol(packet: &[u8]) -> Option<u8> {
    match packet.first()? >> 4 {
        4 => packet.get(ipv4::PROTOCOL_AT).copied(),
        6 => packet.get(ipv6::NEXT_HEADER_AT).copied(),
        _ => None,
    }
}

/// Where the number of the protocol stands whose header starts at `header_len`, behind options or
/// extension headers.
///
/// # Errors
/// [`HeaderError`] if no header starts there.
pub fn protocol_at(packet: &[u8], header_len: usize) -> Result<usize, HeaderError> {
    if !is_v6(packet) {
        return Ok(ipv4::PROTOCOL_AT);
    }
    let (mut number_at, mut at) = (ipv6::NEXT_HEADER_AT, ipv6::HEADER_BYTES);
    while at < header_len {
        let extension = Extension::parse(packet, packet[number_at], at)?;
        (number_at, at) = (at, extension.end);
    }
    if at == header_len {
        Ok(number_at)
    } else {
        Err(HeaderError::Length { header: "IPv6", says: header_len, least: at, most: at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{DESTINATION_OPTIONS, ESP, ROUTING, UDP};
    use crate::{Ipv4, Layout};

    fn packet(source: &str, destination: &str) -> Vec<u8> {
        let address = |text: &str| text.parse().expect("an address");
        let mut packet = vec![9; 60];
        IpHeader { traffic_class: 0xb9, ..IpHeader::new(UDP, address(source), address(destination)) }
            .write(&mut packet);
        packet
    }

    fn both() -> [Vec<u8>; 2] {
        [packet("10.0.0.1", "10.0.0.2"), packet("fd00::1", "fd00::2")]
    }

    #[test]
    fn either_family_is_written_and_read_back() {
        for (mut packet, len) in both().into_iter().zip([20, 40]) {
            let header = IpHeader::new(UDP, source(&packet), [10, 0, 0, 1].into());
            assert_eq!((header.header_len(), traffic_class(&packet)), (len, 0xb9));
            decrement_hop_limit(&mut packet);
            set_traffic_class(&mut packet, 0x46);
            packet.truncate(50);
            let valid = Ipv4::parse(&packet).map_or(true, |view| view.is_checksum_valid());
            set_length(&mut packet);
            assert!(Layout::parse(&packet).is_ok_and(|layout| layout.total_len == 50) && valid);
            assert_eq!((traffic_class(&packet), packet[if len == 20 { 8 } else { 7 }]), (0x46, 63));
            assert!(Ipv4::parse(&packet).map_or(true, |view| view.is_checksum_valid()));
        }
    }

    #[test]
    fn a_packet_without_hops_stays_there() {
        for mut packet in both() {
            (0..70).for_each(|_| decrement_hop_limit(&mut packet));
            assert_eq!(packet[if is_v6(&packet) { 7 } else { 8 }], 0);
        }
    }

    #[test]
    fn the_protocols_number_is_found_behind_extension_headers() {
        let [v4, mut v6] = both();
        assert_eq!(protocol_at(&v4, 20), Ok(9));
        assert_eq!(protocol_at(&v6, 40), Ok(6));
        v6[6] = ROUTING;
        v6[40..42].copy_from_slice(&[DESTINATION_OPTIONS, 0]);
        v6[48..50].copy_from_slice(&[ESP, 0]);
        assert_eq!((protocol_at(&v6, 48), protocol_at(&v6, 56)), (Ok(40), Ok(48)));
        assert!(protocol_at(&v6, 44).is_err());
        assert!(protocol_at(&v6, 64).is_err(), "behind the end");
    }
}
