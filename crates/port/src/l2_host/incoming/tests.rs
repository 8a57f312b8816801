//! Arbitrary frames of a link.

use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;
use convoy_packet::{IpHeader, NdpKind};

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const A6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
const B6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
const FAR6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 1);
const LOCAL6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 9);
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);
/// Bytes that a device may have removed.
const MISSING: usize = 32;

fn identity(takes: PortTakes) -> HostIdentity {
    HostIdentity::new(OWN, &[(A.into(), 24)], &[], takes).expect("a good configuration")
}

fn identity_of_both(takes: PortTakes) -> HostIdentity {
    HostIdentity::new(OWN, &[(A.into(), 24), (A6.into(), 64)], &[], takes).expect("a good configuration")
}

fn packet_v6(protocol: u8, source: Ipv6Addr, destination: Ipv6Addr, body: &[u8]) -> Vec<u8> {
    let mut packet = [&[0; ipv6::HEADER_BYTES][..], body].concat();
    IpHeader::new(protocol, source.into(), destination.into()).write(&mut packet);
    packet
}

fn echo_v6(source: Ipv6Addr, destination: Ipv6Addr) -> Vec<u8> {
    let mut packet = packet_v6(protocol::ICMP_V6, source, destination, &[0x5a; 40]);
    let pseudo = checksum::pseudo_header(&packet, protocol::ICMP_V6, 40);
    icmp::write(&mut packet[ipv6::HEADER_BYTES..], icmp::v6::ECHO, 0, 7, pseudo);
    packet
}

fn solicitation(target: Ipv6Addr) -> Ndp {
    let destination = ndp::solicited_node(target);
    Ndp { kind: NdpKind::Solicitation, source: B6, destination, target, mac: Some(PEER) }
}

fn packet(protocol: u8, source: Ipv4Addr, destination: Ipv4Addr, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv4::HEADER_BYTES];
    Ipv4Header {
        traffic_class: 0,
        total_length: (ipv4::HEADER_BYTES + body.len()) as u16,
        identification: 7,
        dont_fragment: false,
        time_to_live: 64,
        protocol,
        source,
        destination,
    }
    .write(&mut packet);
    packet.extend_from_slice(body);
    packet
}

fn frame(to: MacAddress, ethertype: u16, body: &[u8]) -> Vec<u8> {
    [&ethernet::header(to, PEER, ethertype)[..], body].concat()
}

#[test]
fn what_is_for_others_is_dropped_by_its_reason() {
    let own = identity(PortTakes::Own);
    let dropped = |frame: &[u8]| match Incoming::read(frame, 0, &own) {
        Incoming::Dropped(why) => Some(why),
        _ => None,
    };
    let esp = packet(protocol::ESP, B, A, &[1; 40]);
    assert_eq!(dropped(&frame(OWN, ethernet::IPV4, &esp)), None);
    assert_eq!(dropped(&frame(PEER, ethernet::IPV4, &esp)), Some(Dropped::OtherHost));
    assert_eq!(dropped(&frame(MacAddress::BROADCAST, ethernet::IPV4, &esp)), Some(Dropped::OtherHost));
    assert_eq!(dropped(&frame(OWN, ethernet::IPV6, &esp)), Some(Dropped::OtherProtocol));
    assert_eq!(dropped(&frame(OWN, 0x8100, &esp)), Some(Dropped::OtherProtocol));
    let far = packet(protocol::ESP, B, FAR, &[1; 40]);
    assert_eq!(dropped(&frame(OWN, ethernet::IPV4, &far)), Some(Dropped::OtherAddress));
    assert_eq!(dropped(&frame(OWN, ethernet::IPV4, &esp[..59])), Some(Dropped::Malformed));
    assert_eq!(dropped(&frame(OWN, ethernet::IPV4, &[])), Some(Dropped::Malformed));
    assert_eq!(dropped(&[0; 13]), Some(Dropped::Malformed));
    assert_eq!(dropped(&frame(OWN, ethernet::ARP, &[0; 28])), Some(Dropped::Malformed));
}

