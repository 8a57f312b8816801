//! AGGFRAG mode between two gateways: aggregation, fragmentation, loss, reordering and lies.

mod hostile;
mod paced;

use super::*;
use crate::esp::outer_header::Inner;
use crate::esp::stage::{FinishContext, Form};
use convoy_packet::protocol::AGGFRAG;
use proptest::prelude::*;
use proptest::sample::subsequence;

fn link() -> Link {
    Link { mode: Mode::Iptfs, ..Link::default() }
}

fn with(iptfs: IptfsConfig) -> Link {
    Link { iptfs, ..link() }
}

impl Gateway {
    /// From the inside up to payloads, those with room among them.
    pub(super) fn pack(&mut self, packets: &[Vec<u8>]) -> Vec<CryptoPacket> {
        let mut packed = self.classify(packets);
        self.close_payloads(false, &mut packed);
        packed
    }

    fn close_payloads(&mut self, has_more: bool, packed: &mut Vec<CryptoPacket>) {
        let Self { ipsec, pool, now_ns, .. } = self;
        ipsec.outbound.close_payloads(&mut ipsec.tables, *now_ns, has_more, pool, packed);
    }

    pub(super) fn seal_packed(&mut self, mut packed: Vec<CryptoPacket>) -> Vec<Vec<u8>> {
        self.ipsec.tables.lay_out(self.now_ns, &mut packed, &mut |bytes| bytes.fill(0x5a));
        let packed = self.drop_refused(packed);
        self.seal(packed)
    }

    pub(super) fn send_packed(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let packed = self.pack(packets);
        self.seal_packed(packed)
    }

    /// Seals bytes as a payload, whatever they are.
    fn seal_payload(&mut self, payload: &[u8], next_header: u8) -> Vec<u8> {
        let frame = self.pool.take_filled(payload, 64).expect("a frame");
        let generation = self.ipsec.tables.sad.number(OUT).expect("installed").generation;
        let inner = Inner { next_header, ..Inner::default() };
        let context = FinishContext { generation, form: Form::Raw, inner, ..FinishContext::default() };
        let packet = CryptoPacket::new(frame, OUT, Direction::Seal, 0, context);
        self.seal_packed(vec![packet]).remove(0)
    }

    fn give_up_payloads(&mut self) -> Vec<Vec<u8>> {
        let Self { ipsec, pool, now_ns, .. } = self;
        let mut out = Vec::new();
        ipsec.inbound.give_up_payloads(&mut ipsec.tables, *now_ns, pool, &mut out);
        self.copied(&mut out)
    }
}

/// Packets that differ from each other.
fn numbered(link: &Link, sizes: &[(bool, usize)]) -> Vec<Vec<u8>> {
    let of = |(number, (is_v6, len)): (usize, &(bool, usize))| {
        let header = if *is_v6 { 48 } else { 28 };
        let mut packet = link.packet(*is_v6, header + 2 + len);
        let tag = (number as u16).to_be_bytes();
        packet[header..header + 2].copy_from_slice(&tag);
        packet
    };
    sizes.iter().enumerate().map(of).collect()
}

fn any_link() -> impl Strategy<Value = Link> {
    let transforms = prop_oneof![Just(GCM), Just(CBC_SHA256), Just(NULL_SHA1)];
    (any::<bool>(), transforms, any::<bool>(), any::<bool>(), 576u16..9_000, any::<bool>()).prop_map(
        |(outer_v6, transform, in_udp, esn, mtu, dont_frag)| Link {
            outer_v6,
            transform,
            encap: in_udp.then_some(ENCAP),
            esn,
            mtu: if outer_v6 { mtu.max(1_400) } else { mtu },
            // Then no inner packet may exceed a payload.
            iptfs: IptfsConfig { dont_frag: dont_frag && mtu > 1_400, ..IptfsConfig::default() },
            ..link()
        },
    )
}

