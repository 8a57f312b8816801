use super::*;
use crate::protocol::{AH, ESP, ICMP_V6, TCP, UDP};
use proptest::prelude::*;

const HEADER: Ipv6Header = Ipv6Header {
    traffic_class: 0xb9,
    flow_label: 0xabcde,
    payload_length: 0,
    next_header: UDP,
    hop_limit: 63,
    source: Ipv6Addr::LOCALHOST,
    destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2),
};

fn packet(next_header: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; HEADER_BYTES];
    let header = Ipv6Header { next_header, payload_length: payload.len() as u16, ..HEADER };
    header.write(&mut packet);
    packet.extend(payload);
    packet
}

fn upper(next_header: u8, payload: &[u8]) -> Result<UpperLayer, HeaderError> {
    Ipv6::parse(&packet(next_header, payload)).and_then(|view| view.upper_layer())
}

/// An extension header of eight bytes, followed by `next`.
const fn short(next: u8) -> [u8; 8] {
    [next, 0, 0, 0, 0, 0, 0, 0]
}

#[test]
fn what_is_written_is_read_back() {
    let packet = packet(UDP, &[9; 4]);
    let view = Ipv6::parse(&packet).expect("whole");
    assert_eq!((view.traffic_class(), view.flow_label()), (0xb9, 0xabcde));
    assert_eq!((view.payload_length(), view.next_header(), view.hop_limit()), (4, UDP, 63));
    assert_eq!((view.source(), view.destination()), (HEADER.source, HEADER.destination));
    assert_eq!(view.payload(), [9; 4]);
    let padded = [&packet[..], &[0; 30]].concat();
    assert_eq!(Ipv6::parse(&padded).expect("whole").as_bytes(), packet);
}

#[test]
fn version_and_lengths_are_checked_and_jumbograms_refused() {
    let whole = packet(UDP, &[9; 4]);
    let length = HeaderError::Length { header: NAME, says: 4, least: 0, most: 3 };
    assert_eq!(Ipv6::parse(&whole[..43]).err(), Some(length));
    assert!(matches!(Ipv6::parse(&whole[..39]), Err(HeaderError::TooShort { need: 40, have: 39, .. })));
    let version = HeaderError::Version { header: NAME, found: 4 };
    assert_eq!(Ipv6::parse(&[0x45; 60]).err(), Some(version));
    let mut jumbo = packet(HOP_BY_HOP, &[UDP, 0, 0xc2, 4, 0, 1, 0, 0]);
    set_payload_length(&mut jumbo, 0);
    assert_eq!(Ipv6::parse(&jumbo).err(), Some(HeaderError::Jumbogram));
}

#[test]
fn a_fragment_header_ends_what_every_fragment_repeats() {
    let fragment = [DESTINATION_OPTIONS, 0, 0, 1, 0, 0, 0, 9];
    let chain = [short(DESTINATION_OPTIONS), short(ROUTING), short(FRAGMENT), fragment, short(TCP)].concat();
    let found = upper(HOP_BY_HOP, &[&chain[..], &[0; 20]].concat()).expect("whole");
    assert_eq!((found.protocol, found.at), (TCP, 80));
    assert_eq!((found.unfragmentable, found.next_header_at), (64, 56));
    assert_eq!(found.fragment, Some(Fragment { identification: 9, offset: 0, more: true }));
}

#[test]
fn the_last_destination_options_are_no_part_of_it() {
    let chain = [short(DESTINATION_OPTIONS), short(ROUTING), short(DESTINATION_OPTIONS), short(UDP)].concat();
    let found = upper(HOP_BY_HOP, &chain).expect("whole");
    assert_eq!((found.protocol, found.at), (UDP, 72));
    assert_eq!((found.unfragmentable, found.next_header_at), (64, 56));
    for payload in [&[][..], &short(UDP)] {
        let next = if payload.is_empty() { UDP } else { DESTINATION_OPTIONS };
        let found = upper(next, payload).expect("whole");
        assert_eq!((found.protocol, found.unfragmentable, found.next_header_at), (UDP, 40, 6));
    }
}

