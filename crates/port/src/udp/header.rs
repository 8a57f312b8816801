//! The outer IP and UDP header of a datagram: written before what was received, read off what is sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use convoy_packet::{Frame, HEADROOM_BYTES, checksum};

pub(super) const IPV4_HEADER: usize = 20;
pub(super) const IPV6_HEADER: usize = 40;
pub(super) const UDP_HEADER: usize = 8;
/// IP protocol number.
const UDP: u8 = 17;

/// What is told beside a datagram of the headers that the kernel took off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// DSCP and ECN: IPv4's TOS, IPv6's traffic class.
    pub(super) octet: u8,
    /// TTL or hop limit.
    pub(super) hops: u8,
}

/// Writes the headers before a datagram. An IPv4 datagram gets the UDP checksum 0 (the kernel has checked the real one,
/// RFC 3948 section 2.1), an IPv6 one a valid checksum. `None` if the addresses are of two families.
pub(super) fn wrap(frame: &mut Frame, arrival: &Arrival) -> Option<()> {
    const _: () = assert!(IPV6_HEADER + UDP_HEADER <= HEADROOM_BYTES);
    let udp_len = u16::try_from(frame.len() + UDP_HEADER).ok()?;
    let udp = frame.prepend(UDP_HEADER).ok()?;
    udp[0..2].copy_from_slice(&arrival.from.port().to_be_bytes());
    udp[2..4].copy_from_slice(&arrival.to.port().to_be_bytes());
    udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
    udp[6..8].fill(0);
    match (arrival.from.ip(), arrival.to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => wrap_v4(frame, arrival, from, to),
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let pseudo = pseudo_header(from, to, udp_len);
            let sum = checksum::of(frame, pseudo);
            // RFC 768: a sum that comes out as 0 is sent as its other form.
            let sum = if sum == 0 { 0xffff } else { sum };
            frame[6..8].copy_from_slice(&sum.to_be_bytes());
            wrap_v6(frame, arrival, from, to, udp_len)
        }
        _ => None,
    }
}

fn wrap_v4(frame: &mut Frame, arrival: &Arrival, from: Ipv4Addr, to: Ipv4Addr) -> Option<()> {
    let total = u16::try_from(frame.len() + IPV4_HEADER).ok()?;
    let ip = frame.prepend(IPV4_HEADER).ok()?;
    ip.fill(0);
    ip[0] = 0x45;
    ip[1] = arrival.octet;
    ip[2..4].copy_from_slice(&total.to_be_bytes());
    ip[8] = arrival.hops;
    ip[9] = UDP;
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..20].copy_from_slice(&to.octets());
    let sum = checksum::of(ip, 0);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    Some(())
}

fn wrap_v6(frame: &mut Frame, arrival: &Arrival, from: Ipv6Addr, to: Ipv6Addr, udp_len: u16) -> Option<()> {
    let ip = frame.prepend(IPV6_HEADER).ok()?;
    ip.fill(0);
    ip[0] = 0x60 | arrival.octet >> 4;
    ip[1] = arrival.octet << 4;
    ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
    ip[6] = UDP;
    ip[7] = arrival.hops;
    ip[8..24].copy_from_slice(&from.octets());
    ip[24..40].copy_from_slice(&to.octets());
    Some(())
}

fn pseudo_header(from: Ipv6Addr, to: Ipv6Addr, udp_len: u16) -> u64 {
    let sum = checksum::add(0, &from.octets());
    checksum::add(sum, &to.octets()) + u64::from(udp_len) + u64::from(UDP)
}

/// What is read off a packet's headers before they are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) source: IpAddr,
    pub(super) peer: SocketAddr,
    /// DSCP and ECN: IPv4's TOS, IPv6's traffic class.
    pub(super) octet: u8,
    /// Always so for IPv6, whose packets nobody else fragments.
    pub(super) dont_fragment: bool,
    /// Length of the headers, in bytes.
    pub(super) len: usize,
}