fn any_sizes(most: usize) -> impl Strategy<Value = Vec<(bool, usize)>> {
    proptest::collection::vec((any::<bool>(), prop_oneof![3 => 0usize..200, 1 => 0usize..most]), 1..60)
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_in_every_mix(link in any_link(), sizes in any_sizes(1_250), bursts in 1usize..5) {
        let [mut a, mut b] = link.pair();
        for burst in numbered(&link, &sizes).chunks(sizes.len().div_ceil(bursts)) {
            let outer = a.send_packed(burst);
            prop_assert!(outer.iter().all(|outer| outer.len() <= link.mtu.into()));
            prop_assert_eq!(b.receive(&outer), burst);
        }
        prop_assert_eq!(a.ipsec.counters().drops.total() + b.ipsec.counters().drops.total(), 0);
        a.assert_no_leak();
        b.assert_no_leak();
    }

    #[test]
    fn packets_longer_than_the_path_cross_in_parts(outer_v6: bool, sizes in any_sizes(60_000), mtu in 1_280u16..2_000) {
        let link = Link { outer_v6, mtu, ..link() };
        let [mut a, mut b] = link.pair();
        for packet in numbered(&link, &sizes) {
            let outer = a.send_packed(std::slice::from_ref(&packet));
            prop_assert!(outer.iter().all(|outer| outer.len() <= mtu.into()));
            prop_assert_eq!(b.receive(&outer), [packet]);
        }
        prop_assert_eq!(b.ipsec.counters().drops.total(), 0);
        a.assert_no_leak();
        b.assert_no_leak();
    }

    #[test]
    fn a_lost_payload_takes_only_the_packets_with_it_that_stand_in_it(
        sizes in any_sizes(1_400),
        (count, kept) in (2usize..30).prop_flat_map(|count| (Just(count), subsequence((0..count).collect::<Vec<_>>(), 0..=count))),
    ) {
        let link = link();
        let [mut a, mut b] = link.pair();
        let packets = numbered(&link, &sizes);
        let outer = a.send_packed(&packets);
        let arrived: Vec<_> = (0..).zip(&outer).filter(|(at, _)| *at >= count || kept.contains(at)).map(|(_, outer)| outer.clone()).collect();
        let mut inner = b.receive(&arrived);
        b.now_ns += 2_000_000_000;
        inner.extend(b.give_up_payloads());
        b.now_ns += 2_000_000_000;
        inner.extend(b.give_up_payloads());
        // What comes is what was sent, in order, and nothing else.
        let mut sent = packets.iter();
        for packet in &inner {
            prop_assert!(sent.any(|sent| sent == packet), "not sent, or out of order");
        }
        let lost = outer.len() - arrived.len();
        prop_assert!(inner.len() == packets.len() || lost > 0);
        prop_assert_eq!(b.drops(DropReason::IptfsMalformed), 0);
        a.assert_no_leak();
        b.assert_no_leak();
    }

    #[test]
    fn payloads_that_overtake_each_other_within_the_window_change_nothing(
        sizes in any_sizes(1_400),
        swaps in proptest::collection::vec((0usize..60, 1usize..4), 0..20),
    ) {
        let link = link();
        let [mut a, mut b] = link.pair();
        let packets = numbered(&link, &sizes);
        let first = a.send_packed(&[link.packet(false, 60)]);
        b.receive(&first);
        let mut outer = a.send_packed(&packets);
        // Each moves back by at most three places, and none twice.
        let mut next = 0;
        for (at, by) in swaps {
            let at = next + at % 4;
            if at + by < outer.len() {
                let moved = outer.remove(at);
                outer.insert(at + by, moved);
                next = at + by + 1;
            }
        }
        prop_assert_eq!(b.receive(&outer), packets);
        prop_assert_eq!(b.ipsec.counters().drops.total(), 0);
        b.assert_no_leak();
    }

    #[test]
    fn any_loss_and_order_gives_only_what_was_sent(
        sizes in any_sizes(3_000),
        order in proptest::collection::vec(0usize..60, 0..80),
        window in 0u16..8,
    ) {
        let link = with(IptfsConfig { reorder_window: window, ..IptfsConfig::default() });
        let [mut a, mut b] = link.pair();
        let packets = numbered(&link, &sizes);
        let outer = a.send_packed(&packets);
        let mut inner = Vec::new();
        for at in order {
            inner.extend(b.receive(&[outer[at % outer.len()].clone()]));
            b.now_ns += 300_000_000;
            inner.extend(b.give_up_payloads());
        }
        inner.sort_unstable();
        let come = inner.len();
        inner.dedup();
        prop_assert_eq!(inner.len(), come, "a packet came twice");
        prop_assert!(inner.iter().all(|packet| packets.contains(packet)));
        b.assert_no_leak();
    }
}

