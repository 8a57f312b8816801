//! Arbitrary frames of a link.

use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::*;

const A: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const B: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 2);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 1);
const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);
/// Bytes that a device may have removed.
const MISSING: usize = 32;

fn identity(takes: Takes) -> Identity {
    Identity::new(OWN, &[(A, 24)], None, takes).expect("a good configuration")
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
    let own = identity(Takes::Own);
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
    let router = identity(Takes::All);
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

proptest! {
    #[test]
    fn any_frame_is_read_to_something_inside_it(bytes in proptest::collection::vec(any::<u8>(), 0..100), missing in 0_usize..64, is_router: bool) {
        let identity = identity(if is_router { Takes::All } else { Takes::Own });
        let _ = Incoming::read(&bytes, missing, &identity);
    }

    #[test]
    fn a_damaged_frame_is_dropped_or_still_a_packet_for_this_port(
        at in 0_usize..70, value: u8, cut in 0_usize..80, is_opened: bool, is_echo: bool,
    ) {
        let identity = identity(Takes::Own);
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
                let reply = echo_reply(request).expect("an answer");
                let reply = Ipv4::parse(&reply).expect("a packet");
                prop_assert!(reply.is_checksum_valid() && reply.source() == A);
            }
            Incoming::Arp(_) | Incoming::Dropped(_) => {}
        }
    }

    #[test]
    fn any_arp_message_is_answered_at_most_once_and_only_for_the_own_address(bytes in proptest::collection::vec(any::<u8>(), 28..60), is_whole: bool) {
        let identity = identity(Takes::Own);
        let mut bytes = bytes;
        if is_whole {
            bytes[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        }
        let source = MacAddress(bytes[8..14].try_into().expect("six"));
        let frame = [&ethernet::header(MacAddress::BROADCAST, source, ethernet::ARP)[..], &bytes].concat();
        if let Incoming::Arp(message) = Incoming::read(&frame, 0, &identity)
            && let Some((to, reply)) = arp_reply(&message, &identity)
        {
            prop_assert_eq!((to, reply.sender, message.target), (source, A, A));
        }
    }
}
