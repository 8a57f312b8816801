//! What a captured packet's headers say, so far as sizes and policies need it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
    /// Source and destination port, of TCP and UDP, where they were captured.
    pub ports: Option<(u16, u16)>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// The whole IP packet, in bytes, captured or not.
    pub packet_bytes: u32,
    /// What TCP or UDP carries, in bytes; of other protocols, and of later fragments, what IP carries.
    pub payload_bytes: u32,
}

const TCP: u8 = 6;
const UDP: u8 = 17;

impl Header {
    /// Reads the headers behind a link's own; `None` for what is not IP or is cut off in its IP header.
    pub(crate) fn parse(link: DataLink, frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ip_start(link, frame)?..)?;
        match packet.first()? >> 4 {
            4 => Self::parse_v4(packet),
            6 => Self::parse_v6(packet),
            _ => None,
        }
    }

    fn parse_v4(packet: &[u8]) -> Option<Self> {
        let header = packet.get(..20)?;
        let header_bytes = u32::from(header[0] & 15) * 4;
        // Segmentation offload leaves 0 where the packet was captured before the card cut it.
        let total = match be16(packet, 2)? {
            0 => packet.len() as u32,
            total => u32::from(total),
        };
        if header_bytes < 20 || total < header_bytes {
            return None;
        }
        let is_first = be16(packet, 6)? & 0x1fff == 0;
        let address = |at: usize| <[u8; 4]>::try_from(&header[at..at + 4]).ok().map(Ipv4Addr::from);
        let addresses = (IpAddr::V4(address(12)?), IpAddr::V4(address(16)?));
        Some(Self::above(addresses, header[1] >> 2, header[9], packet, (header_bytes, total), is_first))
    }

    fn parse_v6(packet: &[u8]) -> Option<Self> {
        let header = packet.get(..40)?;
        let total = match be16(packet, 4)? {
            0 => packet.len() as u32,
            payload => 40 + u32::from(payload),
        };
        let address = |at: usize| <[u8; 16]>::try_from(&header[at..at + 16]).ok().map(Ipv6Addr::from);
        let addresses = (IpAddr::V6(address(8)?), IpAddr::V6(address(24)?));
        let dscp = (be16(packet, 0)? >> 6) as u8 & 63;
        let (protocol, start, is_first) = behind_extensions(header[6], packet);
        Some(Self::above(addresses, dscp, protocol, packet, (start.min(total), total), is_first))
    }

    fn above(
        (source, destination): (IpAddr, IpAddr),
        dscp: u8,
        protocol: u8,
        packet: &[u8],
        (start, packet_bytes): (u32, u32),
        is_first: bool,
    ) -> Self {
        let at = start as usize;
        let has_ports = is_first && matches!(protocol, TCP | UDP);
        let ports = if has_ports { be16(packet, at).zip(be16(packet, at + 2)) } else { None };
        let own = match protocol {
            // A capture may be too short to say how many options TCP has.
            TCP if is_first => packet.get(at + 12).map_or(20, |offset| u32::from(offset >> 4) * 4),
            UDP if is_first => 8,
            _ => 0,
        };
        let payload_bytes = (packet_bytes - start).saturating_sub(own);
        Self { source, destination, protocol, ports, dscp, packet_bytes, payload_bytes }
    }
}

/// The protocol behind IPv6 extension headers, where it starts, and whether it does start here.
fn behind_extensions(mut next: u8, packet: &[u8]) -> (u8, u32, bool) {
    const OPTIONS: [u8; 4] = [0, 43, 60, 135];
    const FRAGMENT: u8 = 44;
    let (mut at, mut is_first) = (40, true);
    loop {
        let Some(header) = packet.get(at..at + 8) else { return (next, at as u32, is_first) };
        if OPTIONS.contains(&next) {
            at += 8 + usize::from(header[1]) * 8;
        } else if next == FRAGMENT {
            at += 8;
            is_first &= u16::from_be_bytes([header[2], header[3]]) & 0xfff8 == 0;
        } else {
            return (next, at as u32, is_first);
        }
        next = header[0];
        if !is_first {
            return (next, at as u32, false);
        }
    }
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

/// Where the IP header starts behind a link's own header; `None` for what is not IP.
fn ip_start(link: DataLink, frame: &[u8]) -> Option<usize> {
    const IP: [u16; 2] = [0x0800, 0x86dd];
    const VLAN: [u16; 2] = [0x8100, 0x88a8];
    let mut at = match link {
        DataLink::ETHERNET => 12,
        DataLink::LINUX_SLL => 14,
        DataLink::LINUX_SLL2 => return IP.contains(&be16(frame, 0)?).then_some(20),
        // BSD's loopback: the address family in four bytes.
        DataLink::NULL | DataLink::LOOP => return Some(4),
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 => return Some(0),
        _ => return None,
    };
    while VLAN.contains(&be16(frame, at)?) {
        at += 4;
    }
    IP.contains(&be16(frame, at)?).then_some(at + 2)
}
