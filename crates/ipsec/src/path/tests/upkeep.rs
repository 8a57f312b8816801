use super::*;
use crate::esp::job::CryptoJob;
use crate::path::upkeep::KEEPALIVES_AT_ONCE;
use crate::sa::config::{Lifetime, LifetimeLimits, SaEnds};
use crate::sa::lifetime::Expiry;
use convoy_packet::protocol::{NO_NEXT_HEADER, UDP};

const SECOND: u64 = 1_000_000_000;

/// Keep-alives of one byte, and then dummy packets.
fn keepalives(gateway: &mut Gateway, now_ns: u64) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let (tables, pool, mut dummies) = (&mut gateway.ipsec.tables, &mut gateway.pool, Vec::new());
    gateway.ipsec.upkeep.keepalives(tables, now_ns, pool, &mut out, &mut dummies);
    tables.lay_out(now_ns, &mut dummies, &mut |bytes| bytes.fill(0x5a));
    let sealed = gateway.seal(dummies);
    [gateway.copied(&mut out), sealed].concat()
}

/// All changes of mappings, which are taken.
fn mapping_changes(gateway: &mut Gateway) -> Vec<MappingChange> {
    let mut changes = Vec::new();
    gateway.ipsec.inbound.mapping_changes(&mut gateway.ipsec.tables, &mut |change| {
        changes.push(change);
        true
    });
    changes
}

#[test]
fn a_silent_encapsulated_tunnel_is_kept_alive_and_the_peer_absorbs_it() {
    for outer_v6 in [false, true] {
        let link = Link { encap: Some(ENCAP), outer_v6, ..Link::default() };
        let [mut a, mut b] = link.pair();
        a.now_ns = 100 * SECOND;
        a.send(&[link.packet(false, 100)]);
        assert!(keepalives(&mut a, 119 * SECOND).is_empty());
        let sent = keepalives(&mut a, 120 * SECOND);
        assert_eq!(sent.len(), 1);
        assert!(keepalives(&mut a, 121 * SECOND).is_empty());
        assert_eq!(keepalives(&mut a, 140 * SECOND).len(), 1);
        assert!(b.receive(&sent).is_empty());
        assert_eq!(b.sa_drops(IN, DropReason::Dummy), 1, "it is authenticated");
        a.assert_no_leak();
        b.assert_no_leak();
    }
    assert!(keepalives(&mut Link::default().gateway(0), 500 * SECOND).is_empty(), "plain ESP needs none");
}

#[test]
fn ike_on_both_ports_is_set_apart() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let mut b = link.gateway(1);
    let mut plain = udp(link.ends(), 128);
    plain[22..24].copy_from_slice(&500u16.to_be_bytes());
    let mut marked = plain.clone();
    marked[22..24].copy_from_slice(&4500u16.to_be_bytes());
    marked[28..32].fill(0);
    assert!(b.receive(&[plain.clone(), marked.clone()]).is_empty());
    let mut ike = std::mem::take(&mut b.inbound.ike);
    assert_eq!(b.copied(&mut ike), [plain, marked]);
    b.assert_no_leak();
}

/// An IKE message from the peer of a gateway, without a checksum.
fn ike(link: &Link, bytes: usize) -> Vec<u8> {
    let [source, destination] = link.ends();
    let header = IpHeader::new(UDP, source, destination);
    let mut packet = vec![7; header.header_len() + udp::HEADER_BYTES + bytes];
    header.write(&mut packet);
    udp::write(&mut packet[header.header_len()..], 500, 500);
    packet
}

#[test]
fn a_damaged_ike_message_and_one_of_ipv6_without_checksum_are_dropped() {
    for outer_v6 in [false, true] {
        let link = Link { encap: Some(ENCAP), outer_v6, ..Link::default() };
        let mut b = link.gateway(1);
        let mut whole = ike(&link, 100);
        b.receive(std::slice::from_ref(&whole));
        assert_eq!(
            (b.inbound.ike.len(), b.drops(DropReason::MalformedOuter)),
            if outer_v6 { (0, 1) } else { (1, 0) }
        );
        let at = whole.len() - 108;
        let pseudo = checksum::pseudo_header(&whole, UDP, 108);
        udp::fill_checksum(&mut whole[at..], pseudo);
        let mut damaged = whole.clone();
        *damaged.last_mut().expect("long") ^= 1;
        b.receive(&[whole, damaged]);
        assert_eq!(
            (b.inbound.ike.len(), b.drops(DropReason::MalformedOuter)),
            if outer_v6 { (1, 2) } else { (2, 1) }
        );
        let mut taken = std::mem::take(&mut b.inbound.ike);
        b.copied(&mut taken);
        b.assert_no_leak();
    }
}

