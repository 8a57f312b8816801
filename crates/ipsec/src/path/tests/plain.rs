//! The path of nearly all packets is compared with the general one.

use proptest::prelude::*;

use super::*;
use crate::esp::job::CryptoJob;
use crate::path::classify::ClassifiedBurst;
use crate::path::protected::look_up;
use crate::sa::id::InboundId;

const CTR_SHA1: Transform =
    Transform::Chained { cipher: Cipher::AesCtr(KeyBits::B128), integrity: Some(Integrity::HmacSha1_96) };
const GMAC: Transform = Transform::Aead(Aead::NullAesGmac(KeyBits::B128));
const UNAUTHENTICATED: Transform = Transform::Chained { cipher: Cipher::TripleDesCbc, integrity: None };

pub(super) fn link() -> impl Strategy<Value = Link> {
    let transform = prop_oneof![
        Just(GCM),
        Just(GMAC),
        Just(CBC_SHA256),
        Just(CTR_SHA1),
        Just(NULL_SHA1),
        Just(UNAUTHENTICATED)
    ];
    let df = prop_oneof![Just(OuterDf::Copy), Just(OuterDf::Set), Just(OuterDf::Clear)];
    (any::<(bool, bool, bool)>(), transform, df, prop_oneof![Just(1_500u16), Just(700)]).prop_map(
        |((outer_v6, in_udp, esn), transform, df, mtu)| {
            let encap = in_udp.then_some(ENCAP);
            Link { outer_v6, encap, esn, transform, df, mtu, ..Link::default() }
        },
    )
}

/// Packets from behind the first gateway: of all lengths, some with options, of some only a
/// fragment, some malformed.
pub(super) fn packet() -> impl Strategy<Value = Vec<u8>> {
    (any::<bool>(), 40usize..1_600, any::<u8>(), 0u8..8, 0u8..4).prop_map(
        |(is_v6, len, class, kind, hops)| {
            let mut packet = Link::default().packet(is_v6, len);
            ip::set_traffic_class(&mut packet, class);
            match kind {
                0 if !is_v6 => set_dont_fragment(&mut packet),
                1 if !is_v6 => {
                    // Four bytes of options that do nothing.
                    packet.splice(20..20, [1, 1, 1, 0]);
                    packet[0] = 0x46;
                    ip::set_length(&mut packet);
                }
                2 if !is_v6 => {
                    packet[6] = 0x20;
                    ipv4::fill_checksum(&mut packet);
                }
                3 => packet[if is_v6 { 7 } else { 8 }] = hops,
                4 => packet.push(0),
                5 => packet[if is_v6 { 6 } else { 9 }] = 0,
                6 => packet.truncate(len - 1),
                _ => {}
            }
            packet
        },
    )
}

