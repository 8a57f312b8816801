//! The firewall in both directions, and checksums.

use super::*;
use crate::checks::Checks;
use crate::filter::{FilterRule, FilterTable};
use crate::signature::SignatureTable;

const A: [u8; 4] = [10, 1, 0, 1];
const B: [u8; 4] = [10, 1, 0, 2];

/// A frame with a UDP packet that carries `body`.
fn frame(source: [u8; 4], port: u16, body: [u8; 4]) -> Vec<u8> {
    let mut frame =
        [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0][..], &[0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]]
            .concat();
    frame.extend_from_slice(&source);
    frame.extend_from_slice(&[192, 0, 2, 1, 0, 9]);
    frame.extend_from_slice(&port.to_be_bytes());
    frame.extend_from_slice(&[0, 12, 0, 0]);
    frame.extend_from_slice(&body);
    frame.resize(60, 0);
    frame
}

fn arp() -> Vec<u8> {
    let mut frame = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    frame.resize(60, 0);
    frame
}

fn filtering(outbound: FilterTable, inbound: FilterTable) -> Checks {
    Checks { outbound, inbound, ..Checks::default() }
}

fn from(source: [u8; 4], accepts: bool) -> FilterRule {
    FilterRule { source: Some((source.into(), 32)), accepts, ..FilterRule::default() }
}

fn table(rules: &[FilterRule], accepts_rest: bool) -> FilterTable {
    FilterTable { rules: rules.to_vec(), accepts_rest }
}

fn by_rule(nic: &Nic, direction: usize) -> (Vec<u64>, u64, u64) {
    let counts = &nic.counters().filters[direction];
    (counts.by_rule[..counts.table.rules.len()].to_vec(), counts.rest, counts.malformed)
}

#[test]
fn what_the_filter_drops_does_not_leave_and_is_counted_by_its_rule() {
    let (mut nic, mut line) = alone(64);
    let https = FilterRule { protocol: Some(17), destination_port: Some(443), ..FilterRule::default() };
    nic.set_checks(filtering(table(&[from(B, true), https, from(A, false)], true), FilterTable::default()));
    let frames = [
        frame(A, 53, [1; 4]),
        frame(B, 443, [2; 4]),
        arp(),
        frame([10, 1, 0, 3], 443, [3; 4]),
        frame(A, 1, [4; 4]),
    ];
    for frame in &frames {
        assert!(nic.transmit_copy(frame, None));
    }
    run_until_idle(&mut nic);
    assert_eq!(drained(&mut line), [frames[1].clone(), frames[2].clone()]);
    assert_eq!((nic.counters().filtered_out, nic.counters().refused), (3, 0));
    assert_eq!(by_rule(&nic, 0), (vec![0, 1, 2], 0, 0), "of packets that leave, only drops are reported");
}

#[test]
fn what_comes_is_counted_by_what_decided_and_arp_passes() {
    let (mut nic, mut line) = alone(64);
    nic.set_checks(filtering(FilterTable::default(), table(&[from(A, false), from(B, true)], false)));
    let mut cut = frame(B, 53, [6; 4]);
    cut[14] = 0x4f;
    let frames =
        [frame(B, 1, [1; 4]), frame(A, 1, [2; 4]), arp(), frame([9; 4], 1, [3; 4]), cut, frame(B, 2, [4; 4])];
    for frame in &frames {
        assert!(line.send(frame).expect("a peer"));
    }
    let received: Vec<Vec<u8>> = run_until_idle(&mut nic).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(received, [frames[0].clone(), frames[2].clone(), frames[5].clone()]);
    assert_eq!(by_rule(&nic, 1), (vec![1, 2], 1, 1));
    assert_eq!((nic.counters().filtered_in, nic.counters().passed, nic.counters().malformed), (3, 3, 0));
}

#[test]
fn of_a_tunnel_the_inner_packet_is_filtered_and_of_transport_mode_the_outer_one() {
    for is_tunnel in [true, false] {
        let shape = Shape { is_tunnel, ..shape(GCM) };
        let (mut nic, mut line) = opener(shape, 1..2);
        // The payload's bytes are their numbers, combined with the sequence number.
        let inner = |sequence: u8| [12, 13, 14, 15].map(|at| at ^ sequence);
        let esp = FilterRule { protocol: Some(50), ..FilterRule::default() };
        nic.set_checks(filtering(FilterTable::default(), table(&[from(inner(1), false), esp], true)));
        for sequence in [1, 4] {
            assert!(line.send(&case(shape, 1, sequence, 64).sealed).expect("a peer"));
        }
        let received = run_until_idle(&mut nic);
        let expected = if is_tunnel { vec![(Some(1), case(shape, 1, 4, 64).opened)] } else { vec![] };
        assert_eq!(received, expected);
        assert_eq!(by_rule(&nic, 1), if is_tunnel { (vec![1, 0], 1, 0) } else { (vec![0, 2], 0, 0) });
    }
}