#[test]
fn a_router_takes_packets_to_all_hosts_and_answers_for_itself_alone() {
    let router = identity(PortTakes::All);
    let read = |destination| {
        let mut message = vec![0x5a; 16];
        icmp::write(&mut message, icmp::v4::ECHO, 0, 1, 0);
        let frame = frame(OWN, ethernet::IPV4, &packet(protocol::ICMP, B, destination, &message));
        match Incoming::read(&frame, 0, &router) {
            Incoming::Packet(..) => "packet",
            Incoming::Echo(..) => "echo",
            Incoming::Dropped(Dropped::OtherAddress) => "dropped",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((read(A), read(FAR)), ("echo", "packet"));
    for group in [Ipv4Addr::BROADCAST, Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::LOCALHOST] {
        assert_eq!(read(group), "dropped", "{group}");
    }
}

#[test]
fn of_ipv6_what_is_for_others_is_dropped_by_its_reason() {
    let own = identity_of_both(PortTakes::Own);
    let read = |frame: &[u8]| match Incoming::read(frame, 0, &own) {
        Incoming::Dropped(why) => Some(why),
        _ => None,
    };
    let esp = packet_v6(protocol::ESP, B6, A6, &[1; 40]);
    let to_us = frame(OWN, ethernet::IPV6, &esp);
    assert_eq!(Incoming::read(&to_us, 0, &own), Incoming::Packet(&esp, 0));
    assert_eq!(Incoming::read(&[&to_us[..], &[0; 6]].concat(), 0, &own), Incoming::Packet(&esp, 0), "padded");
    let group = ndp::group_mac(ndp::solicited_node(A6));
    for other in [PEER, group, MacAddress::BROADCAST, MacAddress([0x33, 0x33, 0xff, 0, 0, 2])] {
        assert_eq!(read(&frame(other, ethernet::IPV6, &esp)), Some(Dropped::OtherHost), "{other}");
    }
    for other in [FAR6, ndp::solicited_node(A6), Ipv6Addr::LOCALHOST, LOCAL6] {
        let esp = packet_v6(protocol::ESP, B6, other, &[1; 40]);
        assert_eq!(read(&frame(OWN, ethernet::IPV6, &esp)), Some(Dropped::OtherAddress), "{other}");
    }
    for bytes in [&esp[..79], &esp[..39], &[]] {
        assert_eq!(read(&frame(OWN, ethernet::IPV6, bytes)), Some(Dropped::Malformed));
    }
    assert_eq!(
        Incoming::read(&to_us, 0, &identity(PortTakes::Own)),
        Incoming::Dropped(Dropped::OtherProtocol)
    );
}

#[test]
fn discovery_is_read_from_the_groups_of_this_host_and_what_is_of_routers_is_not() {
    let own = identity_of_both(PortTakes::Own);
    let asked = solicitation(A6);
    let read = |to, packet: &[u8]| match Incoming::read(&frame(to, ethernet::IPV6, packet), 0, &own) {
        Incoming::Discovery(Discovery::Ndp(message, from)) => Ok((message, from)),
        Incoming::Dropped(why) => Err(why),
        other => panic!("{other:?}"),
    };
    let all_nodes = ndp::group_mac(ndp::ALL_NODES);
    for to in [OWN, all_nodes, ndp::group_mac(asked.destination)] {
        assert_eq!(read(to, &asked.to_packet()), Ok((asked, PEER)), "{to}");
    }
    let to_others = frame(MacAddress([0x33, 0x33, 0xff, 0, 0, 2]), ethernet::IPV6, &asked.to_packet());
    assert_eq!(Incoming::read(&to_others, 0, &own), Incoming::Dropped(Dropped::OtherHost));
    let mut damaged = asked.to_packet();
    damaged[50] ^= 1;
    assert_eq!(read(OWN, &damaged), Err(Dropped::Malformed));
    let mut of_routers = asked.to_packet();
    of_routers[ipv6::HEADER_BYTES] = 134;
    assert_eq!(read(all_nodes, &of_routers), Err(Dropped::OtherProtocol));
    // A router has passed it on: it is an ordinary packet, to a group.
    let mut from_afar = asked.to_packet();
    from_afar[7] = 254;
    assert_eq!(read(OWN, &from_afar), Err(Dropped::OtherAddress));
}

#[test]
fn a_router_of_ipv6_takes_packets_to_all_hosts_but_what_is_of_one_link() {
    let router = identity_of_both(PortTakes::All);
    let read = |source, destination| {
        let frame = frame(OWN, ethernet::IPV6, &echo_v6(source, destination));
        match Incoming::read(&frame, 0, &router) {
            Incoming::Packet(..) => "packet",
            Incoming::Echo(..) => "echo",
            Incoming::Dropped(Dropped::OtherAddress) => "dropped",
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((read(B6, A6), read(LOCAL6, A6), read(B6, FAR6)), ("echo", "echo", "packet"));
    assert_eq!(
        (read(LOCAL6, FAR6), read(B6, LOCAL6), read(B6, ndp::ALL_NODES)),
        ("dropped", "dropped", "dropped")
    );
}

proptest! {
    #[test]
    fn any_frame_is_read_to_something_inside_it(bytes in proptest::collection::vec(any::<u8>(), 0..100), missing in 0_usize..64, is_router: bool) {
        let identity = identity_of_both(if is_router { PortTakes::All } else { PortTakes::Own });
        let _ = Incoming::read(&bytes, missing, &identity);
    }

    #[test]
    fn a_damaged_frame_is_dropped_or_still_a_packet_for_this_port(
        at in 0_usize..70, value: u8, cut in 0_usize..80, is_opened: bool, is_echo: bool,
    ) {
        let identity = identity(PortTakes::Own);
        let mut message = vec![9; 40];
        icmp::write(&mut message, icmp::v4::ECHO, 0, 1, 0);
        let protocol = if is_echo { protocol::ICMP } else { protocol::ESP };
        let body = packet(protocol, B, A, &message);
        let mut frame = [&ethernet::header(identity.mac, PEER, ethernet::IPV4)[..], &body].concat();
        frame[at] = value;
        frame.truncate(80 - cut);
        match Incoming::read(&frame, if is_opened { MISSING } else { 0 }, &identity) {
            Incoming::Packet(packet, missing) => {
                let header = Ipv4::parse_quoted(packet).expect("a header");
                prop_assert!(header.is_checksum_valid() && header.destination() == A);
                prop_assert_eq!(usize::from(header.total_length()), packet.len() + missing);
                prop_assert!(missing == 0 || is_opened && missing <= MISSING);
            }
            Incoming::Echo(to, request) => {
                prop_assert_eq!(to, Ethernet::parse(&frame).expect("whole").source());
                let reply = echo_reply(to, request).expect("an answer");
                let reply = Ipv4::parse(&reply.bytes).expect("a packet");
                prop_assert!(reply.is_checksum_valid() && reply.source() == A);
            }
            Incoming::Discovery(_) | Incoming::Dropped(_) => {}
        }
    }

    #[test]
    fn any_arp_message_is_answered_at_most_once_and_only_for_the_own_address(bytes in proptest::collection::vec(any::<u8>(), 28..60), is_whole: bool) {
        let identity = identity(PortTakes::Own);
        let mut bytes = bytes;
        if is_whole {
            bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        }
        let source = MacAddress(bytes[8..14].try_into().expect("six"));
        let frame = [&ethernet::header(MacAddress::BROADCAST, source, ethernet::ARP)[..], &bytes].concat();
        if let Incoming::Discovery(Discovery::Arp(message)) = Incoming::read(&frame, 0, &identity)
            && let Some(answer) = Discovery::Arp(message).answer(&identity)
        {
            let reply = Arp::parse(&answer.bytes).expect("whole").expect("of IPv4");
            prop_assert_eq!((answer.to, reply.sender, message.target), (source, A, A));
        }
    }

    #[test]
    fn a_damaged_frame_of_ipv6_is_dropped_or_still_for_this_port(at in 0_usize..94, value: u8, cut in 0_usize..90, is_echo: bool) {
        let identity = identity_of_both(PortTakes::Own);
        let (to, body) = match is_echo {
            true => (OWN, echo_v6(B6, A6)),
            false => (ndp::group_mac(ndp::solicited_node(A6)), solicitation(A6).to_packet()),
        };
        let mut frame = frame(to, ethernet::IPV6, &body);
        let at = at.min(frame.len() - 1);
        frame[at] = value;
        frame.truncate(94 - cut);
        match Incoming::read(&frame, 0, &identity) {
            Incoming::Packet(packet, missing) => {
                let header = Ipv6::parse(packet).expect("a packet");
                prop_assert_eq!((missing, header.destination(), header.as_bytes().len()), (0, A6, packet.len()));
            }
            Incoming::Echo(to, request) => {
                let reply = echo_reply(to, request).expect("an answer");
                let reply = Ipv6::parse(&reply.bytes).expect("a packet");
                let pseudo = checksum::pseudo_header(reply.as_bytes(), protocol::ICMP_V6, reply.payload().len());
                let message = Icmp::parse(reply.payload()).expect("a message");
                prop_assert!(message.is_checksum_valid(pseudo) && reply.source() == A6);
            }
            Incoming::Discovery(Discovery::Arp(_)) => prop_assert!(false, "no ARP was sent"),
            Incoming::Discovery(Discovery::Ndp(message, _)) => {
                prop_assert_eq!(message, solicitation(A6), "only its frame's addresses may be others");
            }
            Incoming::Dropped(_) => {}
        }
    }
}

#[test]
fn of_a_packet_that_a_device_has_opened_the_icv_may_be_missing() {
    let own = identity_of_both(PortTakes::Own);
    let whole = [packet(protocol::ESP, B, A, &[1; 60]), packet_v6(protocol::ESP, B6, A6, &[1; 60])];
    for (whole, ethertype) in whole.iter().zip([ethernet::IPV4, ethernet::IPV6]) {
        for missing in [0, 16, MISSING] {
            let there = &whole[..whole.len() - missing];
            let frame = frame(OWN, ethertype, there);
            assert_eq!(Incoming::read(&frame, MISSING, &own), Incoming::Packet(there, missing));
        }
        let short = &whole[..whole.len() - MISSING - 1];
        let malformed = Incoming::Dropped(Dropped::Malformed);
        assert_eq!(Incoming::read(&frame(OWN, ethertype, short), MISSING, &own), malformed);
        let raw = &whole[..whole.len() - 1];
        assert_eq!(Incoming::read(&frame(OWN, ethertype, raw), 0, &own), malformed);
        let others = frame(MacAddress::BROADCAST, ethertype, &whole[..whole.len() - 1]);
        assert_eq!(Incoming::read(&others, MISSING, &own), Incoming::Dropped(Dropped::OtherHost));
    }
}

#[test]
fn fragments_are_packets() {
    for (bits, total) in [(0x2000_u16, 1_500), (0x00b9, 948), (0, 1_500)] {
        let mut bytes = packet(protocol::UDP, B, A, &vec![7; total - 20]);
        bytes[6..8].copy_from_slice(&bits.to_be_bytes());
        ipv4::fill_checksum(&mut bytes);
        let frame = frame(OWN, ethernet::IPV4, &bytes);
        assert_eq!(
            Incoming::read(&frame, 0, &identity(PortTakes::Own)),
            Incoming::Packet(&bytes, 0),
            "{bits:#x}"
        );
    }
}
