use super::*;
use convoy_packet::EspEcho;

/// A request of a gateway's, sealed.
fn request(gateway: &mut Gateway, sequence: u16, data_len: u16) -> Vec<u8> {
    let Gateway { ipsec, pool, now_ns, .. } = gateway;
    let request = ipsec.tables.echo_request(TunnelId(7), EchoNumber { id: 0x1234, sequence }, data_len, pool);
    let mut packets: Vec<CryptoPacket> = request.into_iter().collect();
    ipsec.tables.lay_out(*now_ns, &mut packets, &mut |bytes| bytes.fill(0x5a));
    gateway.seal(packets).pop().expect("it has SAs")
}

/// What a gateway answers to what has come, sealed.
fn responses(gateway: &mut Gateway) -> Vec<Vec<u8>> {
    let mut packets = gateway.ipsec.inbound.echoes.take_responses();
    gateway.ipsec.tables.lay_out(gateway.now_ns, &mut packets, &mut |bytes| bytes.fill(0x5a));
    gateway.seal(packets)
}

/// A request with another header, sealed as it is.
fn forged(gateway: &mut Gateway, header: &EspEcho) -> Vec<u8> {
    let Gateway { ipsec, pool, now_ns, .. } = gateway;
    let mut packet = ipsec
        .tables
        .echo_request(TunnelId(7), EchoNumber { id: 1, sequence: 1 }, 0, pool)
        .expect("it has SAs");
    let bytes = header.to_bytes();
    packet.frame.truncate(0);
    packet.frame.append(bytes.len()).expect("it has room").copy_from_slice(&bytes);
    let mut packets = vec![packet];
    ipsec.tables.lay_out(*now_ns, &mut packets, &mut |bytes| bytes.fill(0x5a));
    gateway.seal(packets).pop().expect("one")
}

#[test]
fn an_echo_is_answered_by_the_peer_and_reaches_no_inside() {
    let transforms = [GCM, CBC_SHA256, NULL_SHA1];
    for (transform, encap) in transforms.into_iter().flat_map(|one| [(one, None), (one, Some(ENCAP))]) {
        for data_len in [0, 1, 1_300] {
            let link = Link { transform, encap, ..Link::default() };
            let [mut a, mut b] = link.pair();
            let sent = request(&mut a, 9, data_len);
            assert!(sent.len() > usize::from(data_len) && sent[6] & 0x40 != 0, "it may not be cut");
            assert!(b.receive(&[sent]).is_empty() && b.ipsec.inbound.echoes.has_responses());
            let answers = responses(&mut b);
            assert_eq!(answers.len(), 1);
            assert!(answers[0].len() > usize::from(data_len), "the data comes back");
            assert!(a.receive(&answers).is_empty());
            let answer = EchoAnswer { tunnel: TunnelId(7), number: EchoNumber { id: 0x1234, sequence: 9 } };
            assert_eq!(a.ipsec.inbound.echoes.take_answers(), [answer]);
            assert_eq!((a.ipsec.counters().echoes, b.ipsec.counters().echoes), (1, 1));
            assert_eq!(a.ipsec.counters().drops.total() + b.ipsec.counters().drops.total(), 0);
            a.assert_no_leak();
            b.assert_no_leak();
        }
    }
}

