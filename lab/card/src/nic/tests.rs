//! Two cards on a line, and one card whose line's other end belongs to the test.

mod checks;
mod esp;
mod exchange;
mod fragments;
mod on_thread;

use std::io;
use std::sync::{Arc, Mutex};

use super::*;
use crate::line::{MemoryLine, memory};
use crate::sa::Algorithm;
use esp::{CTR_SHA1, Case, GCM, Shape, case, inbound, sa, shapes};

/// More rounds than any test needs.
const ROUNDS: usize = 4_000;

/// A line that records the frames that pass it.
struct Tap {
    line: MemoryLine,
    seen: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Line for Tap {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.line.receive(buffer)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<bool> {
        let is_sent = self.line.send(frame)?;
        if is_sent {
            self.seen.lock().expect("no panic").push(frame.to_vec());
        }
        Ok(is_sent)
    }
}

type Received = Vec<(Option<u32>, Vec<u8>)>;

/// Runs a card until nothing is under way, and returns what it received.
fn run_until_idle(nic: &mut Nic) -> Received {
    let mut received = Received::new();
    for _ in 0..ROUNDS {
        let each = &mut |sa: Option<u32>, frame: Frame| received.push((sa, frame.to_vec()));
        nic.step(256, each).expect("the card works");
        if nic.is_idle() {
            return received;
        }
    }
    panic!("something is still under way: {:?}", nic.counters());
}

/// A card, and the other end of its line.
fn alone(capacity: usize) -> (Nic, MemoryLine) {
    let (line, peer) = memory(capacity).expect("descriptors");
    (Nic::new(Box::new(line)).expect("a card"), peer)
}

/// All frames that have arrived at the test's end of a line.
fn drained(line: &mut MemoryLine) -> Vec<Vec<u8>> {
    let mut buffer = vec![0; LINE_BYTES];
    std::iter::from_fn(|| {
        let len = line.receive(&mut buffer).expect("a line")?;
        Some(buffer[..len].to_vec())
    })
    .collect()
}

/// A card with SAs that open packets of one shape.
fn opener(shape: Shape, numbers: std::ops::Range<u8>) -> (Nic, MemoryLine) {
    let (mut nic, line) = alone(2_048);
    for number in numbers {
        let inbound = inbound(number, shape.is_tunnel);
        nic.install(number.into(), sa(shape.algorithm, number), Some(inbound)).expect("fits");
    }
    run_until_idle(&mut nic);
    (nic, line)
}

fn shape(algorithm: Algorithm) -> Shape {
    Shape { algorithm, is_tunnel: true, is_nat: false, is_v6: false, seq_high: None }
}

#[test]
fn what_one_card_seals_in_flight_another_opens_and_the_line_carries_what_software_makes() {
    for shape in [GCM, CTR_SHA1].into_iter().flat_map(shapes) {
        let (line_a, line_b) = memory(64).expect("descriptors");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let tap = Tap { line: line_a, seen: Arc::clone(&seen) };
        let mut a = Nic::new(Box::new(tap)).expect("a card");
        let mut b = Nic::new(Box::new(line_b)).expect("a card");
        for number in 1..4 {
            a.install(number.into(), sa(shape.algorithm, number), None).expect("fits");
            let inbound = inbound(number, shape.is_tunnel);
            b.install(number.into(), sa(shape.algorithm, number), Some(inbound)).expect("fits");
        }
        run_until_idle(&mut b);
        let cases: Vec<Case> =
            (0..12_u8).map(|n| case(shape, 1 + n % 3, n, 20 + 131 * usize::from(n))).collect();
        for case in &cases {
            assert!(a.transmit_copy(&case.plain, Some(case.seal)));
        }
        run_until_idle(&mut a);
        let received = run_until_idle(&mut b);
        let on_line = seen.lock().expect("no panic");
        for (at, case) in cases.iter().enumerate() {
            assert_eq!(on_line[at], case.sealed, "{shape:?} {at}");
            assert_eq!(received[at], (Some(case.seal.sa), case.opened.clone()), "{shape:?} {at}");
        }
        assert_eq!((a.counters().sealed, a.counters().sent, b.counters().opened), (12, 12, 12));
    }
}

#[test]
fn the_upper_half_of_a_sequence_number_is_authenticated() {
    for algorithm in [GCM, CTR_SHA1] {
        let (mut nic, mut line) = alone(8);
        nic.install(1, sa(algorithm, 1), None).expect("fits");
        for seq_high in [Some([0, 0, 1, 2]), None, Some([0, 0, 1, 3])] {
            let case = case(Shape { seq_high, ..shape(algorithm) }, 1, 9, 100);
            assert!(nic.transmit_copy(&case.plain, Some(case.seal)));
            run_until_idle(&mut nic);
            assert_eq!(drained(&mut line), [case.sealed]);
        }
    }
}

#[test]
fn a_wrong_icv_is_counted_and_goes_no_further() {
    for algorithm in [GCM, CTR_SHA1] {
        let (mut nic, mut line) = opener(shape(algorithm), 1..3);
        let [first, second] = [1, 2].map(|number| case(shape(algorithm), number, 1, 80));
        let mut forged = second.sealed.clone();
        forged[60] ^= 1;
        for frame in [&forged, &first.sealed, &forged] {
            assert!(line.send(frame).expect("a peer"));
        }
        assert_eq!(run_until_idle(&mut nic), [(Some(1), first.opened)]);
        assert_eq!(nic.counters().wrong_icv, 2);
    }
}

#[test]
fn what_is_of_no_installed_msa_passes_up_as_it_came() {
    let (mut nic, mut line) = opener(shape(GCM), 1..2);
    let stranger = case(shape(GCM), 9, 1, 80).sealed;
    let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 8, 6], &[0; 46]].concat();
    let mut fragment = case(shape(GCM), 1, 1, 80).sealed;
    fragment[20] = 0x20;
    for frame in [&stranger, &arp, &fragment] {
        assert!(line.send(frame).expect("a peer"));
    }
    assert_eq!(run_until_idle(&mut nic), [(None, stranger), (None, arp), (None, fragment)]);
    assert_eq!(nic.counters().passed, 3);
}