#[test]
fn a_full_payload_has_22_packets_of_64_bytes_in_the_order_in_which_they_came() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 34); 132]);
    let outer = a.send_packed(&packets);
    assert_eq!(outer.len(), 6);
    assert_eq!(b.receive(&outer), packets);
    let packed = a.view(OUT).aggregation.expect("in AGGFRAG mode");
    assert_eq!((packed.packets, packed.bytes, packed.payloads, packed.continued), (132, 132 * 64, 6, 0));
    let unpacked = b.view(IN).reassembly.expect("in AGGFRAG mode");
    assert_eq!((unpacked.packets, unpacked.payloads, unpacked.joined, unpacked.missing), (132, 6, 0, 0));
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn a_packet_that_is_alone_leaves_at_once_and_whole() {
    let link = link();
    let [mut a, _] = link.pair();
    for len in [28, 64, 1_400, 1_434] {
        let packed = a.pack(&[link.packet(false, len)]);
        assert_eq!(packed.iter().map(|packet| packet.frame.len()).collect::<Vec<_>>(), [4 + len]);
        assert_eq!(packed[0].context.inner.next_header, AGGFRAG);
        a.seal_packed(packed);
    }
    assert!(!a.ipsec.outbound.has_open_payloads());
    assert_eq!(a.ipsec.outbound.payloads_due_ns(), u64::MAX);
    a.assert_no_leak();
}

#[test]
fn while_more_is_at_hand_a_payload_stays_open_for_one_round_more() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 100); 3]);
    let mut packed = a.classify(&packets[..1]);
    a.close_payloads(true, &mut packed);
    assert!(packed.is_empty() && a.ipsec.outbound.has_open_payloads());
    packed.extend(a.classify(&packets[1..]));
    a.close_payloads(true, &mut packed);
    assert_eq!(packed.len(), 1);
    let outer = a.seal_packed(packed);
    assert_eq!(b.receive(&outer), packets);
}

#[test]
fn a_payload_waits_for_more_as_long_as_init_delay_says() {
    let link = with(IptfsConfig { init_delay_ns: 500, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 100); 2]);
    let mut packed = a.classify(&packets[..1]);
    a.close_payloads(false, &mut packed);
    assert_eq!((packed.len(), a.ipsec.outbound.payloads_due_ns()), (0, a.now_ns + 500));
    a.now_ns += 499;
    packed.extend(a.classify(&packets[1..]));
    a.close_payloads(false, &mut packed);
    assert_eq!(packed.len(), 0);
    a.now_ns += 1;
    a.close_payloads(false, &mut packed);
    assert_eq!(packed.len(), 1);
    let outer = a.seal_packed(packed);
    assert_eq!(b.receive(&outer), packets);
    a.assert_no_leak();
}

#[test]
fn no_more_than_some_sas_have_open_payloads() {
    let link = with(IptfsConfig { init_delay_ns: 1_000_000, ..IptfsConfig::default() });
    let mut a = Gateway::new(link.config(0));
    a.pool = FramePool::new(600, 0);
    let mut policies = Vec::new();
    for number in 0..300u32 {
        let sa = link.sa(0, SaDirection::Outbound);
        a.install(SaConfig { spi: 0x2000 + number, tunnel: TunnelId(number), ..sa });
        let remote = format!("10.{}.{}.0/24", 100 + number / 256, number % 256);
        policies.push(policy("10.1.0.0/16", &remote, Action::Protect(TunnelId(number))));
    }
    a.ipsec.set_policies(policies);
    let to = |number: u32| {
        let remote = format!("10.{}.{}.9", 100 + number / 256, number % 256);
        udp(["10.1.0.5", &remote].map(|text| text.parse().expect("an address")), 100)
    };
    let packed = a.classify(&(0..300).map(to).collect::<Vec<_>>());
    assert_eq!(packed.len(), 300 - 256);
}

