//! The outer IP and UDP header of a datagram: written before what was received, read off what is
//! sent.

use std::net::{IpAddr, SocketAddr};

use convoy_packet::protocol::UDP;
use convoy_packet::udp::{self, HEADER_BYTES};
use convoy_packet::{
    Frame, HEADROOM_BYTES, IpHeader, IpTemplate, IpVariables, Ipv4, Ipv6, Udp, checksum, ipv6,
};

/// The longest datagram that an IPv4 packet carries, in bytes.
const LONGEST_BYTES: usize = u16::MAX as usize - convoy_packet::ipv4::HEADER_BYTES;

/// What the kernel reports of the headers that it removed from a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// DSCP and ECN: IPv4's TOS, IPv6's traffic class.
    pub(super) traffic_class: u8,
    /// TTL or hop limit.
    pub(super) hops: u8,
}

/// The headers of datagrams from one place to another: computed once for many.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wrapper {
    arrival: Arrival,
    ip: IpTemplate,
}

impl Wrapper {
    /// `None` if the addresses are of two families.
    pub(super) fn of(arrival: &Arrival) -> Option<Self> {
        let (from, to) = (arrival.from.ip(), arrival.to.ip());
        let header = IpHeader { hop_limit: arrival.hops, ..IpHeader::new(UDP, from, to) };
        let is_one_family = from.is_ipv4() == to.is_ipv4();
        is_one_family.then(|| Self { arrival: *arrival, ip: IpTemplate::new(&header) })
    }

    /// Whether it is that of this arrival.
    pub(super) fn is_of(&self, arrival: &Arrival) -> bool {
        self.arrival == *arrival
    }

    /// Writes the headers before a datagram. An IPv4 datagram gets the UDP checksum 0 (the kernel
    /// has checked the real one, RFC 3948 section 2.1), an IPv6 one a valid checksum. `None` if it
    /// is too long.
    pub(super) fn wrap(&self, frame: &mut Frame) -> Option<()> {
        const _: () = assert!(ipv6::HEADER_BYTES + HEADER_BYTES <= HEADROOM_BYTES);
        let len = frame.len() + HEADER_BYTES;
        if len > LONGEST_BYTES {
            return None;
        }
        let at = self.ip.header_len();
        frame.prepend(at + HEADER_BYTES).ok()?;
        let Arrival { from, to, traffic_class, .. } = self.arrival;
        self.ip.write(frame, IpVariables { traffic_class, ..IpVariables::default() });
        udp::write(&mut frame[at..], from.port(), to.port());
        if self.ip.is_v6() {
            let pseudo = checksum::pseudo_header(frame, UDP, len);
            udp::fill_checksum(&mut frame[at..], pseudo);
        }
        Some(())
    }
}

/// The fields of a packet's headers that are passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UdpHead {
    pub(super) source: IpAddr,
    pub(super) source_port: u16,
    pub(super) peer: SocketAddr,
    /// DSCP and ECN: IPv4's TOS, IPv6's traffic class.
    pub(super) traffic_class: u8,
    /// Always so for IPv6, whose packets no router fragments.
    pub(super) dont_fragment: bool,
    /// Length of the headers, in bytes.
    pub(super) len: usize,
}

/// The headers of an IP packet with a whole UDP datagram in it; `None` of anything else, fragments
/// among it.
pub(super) fn head(packet: &[u8]) -> Option<UdpHead> {
    let (source, peer, traffic_class, dont_fragment, ip_len, datagram) = if packet.first()? >> 4 == 4 {
        let ip = Ipv4::parse(packet).ok().filter(|ip| ip.protocol() == UDP && ip.fragment().is_none())?;
        let (source, peer) = (IpAddr::V4(ip.source()), IpAddr::V4(ip.destination()));
        (source, peer, ip.traffic_class(), ip.dont_fragment(), ip.header_len(), ip.payload())
    } else {
        let ip = Ipv6::parse(packet).ok().filter(|ip| ip.next_header() == UDP)?;
        let (source, peer) = (IpAddr::V6(ip.source()), IpAddr::V6(ip.destination()));
        (source, peer, ip.traffic_class(), true, ipv6::HEADER_BYTES, ip.payload())
    };
    let datagram = Udp::parse(datagram).ok()?;
    let (source_port, peer) = (datagram.source_port(), SocketAddr::new(peer, datagram.destination_port()));
    Some(UdpHead { source, source_port, peer, traffic_class, dont_fragment, len: ip_len + HEADER_BYTES })
}

#[cfg(test)]
mod tests {
    use convoy_packet::FramePool;
    use proptest::prelude::*;

    use super::*;

    fn arrival(from: &str, to: &str) -> Arrival {
        let address = |text: &str| text.parse().expect("an address");
        Arrival { from: address(from), to: address(to), traffic_class: 0xb9, hops: 61 }
    }

    fn wrapped(payload: &[u8], arrival: &Arrival) -> Vec<u8> {
        let mut pool = FramePool::new(1, 1);
        let mut frame = pool.take_filled(payload, 0).expect("a frame");
        Wrapper::of(arrival).expect("one family").wrap(&mut frame).expect("short");
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
        assert_eq!((head.traffic_class, head.dont_fragment, &packet[head.len..]), (0xb9, false, &b"abc"[..]));
    }

    #[test]
    fn an_ipv6_header_comes_with_a_valid_udp_checksum() {
        let arrival = arrival("[2001:db8::1]:4500", "[2001:db8:1::2]:4500");
        for payload in [&b""[..], b"a", b"ab", &[0xff; 1400]] {
            let packet = wrapped(payload, &arrival);
            let pseudo = checksum::pseudo_header(&packet, UDP, packet.len() - 40);
            let datagram = Udp::parse(&packet[40..]).expect("whole");
            assert!(datagram.is_checksum_valid(pseudo), "{} bytes", payload.len());
            let head = head(&packet).expect("a datagram");
            assert_eq!((head.peer, head.traffic_class, packet[7]), (arrival.to, 0xb9, 61));
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
