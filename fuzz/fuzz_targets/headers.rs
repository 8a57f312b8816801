//! Views of any bytes stay within them, fields are written back as they were read, and an updated
//! checksum equals a recomputed one.
#![no_main]

use convoy_packet::ipv4::{self, Ipv4Header, Ipv4Option};
use convoy_packet::ipv6::{self, Ipv6Header};
use convoy_packet::protocol::UDP;
use convoy_packet::{
    Ah, Arp, Esp, Ethernet, Fragment, Icmp, Ipv4, Ipv6, Layout, Ndp, Udp, ah, arp, checksum, esp, ethernet,
    icmp, ip, ndp, tcp, udp, zero_mutable,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    ipv4_header(bytes);
    ipv6_header(bytes);
    layout(bytes);
    transport(bytes);
    ipsec(bytes);
    messages(bytes);
    let _ = zero_mutable(&mut bytes.to_vec());
    for at in [0, ethernet::ETHERTYPE_AT, bytes.len()] {
        assert!(ethernet::ip_start(bytes, at).is_none_or(|start| start <= bytes.len()));
    }
    if let Ok(Some(message)) = Arp::parse(bytes) {
        assert_eq!(message.to_bytes(), bytes[..arp::ARP_BYTES]);
    }
    if let Ok(packet) = Ipv6::parse(bytes)
        && let Some(message) = Ndp::parse(&packet)
    {
        assert!(ndp::is_ndp(&packet));
        let again = message.to_packet();
        assert_eq!(Ndp::parse(&Ipv6::parse(&again).expect("whole")), Some(message));
    }
    if let Ok(frame) = Ethernet::parse(bytes) {
        let header = ethernet::header(frame.destination(), frame.source(), frame.ethertype());
        assert_eq!([&header, frame.payload()].concat(), bytes);
    }
});

fn ipv4_header(bytes: &[u8]) {
    let Ok(view) = Ipv4::parse(bytes) else { return };
    assert_eq!(view.header_len() + view.payload().len(), usize::from(view.total_length()));
    options(&bytes[..view.header_len()]);
    let mut written = view.as_bytes().to_vec();
    ipv4::fill_checksum(&mut written);
    if view.header_len() == ipv4::HEADER_BYTES {
        let is_reserved_set = written[6] & 0x80 != 0;
        let header = Ipv4Header {
            traffic_class: view.traffic_class(),
            total_length: view.total_length(),
            identification: view.identification(),
            dont_fragment: view.dont_fragment(),
            time_to_live: view.time_to_live(),
            protocol: view.protocol(),
            source: view.source(),
            destination: view.destination(),
        };
        let mut again = view.as_bytes().to_vec();
        header.write(&mut again);
        if let Some(fragment) = view.fragment() {
            ipv4::set_fragment(&mut again, fragment);
            ipv4::fill_checksum(&mut again);
        }
        // The exceptions are the reserved bit, and DF in a fragment: neither is ever written.
        if !(is_reserved_set || view.fragment().is_some() && view.dont_fragment()) {
            assert_eq!(again, written);
        }
    }
    updates(written);
}

/// A correct header checksum stays correct when fields change.
fn updates(mut packet: Vec<u8>) {
    for value in [0, 0x5a, 0xff, packet[packet.len() - 1]] {
        ip::set_traffic_class(&mut packet, value);
        ip::decrement_hop_limit(&mut packet);
        let mut again = packet.clone();
        ipv4::fill_checksum(&mut again);
        assert_eq!(packet, again);
        assert_eq!(ip::traffic_class(&packet), value);
    }
}

fn options(header: &[u8]) {
    let mut at = ipv4::HEADER_BYTES;
    while let Ok(Some(option)) = Ipv4Option::parse(header, at) {
        assert!(option.at >= at && option.end > option.at && option.end <= header.len());
        at = option.end;
    }
}

fn ipv6_header(bytes: &[u8]) {
    let Ok(view) = Ipv6::parse(bytes) else { return };
    let header = Ipv6Header {
        traffic_class: view.traffic_class(),
        flow_label: view.flow_label(),
        payload_length: view.payload_length(),
        next_header: view.next_header(),
        hop_limit: view.hop_limit(),
        source: view.source(),
        destination: view.destination(),
    };
    let mut written = view.as_bytes().to_vec();
    written[..ipv6::HEADER_BYTES].fill(0x55);
    header.write(&mut written);
    assert_eq!(written, view.as_bytes());
    if let Ok(upper) = view.upper_layer() {
        assert!(upper.unfragmentable <= upper.at && upper.at <= written.len());
        if let Some(fragment) = upper.fragment {
            fragment_header(&written, upper.unfragmentable, fragment);
        }
    }
}