/// The headers of an IP packet with a whole UDP datagram in it; `None` of anything else. A fragment has no UDP header of
/// its own, so only a `raw` port could send it.
pub(super) fn head(packet: &[u8]) -> Option<Head> {
    let (source, peer, octet, dont_fragment, ip_len) = match packet.first()? >> 4 {
        4 => {
            let fixed = packet.first_chunk::<IPV4_HEADER>()?;
            let fragment = u16::from_be_bytes([fixed[6], fixed[7]]);
            let ip_len = usize::from(fixed[0] & 15) * 4;
            if fixed[9] != UDP || fragment & 0x3fff != 0 || ip_len < IPV4_HEADER {
                return None;
            }
            let address = |at: usize| IpAddr::from([fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]]);
            (address(12), address(16), fixed[1], fragment & 0x4000 != 0, ip_len)
        }
        6 => {
            let fixed = packet.first_chunk::<IPV6_HEADER>()?;
            if fixed[6] != UDP {
                return None;
            }
            let (source, peer) = fixed[8..].split_first_chunk::<16>()?;
            let octet = fixed[0] << 4 | fixed[1] >> 4;
            (IpAddr::from(*source), IpAddr::from(*peer.first_chunk::<16>()?), octet, true, IPV6_HEADER)
        }
        _ => return None,
    };
    let udp = packet.get(ip_len..)?.first_chunk::<UDP_HEADER>()?;
    let peer = SocketAddr::new(peer, u16::from_be_bytes([udp[2], udp[3]]));
    Some(Head { source, peer, octet, dont_fragment, len: ip_len + UDP_HEADER })
}

#[cfg(test)]
mod tests {
    use convoy_packet::FramePool;
    use proptest::prelude::*;

    use super::*;

    fn arrival(from: &str, to: &str) -> Arrival {
        let address = |text: &str| text.parse().expect("an address");
        Arrival { from: address(from), to: address(to), octet: 0xb9, hops: 61 }
    }

    fn wrapped(payload: &[u8], arrival: &Arrival) -> Vec<u8> {
        let mut pool = FramePool::new(1, 1);
        let mut frame = pool.take_filled(payload, 0).expect("a frame");
        wrap(&mut frame, arrival).expect("one family");
        frame.to_vec()
    }

    #[test]
    fn an_ipv4_header_says_who_sent_what_and_has_a_valid_checksum() {
        let arrival = arrival("192.0.2.7:4501", "198.51.100.1:4500");
        let packet = wrapped(b"abc", &arrival);
        assert_eq!(checksum::of(&packet[..20], 0), 0);
        assert_eq!((packet[8], packet[26], packet[27]), (61, 0, 0));
        let head = head(&packet).expect("a datagram");
        assert_eq!((head.source, head.peer), (arrival.from.ip(), arrival.to));
        assert_eq!((head.octet, head.dont_fragment, &packet[head.len..]), (0xb9, false, &b"abc"[..]));
    }

    #[test]
    fn an_ipv6_header_comes_with_a_valid_udp_checksum() {
        let arrival = arrival("[2001:db8::1]:4500", "[2001:db8:1::2]:4500");
        for payload in [&b""[..], b"a", b"ab", &[0xff; 1400]] {
            let packet = wrapped(payload, &arrival);
            let sum = checksum::add(0, &packet[8..40]) + (packet.len() - 40) as u64 + u64::from(UDP);
            assert_eq!(checksum::of(&packet[40..], sum), 0, "{} bytes", payload.len());
            let head = head(&packet).expect("a datagram");
            assert_eq!((head.peer, head.octet, packet[7]), (arrival.to, 0xb9, 61));
        }
    }

    #[test]
    fn fragments_other_protocols_and_stumps_are_not_datagrams() {
        let whole = wrapped(b"abc", &arrival("192.0.2.7:1", "192.0.2.8:2"));
        let changed = |at: usize, value: u8| {
            let mut packet = whole.clone();
            packet[at] = value;
            head(&packet)
        };
        assert_eq!(changed(6, 0x20), None, "more fragments");
        assert_eq!(changed(7, 1), None, "a later fragment");
        assert_eq!(changed(9, 50), None, "ESP");
        assert_eq!(changed(0, 0x44), None, "a header shorter than any");
        assert_eq!(changed(0, 0x4f), None, "a header longer than the packet");
        assert!(changed(6, 0x40).expect("a datagram").dont_fragment);
        assert_eq!(head(&whole[..27]), None);
        assert_eq!(head(&[]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Some(head) = head(&bytes) {
                prop_assert!(head.len <= bytes.len());
            }
        }
    }
}
