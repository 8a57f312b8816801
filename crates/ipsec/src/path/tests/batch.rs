//! Batches laid out and unpacked away from their SA are compared with packets laid out at once.

use proptest::prelude::*;

use super::plain::{link, packet};
use super::*;
use crate::drops::DropCounters;
use crate::esp::batch_template::{BatchTemplate, RAW_TAILROOM_BYTES};
use crate::sa::config::{Lifetime, LifetimeLimits, SaEnds};

fn random(bytes: &mut [u8]) {
    bytes.fill(0x5a);
}

impl Gateway {
    /// Begins a batch of one SA.
    fn begin(&mut self, batch: &mut [CryptoPacket]) -> Option<BatchTemplate> {
        let mut templates = Vec::new();
        self.ipsec.tables.begin(self.now_ns, batch, &mut templates);
        assert!(templates.len() == 1 && templates[0].packets as usize == batch.len());
        templates[0].template
    }

    /// What a crypto core does with a batch that was begun.
    fn work(&self, template: Option<BatchTemplate>, batch: &mut [CryptoPacket]) {
        if let Some(template) = template {
            template.lay_out(batch, &mut random);
        }
        for packet in batch.iter_mut().filter(|packet| packet.status == CryptoStatus::Pending) {
            assert!(!packet.is_raw(), "laid out");
            run(&self.keys[&packet.sa], packet.direction, packet);
        }
        if let Some(template) = template {
            template.open_up(batch);
        }
    }

    /// As [`send`](Self::send), in batches of `size`.
    fn send_batches(&mut self, packets: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
        let mut raw = self.classify(packets);
        let mut out = Vec::new();
        while !raw.is_empty() {
            let mut batch: Vec<CryptoPacket> = raw.drain(..size.min(raw.len())).collect();
            let template = self.begin(&mut batch);
            self.work(template, &mut batch);
            self.finish_outbound(&mut batch, &mut out);
        }
        self.copied(&mut out)
    }

    /// As [`receive`](Self::receive), in batches of `size`.
    fn receive_batches(&mut self, packets: &[Vec<u8>], size: usize) -> Vec<Vec<u8>> {
        let mut frames = self.frames(packets);
        self.classify_inbound(&mut frames);
        let (mut raw, mut out) = (std::mem::take(&mut self.inbound.open), Vec::new());
        while !raw.is_empty() {
            let mut batch: Vec<CryptoPacket> = raw.drain(..size.min(raw.len())).collect();
            let template = self.begin(&mut batch);
            self.work(template, &mut batch);
            self.finish_inbound(&mut batch, &mut out);
        }
        self.copied(&mut out)
    }
}

/// Links of all kinds whose packets may be raw, some with traffic flow confidentiality.
fn any_link() -> impl Strategy<Value = Link> {
    (link(), prop_oneof![Just(0u16), Just(300)], any::<bool>())
        .prop_map(|(link, tfc_bytes, decrement_ttl)| Link { tfc_bytes, decrement_ttl, ..link })
}

