//! A constant rate of packets of one size (RFC 9347 section 2.4.1).

use super::*;

fn paced(packet_rate: u32, pkt_size: u16) -> Link {
    with(IptfsConfig { packet_rate, pkt_size, ..IptfsConfig::default() })
}

#[test]
fn payloads_leave_at_their_time_and_all_have_one_size() {
    let link = paced(1_000, 600);
    let [mut a, mut b] = link.pair();
    let packets = numbered(&link, &[(false, 300); 5]);
    let (mut inner, mut outer) = (Vec::new(), Vec::new());
    for step in 0..12 {
        let mut packed = if step == 2 { a.classify(&packets) } else { Vec::new() };
        assert!(packed.is_empty(), "nothing leaves before its time");
        a.close_payloads(false, &mut packed);
        assert_eq!(packed.len(), 1);
        assert_eq!(a.ipsec.outbound.payloads_due_ns(), a.now_ns + 1_000_000);
        let sealed = a.seal_packed(packed);
        inner.extend(b.receive(&sealed));
        outer.extend(sealed);
        a.close_payloads(false, &mut Vec::new());
        a.now_ns += 1_000_000;
    }
    assert_eq!(inner, packets);
    assert!(outer.iter().all(|packet| packet.len() == outer[0].len()) && outer[0].len() > 590);
    let counts = a.view(OUT).aggregation.expect("in AGGFRAG mode");
    assert_eq!((counts.packets, counts.missed), (5, 0));
    assert_eq!(counts.payloads + counts.all_padding, 12);
    assert!(counts.padding > 0 && counts.all_padding > 5);
    a.assert_no_leak();
    b.assert_no_leak();
}

#[test]
fn a_queue_that_is_full_drops_what_comes() {
    let link = with(IptfsConfig { packet_rate: 10, max_queue_size: 4_000, ..IptfsConfig::default() });
    let mut a = link.gateway(0);
    assert!(a.classify(&numbered(&link, &[(false, 1_000); 8])).is_empty());
    let dropped = a.sa_drops(OUT, DropReason::IptfsQueueFull);
    assert!((3..=5).contains(&dropped), "{dropped}");
    let mut packed = Vec::new();
    let Gateway { ipsec, pool, .. } = &mut a;
    ipsec.outbound.close_payloads_of(&mut ipsec.tables, OUT_ID, pool, &mut packed);
    a.seal_packed(packed);
    a.assert_no_leak();
}

#[test]
fn a_worker_that_was_away_does_not_catch_up_at_once() {
    let link = paced(100_000, 0);
    let mut a = link.gateway(0);
    let mut packed = Vec::new();
    a.close_payloads(false, &mut packed);
    a.now_ns += 10_000_000;
    a.close_payloads(false, &mut packed);
    assert_eq!(packed.len(), 1 + 32);
    assert_eq!(a.view(OUT).aggregation.map(|counts| counts.missed), Some(1_000 - 32));
    a.seal_packed(packed);
    a.assert_no_leak();
}

#[test]
fn a_part_of_a_packet_is_not_padded_when_the_path_takes_more_again() {
    let link = paced(1_000, 0);
    let [mut a, mut b] = link.pair();
    let peer = link.sa(0, SaDirection::Outbound).remote;
    a.ipsec.tables.learn_path_mtu(a.now_ns, peer, 700);
    let packets = numbered(&link, &[(false, 1_300); 3]);
    assert!(a.classify(&packets).is_empty());
    // What was learned of the path is forgotten.
    a.now_ns += 3_600_000_000_000;
    let mut packed = Vec::new();
    a.close_payloads(false, &mut packed);
    a.now_ns += 30_000_000;
    a.close_payloads(false, &mut packed);
    let outer = a.seal_packed(packed);
    assert!(outer.last().is_some_and(|last| last.len() > 1_400), "the path takes more");
    assert!(b.receive(&outer) == packets);
    assert_eq!(b.ipsec.counters().drops.total(), 0);
    a.assert_no_leak();
    b.assert_no_leak();
}
