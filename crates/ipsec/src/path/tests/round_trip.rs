use super::*;
use proptest::prelude::*;

fn any_link() -> impl Strategy<Value = Link> {
    let suites = prop_oneof![
        Just((SaProtocol::Esp, GCM)),
        Just((SaProtocol::Esp, CBC_SHA256)),
        Just((SaProtocol::Esp, NULL_SHA1)),
        Just((SaProtocol::Ah, NULL_SHA1)),
    ];
    let modes = prop_oneof![Just(Mode::Tunnel), Just(Mode::Transport)];
    (any::<bool>(), modes, suites, any::<bool>(), any::<bool>(), 0u16..1_000).prop_map(
        |(outer_v6, mode, (protocol, transform), in_udp, esn, tfc_bytes)| Link {
            outer_v6,
            mode,
            protocol,
            transform,
            encap: (in_udp && protocol == SaProtocol::Esp).then_some(ENCAP),
            esn,
            tfc_bytes,
            ..Link::default()
        },
    )
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_in_every_mix(
        link in any_link(),
        inner_v6: bool,
        sizes in proptest::collection::vec(0usize..1_300, 1..20),
    ) {
        let inner_v6 = if link.mode == Mode::Transport { link.outer_v6 } else { inner_v6 };
        let header = if inner_v6 { 40 } else { 20 };
        let [mut a, mut b] = link.pair();
        let packets: Vec<Vec<u8>> = sizes.iter().map(|size| link.packet(inner_v6, header + size)).collect();
        let outer = a.send(&packets);
        prop_assert_eq!(outer.len(), packets.len());
        for (outer, inner) in outer.iter().zip(&packets) {
            let layout = Layout::parse(outer).expect("well-formed");
            prop_assert_eq!(layout.addresses(outer), (link.ends()[0], link.ends()[1]));
            prop_assert_eq!(layout.total_len, outer.len());
            prop_assert!(layout.is_v6 || checksum::of(&outer[..20], 0) == 0);
            prop_assert!(outer != inner);
        }
        prop_assert_eq!(b.receive(&outer), packets);
        prop_assert_eq!(b.ipsec.counters().drops.total(), 0);
        a.assert_no_leak();
        b.assert_no_leak();
    }

    #[test]
    fn outer_fragments_are_put_together_in_any_order(
        outer_v6: bool,
        inner_v6: bool,
        protocol in prop_oneof![Just(SaProtocol::Esp), Just(SaProtocol::Ah)],
        mode in prop_oneof![Just(Mode::Tunnel), Just(Mode::Transport)],
        len in 1_000usize..8_000,
        reversed: bool,
    ) {
        // In transport mode we cut what we have protected; another peer may in tunnel mode too.
        let mtu = if mode == Mode::Transport { 600 } else { 9_000 };
        let link = Link { outer_v6, protocol, mode, mtu, transform: NULL_SHA1, ..Link::default() };
        let inner_v6 = if mode == Mode::Transport { outer_v6 } else { inner_v6 };
        let packet = link.packet(inner_v6, len);
        let [mut a, mut b] = link.pair();
        let outer = a.send(std::slice::from_ref(&packet));
        prop_assert_eq!(outer.len() > 1, mode == Mode::Transport);
        let mut pieces = a.cut(&outer, 600);
        prop_assert!(pieces.len() > 1 && pieces.iter().all(|piece| piece.len() <= 600));
        if reversed {
            pieces.reverse();
        }
        prop_assert_eq!(b.receive(&pieces), [packet]);
        prop_assert_eq!(b.ipsec.counters().reassembled, 1);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn both_directions_work_at_once_and_are_counted() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let there = link.packet(false, 100);
    let back = udp(["10.2.0.9", "10.1.0.5"].map(|text| text.parse().expect(text)), 200);
    let outer = a.send(std::slice::from_ref(&there));
    assert_eq!(b.receive(&outer), [there]);
    let outer = b.send(std::slice::from_ref(&back));
    assert_eq!(a.receive(&outer), [back]);
    let view = a.view(OUT);
    assert_eq!((view.sequence, view.usage.packets(), view.is_current), (1, 1, true));
    let replay = a.view(IN).replay.expect("inbound");
    assert_eq!((replay.highest, replay.size, replay.received), (1, 1_024, 1));
    let uses: Vec<u64> = a.ipsec.tables.policies().map(|view| view.packets).collect();
    assert_eq!(uses, [1, 0]);
}

#[test]
fn jumbo_packets_pass_a_jumbo_path() {
    let link = Link { mtu: 9_200, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let packet = link.packet(false, 9_000);
    let outer = a.send(std::slice::from_ref(&packet));
    assert_eq!((outer.len(), b.receive(&outer)), (1, vec![packet]));
}

#[test]
fn the_class_is_that_of_the_inner_dscp() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.tables.config.classes = ClassMap::uniform(2);
    a.ipsec.tables.config.classes.set(46, 0);
    let mut voice = link.packet(false, 100);
    voice[1] = 46 << 2;
    let prepared = a.prepare(&[voice, link.packet(false, 100)]);
    assert_eq!(prepared.iter().map(|packet| packet.class).collect::<Vec<_>>(), [0, 2]);
    a.seal(prepared);
    a.assert_no_leak();
}

#[test]
fn congestion_outside_is_reported_inside_or_the_packet_is_dropped() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let mut capable = link.packet(false, 100);
    capable[1] = 2;
    ipv4::fill_checksum(&mut capable);
    let mut outer = a.send(&[capable, link.packet(false, 100)]);
    for packet in &mut outer {
        packet[1] |= 3;
        ipv4::fill_checksum(packet);
    }
    let inner = b.receive(&outer);
    assert_eq!(inner.iter().map(|packet| packet[1]).collect::<Vec<_>>(), [3]);
    assert_eq!(checksum::of(&inner[0][..20], 0), 0);
    assert_eq!(b.sa_drops(IN, DropReason::EcnCongestion), 1);
    b.assert_no_leak();
}

