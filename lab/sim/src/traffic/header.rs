//! The header fields of a captured packet that sizes and policies need.

use std::net::IpAddr;

use convoy_packet::protocol::{TCP, UDP};
use convoy_packet::{Layout, tcp, udp};

/// The fields that a policy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol above IP, after any IPv6 extension headers.
    pub protocol: u8,
    /// Source and destination port if they were captured; for ICMP, type and code as in
    /// [`Layout::ports`].
    pub ports: Option<(u16, u16)>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// Length of the whole IP packet in bytes, even if it was captured only in part.
    pub packet_bytes: u32,
    /// Payload of TCP or UDP in bytes; for other protocols and later fragments, payload of IP.
    pub payload_bytes: u32,
}

impl Header {
    /// Reads the headers of a packet whose rest may be missing; `None` if the headers are
    /// incomplete or the packet is not IP.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let layout = Layout::parse_quoted(packet).ok()?;
        let (source, destination) = layout.addresses(packet);
        let segment = packet.get(layout.payload..layout.total_len.min(packet.len())).unwrap_or(&[]);
        let is_first = layout.fragment.is_none_or(|fragment| fragment.offset == 0);
        let own_bytes = match layout.protocol {
            // The captured part may end before the field that gives the length of TCP's options.
            TCP if is_first => tcp::header_len(segment).unwrap_or(tcp::HEADER_BYTES),
            UDP if is_first => udp::HEADER_BYTES,
            _ => 0,
        };
        // Ports are read only from captured bytes.
        let captured = Layout { total_len: layout.payload + segment.len(), ..layout };
        let ports = if segment.is_empty() { None } else { captured.ports(packet) };
        Some(Self {
            source,
            destination,
            protocol: layout.protocol,
            ports,
            dscp: layout.traffic_class >> 2,
            packet_bytes: layout.total_len as u32,
            payload_bytes: layout.total_len.saturating_sub(layout.payload + own_bytes) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet of 80 bytes with this protocol and transport header, cut off after the
    /// latter.
    fn packet(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 46 << 2, 0, 80, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 9];
        packet.extend(transport);
        packet
    }

    #[test]
    fn a_packet_that_is_cut_off_behind_its_headers_tells_all_that_is_needed() {
        let mut transport = [0u8; 20];
        (transport[1], transport[3], transport[12]) = (80, 90, 8 << 4);
        let header = Header::parse(&packet(TCP, &transport)).expect("IP");
        assert_eq!((header.packet_bytes, header.payload_bytes, header.dscp), (80, 28, 46));
        assert_eq!(header.ports, Some((80, 90)));
        assert_eq!(header.destination, IpAddr::from([10, 2, 0, 9]));
        let header = Header::parse(&packet(UDP, &transport[..4])).expect("IP");
        assert_eq!((header.payload_bytes, header.ports), (52, Some((80, 90))));
        let header = Header::parse(&packet(TCP, &[])).expect("IP");
        assert_eq!((header.payload_bytes, header.ports), (40, None));
        // A protocol whose header is unknown: the length is the payload of IP.
        let header = Header::parse(&packet(50, &transport)).expect("IP");
        assert_eq!(header.payload_bytes, 60);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 1..120), version in 3u8..8) {
            bytes[0] = version << 4 | bytes[0] & 15;
            if let Some(header) = Header::parse(&bytes) {
                prop_assert!(header.payload_bytes <= header.packet_bytes);
            }
        }
    }
}
