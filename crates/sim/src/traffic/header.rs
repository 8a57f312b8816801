//! What a captured packet's headers say, so far as sizes and policies need it.

use std::net::IpAddr;

use convoy_packet::protocol::{TCP, UDP};
use convoy_packet::{Layout, tcp, udp};

/// What a policy may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol above IP; IPv6 extension headers are passed over.
    pub protocol: u8,
    /// Source and destination port where they were captured; ICMP's type and code as in
    /// [`Layout::ports`].
    pub ports: Option<(u16, u16)>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// The whole IP packet, in bytes, captured or not.
    pub packet_bytes: u32,
    /// What TCP or UDP carries, in bytes; of other protocols, and of later fragments, what IP
    /// carries.
    pub payload_bytes: u32,
}

impl Header {
    /// Reads the headers of a packet that may be cut off behind them; `None` if they are not whole,
    /// or not IP's.
    pub(crate) fn parse(packet: &[u8]) -> Option<Self> {
        let layout = Layout::parse_quoted(packet).ok()?;
        let (source, destination) = layout.addresses(packet);
        let segment = packet.get(layout.payload..layout.total_len.min(packet.len())).unwrap_or(&[]);
        let is_first = layout.fragment.is_none_or(|fragment| fragment.offset == 0);
        let own_bytes = match layout.protocol {
            // A capture may be too short to say how many options TCP has.
            TCP if is_first => tcp::header_len(segment).unwrap_or(tcp::HEADER_BYTES),
            UDP if is_first => udp::HEADER_BYTES,
            _ => 0,
        };
        // Ports are read from what was captured.
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

    /// An IPv4 packet of 80 bytes whose protocol and transport header are given, cut off behind the
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
        // No protocol with a header that is known: what IP carries.
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