#[test]
fn a_long_ike_message_leaves_in_fragments_that_the_peer_puts_together() {
    for outer_v6 in [false, true] {
        let link = Link { encap: Some(ENCAP), outer_v6, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let message = ike(&link, 4_000);
        let mut out = Vec::new();
        for bytes in [&message[..], &ike(&link, 100)] {
            let frame = a.pool.take_filled(bytes, 0).expect("a frame");
            a.ipsec.outbound.send_own(&mut a.ipsec.tables, frame, &mut a.pool, &mut out);
        }
        let sent = a.copied(&mut out);
        let mtu = usize::from(a.ipsec.tables.config.mtu);
        assert_eq!(sent.len(), 4, "three fragments, and a short one that is whole");
        assert!(sent.iter().all(|packet| packet.len() <= mtu));
        b.receive(&sent);
        let mut ike = std::mem::take(&mut b.inbound.ike);
        let ike = b.copied(&mut ike);
        assert_eq!((ike.len(), ike[0].len()), (2, message.len()));
        assert!(ike[0].ends_with(&[7; 4_000]));
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn esp_in_udp_comes_and_goes_by_the_port_that_is_ours() {
    let encap = UdpEncap { local_port: 5500, remote_port: 5501 };
    let link = Link { encap: Some(encap), ..Link::default() };
    let [mut a, mut b] = link.pair();
    let outer = a.send(&[link.packet(false, 100), link.packet(false, 200)]);
    assert_eq!(outer[0][20..24], [5500_u16.to_be_bytes(), 5501_u16.to_be_bytes()].concat());
    b.ipsec.tables.config.natt_port = 5501;
    assert_eq!(b.receive(&outer[..1]).len(), 1);
    b.ipsec.tables.config.natt_port = 4500;
    assert!(b.receive(&outer[1..]).is_empty(), "it is a datagram like any other");
    b.assert_no_leak();
}

#[test]
fn a_moved_peer_is_reported_once_and_followed_by_no_packet() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let [mut a, mut b] = link.pair();
    let mut outer = a.send(&vec![link.packet(false, 100); 3]);
    for packet in &mut outer[1..] {
        packet[12..16].copy_from_slice(&[198, 51, 100, 9]);
        packet[20..22].copy_from_slice(&40_000u16.to_be_bytes());
        ipv4::fill_checksum(packet);
    }
    assert_eq!(b.receive(&outer).len(), 3);
    let changes = mapping_changes(&mut b);
    let new = "198.51.100.9:40000".parse().expect("an address");
    let old = "192.0.2.1:4500".parse().expect("an address");
    let sa = b.ipsec.tables.number(IN).expect("installed");
    assert_eq!(changes, [MappingChange { sa, tunnel: TunnelId(7), old, new }]);
    let back = udp(["10.2.0.9", "10.1.0.5"].map(|text| text.parse().expect(text)), 100);
    let sent = b.send(&[back]);
    assert_eq!((&sent[0][16..20], &sent[0][22..24]), (&[192, 0, 2, 1][..], &4500u16.to_be_bytes()[..]));
    b.assert_no_leak();
}

#[test]
fn an_sa_whose_peer_sends_from_any_port_never_moves() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let [mut a, mut b] = link.pair();
    let known = b.ipsec.tables.ends(IN).expect("installed");
    let any = SaEnds { encap: Some(UdpEncap { remote_port: 0, ..ENCAP }), ..known };
    assert!(b.ipsec.tables.sad.move_sa(IN, &any));
    let mut outer = a.send(&vec![link.packet(false, 100); 2]);
    outer[1][20..22].copy_from_slice(&50_000u16.to_be_bytes());
    assert_eq!(b.receive(&outer).len(), 2);
    assert_eq!(mapping_changes(&mut b), []);
    assert_eq!(b.ipsec.tables.ends(IN), Some(any));
}

#[test]
fn move_that_is_not_accepted_is_reported_again_as_it_is_then() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let [mut a, mut b] = link.pair();
    let mut outer = a.send(&vec![link.packet(false, 100); 2]);
    for (packet, host) in outer.iter_mut().zip([8, 9]) {
        packet[15] = host;
        ipv4::fill_checksum(packet);
    }
    let mut refused = 0;
    for packet in &outer {
        assert_eq!(b.receive(std::slice::from_ref(packet)).len(), 1);
        b.ipsec.inbound.mapping_changes(&mut b.ipsec.tables, &mut |_| {
            refused += 1;
            false
        });
    }
    assert_eq!(refused, 2);
    let [change] = mapping_changes(&mut b)[..] else { panic!("one SA has moved") };
    assert_eq!(change.old, "192.0.2.1:4500".parse().expect("an address"));
    assert_eq!(change.new, "192.0.2.9:4500".parse().expect("an address"));
    assert_eq!(mapping_changes(&mut b), []);
}