#[test]
fn ah_and_esp_end_the_walk() {
    let ah = [&[UDP, 4, 0, 0][..], &[0; 28]].concat();
    let found = upper(AH, &ah).expect("whole");
    assert_eq!((found.protocol, found.at), (AH, 40));
    let found = upper(HOP_BY_HOP, &[&short(ESP)[..], &[0; 8]].concat()).expect("whole");
    assert_eq!((found.protocol, found.at), (ESP, 48));
}

#[test]
fn nothing_is_walked_behind_a_later_fragments_header() {
    let fragment = [DESTINATION_OPTIONS, 0, 0x05, 0xc0, 0, 0, 0, 9];
    let found = upper(FRAGMENT, &[fragment, [0xff; 8]].concat()).expect("whole");
    assert_eq!((found.protocol, found.at), (DESTINATION_OPTIONS, 48));
    let fields = found.fragment.expect("a fragment");
    assert_eq!((fields.offset, fields.more, fields.is_piece()), (1_472, false, true));
    let atomic = upper(FRAGMENT, &short(UDP)).expect("whole").fragment.expect("a fragment header");
    assert!(!atomic.is_piece());
}

#[test]
fn chains_that_are_too_long_cut_short_or_fragmented_twice_are_errors() {
    let many = short(DESTINATION_OPTIONS).repeat(EXTENSION_LIMIT + 1);
    assert_eq!(upper(DESTINATION_OPTIONS, &many), Err(HeaderError::ExtensionLimit(EXTENSION_LIMIT)));
    let most = [short(DESTINATION_OPTIONS).repeat(EXTENSION_LIMIT - 1), short(ICMP_V6).to_vec()].concat();
    assert_eq!(upper(DESTINATION_OPTIONS, &most).expect("whole").protocol, ICMP_V6);
    assert!(matches!(upper(ROUTING, &[UDP, 1, 0, 0, 0, 0, 0, 0]), Err(HeaderError::Length { says: 16, .. })));
    assert!(matches!(upper(ROUTING, &[UDP, 0]), Err(HeaderError::TooShort { .. })));
    let twice = [short(FRAGMENT), short(UDP)].concat();
    assert_eq!(upper(FRAGMENT, &twice), Err(HeaderError::RepeatedFragment));
}

#[test]
fn a_fragment_header_is_written_and_read_back() {
    let mut bytes = packet(FRAGMENT, &[9; 12]);
    let fragment = Fragment { identification: 0x0102_0304, offset: 65_528, more: true };
    write_fragment(&mut bytes[40..], UDP, fragment);
    let extension = Extension::parse(&bytes, FRAGMENT, 40).expect("whole");
    assert_eq!((extension.next_header, extension.end, extension.fragment), (UDP, 48, Some(fragment)));
    assert!(Extension::parse(&bytes, ROUTING, 60).is_err(), "behind the end");
}

#[test]
fn setters_change_their_field_only() {
    let mut changed = packet(UDP, &[9; 4]);
    set_traffic_class(&mut changed, 0x12);
    set_hop_limit(&mut changed, 5);
    set_payload_length(&mut changed, 3);
    let view = Ipv6::parse(&changed).expect("whole");
    assert_eq!((view.traffic_class(), view.flow_label(), view.hop_limit()), (0x12, 0xabcde, 5));
    assert_eq!(view.payload_length(), 3);
}

proptest! {
    #[test]
    fn any_bytes_give_a_walk_inside_the_packet_or_an_error(
        payload in proptest::collection::vec(prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60), any::<u8>()], 0..200),
        next in prop_oneof![Just(0u8), Just(43), Just(44), Just(51), Just(60)],
        cut in 0usize..240,
    ) {
        let mut packet = packet(next, &payload);
        if cut < 40 { packet.truncate(cut); }
        if let Ok(upper) = Ipv6::parse(&packet).and_then(|view| view.upper_layer()) {
            prop_assert!(upper.at <= packet.len() && upper.unfragmentable <= upper.at);
            prop_assert!(upper.next_header_at < upper.unfragmentable);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
        if let Ok(view) = Ipv6::parse(&bytes) {
            let _ = (view.source(), view.destination(), view.upper_layer());
        }
    }
}