/// What the two gateways must have in common; the ICV's place, which is at the end, is the
/// engine's.
fn jobs(prepared: &[CryptoPacket]) -> Vec<(CryptoJob, &[u8], usize, u8)> {
    let parts = prepared.iter().map(|CryptoPacket { frame, job, class, .. }| {
        (*job, &frame[..usize::from(job.icv_start)], frame.len(), *class)
    });
    parts.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_plain_way_out_makes_what_the_general_one_does(
        link in link(), packets in proptest::collection::vec(packet(), 1..12),
    ) {
        let [mut plain, mut general] = [link.gateway(0), link.gateway(0)];
        let fast = plain.prepare(&packets);
        let mut slow = Vec::new();
        for packet in &packets {
            // Nothing is plain once its lease is over.
            general.ipsec.tables.sad.outbound.hot_mut(0).expect("installed").expire_limits();
            slow.extend(general.prepare(std::slice::from_ref(packet)));
        }
        prop_assert_eq!(jobs(&fast), jobs(&slow));
        let [a, b] = [&plain, &general].map(|gateway| gateway.view(OUT));
        prop_assert_eq!((a.sequence, a.usage, a.drops), (b.sequence, b.usage, b.drops));
        prop_assert_eq!(plain.reported_inside(), general.reported_inside());
        prop_assert_eq!(plain.ipsec.counters().protected, general.ipsec.counters().protected);
        prop_assert_eq!(plain.ipsec.tables.policies().map(|policy| policy.bytes).sum::<u64>(),
            general.ipsec.tables.policies().map(|policy| policy.bytes).sum::<u64>());
        prop_assert_eq!(plain.seal(fast), general.seal(slow));
        plain.assert_no_leak();
        general.assert_no_leak();
    }

    #[test]
    fn the_ordinary_way_in_makes_what_the_general_one_does(
        link in link(), packets in proptest::collection::vec(packet(), 1..12), damage: prop::sample::Index, bit in 0u8..8,
    ) {
        let mut outer = link.gateway(0).send(&packets);
        if let Some(last) = outer.last_mut() {
            let at = damage.index(last.len());
            last[at] ^= 1 << bit;
        }
        let mut ordinary = link.gateway(1);
        let mut general = Gateway::new(ordinary.ipsec.tables.config.clone());
        general.install(link.sa(1, SaDirection::Outbound));
        // What comes to any address is found by the general way only.
        let any: IpAddr = if link.outer_v6 { "::" } else { "0.0.0.0" }.parse().expect("an address");
        general.install(SaConfig { local: any, ..link.sa(1, SaDirection::Inbound) });
        general.ipsec.set_policies(link.policies(1));
        // One that was sent elsewhere is for the general gateway, too.
        outer.retain(|packet| ip::is_v6(packet) == link.outer_v6
            && Layout::parse(packet).is_ok_and(|layout| layout.addresses(packet).1 == link.ends()[1]));
        prop_assert_eq!(ordinary.receive(&outer), general.receive(&outer));
        let [a, b] = [&ordinary, &general].map(|gateway| gateway.view(IN));
        prop_assert_eq!((a.sequence, a.usage, a.drops), (b.sequence, b.usage, b.drops));
        ordinary.assert_no_leak();
        general.assert_no_leak();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_short_way_of_delivery_gives_what_the_general_one_does(
        link in link(), in_payloads: bool, packets in proptest::collection::vec(packet(), 1..12), together in 1usize..4,
    ) {
        let transform = if matches!(link.transform, CBC_SHA256 | CTR_SHA1) { link.transform } else { GCM };
        let payloads = Link { mode: Mode::Iptfs, transform, ..link.clone() };
        let link = if in_payloads { payloads } else { link };
        let mut sender = link.gateway(0);
        let outer: Vec<_> = match in_payloads {
            true => packets.chunks(together).flat_map(|packets| sender.send_packed(packets)).collect(),
            false => sender.send(&packets),
        };
        let [mut short, mut general] = [link.gateway(1), link.gateway(1)];
        for packet in &outer {
            // Nothing is short once the limits have expired.
            general.ipsec.tables.sad.inbound.hot_mut(0).expect("installed").expire_limits();
            let delivered = [&mut short, &mut general].map(|gateway| gateway.receive(std::slice::from_ref(packet)));
            prop_assert_eq!(&delivered[0], &delivered[1]);
        }
        let [a, b] = [&short, &general].map(|gateway| gateway.view(IN));
        prop_assert_eq!((a.sequence, a.usage, a.drops, a.replay), (b.sequence, b.usage, b.drops, b.replay));
        let [a, b] = [&short, &general].map(|gateway| gateway.ipsec.counters());
        prop_assert_eq!((a.opened, a.unpacking, a.drops), (b.opened, b.unpacking, b.drops));
        let [a, b] = [&short, &general].map(|gateway| gateway.ipsec.tables.reassembler(InboundId(0)).map(|known| known.counts()));
        prop_assert_eq!(a, b);
    }
}

#[test]
fn plain_packets_are_delivered_by_the_short_way_in_both_modes_whatever_their_headers() {
    for bits in 0..16_u8 {
        let [in_payload, inner_v6, outer_v6, in_udp] = [0, 1, 2, 3].map(|bit| bits >> bit & 1 == 1);
        let mode = if in_payload { Mode::Iptfs } else { Mode::Tunnel };
        let link = Link { mode, outer_v6, encap: in_udp.then_some(ENCAP), ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packets = [1_300, 1_301, 1_302].map(|len| link.packet(inner_v6, len));
        let one_by_one = |packet| a.send_packed(std::slice::from_ref(packet));
        let outer: Vec<_> = packets.iter().flat_map(one_by_one).collect();
        // The first packet has an SA's limits evaluated, and says where its payloads begin.
        assert_eq!(b.receive(&outer[..1]), packets[..1]);
        let mut frames = b.frames(&outer[1..]);
        b.classify_inbound(&mut frames);
        let mut opened = std::mem::take(&mut b.inbound.open);
        b.ipsec.tables.lay_out(b.now_ns, &mut opened, &mut |_| {});
        for (packet, expected) in opened.iter_mut().zip(&packets[1..]) {
            run(&b.keys[&packet.sa], Direction::Open, packet);
            let Gateway { ipsec, now_ns, .. } = &mut b;
            assert!(ipsec.inbound.finish_shortly(&mut ipsec.tables, packet, *now_ns), "{bits:04b}");
            assert_eq!(packet.frame[..], expected[..]);
        }
        assert_eq!(b.ipsec.counters().opened, 3);
        b.pool.give_back_burst(&mut opened.into_iter().map(|packet| packet.frame).collect());
        b.assert_no_leak();
    }
}

#[test]
fn the_plain_way_is_taken() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.prepare(&[link.packet(false, 100)]).into_iter().for_each(|packet| a.pool.give_back(packet.frame));
    let sa = a.ipsec.tables.sad.outbound.hot(0).expect("installed");
    assert_eq!(sa.largest(a.now_ns), 1_446, "what fits 1,500 bytes");
    assert_eq!(sa.largest(a.now_ns + 4_000_000_000), 0, "with the next mark of what was sent lately");
}

#[test]
fn packets_of_one_flow_and_sa_are_looked_up_once_whatever_their_headers() {
    let families = [(false, false), (false, true), (true, false), (true, true)];
    for ((inner_v6, outer_v6), encap) in
        families.map(|families| [None, Some(ENCAP)].map(|encap| (families, encap))).concat()
    {
        let link = Link { outer_v6, encap, ..Link::default() };
        let [mut a, mut b] = link.pair();
        let packets = [100, 200, 1_000].map(|len| link.packet(inner_v6, len));
        let (mut frames, mut burst) = (a.frames(&packets), ClassifiedBurst::default());
        a.ipsec.outbound.look_up(&a.ipsec.tables, &mut frames, &mut burst);
        a.copied(&mut frames);
        let sent = a.send(&packets);
        let (mut frames, mut runs) = (b.frames(&sent), Vec::new());
        look_up(&b.ipsec.tables, &mut frames, &mut runs);
        b.copied(&mut frames);
        assert_eq!([burst.runs().len(), runs.len()], [1, 1], "{inner_v6} {outer_v6} {encap:?}");
        assert_eq!(b.receive(&sent).len(), 3);
    }
}