#[test]
fn late_or_forged_packet_from_elsewhere_moves_no_peer() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let [mut a, mut b] = link.pair();
    let mut outer = a.send(&vec![link.packet(false, 100); 3]);
    outer[0][15] = 99;
    outer[2][15] = 99;
    let last = outer[2].len() - 1;
    outer[2][last] ^= 1;
    outer.swap(0, 1);
    assert_eq!(b.receive(&outer).len(), 2);
    let changes = mapping_changes(&mut b);
    assert_eq!(changes, []);
}

#[test]
fn replay_from_elsewhere_without_a_window_moves_no_peer() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let mut a = link.gateway(0);
    let mut b = Gateway::new(IpsecConfig::default());
    b.install(SaConfig { replay_window: 0, ..link.sa(1, SaDirection::Inbound) });
    b.ipsec.set_policies(link.policies(1));
    let mut outer = a.send(&[link.packet(false, 100)]);
    assert_eq!(b.receive(&outer).len(), 1);
    outer[0][15] = 99;
    assert_eq!(b.receive(&outer).len(), 1, "nothing is checked");
    let changes = mapping_changes(&mut b);
    assert_eq!(changes, []);
}

#[test]
fn an_sa_whose_numbers_are_used_up_is_reported_once() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.tables.set_sequence(OUT_ID, u64::from(u32::MAX) - 1);
    let mut events = Vec::new();
    a.expire(SECOND, &mut events);
    assert_eq!(events.iter().map(|event| event.expiry).collect::<Vec<_>>(), [Expiry::Soft]);
    events.clear();
    assert_eq!(a.send(&[link.packet(false, 100)]).len(), 1);
    a.expire(2 * SECOND, &mut events);
    a.expire(3 * SECOND, &mut events);
    let seen: Vec<_> = events.iter().map(|event| (event.sa.index, event.expiry)).collect();
    assert_eq!(seen, [(OUT, Expiry::Hard)]);
}

#[test]
fn the_end_of_the_numbers_is_reported_when_a_tenth_is_left() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let late = u64::from(u32::MAX) / 10 * 9;
    a.ipsec.tables.set_sequence(OUT_ID, late - 2);
    let mut events = Vec::new();
    for (second, expected) in [(1, 0), (2, 1), (3, 1)] {
        a.expire(second * SECOND, &mut events);
        assert_eq!(a.send(&[link.packet(false, 100)]).len(), 1);
        a.expire(second * SECOND, &mut events);
        assert_eq!(events.len(), expected, "after {second} packets");
    }
    assert_eq!((events[0].sa.index, events[0].expiry), (OUT, Expiry::Soft));

    let mut with_esn = Link { esn: true, ..link.clone() }.gateway(0);
    with_esn.ipsec.tables.set_sequence(OUT_ID, u64::from(u32::MAX));
    events.clear();
    with_esn.expire(SECOND, &mut events);
    assert_eq!(events, []);
}

#[test]
fn an_sa_stops_at_the_last_number_that_is_reserved_and_goes_on_when_more_are() {
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    let start = SaConfig { sequence_start: 100, sequence_reserved: 102, ..link.sa(0, SaDirection::Outbound) };
    let index = a.install(start);
    a.ipsec.set_policies(link.policies(0));
    assert_eq!(a.send(&vec![link.packet(false, 100); 5]).len(), 2);
    assert_eq!(a.sa_drops(index, DropReason::SequenceUnreserved), 3);
    a.ipsec.tables.reserve_sequence(OUT_ID.into(), 103);
    a.ipsec.tables.reserve_sequence(OUT_ID.into(), 50);
    assert_eq!(a.send(&vec![link.packet(false, 100); 2]).len(), 1);
    assert_eq!(a.ipsec.tables.sequence(index), Some(103));
    a.assert_no_leak();
}

