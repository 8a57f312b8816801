use super::*;
use crate::esp::envelope::Envelope;
use crate::icmp::parse_too_big;
use convoy_packet::protocol::{ESP, FRAGMENT, ROUTING};
use proptest::prelude::*;

/// The MTU that an ICMP error inside names.
fn reported_mtu(packet: &[u8]) -> u16 {
    let at = Layout::parse(packet).expect("well-formed").payload + 6;
    u16::from_be_bytes([packet[at], packet[at + 1]])
}

proptest! {
    #[test]
    fn the_mtu_that_a_sender_is_reported_is_the_largest_that_fits(
        outer_v6: bool,
        inner_v6: bool,
        transform in prop_oneof![Just(GCM), Just(CBC_SHA256), Just(NULL_SHA1)],
        in_udp: bool,
        mtu in 1_400u16..2_000,
    ) {
        let link = Link { outer_v6, transform, encap: in_udp.then_some(ENCAP), mtu, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packet = |len| {
            let mut packet = link.packet(inner_v6, len);
            if !inner_v6 { set_dont_fragment(&mut packet); }
            packet
        };
        prop_assert!(a.send(&[packet(mtu.into())]).is_empty());
        let errors = a.reported_inside();
        let reported = reported_mtu(&errors[0]);
        prop_assert_eq!(a.sa_drops(OUT, DropReason::PacketTooBig), 1);
        let fitting = packet(reported.into());
        let outer = a.send(std::slice::from_ref(&fitting));
        prop_assert!(outer.len() == 1 && outer[0].len() <= mtu.into());
        // Padding may leave up to a block unused.
        prop_assert!(outer[0].len() + transform.alignment() > mtu.into());
        prop_assert_eq!(b.receive(&outer), [fitting]);
        prop_assert!(a.send(&[packet(usize::from(reported) + 1)]).is_empty());
        a.assert_no_leak();
    }

    #[test]
    fn a_packet_without_df_is_cut_before_it_is_protected(len in 1_500usize..8_000, in_udp: bool) {
        let link = Link { encap: in_udp.then_some(ENCAP), ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packet = link.packet(false, len);
        let outer = a.send(std::slice::from_ref(&packet));
        prop_assert!(outer.len() > 1);
        prop_assert!(outer.iter().all(|outer| outer.len() <= 1_500
            && Layout::parse(outer).expect("well-formed").fragment.is_none()));
        let pieces = b.receive(&outer);
        let body: Vec<u8> = pieces.iter().flat_map(|piece| piece[20..].to_vec()).collect();
        prop_assert_eq!(&body[..], &packet[20..]);
        prop_assert_eq!(a.ipsec.counters().cut, 1);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

/// All that swanctl has words for, but for key lengths, which change no packet's length.
fn every_transform() -> Vec<Transform> {
    let key = KeyBits::B128;
    let aeads = [8, 12, 16].map(|icv| Aead::AesGcm { key, icv });
    let aeads =
        aeads.into_iter().chain([Aead::ChaCha20Poly1305, Aead::NullAesGmac(key)]).map(Transform::Aead);
    let hashes = [
        Integrity::HmacMd5_96,
        Integrity::HmacSha1_96,
        Integrity::HmacSha256_128,
        Integrity::HmacSha384_192,
        Integrity::HmacSha512_256,
    ];
    let ciphers =
        [Cipher::Null, Cipher::AesCbc(key), Cipher::AesCtr(key), Cipher::TripleDesCbc, Cipher::DesCbc];
    let chained = ciphers.into_iter().flat_map(|cipher| {
        hashes.into_iter().map(move |hash| Transform::Chained { cipher, integrity: Some(hash) })
    });
    aeads.chain(chained).collect()
}

#[test]
fn the_inner_mtu_of_every_proposal_family_and_encapsulation_is_the_largest_that_fits() {
    for transform in every_transform() {
        for (mode, outer_v6, encap) in [Mode::Tunnel, Mode::Transport].into_iter().flat_map(|mode| {
            [(mode, false, None), (mode, true, None), (mode, false, Some(ENCAP)), (mode, true, Some(ENCAP))]
        }) {
            let is_ah =
                matches!(transform, Transform::Chained { cipher: Cipher::Null, .. }) && encap.is_none();
            let protocols = [Some(SaProtocol::Esp), is_ah.then_some(SaProtocol::Ah)];
            for protocol in protocols.into_iter().flatten() {
                let link = Link { outer_v6, mode, protocol, encap, transform, ..Link::default() };
                let inner_v6 = mode == Mode::Transport && outer_v6;
                let header_len = if inner_v6 { 40 } else { 20 };
                let envelope = Envelope::new(protocol, mode, transform, outer_v6, encap.is_some());
                let largest = envelope.inner_mtu(1_500, header_len);
                let mut a = link.gateway(0);
                let prepared = a.prepare(&[link.packet(inner_v6, largest)]);
                assert_eq!(prepared.len(), 1);
                // `AH` keeps a copy of the headers before it in front, which does not leave.
                let copied = if protocol == SaProtocol::Ah { if outer_v6 { 40 } else { 20 } } else { 0 };
                let len = prepared[0].frame.len() - copied;
                let unused = 1_500 - len;
                assert!(unused < transform.alignment(), "{link:?}: {largest} bytes become {len}");
                prepared.into_iter().for_each(|packet| a.pool.give_back(packet.frame));
                let more = a.prepare(&[link.packet(inner_v6, largest + 1)]);
                assert!(
                    more.len() == 2 || more[0].frame.len() - copied > 1_500,
                    "{link:?}: {largest} and one more"
                );
                more.into_iter().for_each(|packet| a.pool.give_back(packet.frame));
                a.assert_no_leak();
            }
        }
    }
}

#[test]
fn ipv6_inside_keeps_1280_and_the_outer_packet_is_cut() {
    let link = Link { mtu: 1_300, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let packet = link.packet(true, 1_280);
    let outer = a.send(std::slice::from_ref(&packet));
    assert_eq!((outer.len(), b.receive(&outer)), (2, vec![packet]));
    assert!(a.send(&[link.packet(true, 1_281)]).is_empty());
    assert_eq!(reported_mtu(&a.reported_inside()[0]), 1_280);
}

#[test]
fn a_packet_of_any_length_is_opened_that_a_peer_has_cut_after_protecting_it() {
    for (outer_v6, protocol, transform, encap) in [
        (false, SaProtocol::Esp, GCM, None),
        (true, SaProtocol::Esp, CBC_SHA256, None),
        (false, SaProtocol::Esp, GCM, Some(ENCAP)),
        (true, SaProtocol::Esp, GCM, Some(ENCAP)),
        (false, SaProtocol::Ah, NULL_SHA1, None),
        (true, SaProtocol::Ah, NULL_SHA1, None),
    ] {
        let link = Link { outer_v6, protocol, transform, encap, mtu: 65_535, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packets = [20_028, 65_400].map(|len| link.packet(false, len)); // `ping -s 20000`, and the longest that fits
        for packet in packets {
            let outer = a.send(std::slice::from_ref(&packet));
            assert_eq!(outer.len(), 1);
            let outer = a.cut(&outer, 1_500);
            assert!(outer.len() > 13 && outer.iter().all(|piece| piece.len() <= 1_500));
            assert!(b.receive(&outer) == [packet], "{link:?}");
        }
        assert_eq!([&a, &b].map(|gateway| gateway.ipsec.counters().drops.total()), [0, 0]);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn ipv6s_forty_bytes_beyond_any_other_length_are_no_packet_of_ours() {
    let link = Link { outer_v6: true, mode: Mode::Transport, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let header = IpHeader::new(ESP, link.ends()[0], link.ends()[1]);
    let mut longest = vec![0; 40 + 65_535];
    header.write(&mut longest);
    longest[40..48].copy_from_slice(&[0, 0, 0x10, 1, 0, 0, 0, 9]);
    assert!(b.receive(&[longest]).is_empty());
    assert_eq!(b.drops(DropReason::MalformedOuter), 1);
    assert!(a.send(&[link.packet(true, 40 + 65_535)]).is_empty());
    assert_eq!(a.sa_drops(OUT, DropReason::PacketTooBig), 1);
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn transport_mode_honours_df_and_takes_no_fragments() {
    let link = Link { mode: Mode::Transport, ..Link::default() };
    let mut a = link.gateway(0);
    let mut large = link.packet(false, 1_500);
    set_dont_fragment(&mut large);
    let mut fragment = link.packet(false, 1_000);
    fragment[6] = 0x20;
    ipv4::fill_checksum(&mut fragment);
    assert!(a.send(&[large, fragment]).is_empty());
    assert_eq!(a.sa_drops(OUT, DropReason::PacketTooBig), 1);
    assert_eq!(a.sa_drops(OUT, DropReason::FragmentInTransport), 1);
    a.assert_no_leak();
}

#[test]
fn too_big_comes_from_the_destination_since_our_own_address_is_a_martian_to_the_kernel_inside() {
    for (inner_v6, inside) in [(false, true), (false, false), (true, true), (true, false)] {
        let link = Link::default();
        let mut a = link.gateway(0);
        a.ipsec.tables.config.inside_v4 = inside.then_some([10, 1, 0, 1].into());
        a.ipsec.tables.config.inside_v6 = a.ipsec.tables.config.inside_v6.filter(|_| inside);
        let mut large = link.packet(inner_v6, 1_500);
        if !inner_v6 {
            set_dont_fragment(&mut large);
        }
        let (sender, destination) = Layout::parse(&large).expect("well-formed").addresses(&large);
        assert!(a.send(&[large]).is_empty());
        let errors = a.reported_inside();
        assert_eq!(errors.len(), 1, "it is reported whether or not we have an address of its family");
        let ends = Layout::parse(&errors[0]).expect("well-formed").addresses(&errors[0]);
        assert_eq!(ends, (destination, sender));
        a.assert_no_leak();
    }
}

#[test]
fn too_big_comes_from_the_inside_address_where_no_kernel_forwards() {
    for (inner_v6, inside) in [(false, true), (false, false), (true, true), (true, false)] {
        let link = Link::default();
        let mut a = link.gateway(0);
        let config = &mut a.ipsec.tables.config;
        config.decrement_ttl = true;
        config.inside_v4 = inside.then_some([10, 1, 0, 1].into());
        config.inside_v6 = config.inside_v6.filter(|_| inside);
        let ours: IpAddr = if inner_v6 { "2001:db8:1::1" } else { "10.1.0.1" }.parse().expect("an address");
        let mut large = link.packet(inner_v6, 1_500);
        if !inner_v6 {
            set_dont_fragment(&mut large);
        }
        let (sender, destination) = Layout::parse(&large).expect("well-formed").addresses(&large);
        assert!(a.send(&[large]).is_empty());
        let errors = a.reported_inside();
        assert_eq!(errors.len(), 1, "also without an address of the family");
        let ends = Layout::parse(&errors[0]).expect("well-formed").addresses(&errors[0]);
        assert_eq!(ends, (if inside { ours } else { destination }, sender));
        a.assert_no_leak();
    }
}

#[test]
fn transport_mode_takes_a_packet_that_is_whole_in_spite_of_its_fragment_header() {
    for (protocol, transform) in [(SaProtocol::Esp, GCM), (SaProtocol::Ah, NULL_SHA1)] {
        let link = Link { mode: Mode::Transport, outer_v6: true, protocol, transform, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let plain = link.packet(true, 500);
        let mut atomic = plain.clone();
        atomic.splice(40..40, [17, 0, 0, 0, 0, 0, 0, 9]);
        atomic[6] = FRAGMENT;
        ip::set_length(&mut atomic);
        let outer = a.send(&[atomic]);
        assert_eq!(b.receive(&outer), [plain], "as its receiver would have it");
        assert_eq!([&a, &b].map(|gateway| gateway.ipsec.counters().drops.total()), [0, 0]);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn ah_covers_a_packet_with_a_type_2_routing_header() {
    let link = Link {
        mode: Mode::Transport,
        outer_v6: true,
        protocol: SaProtocol::Ah,
        transform: NULL_SHA1,
        ..Link::default()
    };
    let [mut a, mut b] = link.pair();
    let mut packet = link.packet(true, 500);
    let home: [u8; 16] = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x77];
    packet.splice(40..40, [&[17, 2, 2, 1, 0, 0, 0, 0], &home[..]].concat());
    packet[6] = ROUTING;
    ip::set_length(&mut packet);
    let outer = a.send(std::slice::from_ref(&packet));
    assert_eq!((outer.len(), outer[0][40..64] == packet[40..64]), (1, false), "but for what comes next");
    assert_eq!(outer[0][48..64], home);
    assert_eq!(b.receive(&outer), [packet]);
    assert_eq!([&a, &b].map(|gateway| gateway.ipsec.counters().drops.total()), [0, 0]);
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn icmp_errors_are_limited_in_rate() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let mut large = link.packet(false, 1_500);
    set_dont_fragment(&mut large);
    assert!(a.send(&vec![large; 100]).is_empty());
    assert_eq!(a.reported_inside().len(), 10);
    assert_eq!(a.drops(DropReason::PacketTooBig), 100);
}

/// An error of a router outside about `outer`, to its sender.
pub(super) fn router_says(outer: &[u8], mtu: u16) -> Vec<u8> {
    let mut pool = FramePool::new(1, 0);
    let layout = Layout::parse(outer).expect("well-formed");
    let router: IpAddr = if layout.is_v6 { [0xfd; 16].into() } else { [198, 51, 100, 1].into() };
    let error = crate::icmp::IcmpError::TooBig(mtu);
    let frame = crate::icmp::build(error, outer, &layout, router, &mut pool).expect("may be answered");
    frame.to_vec()
}

#[test]
fn a_router_outside_lowers_the_path_mtu_and_time_restores_it() {
    for (outer_v6, encap) in [(false, None), (true, None), (false, Some(ENCAP)), (true, Some(ENCAP))] {
        let link = Link { outer_v6, encap, ..Link::default() };
        let mut a = link.gateway(0);
        let outer = a.send(&[link.packet(false, 1_000)]);
        let report = router_says(&outer[0], 1_350);
        assert!(a.receive(&[report]).is_empty());
        assert_eq!(a.drops(DropReason::IcmpError), 1);
        assert_eq!(a.drops(DropReason::IcmpUnbelieved), 0);
        assert_eq!(a.view(OUT).path_mtu, Some(1_350));
        let mut packet = link.packet(false, 1_400);
        set_dont_fragment(&mut packet);
        assert!(a.send(std::slice::from_ref(&packet)).is_empty());
        assert!(reported_mtu(&a.reported_inside()[0]) < 1_350);
        a.now_ns += 600_000_000_000;
        assert_eq!(a.send(&[packet]).len(), 1);
        a.assert_no_leak();
    }
}

#[test]
fn a_report_that_cannot_be_true_is_not_believed() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let outer = a.send(&[link.packet(false, 1_000)]);
    let mut other_spi = outer[0].clone();
    other_spi[23] ^= 1;
    let mut never_sent = outer[0].clone();
    never_sent[27] = 200;
    let backwards = b.send(&[udp(["10.2.0.9", "10.1.0.5"].map(|text| text.parse().expect(text)), 1_000)]);
    for about in [&other_spi, &never_sent, &backwards[0]] {
        let report = router_says(about, 1_000);
        assert!(parse_too_big(&report, &Layout::parse(&report).expect("well-formed")).is_some());
        a.receive(&[report]);
        assert_eq!(a.view(OUT).path_mtu, Some(1_500));
    }
    a.receive(&[router_says(&outer[0], 68)]);
    assert_eq!(a.view(OUT).path_mtu, Some(576), "no lower than RFC 4301 allows");
    a.assert_no_leak();
}

#[test]
fn a_report_about_a_packet_of_long_ago_or_of_no_number_is_not_believed() {
    for protocol in [SaProtocol::Esp, SaProtocol::Ah] {
        let transform = if protocol == SaProtocol::Ah { NULL_SHA1 } else { GCM };
        let link = Link { protocol, transform, ..Link::default() };
        let mut a = link.gateway(0);
        let mut old = Vec::new();
        for seconds in 0..10 {
            a.now_ns = seconds * 1_000_000_000;
            a.expire(a.now_ns, &mut Vec::new());
            old.extend(a.send(&[link.packet(false, 1_000)]));
        }
        // Cut behind the SPI: RFC 792 asks routers for no more than 8 bytes of AH.
        let mut cut = router_says(&old[9], 1_000);
        cut.truncate(20 + 8 + 20 + 8);
        ip::set_length(&mut cut);
        cut[22..24].fill(0);
        let checksum = checksum::of(&cut[20..], 0);
        cut[22..24].copy_from_slice(&checksum.to_be_bytes());
        let mut unbelieved = vec![router_says(&old[0], 1_000), router_says(&old[5], 1_000)];
        unbelieved.extend((protocol == SaProtocol::Ah).then_some(cut));
        assert!(a.receive(&unbelieved).is_empty());
        assert_eq!(a.sa_drops(OUT, DropReason::IcmpUnbelieved), unbelieved.len() as u64);
        assert_eq!(a.view(OUT).path_mtu, Some(1_500));
        a.receive(&[router_says(&old[8], 1_350)]);
        assert_eq!(a.view(OUT).path_mtu, Some(1_350));
        a.assert_no_leak();
    }
}

#[test]
fn a_port_that_finds_a_path_too_narrow_has_its_sas_use_less() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.tables.learn_path_mtu(0, "198.51.100.9".parse().expect("an address"), 1_300);
    assert_eq!(a.view(OUT).path_mtu, Some(1_500), "another peer's path");
    a.ipsec.tables.learn_path_mtu(0, "192.0.2.2".parse().expect("an address"), 1_300);
    assert_eq!(a.view(OUT).path_mtu, Some(1_300));
    assert!(a.send(&[link.packet(false, 1_400)]).iter().all(|packet| packet.len() <= 1_300));
}

#[test]
fn an_sa_that_always_sets_df_has_its_inner_packets_cut() {
    let link = Link { df: OuterDf::Set, ..Link::default() };
    let mut a = link.gateway(0);
    let outer = a.send(&[link.packet(false, 2_000)]);
    assert_eq!(outer.len(), 2);
    assert!(outer.iter().all(|packet| packet[6..8] == [0x40, 0] && packet.len() <= 1_500));
}

#[test]
fn hops_are_counted_down_where_asked_and_their_end_is_reported() {
    let link = Link { decrement_ttl: true, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let mut last = link.packet(false, 100);
    last[8] = 1;
    ipv4::fill_checksum(&mut last);
    let outer = a.send(&[link.packet(false, 100), link.packet(true, 100), last]);
    assert_eq!(a.sa_drops(OUT, DropReason::TtlExpired), 1);
    assert_eq!(a.reported_inside()[0][20], 11);
    let inner = b.receive(&outer);
    assert_eq!((inner[0][8], inner[1][7]), (62, 62), "one hop at each gateway");
    assert_eq!(checksum::of(&inner[0][..20], 0), 0);
    a.assert_no_leak();
}
