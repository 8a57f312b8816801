//! Payloads that lie: each is authentic, and none may do more than be dropped and counted.

use super::*;

const BASIC: [u8; 4] = [0; 4];

/// The header of a payload that begins with this many bytes of a packet that began before.
fn header(offset: u16) -> [u8; 4] {
    let [high, low] = offset.to_be_bytes();
    [0, 0, high, low]
}

/// Two gateways, the second of which gets payloads of the first.
struct Pair {
    a: Gateway,
    b: Gateway,
    packet: Vec<u8>,
}

impl Pair {
    fn new(len: usize) -> Self {
        let [a, b] = link().pair();
        Self { a, b, packet: link().packet(false, len) }
    }

    fn give(&mut self, payload: &[&[u8]]) -> Vec<Vec<u8>> {
        let outer = self.a.seal_payload(&payload.concat(), AGGFRAG);
        self.b.receive(&[outer])
    }

    /// Ends: all frames are back, and these were dropped.
    fn end(mut self, dropped: &[(DropReason, u64)]) {
        self.b.now_ns += 2_000_000_000;
        assert!(self.b.give_up_payloads().is_empty());
        assert_eq!(self.b.view(IN).drops.met().collect::<Vec<_>>(), dropped);
        self.a.assert_no_leak();
        self.b.assert_no_leak();
    }
}

#[test]
fn a_packet_may_be_cut_anywhere() {
    for len in [28usize, 100, 1_000] {
        for first in 1..len {
            let mut pair = Pair::new(len);
            let packet = pair.packet.clone();
            let (start, rest) = packet.split_at(first);
            assert!(pair.give(&[&BASIC, start]).is_empty());
            assert_eq!(
                pair.give(&[&header(rest.len() as u16), rest]),
                std::slice::from_ref(&packet),
                "{first} of {len}"
            );
            pair.end(&[]);
        }
    }
}

#[test]
fn a_packet_may_stand_in_any_number_of_payloads_one_byte_in_each() {
    for packet in [link().packet(false, 100), link().packet(true, 100)] {
        let mut pair = Pair::new(100);
        for at in 0..packet.len() {
            let offset = if at == 0 { 0 } else { (packet.len() - at) as u16 };
            let inner = pair.give(&[&header(offset), &packet[at..=at]]);
            assert_eq!(inner.is_empty(), at + 1 < packet.len());
        }
        pair.end(&[]);
    }
}

#[test]
fn payloads_of_padding_may_stand_between_the_parts_of_a_packet() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    pair.give(&[&BASIC, &packet[..50]]);
    pair.give(&[&BASIC, &[0; 200]]);
    pair.give(&[&BASIC]);
    assert_eq!(pair.give(&[&header(50), &packet[50..], &[0; 9]]), [packet]);
    pair.end(&[]);
}

#[test]
fn the_header_with_congestion_control_is_accepted() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    let mut congestion = [0; 24];
    congestion[0] = 1;
    assert_eq!(pair.give(&[&congestion, &packet, &packet, &[0; 5]]), [packet.clone(), packet]);
    pair.end(&[]);
}

#[test]
fn an_unknown_sub_type_or_a_header_cut_short_is_malformed() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    for payload in [&[][..], &[0, 0, 0], &[2, 0, 0, 0], &[4, 0, 0, 0], &[1, 0, 0, 0, 0], &[255; 40]] {
        assert!(pair.give(&[payload]).is_empty());
    }
    assert_eq!(pair.give(&[&BASIC, &packet]), [packet]);
    // Sub-type 2 is that of an echo.
    pair.end(&[(DropReason::MalformedDecrypted, 1), (DropReason::IptfsMalformed, 5)]);
}

#[test]
fn a_block_that_is_no_packet_or_shorter_than_its_header_ends_the_payload() {
    for block in [&[0x50; 60][..], &[0x45, 0, 0, 0], &[0x45, 0, 0, 19], &[0x4f, 0, 0, 59], &[0xf0]] {
        let mut pair = Pair::new(100);
        let packet = pair.packet.clone();
        assert_eq!(pair.give(&[&BASIC, &packet, block, &packet]), std::slice::from_ref(&packet));
        pair.end(&[(DropReason::IptfsMalformed, 1)]);
    }
}