#[test]
fn a_reserve_beyond_the_last_number_does_not_let_numbers_come_again() {
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    let last = u64::from(u32::MAX);
    let start = SaConfig { sequence_start: last - 1, ..link.sa(0, SaDirection::Outbound) };
    let index = a.install(SaConfig { sequence_reserved: last, ..start });
    a.ipsec.set_policies(link.policies(0));
    a.ipsec.tables.reserve_sequence(OUT_ID.into(), last + 10);
    assert_eq!(a.send(&vec![link.packet(false, 100); 3]).len(), 1);
    assert_eq!(a.sa_drops(index, DropReason::SequenceExhausted), 2);
}

#[test]
fn an_inbound_sa_takes_what_was_received_before_it_as_received() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let recorded = a.send(&vec![link.packet(false, 100); 3]);
    let mut b = Gateway::new(IpsecConfig::default());
    let index = b.install(SaConfig { sequence_start: 3, ..link.sa(1, SaDirection::Inbound) });
    b.ipsec.set_policies(link.policies(1));
    assert!(b.receive(&recorded).is_empty());
    assert_eq!(b.sa_drops(index, DropReason::Replayed), 3);
    assert_eq!(b.receive(&a.send(&[link.packet(false, 100)])).len(), 1);
    assert_eq!(b.ipsec.tables.sequence(index), Some(4));
}

#[test]
fn limits_are_reported_once_and_the_hard_one_stops_the_sa() {
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    let lifetime = Lifetime {
        soft: LifetimeLimits { packets: Some(2), ..LifetimeLimits::default() },
        hard: LifetimeLimits { time_ns: Some(60 * SECOND), ..LifetimeLimits::default() },
    };
    let index = a.install(SaConfig { lifetime, ..link.sa(0, SaDirection::Outbound) });
    a.ipsec.set_policies(link.policies(0));
    a.send(&vec![link.packet(false, 100); 2]);
    let mut events = Vec::new();
    for now_ns in [SECOND, 2 * SECOND, 70 * SECOND, 71 * SECOND] {
        a.expire(now_ns, &mut events);
    }
    let seen: Vec<_> = events.iter().map(|event| (event.sa.index, event.name.spi, event.expiry)).collect();
    assert_eq!(seen, [(index, 0x1001, Expiry::Soft), (index, 0x1001, Expiry::Hard)]);
    a.now_ns = 72 * SECOND;
    assert!(a.send(&[link.packet(false, 100)]).is_empty());
    assert_eq!(a.sa_drops(index, DropReason::SaExpired), 1);
    a.assert_no_leak();
}

#[test]
fn a_dummy_packet_is_dropped_as_what_it_is() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let mut prepared = a.prepare(&[link.packet(false, 200)]);
    let CryptoJob { cipher_start, cipher_len, .. } = prepared[0].job;
    // ESP's next header is the last byte that is encrypted.
    prepared[0].frame[usize::from(cipher_start + cipher_len) - 1] = NO_NEXT_HEADER;
    let outer = a.seal(prepared);
    assert_eq!(outer.len(), 1);
    assert!(b.receive(&outer).is_empty());
    assert_eq!(b.sa_drops(IN, DropReason::Dummy), 1);
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn an_sa_moves_to_other_ends_and_goes_on_counting() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let packet = [link.packet(false, 100)];
    a.send(&packet);
    let ends = |local: &str, remote: &str| SaEnds {
        local: local.parse().expect("an address"),
        remote: remote.parse().expect("an address"),
        encap: Some(UdpEncap { local_port: 4500, remote_port: 4500 }),
    };
    assert!(a.move_sa(OUT, &ends("2001:db8::1", "2001:db8::9")));
    let moved = a.send(&packet);
    assert_eq!((moved[0][0] >> 4, moved[0][6]), (6, 17), "IPv6, UDP");
    assert_eq!(moved[0][48..56], [0, 0, 0x10, 1, 0, 0, 0, 2], "SPI, and the next number");
    assert!(b.move_sa(IN, &ends("2001:db8::9", "2001:db8::1")));
    assert_eq!(b.receive(&moved), packet);
    assert!(!a.move_sa(OUT, &ends("192.0.2.1", "2001:db8::9")), "two families");
    assert!(!a.move_sa(SaIndex(99), &ends("192.0.2.1", "192.0.2.2")));
    let moved = a.ipsec.tables.sa(OUT).expect("it is there");
    assert_eq!(
        (moved.name.remote.to_string().as_str(), moved.encap),
        ("2001:db8::9", ends("2001:db8::1", "2001:db8::9").encap)
    );
    a.assert_no_leak();
}

