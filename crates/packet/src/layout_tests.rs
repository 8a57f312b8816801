use super::*;
use crate::ip::IpHeader;
use crate::protocol::{AH, DESTINATION_OPTIONS, ESP, FRAGMENT, HOP_BY_HOP, ROUTING, TCP, UDP};
use proptest::prelude::*;

fn packet(ends: [&str; 2], protocol: u8, payload: &[u8]) -> Vec<u8> {
    let [source, destination] = ends.map(|text| text.parse().expect("an address"));
    let header = IpHeader { traffic_class: 0xb9, ..IpHeader::new(protocol, source, destination) };
    let mut packet = [&vec![0; header.header_len()], payload].concat();
    header.write(&mut packet);
    packet
}

fn v4(protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = packet(["10.0.0.1", "10.0.0.2"], protocol, payload);
    packet[6..8].copy_from_slice(&flags.to_be_bytes());
    packet
}

fn v6(next: u8, payload: &[u8]) -> Vec<u8> {
    packet(["::1", "::2"], next, payload)
}

fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    Layout::parse(packet).expect("well-formed").ports(packet)
}

#[test]
fn both_families_give_the_same_fields() {
    let payload = [0, 7, 0, 9, 0, 8, 0, 0];
    let (a, b) = (v4(UDP, 0, &payload), v6(UDP, &payload));
    let [x, y] = [&a, &b].map(|packet| Layout::parse(packet).expect("well-formed"));
    assert_eq!((x.payload, x.total_len, y.payload, y.total_len), (20, 28, 40, 48));
    assert_eq!((x.protocol, x.traffic_class, x.hops), (y.protocol, y.traffic_class, y.hops));
    assert_eq!(
        (x.addresses(&a).0.to_string(), y.addresses(&b).1.to_string()),
        ("10.0.0.1".into(), "::2".into())
    );
    assert_eq!((x.body(&a), y.body(&b)), (&payload[..], &payload[..]));
    assert_eq!((x.next_header_at, y.next_header_at), (9, 6));
}

#[test]
fn ipv6_extension_headers_are_walked_to_the_transport() {
    let mut behind = vec![ROUTING, 0, 0, 0, 0, 0, 0, 0];
    behind.extend([FRAGMENT, 0, 0, 0, 0, 0, 0, 0]);
    behind.extend([DESTINATION_OPTIONS, 0, 0, 1, 0, 0, 0, 9]);
    behind.extend([UDP, 0, 0, 0, 0, 0, 0, 0]);
    behind.extend([0x12, 0x34, 0, 53, 0, 8, 0, 0]);
    let packet = v6(HOP_BY_HOP, &behind);
    let layout = Layout::parse(&packet).expect("well-formed");
    assert_eq!((layout.protocol, layout.payload, layout.traffic_class), (UDP, 72, 0xb9));
    assert_eq!((layout.unfragmentable, layout.next_header_at), (56, 48));
    assert_eq!(layout.fragment, Some(Fragment { identification: 9, offset: 0, more: true }));
    assert_eq!(layout.ports(&packet), Some((0x1234, 53)));
}

#[test]
fn ports_are_seen_behind_extension_headers_and_in_first_fragments_only() {
    let transport = [0, 7, 0, 9, 0, 8, 0, 0];
    let behind = |header: [u8; 8]| [header, transport].concat();
    assert_eq!(ports(&v6(DESTINATION_OPTIONS, &behind([TCP, 0, 0, 0, 0, 0, 0, 0]))), Some((7, 9)));
    assert_eq!(ports(&v6(FRAGMENT, &behind([TCP, 0, 0, 1, 0, 0, 0, 5]))), Some((7, 9)));
    assert_eq!(ports(&v6(FRAGMENT, &behind([TCP, 0, 0, 8, 0, 0, 0, 5]))), None);
    assert_eq!(ports(&v4(TCP, 0x2000, &transport)), Some((7, 9)));
    assert_eq!(ports(&v4(TCP, 0x0001, &transport)), None);
}

#[test]
fn icmp_type_and_code_stand_for_both_ports() {
    assert_eq!(ports(&v4(ICMP, 0, &[3, 4, 0, 0])), Some((0x0304, 0x0304)));
    assert_eq!(ports(&v6(ICMP_V6, &[135, 7, 0, 0])), Some((0x8707, 0x8707)));
}

#[test]
fn esp_ah_and_what_is_cut_short_have_no_ports() {
    let payload = [UDP, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
    for protocol in [AH, ESP] {
        for packet in [v4(protocol, 0, &payload), v6(protocol, &payload)] {
            let layout = Layout::parse(&packet).expect("well-formed");
            assert_eq!((layout.protocol, layout.ports(&packet)), (protocol, None));
        }
    }
    assert_eq!(ports(&v4(UDP, 0, &[0, 7, 0])), None);
}

#[test]
fn what_is_not_ip_is_an_error() {
    assert!(Layout::parse(&[]).is_err());
    assert_eq!(Layout::parse(&[0x55; 60]), Err(HeaderError::Version { header: "IP", found: 5 }));
}

#[test]
fn a_quoted_packet_may_end_behind_its_headers() {
    for whole in [v4(ESP, 0, &[7; 400]), v6(ESP, &[7; 400])] {
        let layout = Layout::parse(&whole).expect("well-formed");
        assert_eq!(Layout::parse_quoted(&whole[..layout.payload + 8]), Ok(layout));
        assert!(Layout::parse(&whole[..layout.payload + 8]).is_err());
        assert!(Layout::parse_quoted(&whole[..layout.payload - 1]).is_err());
    }
}

proptest! {
    #[test]
    fn plain_headers_are_read_as_a_walk_reads_them(
        mut packet in proptest::collection::vec(any::<u8>(), 20..100),
        is_v6: bool,
        fragment in prop_oneof![Just(0u16), Just(0x4000), any::<u16>()],
        next in prop_oneof![Just(UDP), Just(HOP_BY_HOP), any::<u8>()],
        missing in -2i32..=2,
    ) {
        let says = (packet.len() as i32 - missing - if is_v6 { 40 } else { 0 }) as u16;
        let (at, number_at) = if is_v6 { (4, 6) } else { (2, 9) };
        packet[0] = if is_v6 { 0x60 } else { 0x45 };
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[at..at + 2].copy_from_slice(&says.to_be_bytes());
        packet[number_at] = next;
        prop_assert_eq!(Layout::parse(&packet), Layout::walk(&packet));
    }

    #[test]
    fn any_bytes_give_a_layout_inside_the_packet_or_an_error(
        mut packet in proptest::collection::vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()],
        next in prop_oneof![Just(44u8), Just(0), Just(43), Just(60), any::<u8>()],
        fits: bool,
    ) {
        if let Some(first) = packet.first_mut() { *first = version; }
        if packet.len() > 40 {
            packet[6] = next;
            if fits {
                let len = packet.len() as u16;
                let (at, says) = if version >> 4 == 4 { (2, len) } else { (4, len - 40) };
                packet[at..at + 2].copy_from_slice(&says.to_be_bytes());
            }
        }
        let _ = Layout::parse_quoted(&packet);
        prop_assert_eq!(Layout::parse(&packet), Layout::walk(&packet));
        if let Ok(layout) = Layout::parse(&packet) {
            prop_assert!(layout.unfragmentable <= layout.payload);
            prop_assert!(layout.payload <= layout.total_len && layout.total_len <= packet.len());
            prop_assert!(layout.next_header_at < layout.unfragmentable);
            let _ = (layout.ports(&packet), layout.addresses(&packet));
        }
    }
}