#[test]
fn a_table_is_replaced_between_two_packets_and_no_other_packet_is_lost() {
    let (mut nic, mut line) = alone(1_024);
    let many = 200_u8;
    for number in 0..many {
        assert!(line.send(&frame(A, 1, [number; 4])).expect("a peer"));
    }
    let mut received = Vec::new();
    nic.set_checks(filtering(FilterTable::default(), table(&[from(B, false), from(A, true)], false)));
    let mut is_changed = false;
    while !nic.is_idle() || received.is_empty() {
        nic.step(64, &mut |_, frame| received.push(frame[42])).expect("the card works");
        if received.len() > 20 && !is_changed {
            // Neither table drops and accepts both; a mixture would.
            nic.set_checks(filtering(FilterTable::default(), table(&[from(A, false), from(B, true)], false)));
            is_changed = true;
        }
    }
    assert_eq!(received, (0..received.len() as u8).collect::<Vec<_>>(), "it passed all up to the change");
    assert!(received.len() < many.into(), "the change came too late");
    let dropped = u64::from(many) - received.len() as u64;
    assert_eq!((nic.counters().filtered_in, nic.counters().overrun), (dropped, 0));
    assert_eq!(by_rule(&nic, 1), (vec![dropped, 0], 0, 0), "counted again");
    nic.set_checks(filtering(FilterTable::default(), FilterTable::default()));
    assert!(line.send(&frame(A, 1, [1; 4])).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic).len(), 1);
}

#[test]
fn a_card_that_was_reset_lets_nothing_pass_before_it_has_its_table() {
    let (mut nic, mut line) = alone(64);
    nic.set_checks(filtering(table(&[], false), table(&[], false)));
    for number in 0..20 {
        assert!(line.send(&frame(A, 1, [number; 4])).expect("a peer"));
        assert!(nic.transmit_copy(&frame(A, 2, [number; 4]), None));
    }
    assert_eq!(run_until_idle(&mut nic), []);
    nic.reset().expect("a card");
    for number in 0..20 {
        assert!(line.send(&frame(A, 1, [number; 4])).expect("a peer"));
        assert!(nic.transmit_copy(&frame(A, 2, [number; 4]), None));
    }
    assert_eq!(run_until_idle(&mut nic), []);
    assert_eq!(drained(&mut line), Vec::<Vec<u8>>::new());
    assert_eq!((nic.counters().filtered_in, nic.counters().filtered_out), (40, 40));
    assert_eq!(by_rule(&nic, 1), (vec![], 40, 0));
}

/// Frames with a UDP datagram; its checksums are right, or one of them is not.
fn summed(port: u16) -> [Vec<u8>; 3] {
    let mut right = frame(A, port, [7; 4]);
    let sum = |bytes: &[u8], start: u32| {
        let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
        let sum = words.sum::<u32>() + start;
        !((sum & 0xffff) + (sum >> 16)) as u16
    };
    let ip = sum(&right[14..34], 0).to_be_bytes();
    right[24..26].copy_from_slice(&ip);
    let udp = sum(&right[26..46], 17 + 12).to_be_bytes();
    right[40..42].copy_from_slice(&udp);
    let changed = |at: usize| {
        let mut frame = right.clone();
        frame[at] ^= 1;
        frame
    };
    let (wrong_ip, wrong_udp) = (changed(22), changed(43));
    [right, wrong_ip, wrong_udp]
}

#[test]
fn checksums_are_filled_in_but_for_esp_in_udp_and_verified_from_the_line() {
    let checksums = |checksum| Checks { checksum, ..Checks::default() };
    let (mut nic, mut line) = alone(64);
    nic.set_checks(checksums(true));
    let [right, wrong_ip, wrong_udp] = summed(500);
    let [esp, _, _] = summed(4500);
    let without = |frame: &[u8], udp: bool| {
        let mut frame = frame.to_vec();
        frame[24..26].fill(0);
        if udp {
            frame[40..42].fill(0);
        }
        frame
    };
    for frame in [without(&right, true), without(&esp, false), without(&esp, true), arp()] {
        assert!(nic.transmit_copy(&frame, None));
    }
    run_until_idle(&mut nic);
    let mut zero = esp.clone();
    zero[40..42].fill(0);
    assert_eq!(drained(&mut line), [right.clone(), esp, zero, arp()], "ESP keeps the checksum that it has");
    for frame in [&right, &wrong_ip, &wrong_udp, &arp()] {
        assert!(line.send(frame).expect("a peer"));
    }
    let received: Vec<Vec<u8>> = run_until_idle(&mut nic).into_iter().map(|(_, frame)| frame).collect();
    assert_eq!(received, [right, wrong_udp, arp()]);
    assert_eq!((nic.counters().wrong_ip_checksum, nic.counters().wrong_udp_checksum), (1, 1));
    nic.set_checks(checksums(false));
    assert!(line.send(&wrong_ip).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic), [(None, wrong_ip)]);
}