#[test]
fn an_inner_packet_whose_header_lies_is_dropped_alone() {
    // An IPv6 packet that ends within an extension header.
    let mut extended = link().packet(true, 44);
    extended[6] = 0;
    extended[41] = 200;
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    assert_eq!(pair.give(&[&BASIC, &packet, &extended, &packet]), [packet.clone(), packet]);
    pair.end(&[(DropReason::MalformedDecrypted, 1)]);
}

#[test]
fn an_offset_that_contradicts_the_packet_loses_it_and_nothing_behind_it() {
    for offset in [1u16, 49, 51, 400, u16::MAX] {
        let mut pair = Pair::new(100);
        let packet = pair.packet.clone();
        pair.give(&[&BASIC, &packet[..50]]);
        // What stands at the offset is a packet again.
        let rest = vec![0x41; usize::from(offset).min(1_000)];
        let inner = pair.give(&[&header(offset), &rest, &packet]);
        let is_behind = usize::from(offset) <= 1_000;
        assert_eq!(inner, vec![packet; usize::from(is_behind)], "{offset}");
        pair.end(&[(DropReason::IptfsMalformed, 1)]);
    }
}

#[test]
fn a_packet_that_is_not_continued_is_lost_when_another_begins() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    pair.give(&[&BASIC, &packet[..50]]);
    assert_eq!(pair.give(&[&BASIC, &packet]), [packet]);
    pair.end(&[(DropReason::IptfsMalformed, 1)]);
}

#[test]
fn a_packet_that_never_ends_is_given_up() {
    let mut pair = Pair::new(60_000);
    let packet = pair.packet.clone();
    pair.give(&[&BASIC, &packet[..1_000]]);
    for at in (1_000..50_000).step_by(1_000) {
        let rest = (packet.len() - at) as u16;
        assert!(pair.give(&[&header(rest), &packet[at..at + 1_000]]).is_empty());
    }
    pair.end(&[(DropReason::IptfsIncomplete, 1)]);
}

#[test]
fn an_ipv6_packet_longer_than_any_that_is_handled_is_malformed() {
    let mut pair = Pair::new(100);
    let mut packet = link().packet(true, 100);
    packet[4..6].copy_from_slice(&[0xff; 2]);
    assert!(pair.give(&[&BASIC, &packet]).is_empty());
    // The length comes in a second payload.
    assert!(pair.give(&[&BASIC, &packet[..3]]).is_empty());
    assert!(pair.give(&[&header(u16::MAX), &packet[3..]]).is_empty());
    pair.end(&[(DropReason::IptfsMalformed, 2)]);
}

#[test]
fn a_beginning_whose_length_is_not_what_its_offset_said_is_malformed() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    pair.give(&[&BASIC, &packet[..2]]);
    assert!(pair.give(&[&header(97), &packet[2..99]]).is_empty());
    pair.end(&[(DropReason::IptfsMalformed, 1)]);
}

#[test]
fn the_rest_of_a_packet_whose_beginning_is_unknown_is_skipped() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    assert_eq!(pair.give(&[&header(30), &[0x45; 30], &packet]), std::slice::from_ref(&packet));
    assert!(pair.give(&[&header(3_000), &[0x45; 500]]).is_empty());
    assert_eq!(pair.give(&[&header(3), &[0x45; 3], &packet]), [packet]);
    pair.end(&[(DropReason::IptfsIncomplete, 3)]);
}

#[test]
fn a_packet_that_is_lost_is_counted_once_however_many_payloads_it_has() {
    for lost in [0usize, 1, 5] {
        let mut pair = Pair::new(60_000);
        let packet = pair.packet.clone();
        let after = link().packet(false, 100);
        for at in (0..60_000).step_by(1_000) {
            let offset = if at == 0 { 0 } else { (packet.len() - at) as u16 };
            if at == lost * 1_000 {
                pair.a.seal_payload(&[], AGGFRAG);
            } else {
                pair.give(&[&header(offset), &packet[at..at + 1_000]]);
            }
        }
        assert_eq!(pair.give(&[&BASIC, &after]), [after]);
        pair.end(&[(DropReason::IptfsIncomplete, 1)]);
    }
}

#[test]
fn another_next_header_than_aggfrag_is_dropped() {
    let mut pair = Pair::new(100);
    let packet = pair.packet.clone();
    for next_header in [4, 41, 59] {
        let outer = pair.a.seal_payload(&packet, next_header);
        assert!(pair.b.receive(&[outer]).is_empty());
    }
    pair.end(&[(DropReason::BadNextHeader, 2), (DropReason::Dummy, 1)]);
}

