//! A run of packets laid out at once is compared with one packet at a time, at every limit that may
//! fall between two of them.

use proptest::prelude::*;

use super::plain::{link, packet};
use super::*;
use crate::sa::config::{Lifetime, LifetimeLimits};

/// The limits of an outbound SA.
fn limits() -> impl Strategy<Value = (Lifetime, u64, u64)> {
    let limits = || {
        let bytes = proptest::option::of(1u64..6_000);
        (bytes, proptest::option::of(1u64..14)).prop_map(|(bytes, packets)| LifetimeLimits {
            bytes,
            packets,
            time_ns: None,
        })
    };
    let start = prop_oneof![Just(0), Just(u64::from(u32::MAX) - 5)];
    (limits(), limits(), start, 0u64..16)
        .prop_map(|(soft, hard, start, reserved)| (Lifetime { soft, hard }, start, start + reserved))
}

/// What a test compares beside the packets that come out.
fn seen(gateway: &mut Gateway, sa: SaIndex) -> impl PartialEq + std::fmt::Debug + use<> {
    let mut events = Vec::new();
    gateway.expire(gateway.now_ns, &mut events);
    let view = gateway.view(sa);
    let used: Vec<_> = gateway.ipsec.tables.policies().map(|policy| (policy.packets, policy.bytes)).collect();
    let counters = gateway.ipsec.counters();
    let totals = (counters.protected, counters.opened, counters.drops);
    (events, (view.sequence, view.usage, view.drops, view.replay), used, totals)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_run_out_across_a_limit_is_what_single_packets_are(
        link in link(), limits in limits(), packets in proptest::collection::vec(packet(), 1..20), tfc: bool,
    ) {
        let link = Link { tfc_bytes: if tfc { 300 } else { 0 }, ..link };
        let (lifetime, sequence_start, sequence_reserved) = limits;
        let gateway = || {
            let mut gateway = link.gateway(0);
            gateway.ipsec.remove(OUT);
            let sa = link.sa(0, SaDirection::Outbound);
            gateway.install(SaConfig { lifetime, sequence_start, sequence_reserved, ..sa });
            gateway
        };
        let [mut single, mut run, mut begun] = [gateway(), gateway(), gateway()];
        let mut one_by_one = single.classify(&packets);
        for packet in &mut one_by_one {
            single.ipsec.tables.lay_out(single.now_ns, std::slice::from_mut(packet), &mut |iv| iv.fill(0x5a));
        }
        let mut together = run.classify(&packets);
        run.ipsec.tables.lay_out(run.now_ns, &mut together, &mut |iv| iv.fill(0x5a));
        let (mut elsewhere, mut templates) = (begun.classify(&packets), Vec::new());
        begun.ipsec.tables.begin(begun.now_ns, &mut elsewhere, &mut templates);
        for batch in templates.iter().filter_map(|run| run.template) {
            batch.lay_out(&mut elsewhere, &mut |iv| iv.fill(0x5a));
        }
        let statuses = |packets: &[CryptoPacket]| packets.iter().map(|packet| packet.status).collect::<Vec<_>>();
        prop_assert_eq!(statuses(&together), statuses(&one_by_one));
        prop_assert_eq!(statuses(&elsewhere), statuses(&one_by_one));
        let jobs = |packets: &[CryptoPacket]| packets.iter().map(|packet| packet.job).collect::<Vec<_>>();
        prop_assert_eq!(jobs(&together), jobs(&one_by_one));
        prop_assert_eq!(jobs(&elsewhere), jobs(&one_by_one));
        let sealed = single.seal(one_by_one);
        prop_assert_eq!(run.seal(together), sealed.clone());
        prop_assert_eq!(begun.seal(elsewhere), sealed);
        let expected = seen(&mut single, OUT);
        prop_assert!(seen(&mut run, OUT) == expected);
        prop_assert!(seen(&mut begun, OUT) == expected);
        for gateway in [&mut single, &mut run, &mut begun] {
            gateway.assert_no_leak();
        }
    }

    #[test]
    fn a_run_in_is_checked_as_single_packets_are(
        link in link(), packets in proptest::collection::vec(packet(), 1..20),
        order in proptest::collection::vec(any::<prop::sample::Index>(), 1..40), cut in proptest::option::of(0usize..60),
        before in 0usize..8,
    ) {
        let sent = link.gateway(0).send(&packets);
        let mut outer: Vec<_> = order.iter().filter(|_| !sent.is_empty()).map(|at| at.get(&sent).clone()).collect();
        if let (Some(cut), Some(last)) = (cut, outer.last_mut()) {
            // Too short in many ways, and so its header says.
            last.truncate(cut.max(if link.outer_v6 { 48 } else { 28 }));
            ip::set_length(last);
        }
        let [mut single, mut run, mut begun] = [link.gateway(1), link.gateway(1), link.gateway(1)];
        // What has come before is in the window.
        let before = before.min(outer.len());
        let gateways = [&mut single, &mut run, &mut begun];
        for gateway in gateways {
            gateway.receive(&outer[..before]);
        }
        let arrive = |gateway: &mut Gateway| {
            let mut frames = gateway.frames(&outer);
            gateway.classify_inbound(&mut frames);
            std::mem::take(&mut gateway.inbound.open)
        };
        let mut one_by_one = arrive(&mut single);
        for packet in &mut one_by_one {
            single.ipsec.tables.lay_out(single.now_ns, std::slice::from_mut(packet), &mut |_| {});
        }
        let mut together = arrive(&mut run);
        run.ipsec.tables.lay_out(run.now_ns, &mut together, &mut |_| {});
        let (mut elsewhere, mut templates) = (arrive(&mut begun), Vec::new());
        begun.ipsec.tables.begin(begun.now_ns, &mut elsewhere, &mut templates);
        for batch in templates.iter().filter_map(|run| run.template) {
            batch.lay_out(&mut elsewhere, &mut |_| {});
        }
        let reported = |packets: &[CryptoPacket]| packets.iter().map(|packet| (packet.status, packet.job)).collect::<Vec<_>>();
        prop_assert_eq!(reported(&together), reported(&one_by_one));
        prop_assert_eq!(reported(&elsewhere), reported(&one_by_one));
        let open = |gateway: &mut Gateway, mut packets: Vec<CryptoPacket>| {
            let mut out = Vec::new();
            packets.iter_mut().for_each(|packet| super::run(&gateway.keys[&packet.sa], Direction::Open, packet));
            gateway.finish_inbound(&mut packets, &mut out);
            gateway.copied(&mut out)
        };
        let opened = open(&mut single, one_by_one);
        prop_assert_eq!(open(&mut run, together), opened.clone());
        prop_assert_eq!(open(&mut begun, elsewhere), opened);
        let expected = seen(&mut single, IN);
        prop_assert!(seen(&mut run, IN) == expected);
        prop_assert!(seen(&mut begun, IN) == expected);
        for gateway in [&mut single, &mut run, &mut begun] {
            gateway.assert_no_leak();
        }
    }
}