#[test]
fn without_fragmentation_a_packet_stays_whole_and_one_too_long_is_reported_so() {
    let link = with(IptfsConfig { dont_frag: true, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let mut long = link.packet(false, 1_450);
    set_dont_fragment(&mut long);
    let packets = [link.packet(false, 100), link.packet(false, 1_400), link.packet(false, 1_434), long];
    let outer = a.send_packed(&packets);
    assert_eq!(outer.len(), 3);
    assert_eq!(b.receive(&outer), packets[..3]);
    assert_eq!((a.reported_inside().len(), a.sa_drops(OUT, DropReason::PacketTooBig)), (1, 1));
    // One that may be cut is.
    let outer = a.send_packed(&[link.packet(false, 2_000)]);
    assert_eq!((outer.len(), b.receive(&outer).len()), (2, 2));
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn an_ipv6_packet_that_ipv6_does_not_let_be_refused_is_split_nevertheless() {
    let link = with(IptfsConfig { dont_frag: true, pkt_size: 700, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let (whole, too_long) = (link.packet(true, 1_280), link.packet(true, 1_281));
    let outer = a.send_packed(&[whole.clone(), too_long]);
    assert_eq!(outer.len(), 2);
    assert!(b.receive(&outer) == [whole]);
    assert_eq!((a.reported_inside().len(), a.sa_drops(OUT, DropReason::PacketTooBig)), (1, 1));
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn a_size_of_packets_below_the_paths_is_kept() {
    let link = with(IptfsConfig { pkt_size: 700, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 400); 8]);
    let outer = a.send_packed(&packets);
    assert!(outer.iter().all(|outer| outer.len() <= 700) && outer.iter().any(|outer| outer.len() > 690));
    assert_eq!(b.receive(&outer), packets);
}

#[test]
fn dscp_is_that_of_the_first_packet_or_set_and_ecn_is_not_carried_outside() {
    for (dscp, expected) in [(crate::OuterDscp::Copy, 46 << 2), (crate::OuterDscp::Set(10), 10 << 2)] {
        let link = link();
        let mut a = Gateway::new(link.config(0));
        a.install(SaConfig { dscp, ..link.sa(0, SaDirection::Outbound) });
        a.ipsec.set_policies(link.policies(0));
        let mut voice = link.packet(false, 100);
        voice[1] = 46 << 2 | 2;
        ipv4::fill_checksum(&mut voice);
        let outer = a.send_packed(&[voice, link.packet(false, 100)]);
        assert_eq!((outer.len(), outer[0][1]), (1, expected));
        assert_eq!(outer[0][6] & 0x40, 0x40, "DF is set, whatever the inner packets have");
    }
}

#[test]
fn congestion_outside_is_reported_to_packets_that_understand_it_and_no_other_is_dropped() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let mut capable = link.packet(false, 100);
    capable[1] = 2;
    ipv4::fill_checksum(&mut capable);
    let mut outer = a.send_packed(&[capable, link.packet(false, 100)]);
    outer[0][1] |= 3;
    ipv4::fill_checksum(&mut outer[0]);
    let inner = b.receive(&outer);
    assert_eq!(inner.iter().map(|packet| packet[1]).collect::<Vec<_>>(), [3, 0]);
    assert_eq!(checksum::of(&inner[0][..20], 0), 0);
    assert_eq!(b.ipsec.counters().drops.total(), 0);
}

#[test]
fn each_inner_packet_is_checked_against_the_policies() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let stray = udp(["10.9.0.5", "10.2.0.9"].map(|text| text.parse().expect(text)), 100);
    let payload = [&[0; 4][..], &link.packet(false, 60), &stray, &link.packet(true, 100)].concat();
    let outer = a.seal_payload(&payload, AGGFRAG);
    assert_eq!(b.receive(&[outer]), [link.packet(false, 60), link.packet(true, 100)]);
    assert_eq!(b.sa_drops(IN, DropReason::PolicyMismatch), 1);
    b.assert_no_leak();
}

#[test]
fn hops_are_counted_for_each_inner_packet() {
    let link = Link { decrement_ttl: true, ..link() };
    let [mut a, mut b] = link.pair();
    let packets = [link.packet(false, 100), link.packet(true, 100)];
    let outer = a.send_packed(&packets);
    assert_eq!(outer.len(), 1);
    let inner = b.receive(&outer);
    assert_eq!([inner[0][8], inner[1][7]], [packets[0][8] - 2, packets[1][7] - 2]);
}

#[test]
fn a_missing_payload_is_waited_for_and_then_given_up() {
    let link = link();
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 1_300); 4]);
    let outer: Vec<_> =
        packets.iter().flat_map(|packet| a.send_packed(std::slice::from_ref(packet))).collect();
    assert_eq!(b.receive(&outer[..1]), packets[..1]);
    assert!(b.receive(&outer[2..]).is_empty());
    assert_eq!(b.ipsec.inbound.payloads_due_ns(), b.now_ns + 1_000_000_000);
    b.now_ns += 999_999_999;
    assert!(b.give_up_payloads().is_empty());
    b.now_ns += 1;
    assert_eq!(b.give_up_payloads(), packets[2..]);
    assert_eq!(b.view(IN).reassembly.map(|counts| counts.missing), Some(1));
    // What comes after all is delivered.
    assert_eq!(b.receive(&outer[1..2]), packets[1..2]);
    b.assert_no_leak();
}

#[test]
fn more_payloads_than_the_window_holds_are_not_waited_for() {
    let link = with(IptfsConfig { reorder_window: 2, ..IptfsConfig::default() });
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 1_300); 5]);
    let outer: Vec<_> =
        packets.iter().flat_map(|packet| a.send_packed(std::slice::from_ref(packet))).collect();
    b.receive(&outer[..1]);
    assert!(b.receive(&outer[2..4]).is_empty());
    assert_eq!(b.receive(&outer[4..]), packets[2..]);
}
