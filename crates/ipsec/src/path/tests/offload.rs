//! Packets that a port's device opens before they come, or seals after they left.

use convoy_packet::Offload;

use super::*;

/// What a device hands up that has opened `packets` of a sender: as on the wire, but for the
/// payload in clear.
fn opened(sender: &mut Gateway, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut frames: Vec<Frame> = sender.prepare(packets).into_iter().map(|packet| packet.frame).collect();
    sender.copied(&mut frames)
}

/// Takes packets in with this tag; returns what an engine is wanted for, and what came out inside.
fn take_in(gateway: &mut Gateway, packets: &[Vec<u8>], tag: Offload) -> (usize, Vec<Vec<u8>>) {
    let mut frames = gateway.frames(packets);
    frames.iter_mut().for_each(|frame| frame.set_offload(tag));
    gateway.classify_inbound(&mut frames);
    let mut out = Vec::new();
    let mut pending = 0;
    for packet in std::mem::take(&mut gateway.inbound.open) {
        assert_eq!(packet.frame.offload(), Offload::None);
        assert!(!packet.is_raw(), "it is checked at once");
        pending += usize::from(packet.status == CryptoStatus::Pending);
        gateway.finish_inbound(&mut vec![packet], &mut out);
    }
    (pending, gateway.copied(&mut out))
}

#[test]
fn an_opened_packet_needs_no_engine_and_is_checked_as_ever() {
    for link in [Link::default(), Link { encap: Some(ENCAP), transform: CBC_SHA256, ..Link::default() }] {
        let [mut a, mut b] = link.pair();
        let inner: Vec<Vec<u8>> = [40, 500, 1_200].map(|len| link.packet(false, len)).into();
        let packets = opened(&mut a, &inner);
        let tag = Offload::Opened { sa: IN.0 };
        assert_eq!(take_in(&mut b, &packets, tag), (0, inner));
        assert_eq!(take_in(&mut b, &packets, tag), (0, Vec::new()));
        assert_eq!(b.drops(DropReason::Replayed), 3);
        a.assert_no_leak();
        b.assert_no_leak();
    }
}

#[test]
fn what_was_opened_with_the_keys_of_another_sa_is_dropped_and_counted() {
    let link = Link::default();
    let [mut a, mut b] = link.pair();
    let packets = opened(&mut a, &[link.packet(false, 100)]);
    assert_eq!(take_in(&mut b, &packets, Offload::Opened { sa: IN.0 + 1 }), (0, Vec::new()));
    assert_eq!(b.sa_drops(IN, DropReason::DecryptedElsewhere), 1);
    let seal = Offload::Seal { sa: IN.0, esp_start: 20, seq_high: None };
    assert_eq!(take_in(&mut b, &packets, seal), (0, Vec::new()));
    assert_eq!(b.sa_drops(IN, DropReason::DecryptedElsewhere), 2);
    b.assert_no_leak();
}

#[test]
fn what_is_no_esp_packet_for_us_was_not_opened_and_is_dropped() {
    let link = Link::default();
    let [_, mut b] = link.pair();
    let tag = Offload::Opened { sa: IN.0 };
    // Elsewhere a policy would let it pass as plaintext.
    b.ipsec.set_policies(vec![policy("0.0.0.0/0", "0.0.0.0/0", Action::Bypass)]);
    let plain = link.packet(false, 100);
    assert_eq!(take_in(&mut b, &[plain], tag), (0, Vec::new()));
    assert!(b.inbound.bypass.is_empty());
    assert_eq!(b.drops(DropReason::DecryptedElsewhere), 1);
    b.assert_no_leak();
}

#[test]
fn what_is_sealed_in_flight_is_not_cut() {
    let link = Link::default();
    let [mut a, _] = link.pair();
    let mut prepared = a.prepare(&[link.packet(false, 1_200)]);
    let mut packet = prepared.pop().expect("prepared");
    a.ipsec.tables.learn_path_mtu(0, link.ends()[1], 600);
    packet.status = CryptoStatus::Done;
    packet.frame.set_offload(Offload::Seal { sa: packet.sa.0, esp_start: 20, seq_high: None });
    let mut out = Vec::new();
    a.finish_outbound(&mut vec![packet], &mut out);
    assert!(out.is_empty());
    assert_eq!(a.drops(DropReason::Unencrypted), 1);
    a.assert_no_leak();
}