#[test]
fn a_packet_that_ends_early_is_kept_and_counted() {
    let (mut nic, mut line) = opener(shape(GCM), 1..2);
    let mut cut = case(shape(GCM), 1, 1, 200).sealed;
    cut.truncate(150);
    assert!(line.send(&cut).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic), []);
    assert_eq!((nic.counters().malformed, nic.counters().wrong_icv), (1, 0));
}

#[test]
fn an_sa_that_was_removed_opens_nothing_and_its_place_is_free() {
    let (mut nic, mut line) = opener(shape(GCM), 1..2);
    let old = case(shape(GCM), 1, 1, 80);
    nic.remove(1);
    run_until_idle(&mut nic);
    assert!(line.send(&old.sealed).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic), [(None, old.sealed.clone())]);
    nic.install(77, sa(GCM, 1), Some(inbound(1, true))).expect("the place is free");
    run_until_idle(&mut nic);
    assert!(line.send(&old.sealed).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic), [(Some(77), old.opened)]);
}

#[test]
fn an_spi_whose_place_is_taken_is_refused_and_so_is_none() {
    let (mut nic, _line) = opener(shape(GCM), 5..6);
    let rival = Inbound { spi: [0, 7, 5, 0], is_tunnel: true };
    assert_eq!(rival.place(), inbound(5, true).place());
    assert_eq!(nic.install(6, sa(GCM, 6), Some(rival)), Err(CardError::Unfit));
    let nothing = Inbound { spi: [0; 4], is_tunnel: true };
    assert_eq!(nic.install(6, sa(GCM, 6), Some(nothing)), Err(CardError::Unfit));
    nic.install(5, sa(GCM, 6), Some(rival)).expect("the number's own place is free");
}

#[test]
fn a_function_stays_in_the_slot_while_an_sa_needs_it() {
    let (mut nic, mut line) = alone(8);
    nic.install(1, sa(GCM, 1), None).expect("fits");
    assert_eq!(nic.install(2, sa(CTR_SHA1, 2), None), Err(CardError::Unfit));
    nic.install(3, sa(CTR_SHA1, 3), Some(inbound(3, true))).expect("the other slot is empty");
    nic.remove(1);
    nic.install(2, sa(CTR_SHA1, 2), None).expect("the slot is free");
    let case = case(shape(CTR_SHA1), 2, 1, 64);
    assert!(nic.transmit_copy(&case.plain, Some(case.seal)));
    run_until_idle(&mut nic);
    assert_eq!(drained(&mut line), [case.sealed]);
}

#[test]
fn a_packet_that_cannot_be_sealed_does_not_leave() {
    let (mut nic, mut line) = alone(8);
    nic.install(1, sa(GCM, 1), None).expect("fits");
    let good = case(shape(GCM), 1, 1, 64);
    assert!(nic.transmit_copy(&good.plain, Some(Seal { sa: 2, ..good.seal })), "no such SA");
    assert!(nic.transmit_copy(&good.plain, Some(Seal { esp_at: 130, ..good.seal })), "no payload");
    let mut without_room = nic.receiving.fresh().expect("a frame is free");
    without_room.reset(PREFIX_BYTES - 1).expect("within its capacity");
    without_room.append(good.plain.len()).expect("within its capacity").copy_from_slice(&good.plain);
    assert!(nic.transmit(without_room, Some(good.seal)).is_ok(), "no room for a prefix");
    assert!(nic.transmit_copy(&good.plain, Some(good.seal)));
    run_until_idle(&mut nic);
    assert_eq!(drained(&mut line), [good.sealed]);
    assert_eq!(nic.counters().refused, 3);
}