#[test]
fn packets_that_are_not_raw_or_not_pending_are_left_alone() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let mut prepared = a.classify(&vec![link.packet(false, 100); 4]);
    prepared[1].status = CryptoStatus::Refused(DropReason::Overloaded);
    a.ipsec.tables.lay_out(1_000, &mut prepared, &mut |_| {});
    assert_eq!(a.ipsec.tables.sequence(OUT), Some(3));
    let jobs: Vec<_> = prepared.iter().map(|packet| packet.job).collect();
    a.ipsec.tables.lay_out(1_000, &mut prepared, &mut |_| {});
    assert_eq!(a.ipsec.tables.sequence(OUT), Some(3), "they are laid out");
    assert!(prepared.iter().map(|packet| packet.job).eq(jobs));
    assert_eq!(a.seal(prepared).len(), 3);
    assert_eq!(a.sa_drops(OUT, DropReason::Overloaded), 1);
    a.assert_no_leak();
}

#[test]
fn what_is_still_raw_does_not_leave_whatever_an_engine_says() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let sealed = a.send(&[link.packet(false, 100)]);
    let mut out = a.classify(&[link.packet(false, 100)]);
    let mut frames = b.frames(&sealed);
    b.classify_inbound(&mut frames);
    let mut open = std::mem::take(&mut b.inbound.open);
    out.iter_mut().chain(&mut open).for_each(|packet| packet.status = CryptoStatus::Done);
    let mut none = Vec::new();
    a.finish_outbound(&mut out, &mut none);
    b.finish_inbound(&mut open, &mut none);
    assert!(none.is_empty());
    assert_eq!([a.drops(DropReason::EngineFailed), b.drops(DropReason::EngineFailed)], [1, 1]);
    a.assert_no_leak();
    b.assert_no_leak();
}