fn fragment_header(packet: &[u8], at: usize, fragment: Fragment) {
    let mut written = [0; ipv6::FRAGMENT_BYTES];
    ipv6::write_fragment(&mut written, packet[at], fragment);
    // Reserved bits are written as zero.
    let mut read: [u8; ipv6::FRAGMENT_BYTES] = packet[at..at + 8].try_into().expect("eight bytes");
    (read[1], read[3]) = (0, read[3] & 0xf9);
    assert_eq!(written, read);
}

fn layout(bytes: &[u8]) {
    let _ = Layout::parse_quoted(bytes);
    let Ok(layout) = Layout::parse(bytes) else { return };
    assert_eq!(Layout::parse_quoted(bytes), Ok(layout));
    assert_eq!(layout.payload + layout.body(bytes).len(), layout.total_len);
    assert!(layout.unfragmentable <= layout.payload && layout.next_header_at < layout.unfragmentable);
    assert_eq!(ip::source(bytes), layout.addresses(bytes).0);
    if layout.fragment.is_none() {
        let number_at = ip::protocol_at(bytes, layout.payload).expect("walked before");
        assert_eq!(bytes[number_at], layout.protocol);
    }
    let _ = layout.ports(bytes);
    let mut packet = bytes[..layout.total_len].to_vec();
    ip::set_length(&mut packet);
    assert_eq!(Layout::parse(&packet), Ok(layout));
    let mut segment = layout.body(&packet).to_vec();
    let pseudo = checksum::pseudo_header(&packet, layout.protocol, segment.len());
    tcp::fill_checksum(&mut segment, pseudo);
    assert!(segment.len() < tcp::HEADER_BYTES || checksum::of(&segment, pseudo) == 0);
}

fn transport(bytes: &[u8]) {
    let Ok(view) = Udp::parse(bytes) else { return };
    let mut written = bytes[..view.length().into()].to_vec();
    udp::write(&mut written, view.source_port(), view.destination_port());
    assert_eq!((&written[..6], &written[8..]), (&bytes[..6], view.payload()));
    let pseudo = u64::from(UDP) + written.len() as u64;
    udp::fill_checksum(&mut written, pseudo);
    assert!(Udp::parse(&written).expect("whole").is_checksum_valid(pseudo));
}

fn ipsec(bytes: &[u8]) {
    if let Ok(view) = Esp::parse(bytes) {
        let mut written = bytes.to_vec();
        esp::write(&mut written, view.spi(), view.sequence_number());
        assert_eq!((&written[..], &written[esp::HEADER_BYTES..]), (bytes, view.payload()));
    }
    let quoted = Ah::quoted(bytes);
    if let Ok(view) = Ah::parse(bytes) {
        assert_eq!(quoted, Some((view.spi(), Some(view.sequence_number()))));
        let mut written = bytes[..view.header_len()].to_vec();
        ah::write(&mut written, view.next_header(), view.spi(), view.sequence_number());
        assert_eq!((&written[..2], &written[4..12]), (&bytes[..2], &bytes[4..12]));
        assert_eq!(12 + view.icv().len() + view.payload().len(), bytes.len());
    }
}

fn messages(bytes: &[u8]) {
    let Ok(view) = Icmp::parse(bytes) else { return };
    let mut written = bytes.to_vec();
    icmp::write(&mut written, view.message_type(), view.code(), view.rest_of_header(), 58);
    assert!(Icmp::parse(&written).expect("whole").is_checksum_valid(58));
    assert_eq!((&written[..2], &written[4..]), (&bytes[..2], &bytes[4..]));
    let mut zeroed = bytes.to_vec();
    zeroed[2..4].fill(0);
    let sum = checksum::of(&zeroed, 0);
    let old = u16::from_be_bytes([zeroed[0], zeroed[1]]);
    (zeroed[0], zeroed[1]) = (0x45, 0xc0);
    let rest_is_zero = zeroed[2..].iter().all(|byte| *byte == 0);
    assert!(rest_is_zero || checksum::update16(sum, old, 0x45c0) == checksum::of(&zeroed, 0));
}