#[test]
fn what_the_card_seals_in_udp_keeps_its_checksum_of_0() {
    let shape = Shape { is_nat: true, ..shape(GCM) };
    let (mut nic, mut line) = alone(8);
    nic.install(1, sa(GCM, 1), None).expect("fits");
    nic.set_checks(Checks { checksum: true, ..Checks::default() });
    let mut case = case(shape, 1, 1, 64);
    // Another port than ESP's usual one.
    for frame in [&mut case.plain, &mut case.sealed] {
        frame[34..38].copy_from_slice(&[0x12, 0x34, 0x12, 0x35]);
    }
    assert!(nic.transmit_copy(&case.plain, Some(case.seal)));
    run_until_idle(&mut nic);
    let sent = drained(&mut line).remove(0);
    assert_eq!((&sent[..24], &sent[26..]), (&case.sealed[..24], &case.sealed[26..]));
    assert_ne!(sent[24..26], [0; 2], "IP's is filled in");
}

fn looking_for(rules: &[&str]) -> Checks {
    let signatures = rules.iter().map(|rule| rule.parse().expect("good")).collect();
    Checks { signatures: Arc::new(SignatureTable::compile(signatures).expect("small")), ..Checks::default() }
}

#[test]
fn signatures_are_loaded_at_run_time_and_their_hits_counted_while_the_packets_pass() {
    let (mut nic, mut line) = alone(256);
    let first = looking_for(&[
        "alert udp any any -> any 53 (content:\"aba\"; content:\"c\"; sid:10;)",
        "alert udp any any -> any any (content:\"|61 62|\"; sid:20;)",
        "alert tcp any any -> any any (content:\"d\"; sid:30;)",
    ]);
    nic.set_checks(first.clone());
    run_until_idle(&mut nic);
    // Hits: 10 by its port alone, 20 as the first that fits, none of TCP's, none.
    let frames = [
        frame(A, 53, *b"abac"),
        frame(A, 54, *b"abac"),
        frame(A, 53, *b"cabd"),
        frame(A, 53, *b"ddba"),
        arp(),
    ];
    let mut send = |nic: &mut Nic| {
        for frame in &frames {
            assert!(line.send(frame).expect("a peer"));
        }
        let received: Vec<Vec<u8>> = run_until_idle(nic).into_iter().map(|(_, frame)| frame).collect();
        assert_eq!(received, frames, "an alert drops nothing");
    };
    send(&mut nic);
    assert_eq!(nic.counters().signatures.hits[..4], [1, 2, 0, 0]);
    nic.set_checks(first.clone());
    nic.reset().expect("a card");
    run_until_idle(&mut nic);
    send(&mut nic);
    assert_eq!(
        nic.counters().signatures.hits[..4],
        [2, 4, 0, 0],
        "the same table goes on counting after a reset"
    );
    nic.set_checks(looking_for(&["alert ip any any -> any any (content:\"d\"; sid:40;)"]));
    run_until_idle(&mut nic);
    send(&mut nic);
    assert_eq!(nic.counters().signatures.hits[..2], [2, 0], "another one begins again");
    nic.set_checks(Checks::default());
    run_until_idle(&mut nic);
    send(&mut nic);
    assert_eq!(nic.counters().signatures.hits, [0; 32]);
}

#[test]
fn signatures_are_found_inside_a_tunnel() {
    let shape = shape(CTR_SHA1);
    let (mut nic, mut line) = opener(shape, 1..2);
    // Of the payload, whose bytes are their numbers, the last eight are looked for.
    nic.set_checks(looking_for(&[
        "alert ip any any -> any any (content:\"|38 39 3a 3b 3c 3d 3e 3f|\"; sid:1;)",
    ]));
    run_until_idle(&mut nic);
    for payload in [64, 63] {
        assert!(line.send(&case(shape, 1, 0, payload).sealed).expect("a peer"));
    }
    assert_eq!(run_until_idle(&mut nic).len(), 2);
    assert_eq!(nic.counters().signatures.hits[..2], [1, 0]);
}
