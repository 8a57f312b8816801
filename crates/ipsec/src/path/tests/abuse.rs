use super::*;
use proptest::prelude::*;

fn links() -> [Link; 4] {
    let encapsulated = Link { encap: Some(ENCAP), ..Link::default() };
    let ah = Link { protocol: SaProtocol::Ah, transform: NULL_SHA1, ..Link::default() };
    let transport = Link { mode: Mode::Transport, outer_v6: true, transform: CBC_SHA256, ..Link::default() };
    [Link::default(), encapsulated, ah, transport]
}

#[test]
fn a_replayed_packet_is_dropped_early_and_late() {
    for link in links() {
        let [mut a, mut b] = link.pair();
        let outer = a.send(&[link.packet(link.outer_v6, 100)]);
        // Both copies pass the early check; the second meets the first when they finish.
        assert_eq!(b.receive(&[outer[0].clone(), outer[0].clone()]).len(), 1);
        assert!(b.receive(&outer).is_empty());
        assert_eq!(b.sa_drops(IN, DropReason::Replayed), 2);
        b.assert_no_leak();
    }
}

#[test]
fn a_forged_packet_is_dropped_wherever_it_was_changed() {
    for link in links() {
        let [mut a, mut b] = link.pair();
        let outer = a.send(&[link.packet(link.outer_v6, 100)]).remove(0);
        let header = outer.len() - 30;
        for at in header..outer.len() {
            let mut forged = outer.clone();
            forged[at] ^= 0x40;
            assert!(b.receive(&[forged]).is_empty());
        }
        assert_eq!(b.sa_drops(IN, DropReason::IntegrityFailed), 30);
        assert_eq!(b.receive(&[outer]).len(), 1, "the window was not moved");
        b.assert_no_leak();
    }
}

#[test]
fn a_truncated_packet_is_dropped_at_every_length() {
    for link in links() {
        let [mut a, mut b] = link.pair();
        let outer = a.send(&[link.packet(link.outer_v6, 100)]).remove(0);
        for len in 0..outer.len() {
            let mut cut = outer[..len].to_vec();
            assert!(b.receive(std::slice::from_ref(&cut)).is_empty());
            if len >= 40 {
                ip::set_length(&mut cut);
                assert!(b.receive(&[cut]).is_empty());
            }
        }
        assert_eq!(b.ipsec.counters().opened, 0);
        b.assert_no_leak();
    }
}

#[test]
fn an_unknown_spi_and_a_known_one_elsewhere_are_distinguished() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let outer = a.send(&[link.packet(false, 100)]).remove(0);
    let mut unknown = outer.clone();
    unknown[22] ^= 1;
    assert!(b.receive(&[unknown]).is_empty());
    assert_eq!(b.drops(DropReason::UnknownSpi), 1);
    let mut in_udp = Link { encap: Some(ENCAP), ..link.clone() }.gateway(0);
    let wrapped = in_udp.send(&[link.packet(false, 100)]);
    assert!(b.receive(&wrapped).is_empty());
    assert_eq!(b.sa_drops(IN, DropReason::SaMismatch), 1);
    let mut elsewhere = outer;
    elsewhere[19] = 77;
    assert!(b.receive(&[elsewhere]).is_empty());
    assert_eq!(b.drops(DropReason::InboundNoPolicy), 1, "not for us: plain traffic that no policy selects");
    b.assert_no_leak();
}

#[test]
fn a_job_that_no_engine_did_is_dropped() {
    let link = Link::default();
    let mut a = link.gateway(0);
    let mut out = Vec::new();
    for packet in a.prepare(&[link.packet(false, 100)]) {
        assert_eq!(packet.status, CryptoStatus::Pending);
        a.finish_outbound(&mut vec![packet], &mut out);
    }
    assert!(out.is_empty());
    assert_eq!(a.sa_drops(OUT, DropReason::EngineFailed), 1);
    a.assert_no_leak();
}