/// Packets dropped as replayed or with a wrong ICV, and the other drops. A packet that damage gave
/// the number of another one in its burst is either: the other may be accepted before it is looked
/// at or after.
fn refused(drops: &DropCounters) -> (u64, Vec<(DropReason, u64)>) {
    let is_either = |(reason, _): &(DropReason, u64)| {
        matches!(reason, DropReason::Replayed | DropReason::IntegrityFailed)
    };
    let (either, others): (Vec<_>, Vec<_>) = drops.met().partition(is_either);
    (either.iter().map(|(_, packets)| packets).sum(), others)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_batch_out_is_byte_for_byte_what_single_packets_are(
        link in any_link(), packets in proptest::collection::vec(packet(), 1..12), size in 1usize..8,
        hard in proptest::option::of(1u64..4_000), is_packets: bool,
    ) {
        let hard = if is_packets {
            LifetimeLimits { packets: hard.map(|limit| limit % 12 + 1), ..LifetimeLimits::default() }
        } else {
            LifetimeLimits { bytes: hard, ..LifetimeLimits::default() }
        };
        let limited = |gateway: &mut Gateway| {
            gateway.ipsec.remove(OUT);
            let lifetime = Lifetime { hard, ..Lifetime::default() };
            gateway.install(SaConfig { lifetime, sequence_reserved: 9, ..link.sa(0, SaDirection::Outbound) });
        };
        let [mut single, mut batched] = [link.gateway(0), link.gateway(0)];
        limited(&mut single);
        limited(&mut batched);
        // A packet at a time, since a limit is for the next one.
        let expected: Vec<_> = packets.iter().flat_map(|packet| single.send(std::slice::from_ref(packet))).collect();
        prop_assert_eq!(batched.send_batches(&packets, size), expected);
        let [a, b] = [&single, &batched].map(|gateway| gateway.view(OUT));
        prop_assert_eq!((a.sequence, a.usage, a.drops), (b.sequence, b.usage, b.drops));
        prop_assert_eq!(single.reported_inside(), batched.reported_inside());
        let [a, b] = [&single, &batched].map(|gateway| gateway.ipsec.counters());
        prop_assert_eq!((a.protected, a.drops), (b.protected, b.drops));
        let mut events = [Vec::new(), Vec::new()];
        for (gateway, events) in [&mut single, &mut batched].into_iter().zip(&mut events) {
            gateway.expire(2_000, events);
            gateway.assert_no_leak();
        }
        prop_assert_eq!(&events[0], &events[1]);
    }

    #[test]
    fn a_batch_in_is_byte_for_byte_what_single_packets_are(
        link in any_link(), packets in proptest::collection::vec(packet(), 1..12), size in 1usize..8,
        damage in proptest::option::of((any::<prop::sample::Index>(), 0u8..8)), again in proptest::option::of(0usize..4),
    ) {
        let mut outer = link.gateway(0).send(&packets);
        // Without an ICV, a damaged number is a number: what it means depends on those before it.
        let has_icv = !matches!(link.transform, Transform::Chained { integrity: None, .. });
        if let (Some((damage, bit)), Some(last)) = (damage.filter(|_| has_icv), outer.last_mut()) {
            let at = damage.index(last.len());
            last[at] ^= 1 << bit;
        }
        let replayed = again.and_then(|at| outer.get(at)).cloned();
        outer.extend(replayed);
        let [mut single, mut batched] = [link.gateway(1), link.gateway(1)];
        prop_assert_eq!(batched.receive_batches(&outer, size), single.receive(&outer));
        let [a, b] = [&single, &batched].map(|gateway| gateway.view(IN));
        prop_assert_eq!((a.sequence, a.usage, a.replay), (b.sequence, b.usage, b.replay));
        prop_assert_eq!(refused(&a.drops), refused(&b.drops));
        single.assert_no_leak();
        batched.assert_no_leak();
    }
}

/// A copy of a raw packet, as is kept of what an engine may lose.
fn kept(gateway: &mut Gateway, packet: &CryptoPacket) -> CryptoPacket {
    let frame = gateway.pool.take_filled(&packet.frame, RAW_TAILROOM_BYTES).expect("a frame");
    let CryptoPacket { job, status, sa, direction, class, context, .. } = *packet;
    CryptoPacket { frame, job, status, sa, direction, class, context }
}