#[test]
fn upkeep_looks_only_at_sas_whose_time_has_come() {
    const SAS: u32 = 1_000;
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let mut a = Gateway::new(IpsecConfig::default());
    for sa in 0..SAS {
        // Each a second older than the next.
        let limits = |seconds: u32| LifetimeLimits {
            time_ns: Some(u64::from(seconds) * SECOND),
            ..LifetimeLimits::default()
        };
        let lifetime = Lifetime { soft: limits(3_600 + sa), hard: limits(7_200 + sa) };
        let tunnel = TunnelId(sa);
        a.install(SaConfig { spi: 0x1001 + sa, tunnel, lifetime, ..link.sa(0, SaDirection::Outbound) });
    }
    let (mut events, mut most) = (Vec::new(), 0);
    for tenths in 0..=5_000 * 10 {
        let (now_ns, before) = (tenths * SECOND / 10, a.ipsec.upkeep.looked_at);
        a.expire(now_ns, &mut events);
        most = most.max(a.ipsec.upkeep.looked_at - before);
    }
    assert_eq!((events.len(), most), (SAS as usize, 1), "each soft limit once, and no other SA");
    assert!(events.iter().all(|event| event.expiry == Expiry::Soft));
    a.assert_no_leak();
}

/// A gateway with so many tunnels in UDP, whose peers are at the ports that `port` says.
fn with_flows(sas: u32, port: impl Fn(u32) -> u16) -> Gateway {
    let link = Link::default();
    let mut a = Gateway::new(IpsecConfig::default());
    for sa in 0..sas {
        let encap = Some(UdpEncap { local_port: 4500, remote_port: port(sa) });
        let tunnel = TunnelId(sa);
        a.install(SaConfig { spi: 0x1001 + sa, tunnel, encap, ..link.sa(0, SaDirection::Outbound) });
    }
    a
}

/// Keep-alives in each tenth of a second of the times `seconds`.
fn sent_by_tick(gateway: &mut Gateway, seconds: std::ops::Range<u64>) -> Vec<usize> {
    let ticks = seconds.start * 10..seconds.end * 10;
    ticks.map(|tick| keepalives(gateway, tick * SECOND / 10).len()).collect()
}

#[test]
fn keep_alives_of_many_flows_are_spread_and_a_tick_sends_a_bounded_number() {
    const FLOWS: u32 = 10_000;
    let mut a = with_flows(FLOWS, |sa| sa as u16 + 1);
    let first = sent_by_tick(&mut a, 0..20);
    let later = sent_by_tick(&mut a, 20..60);
    let even = FLOWS as usize / 200;
    // Nothing is due at once.
    for sent in first.iter().skip(1).chain(&later) {
        assert!(
            *sent <= KEEPALIVES_AT_ONCE && sent.abs_diff(even) <= 10,
            "{sent} in a tick, {even} on average"
        );
    }
    let sums = [first, later].map(|sent| sent.iter().sum::<usize>());
    assert!(sums[0].abs_diff(FLOWS as usize) <= 64, "{} in the first interval", sums[0]);
    assert!(sums[1].abs_diff(2 * FLOWS as usize) <= 64, "{} in the next two", sums[1]);
    a.assert_no_leak();
}

#[test]
fn what_is_due_at_once_leaves_in_bursts() {
    const FLOWS: usize = 1_000;
    let mut a = with_flows(FLOWS as u32, |sa| sa as u16 + 1);
    let (mut sent, mut calls) = (0, 0);
    let mut more = true;
    while more {
        let mut out = Vec::new();
        let looks = a.ipsec.upkeep.looked_at;
        let (tables, pool, mut dummies) = (&mut a.ipsec.tables, &mut a.pool, Vec::new());
        more = a.ipsec.upkeep.keepalives(tables, 500 * SECOND, pool, &mut out, &mut dummies);
        out.extend(dummies.into_iter().map(|packet| packet.frame));
        assert!(a.ipsec.upkeep.looked_at - looks <= KEEPALIVES_AT_ONCE, "of whatever is due");
        (sent, calls) = (sent + out.len(), calls + 1);
        a.pool.give_back_burst(&mut out);
    }
    assert_eq!((sent, calls), (FLOWS, FLOWS.div_ceil(KEEPALIVES_AT_ONCE)));
    a.assert_no_leak();
}