#[test]
fn without_frames_packets_are_dropped_and_nothing_leaks() {
    let link = Link { mode: Mode::Transport, mtu: 576, ..Link::default() };
    let mut a = link.gateway(0);
    let prepared = a.prepare(&[link.packet(false, 1_500)]);
    let mut held = Vec::new();
    a.pool.take_burst(FrameSize::Small, FRAMES[0], &mut held);
    a.pool.take_burst(FrameSize::Jumbo, FRAMES[1], &mut held);
    assert!(a.seal(prepared).is_empty());
    a.pool.give_back_burst(&mut held);
    assert_eq!(a.sa_drops(OUT, DropReason::NoFrame), 1);
    a.assert_no_leak();
}

#[test]
fn sequence_numbers_never_repeat() {
    let link = Link::default();
    let mut a = link.gateway(0);
    a.ipsec.tables.set_sequence(OUT_ID, u64::from(u32::MAX) - 1);
    assert_eq!(a.send(&vec![link.packet(false, 100); 3]).len(), 1);
    assert_eq!(a.sa_drops(OUT, DropReason::SequenceExhausted), 2);
    a.ipsec.tables.set_sequence(OUT_ID, 7);
    assert!(a.send(&[link.packet(false, 100)]).is_empty(), "numbers do not go back");
    a.assert_no_leak();
}

#[test]
fn extended_numbers_end_too() {
    let link = Link { esn: true, ..Link::default() };
    let mut a = link.gateway(0);
    a.ipsec.tables.set_sequence(OUT_ID, u64::MAX - 1);
    assert_eq!(a.send(&vec![link.packet(false, 100); 3]).len(), 1);
    assert_eq!(a.sa_drops(OUT, DropReason::SequenceExhausted), 2);
    a.assert_no_leak();
}

/// Bytes that often look like something.
fn any_packet() -> impl Strategy<Value = Vec<u8>> {
    let link = prop_oneof![Just(0usize), Just(1), Just(2), Just(3)];
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    let real = (link, 48usize..1_600, changes, any::<bool>(), any::<bool>()).prop_map(
        |(link, len, changes, sealed, fixed)| {
            let link = &links()[link];
            let mut packet = link.packet(link.outer_v6, len);
            if sealed {
                packet = link.gateway(0).send(&[packet]).into_iter().next().unwrap_or_default();
            }
            for (place, byte) in changes {
                if !packet.is_empty() {
                    let place = place.index(packet.len().min(120));
                    packet[place] = byte;
                }
            }
            if fixed && packet.len() >= 60 && packet[0] & 15 == 5 {
                ip::set_length(&mut packet);
            }
            packet
        },
    );
    prop_oneof![1 => proptest::collection::vec(any::<u8>(), 0..120), 3 => real]
}

proptest! {
    #[test]
    fn no_packet_makes_either_end_panic_or_leak(
        link in 0usize..4,
        packets in proptest::collection::vec(any_packet(), 1..12),
        is_laid_out: bool,
        seal_status in prop_oneof![Just(None), Just(Some(CryptoStatus::Done)), Just(Some(CryptoStatus::Pending))],
    ) {
        let mut gateway = links()[link].gateway(1);
        gateway.send(&packets);
        let mut frames = gateway.frames(&packets);
        gateway.ipsec.inbound.classify(&mut gateway.ipsec.tables, 5_000, &mut gateway.pool, &mut frames, &mut gateway.inbound);
        let mut out = Vec::new();
        let mut open = std::mem::take(&mut gateway.inbound.open);
        if is_laid_out {
            gateway.ipsec.tables.lay_out(5_000, &mut open, &mut |_| {});
        }
        for mut packet in open {
            match seal_status.or((!is_laid_out).then_some(CryptoStatus::Done)) {
                // An authentic peer may send garbage too.
                Some(status) => packet.status = status,
                None => run(&gateway.keys[&packet.sa], Direction::Open, &mut packet),
            }
            gateway.ipsec.inbound.finish(&mut gateway.ipsec.tables, 5_000, &mut gateway.pool, &mut vec![packet], &mut out);
        }
        gateway.pool.give_back_burst(&mut out);
        gateway.assert_no_leak();
    }
}