#[test]
fn an_echo_between_the_parts_of_an_inner_packet_is_answered_and_delays_none() {
    let link = Link { mode: Mode::Iptfs, mtu: 600, ..Link::default() };
    for is_reordered in [false, true] {
        let [mut a, mut b] = link.pair();
        let (first, inner) = (link.packet(false, 100), link.packet(false, 900));
        let begun = a.send_packed(std::slice::from_ref(&first));
        assert_eq!(b.receive(&begun), [first]);
        let mut packed = a.pack(std::slice::from_ref(&inner));
        assert!(packed.len() >= 2, "in parts");
        let rest = packed.split_off(1);
        let mut sent = a.seal_packed(packed);
        sent.push(request(&mut a, 5, 100));
        sent.extend(a.seal_packed(rest));
        if is_reordered {
            sent.swap(0, 1);
        }
        assert_eq!(b.receive(&sent), [inner], "{is_reordered}");
        assert!(a.receive(&responses(&mut b)).is_empty());
        let answer = EchoAnswer { tunnel: TunnelId(7), number: EchoNumber { id: 0x1234, sequence: 5 } };
        assert_eq!(a.ipsec.inbound.echoes.take_answers(), [answer]);
        assert_eq!(a.ipsec.counters().drops.total() + b.ipsec.counters().drops.total(), 0);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn a_return_spi_of_another_tunnel_is_not_answered() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let other = SaConfig { spi: 0x7777, tunnel: TunnelId(8), ..link.sa(1, SaDirection::Outbound) };
    b.install(other);
    let echo = EspEcho { is_response: false, return_spi: None, id: 1, sequence: 1, data_len: 0 };
    for (return_spi, is_answered) in
        [(Some(0x1002), true), (None, true), (Some(0x7777), false), (Some(0x1001), false)]
    {
        let sent = forged(&mut a, &EspEcho { return_spi, ..echo });
        assert!(b.receive(&[sent]).is_empty());
        assert_eq!(responses(&mut b).len(), usize::from(is_answered), "{return_spi:x?}");
    }
    assert_eq!(b.sa_drops(IN, DropReason::EspEchoRefused), 2);
    b.assert_no_leak();
}

#[test]
fn an_echo_is_answered_by_the_inbound_sa_that_was_used_last() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let renewed = |end: usize, direction| SaConfig { spi: 0x2001, ..link.sa(end, direction) };
    let answered_by = |a: &mut Gateway, b: &mut Gateway| {
        let sent = request(a, 1, 0);
        b.receive(&[sent]);
        let answers = responses(b);
        a.receive(&answers);
        answers.first().map(|answer| u32::from_be_bytes([answer[20], answer[21], answer[22], answer[23]]))
    };
    assert_eq!(answered_by(&mut a, &mut b), Some(0x1002));
    a.install(renewed(0, SaDirection::Inbound));
    assert_eq!(answered_by(&mut a, &mut b), Some(0x1002), "the peer may not have the new one yet");
    b.install(renewed(1, SaDirection::Outbound));
    a.now_ns += 10;
    let packets = b.send(&[udp(["10.2.0.9", "10.1.0.5"].map(|text| text.parse().expect(text)), 100)]);
    assert_eq!(a.receive(&packets).len(), 1);
    assert_eq!(answered_by(&mut a, &mut b), Some(0x2001));
}

#[test]
fn too_many_requests_are_not_answered() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let sent: Vec<Vec<u8>> = (0..60).map(|sequence| request(&mut a, sequence, 0)).collect();
    assert!(b.receive(&sent).is_empty());
    let answered = responses(&mut b).len();
    assert!((45..=50).contains(&answered), "{answered} at once");
    b.now_ns += 1_000_000_000;
    let later = request(&mut a, 60, 0);
    assert!(b.receive(&[later]).is_empty());
    assert_eq!(responses(&mut b).len(), 1, "a second later others are");
    assert_eq!(b.sa_drops(IN, DropReason::EspEchoRefused), 60 - answered as u64);
}

#[test]
fn a_message_that_is_cut_short_is_malformed() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let echo = EspEcho { is_response: false, return_spi: None, id: 1, sequence: 1, data_len: 9 };
    let sent = forged(&mut a, &echo);
    assert!(b.receive(&[sent]).is_empty() && !b.ipsec.inbound.echoes.has_responses());
    assert_eq!(b.sa_drops(IN, DropReason::MalformedDecrypted), 1);
}

#[test]
fn tunnels_without_a_header_of_esp_or_at_a_constant_rate_have_no_echo() {
    for link in [
        Link { protocol: SaProtocol::Ah, transform: NULL_SHA1, ..Link::default() },
        Link {
            mode: Mode::Iptfs,
            iptfs: IptfsConfig { packet_rate: 1_000, ..IptfsConfig::default() },
            ..Link::default()
        },
        Link { mode: Mode::Transport, ..Link::default() },
    ] {
        let Gateway { ipsec, pool, .. } = &mut link.gateway(0);
        assert!(ipsec.tables.echo_request(TunnelId(7), EchoNumber { id: 1, sequence: 1 }, 0, pool).is_none());
        assert!(ipsec.tables.echo_request(TunnelId(9), EchoNumber { id: 1, sequence: 1 }, 0, pool).is_none());
    }
}

#[test]
fn a_tunnel_is_found_by_selectors_around_its_own() {
    let a = Link::default().gateway(0);
    let within = |local: &str, remote: &str| {
        let wide = Selector { local: local.parse().expect(local), remote: remote.parse().expect(remote) };
        a.ipsec.tables.tunnel_within(0, &[wide])
    };
    assert_eq!(within("0.0.0.0/0", "10.2.0.0/15"), Some(TunnelId(7)));
    assert_eq!(within("::/0", "2001:db8:2::/48"), Some(TunnelId(7)));
    assert_eq!(within("10.1.0.0/24", "10.2.0.0/15"), None, "it protects more");
    assert_eq!(within("0.0.0.0/0", "10.9.0.0/16"), None);
    assert_eq!(within("0.0.0.0/0", "2001:db8:2::/48"), None, "of two families");
    let wide = "0.0.0.0/0".parse().expect("a prefix");
    let everything = Selector { local: wide, remote: wide };
    assert_eq!(a.ipsec.tables.tunnel_within(1, &[everything]), None, "by another interface");
}
