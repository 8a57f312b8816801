//! What a captured packet's headers say, so far as sizes and policies need it.

use std::net::IpAddr;

use convoy_packet::ethernet::{ETHERTYPE_AT, ip_start};
use convoy_packet::protocol::{TCP, UDP};
use convoy_packet::{Layout, tcp, udp};
use pcap_file::DataLink;

/// What a policy may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The protocol above IP; IPv6 extension headers are passed over.
    pub protocol: u8,
    /// Source and destination port where they were captured; ICMP's type and code as in [`Layout::ports`].
    pub ports: Option<(u16, u16)>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// The whole IP packet, in bytes, captured or not.
    pub packet_bytes: u32,
    /// What TCP or UDP carries, in bytes; of other protocols, and of later fragments, what IP carries.
    pub payload_bytes: u32,
}

/// The EtherType of Linux "cooked" captures, versions 1 and 2, and what they have before the IP packet.
const SLL_ETHERTYPE_AT: usize = 14;
const SLL2_HEADER_BYTES: usize = 20;
/// BSD's loopback: the address family.
const LOOPBACK_HEADER_BYTES: usize = 4;

impl Header {
    /// Reads the headers behind a link's own; `None` for what is not IP or is cut off in its IP header.
    pub(crate) fn parse(link: DataLink, frame: &[u8]) -> Option<Self> {
        let start = match link {
            DataLink::ETHERNET => ip_start(frame, ETHERTYPE_AT)?,
            DataLink::LINUX_SLL => ip_start(frame, SLL_ETHERTYPE_AT)?,
            DataLink::LINUX_SLL2 => SLL2_HEADER_BYTES,
            DataLink::NULL | DataLink::LOOP => LOOPBACK_HEADER_BYTES,
            DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => 0,
            _ => return None,
        };
        Self::of_packet(frame.get(start..)?)
    }

    fn of_packet(packet: &[u8]) -> Option<Self> {
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
            dscp: layout.octet >> 2,
            packet_bytes: layout.total_len as u32,
            payload_bytes: layout.total_len.saturating_sub(layout.payload + own_bytes) as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An IPv4 packet of 80 bytes whose protocol and transport header are given, cut off behind the latter.
    fn packet(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = vec![0x45, 46 << 2, 0, 80, 0, 0, 0, 0, 64, protocol, 0, 0, 10, 1, 0, 1, 10, 2, 0, 9];
        packet.extend(transport);
        packet
    }

    #[test]
    fn a_packet_that_is_cut_off_behind_its_headers_tells_all_that_is_needed() {
        let mut transport = [0u8; 20];
        (transport[1], transport[3], transport[12]) = (80, 90, 8 << 4);
        let header = Header::parse(DataLink::RAW, &packet(TCP, &transport)).expect("IP");
        assert_eq!((header.packet_bytes, header.payload_bytes, header.dscp), (80, 28, 46));
        assert_eq!(header.ports, Some((80, 90)));
        assert_eq!(header.destination, IpAddr::from([10, 2, 0, 9]));
        let header = Header::parse(DataLink::RAW, &packet(UDP, &transport[..4])).expect("IP");
        assert_eq!((header.payload_bytes, header.ports), (52, Some((80, 90))));
        let header = Header::parse(DataLink::RAW, &packet(TCP, &[])).expect("IP");
        assert_eq!((header.payload_bytes, header.ports), (40, None));
        // No protocol with a header that is known: what IP carries.
        let header = Header::parse(DataLink::RAW, &packet(50, &transport)).expect("IP");
        assert_eq!(header.payload_bytes, 60);
    }

    #[test]
    fn links_have_their_own_headers() {
        let ip = packet(UDP, &[0; 8]);
        let behind = |header: &[u8]| [header, &ip].concat();
        let ethernet = [&[0; 12][..], &[0x81, 0, 0, 5, 8, 0]].concat();
        let cooked = [&[0; 14][..], &[8, 0]].concat();
        for (link, header) in [
            (DataLink::ETHERNET, &ethernet[..]),
            (DataLink::LINUX_SLL, &cooked),
            (DataLink::LINUX_SLL2, &[0; 20]),
            (DataLink::NULL, &[2, 0, 0, 0]),
            (DataLink::IPV4, &[]),
        ] {
            assert!(Header::parse(link, &behind(header)).is_some(), "{link:?}");
        }
        assert_eq!(Header::parse(DataLink::ETHERNET, &[&[0; 12][..], &[8, 6], &ip].concat()), None);
        assert_eq!(Header::parse(DataLink::IEEE802_11, &ip), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 1..120), version in 3u8..8) {
            bytes[0] = version << 4 | bytes[0] & 15;
            for link in [DataLink::RAW, DataLink::ETHERNET, DataLink::LINUX_SLL2, DataLink::NULL] {
                if let Some(header) = Header::parse(link, &bytes) {
                    prop_assert!(header.payload_bytes <= header.packet_bytes);
                }
            }
        }
    }
}