#[test]
fn ten_thousand_sas_of_one_peer_send_one_keep_alive_in_an_interval() {
    let mut a = with_flows(10_000, |_| 4500);
    for interval in 0..3 {
        let sent = sent_by_tick(&mut a, interval * 20..(interval + 1) * 20);
        assert_eq!(sent.iter().sum::<usize>(), 1, "in interval {interval}");
    }
    (0..10_000).for_each(|sa| a.ipsec.remove(SaIndex::from(OutboundId(sa))));
    assert_eq!(sent_by_tick(&mut a, 60..200).iter().sum::<usize>(), 0, "the last SA has gone");
    a.assert_no_leak();
}

#[test]
fn a_flow_that_one_of_its_sas_uses_needs_no_keep_alive() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let mut a = link.gateway(0);
    a.install(SaConfig { spi: 0x3001, tunnel: TunnelId(9), ..link.sa(0, SaDirection::Outbound) });
    for second in 1..100 {
        a.now_ns = second * SECOND;
        a.send(&[link.packet(false, 100)]);
        assert!(keepalives(&mut a, second * SECOND).is_empty());
    }
    a.assert_no_leak();
}

#[test]
fn without_a_nat_on_our_side_no_keep_alive_is_sent_unless_it_is_asked_for() {
    let cases = [
        (NatKeepalive::Auto, "192.0.2.1", "192.0.2.2", 0),
        (NatKeepalive::Auto, "192.168.1.1", "192.0.2.2", 1),
        (NatKeepalive::Auto, "192.168.1.1", "10.0.0.1", 0),
        (NatKeepalive::Auto, "192.0.2.1", "192.168.1.1", 0),
        (NatKeepalive::Always, "192.0.2.1", "192.0.2.2", 1),
        (NatKeepalive::Never, "192.168.1.1", "192.0.2.2", 0),
    ];
    for (nat_keepalive, local, remote, expected) in cases {
        let link = Link { encap: Some(ENCAP), ..Link::default() };
        let mut a = Gateway::new(IpsecConfig::default());
        let [local, remote] = [local, remote].map(|text| text.parse().expect(text));
        a.install(SaConfig { nat_keepalive, local, remote, ..link.sa(0, SaDirection::Outbound) });
        let sent = keepalives(&mut a, 20 * SECOND);
        assert_eq!(sent.len(), expected, "{nat_keepalive:?} {local} {remote}");
        let is_of_one_byte = |packet: &Vec<u8>| packet.len() == 29 && packet.last() == Some(&0xff);
        assert_eq!(sent.iter().all(is_of_one_byte), nat_keepalive != NatKeepalive::Always);
        a.assert_no_leak();
    }
}

#[test]
fn a_flow_is_kept_alive_as_long_as_any_sa_uses_it() {
    let link = Link { encap: Some(ENCAP), ..Link::default() };
    let mut a = link.gateway(0);
    let successor = a.install(SaConfig { spi: 0x2001, ..link.sa(0, SaDirection::Outbound) });
    assert_eq!(keepalives(&mut a, 30 * SECOND).len(), 1, "one for both");
    a.ipsec.remove(successor);
    assert!(keepalives(&mut a, 49 * SECOND).is_empty());
    assert_eq!(keepalives(&mut a, 50 * SECOND).len(), 1);
    a.ipsec.withdraw(OUT);
    assert!(keepalives(&mut a, 500 * SECOND).is_empty());
    a.assert_no_leak();
}

#[test]
fn a_tunnel_that_goes_into_udp_is_kept_alive_from_then_on() {
    let link = Link::default();
    let mut a = link.gateway(0);
    assert!(keepalives(&mut a, 100 * SECOND).is_empty());
    let ends = SaEnds { encap: Some(ENCAP), ..a.ipsec.tables.ends(OUT).expect("installed") };
    assert!(a.move_sa(OUT, &ends));
    assert_eq!(keepalives(&mut a, 120 * SECOND).len(), 1);
    assert!(keepalives(&mut a, 139 * SECOND).is_empty());
    assert_eq!(keepalives(&mut a, 140 * SECOND).len(), 1);
    let ends = SaEnds { encap: None, ..ends };
    assert!(a.move_sa(OUT, &ends));
    assert!(keepalives(&mut a, 500 * SECOND).is_empty());
    a.assert_no_leak();
}