#[test]
fn a_tunnel_mode_sa_takes_no_payload() {
    let mut a = link().gateway(0);
    let mut b = Link::default().gateway(1);
    let outer = a.send_packed(&[link().packet(false, 100)]);
    assert!(b.receive(&outer).is_empty());
    assert_eq!(b.sa_drops(IN, DropReason::BadNextHeader), 1);
    b.assert_no_leak();
}

#[test]
fn a_repeated_payload_within_a_packet_is_dropped_and_the_packet_comes() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let packet = link.packet(false, 5_000);
    let outer = a.send_packed(std::slice::from_ref(&packet));
    let mut repeated: Vec<_> = outer.iter().flat_map(|outer| [outer.clone(), outer.clone()]).collect();
    let last = repeated.len() - 1;
    repeated.extend_from_slice(&outer);
    assert_eq!(b.receive(&repeated), [packet]);
    assert_eq!(b.sa_drops(IN, DropReason::Replayed), (last + 1 + outer.len() - outer.len()) as u64);
    b.assert_no_leak();
}

#[test]
fn without_a_replay_window_a_repeated_payload_is_held_once() {
    let link = link();
    let mut a = link.gateway(0);
    let mut b = Gateway::new(link.config(1));
    b.install(link.sa(1, SaDirection::Outbound));
    b.install(SaConfig { replay_window: 0, ..link.sa(1, SaDirection::Inbound) });
    b.ipsec.set_policies(link.policies(1));
    let outer: Vec<_> = (0..3).flat_map(|_| a.send_packed(&[link.packet(false, 100)])).collect();
    b.receive(&outer[..1]);
    b.receive(&[outer[2].clone(), outer[2].clone()]);
    assert_eq!(b.receive(&outer[1..2]).len(), 2);
    b.assert_no_leak();
}

#[test]
fn an_sa_that_ends_within_a_reassembly_gives_its_frames_back() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let outer = a.send_packed(&[link.packet(false, 5_000)]);
    b.receive(&outer[..1]);
    b.receive(&outer[2..3]);
    b.ipsec.withdraw(IN);
    b.ipsec.remove(IN);
    assert_eq!(b.drops(DropReason::IptfsIncomplete), 2);
    assert!(b.give_up_payloads().is_empty());
    b.assert_no_leak();
}

#[test]
fn an_sa_that_ends_lets_its_open_payload_go_first() {
    let link = with(IptfsConfig { init_delay_ns: 1_000_000, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let packet = link.packet(false, 100);
    let mut packed = a.classify(std::slice::from_ref(&packet));
    assert!(packed.is_empty());
    let Gateway { ipsec, pool, .. } = &mut a;
    ipsec.outbound.close_payloads_of(&mut ipsec.tables, OUT_ID, pool, &mut packed);
    let outer = a.seal_packed(packed);
    assert_eq!(b.receive(&outer), [packet]);
    a.ipsec.remove(OUT);
    assert!(!a.ipsec.outbound.has_open_payloads());
    a.assert_no_leak();
}

#[test]
fn no_more_packets_than_some_are_in_reassembly() {
    let link = link();
    let mut a = Gateway::new(link.config(0));
    let mut b = Gateway::new(link.config(1));
    (a.pool, b.pool) = (FramePool::new(2_000, 0), FramePool::new(2_000, 0));
    b.ipsec.set_policies(link.policies(1));
    let sas = 600u32;
    for number in 0..sas {
        let spi = 0x2000 + number;
        b.install(SaConfig { spi, tunnel: TunnelId(7), ..link.sa(1, SaDirection::Inbound) });
        a.install(SaConfig { spi, tunnel: TunnelId(number), ..link.sa(0, SaDirection::Outbound) });
        let remote: Vec<_> = vec![policy("10.1.0.0/16", "10.2.0.0/16", Action::Protect(TunnelId(number)))];
        a.ipsec.set_policies(remote);
        // The first part of a packet only.
        let outer = a.send_packed(&[link.packet(false, 1_600)]);
        assert!(b.receive(&outer[..1]).is_empty());
    }
    assert_eq!(b.drops(DropReason::IptfsLimit), u64::from(sas) - 512);
    b.now_ns += 2_000_000_000;
    b.give_up_payloads();
    assert_eq!(b.drops(DropReason::IptfsIncomplete), 512);
    assert_eq!(b.pool.available(FrameSize::Small), 2_000);
}