#[test]
fn the_iv_of_a_counter_cipher_counts_up_from_where_it_was_reported() {
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    a.install(SaConfig { iv_start: u64::MAX - 1, ..link.sa(0, SaDirection::Outbound) });
    a.ipsec.set_policies(link.policies(0));
    let mut b = link.gateway(1);
    let sealed = a.send(&vec![link.packet(false, 100); 3]);
    let ivs: Vec<&[u8]> = sealed.iter().map(|packet| &packet[28..36]).collect();
    assert_eq!(ivs, [[0xff; 8], [0; 8], [0, 0, 0, 0, 0, 0, 0, 1]]);
    assert_eq!(sealed[0][24..28], [0, 0, 0, 1], "the sequence number begins at 1");
    assert_eq!(b.receive(&sealed).len(), 3);
}

#[test]
fn esp_in_udp_is_as_long_as_udp_says_and_what_ip_carries_behind_it_is_nobodys() {
    for (outer_v6, transform) in [(false, GCM), (false, CBC_SHA256), (true, GCM)] {
        let link = Link { encap: Some(ENCAP), outer_v6, transform, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packet = link.packet(false, 300);
        let mut outer = a.send(std::slice::from_ref(&packet)).remove(0);
        outer.extend([0xee; 12]);
        ip::set_length(&mut outer);
        assert_eq!(b.receive(&[outer]), [packet]);
        b.assert_no_leak();
    }
}

#[test]
fn a_datagram_over_ipv6_that_is_cut_has_a_checksum() {
    let link = Link { encap: Some(ENCAP), outer_v6: true, mtu: 1_300, ..Link::default() };
    let [mut a, mut b] = link.pair();
    let packet = link.packet(true, 1_280);
    let mut outer = a.send(std::slice::from_ref(&packet));
    assert_eq!(outer.len(), 2);
    // Behind the IPv6 and the fragment header.
    let datagram: Vec<u8> = outer.iter().flat_map(|piece| &piece[48..]).copied().collect();
    let pseudo = checksum::pseudo_header(&outer[0], 17, datagram.len());
    assert!(convoy_packet::Udp::parse(&datagram).expect("whole").is_checksum_valid(pseudo));
    outer.reverse();
    assert_eq!(b.receive(&outer), [packet]);
}