#[test]
fn a_batch_that_is_done_again_keeps_its_numbers_and_is_counted_once() {
    let link = Link { transform: CBC_SHA256, ..Link::default() };
    let mut a = link.gateway(0);
    let packets = [100, 200, 300].map(|len| link.packet(false, len));
    let mut first = a.classify(&packets);
    let template = a.begin(&mut first);
    let mut again: Vec<CryptoPacket> = first.iter().map(|packet| kept(&mut a, packet)).collect();
    a.work(template, &mut first);
    // The engine is gone with it; in the meantime another packet leaves, and the peer moves.
    a.send_batches(&[link.packet(false, 60)], 1);
    let ends = a.ipsec.tables.ends(OUT).expect("installed");
    let moved = SaEnds { remote: "192.0.2.77".parse().expect("an address"), ..ends };
    assert!(a.move_sa(OUT, &moved));
    let before = a.view(OUT);
    let template = a.begin(&mut again);
    a.work(template, &mut again);
    let after = a.view(OUT);
    assert_eq!((before.sequence, before.usage), (after.sequence, after.usage));
    for (lost, packet) in first.iter().zip(&again) {
        assert_eq!(lost.frame[20..28], packet.frame[20..28], "SPI and sequence number");
        assert_eq!(packet.frame[16..20], [192, 0, 2, 77]);
    }
    first.into_iter().chain(again).for_each(|packet| a.pool.give_back(packet.frame));
    a.assert_no_leak();
}

#[test]
fn packets_that_wait_raw_do_not_go_by_the_sa_that_follows_theirs_at_its_place() {
    let link = Link::default();
    let [mut a, mut b] = [link.gateway(0), link.gateway(1)];
    let sealed = a.send_batches(&[link.packet(false, 100)], 1);
    let mut out = a.classify(&[link.packet(false, 100)]);
    let mut frames = b.frames(&sealed);
    b.classify_inbound(&mut frames);
    let mut open = std::mem::take(&mut b.inbound.open);
    for (gateway, index, direction, end) in
        [(&mut a, OUT, SaDirection::Outbound, 0), (&mut b, IN, SaDirection::Inbound, 1)]
    {
        gateway.ipsec.remove(index);
        let batch = if end == 0 { &mut out } else { &mut open };
        assert!(gateway.begin(batch).is_none(), "gone");
        assert_eq!(gateway.install(link.sa(end, direction)), index);
        let template = gateway.begin(batch);
        assert!(template.is_some() && matches!(batch[0].status, CryptoStatus::Refused(_)));
        gateway.work(template, batch);
        assert_eq!(gateway.ipsec.tables.sequence(index), Some(0));
    }
    let mut none = Vec::new();
    a.finish_outbound(&mut out, &mut none);
    b.finish_inbound(&mut open, &mut none);
    assert!(none.is_empty());
    assert_eq!((a.drops(DropReason::OutboundNoSa), b.drops(DropReason::UnknownSpi)), (1, 1));
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn what_is_never_raw_is_laid_out_at_once() {
    for (mode, protocol) in [(Mode::Transport, SaProtocol::Esp), (Mode::Tunnel, SaProtocol::Ah)] {
        let link = Link { mode, protocol, transform: NULL_SHA1, ..Link::default() };
        let [mut a, mut b] = [link.gateway(0), link.gateway(1)];
        let packet = link.packet(false, 100);
        let mut prepared = a.classify(std::slice::from_ref(&packet));
        assert!(!prepared[0].is_raw());
        assert!(a.begin(&mut prepared).is_none());
        assert_eq!(prepared[0].status, CryptoStatus::Pending);
        let sealed = a.seal(prepared);
        assert_eq!(b.receive_batches(&sealed, 1), [packet]);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn a_peer_that_moved_is_noticed_by_a_batch_too() {
    let link = Link { encap: Some(ENCAP), tfc_bytes: 300, ..Link::default() };
    let [mut a, mut b] = [link.gateway(0), link.gateway(1)];
    let mut outer = a.send(&[link.packet(false, 100)]);
    // A NAT has given the peer another port.
    outer[0][20..22].copy_from_slice(&9_000u16.to_be_bytes());
    assert_eq!(b.receive_batches(&outer, 1), [link.packet(false, 100)]);
    let mut moved = Vec::new();
    b.ipsec.inbound.mapping_changes(&mut b.ipsec.tables, &mut |change| {
        moved.push(change.new.port());
        true
    });
    assert_eq!(moved, [9_000]);
}