#[test]
fn a_frame_that_is_too_long_for_the_line_does_not_leave_and_harms_no_other() {
    let (mut nic, mut line) = alone(256);
    let longest = vec![7; LINE_BYTES];
    // More packets than the ring has places, so that each place is used.
    for _ in 0..BUFFERS {
        while !nic.transmit_copy(&longest, None) {
            nic.step(2_000, &mut |_, _| ()).expect("the card works");
        }
        assert!(nic.transmit_copy(&vec![8; LINE_BYTES + 1], None));
    }
    run_until_idle(&mut nic);
    let out = drained(&mut line);
    assert!(out.len() == BUFFERS && out.iter().all(|frame| *frame == longest), "{} came", out.len());
    assert_eq!((nic.counters().refused, nic.counters().device_errors), (BUFFERS as u64, 0));
}

#[test]
fn full_queues_refuse_and_lose_nothing() {
    let (mut nic, mut line) = alone(2);
    nic.install(1, sa(GCM, 1), None).expect("fits");
    let (mut given, mut out) = (Vec::new(), Vec::new());
    while given.len() < 200 {
        let case = case(shape(GCM), 1, given.len() as u8, 64);
        if nic.transmit_copy(&case.plain, Some(case.seal)) {
            given.push(case.sealed);
            continue;
        }
        // The line holds two frames, and the card's clock stops until they are read.
        nic.step(2_000, &mut |_, _| ()).expect("the card works");
        out.extend(drained(&mut line));
    }
    while !nic.is_idle() {
        nic.step(2_000, &mut |_, _| ()).expect("the card works");
        out.extend(drained(&mut line));
    }
    assert_eq!(out, given);
}

#[test]
fn more_sas_than_the_cache_holds_come_back_with_their_packets() {
    let (mut nic, mut line) = alone(1_024);
    for number in 0..300 {
        nic.install(number, sa(GCM, number as u8), None).expect("fits");
    }
    for number in (0..300).chain(0..300) {
        let case = case(shape(GCM), number as u8, 1, 64);
        while !nic.transmit_copy(&case.plain, Some(Seal { sa: number, ..case.seal })) {
            nic.step(256, &mut |_, _| ()).expect("the card works");
        }
    }
    run_until_idle(&mut nic);
    let out = drained(&mut line);
    assert_eq!(out.len(), 600);
    for (frame, number) in out.iter().zip((0..300).chain(0..300)) {
        assert_eq!(*frame, case(shape(GCM), number as u8, 1, 64).sealed);
    }
}

#[test]
fn what_the_line_brings_faster_than_it_can_be_opened_is_counted() {
    let (mut nic, mut line) = opener(shape(CTR_SHA1), 0..8);
    for n in 0..1_500 {
        assert!(line.send(&case(shape(CTR_SHA1), n as u8 % 8, 1, 20).sealed).expect("a peer"));
    }
    let received = run_until_idle(&mut nic);
    let lost = nic.counters().overrun;
    assert!(lost > 0 && received.len() as u64 + lost == 1_500, "{lost} of 1500, {} came", received.len());
    assert_eq!(nic.counters().opened, received.len() as u64);
}

#[test]
fn a_card_that_failed_has_its_sas_again_after_the_reset() {
    let (mut nic, mut line) = opener(shape(GCM), 1..40);
    nic.install(100, sa(GCM, 100), None).expect("fits");
    let (out, inward) = (case(shape(GCM), 100, 1, 64), case(shape(GCM), 39, 1, 64));
    assert!(nic.transmit_copy(&out.plain, Some(out.seal)));
    // Puts the descriptor ring outside the window.
    nic.device.write(crate::device::TRANSMIT, 0x7fff_0000);
    assert_eq!(nic.step(5_000, &mut |_, _| ()), Err(CardError::Strayed));
    nic.reset().expect("a card");
    assert_eq!((nic.counters().device_errors, nic.counters().lost), (1, 1));
    run_until_idle(&mut nic);
    assert!(nic.transmit_copy(&out.plain, Some(out.seal)) && line.send(&inward.sealed).expect("a peer"));
    assert_eq!(run_until_idle(&mut nic), [(Some(39), inward.opened)]);
    assert_eq!(drained(&mut line), [out.sealed]);
}

#[test]
fn a_card_that_says_nothing_has_failed() {
    let (mut nic, _line) = alone(8);
    // Disables transmission and reception.
    nic.device.write(crate::device::CONTROL, 0);
    assert!(nic.transmit_copy(&[0; 60], None));
    let silent = (0..6).map(|_| nic.step(100_000, &mut |_, _| ())).find(Result::is_err);
    assert!(matches!(silent, Some(Err(CardError::Silent(_)))), "{silent:?}");
}

#[test]
fn keys_do_not_stay_in_the_hosts_memory() {
    let (mut nic, _line) = opener(shape(GCM), 1..2);
    let key = sa(GCM, 1).key.clone();
    assert!(!nic.device.memory.windows(16).any(|bytes| bytes == key));
    nic.install(2, sa(GCM, 2), None).expect("fits");
    let case = case(shape(GCM), 2, 1, 64);
    assert!(nic.transmit_copy(&case.plain, Some(case.seal)));
    run_until_idle(&mut nic);
    let key = sa(GCM, 2).key.clone();
    assert!(!nic.device.memory.windows(16).any(|bytes| bytes == key));
}
