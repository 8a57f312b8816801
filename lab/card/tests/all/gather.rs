//! The lookaside driver's scatter-gather tables: the same packets as if they were copied, wherever
//! they are in memory, and what either takes of the card's cycles (docs/lab/results/card.md,
//! "Scatter-gather").

use convoy_card::{
    Algorithm, COPY_BYTES, CardVerdict, Cipher, CommandDirection, Driver, DriverPacket, Hash, Sa,
};

const ICV_BYTES: usize = 16;
const PACKETS: usize = 32;
/// The papers' bus, in MHz.
const BUS_MHZ: u32 = 33;
/// AES-GCM, whose clock the card has.
const FUNCTION: u8 = 1;
/// Largest relative deviation of the figures on the page.
const TOLERANCE: f64 = 0.02;

fn driver(copy_bytes: usize) -> Driver {
    let mut driver = Driver::new().expect("a card");
    driver.set_copy_bytes(copy_bytes);
    let algorithm = Algorithm { cipher: Cipher::AesGcm, hash: Hash::None };
    let sa = Sa { algorithm, salt: [1; 4], key: vec![2; 16], auth_key: vec![], icv_bytes: ICV_BYTES as u8 };
    driver.install(1, sa).expect("the card has AES-GCM");
    driver
}

/// Processes packets that stand in `memory`, each of `len` bytes with the room for its ICV behind
/// it, at the given places.
fn process(driver: &mut Driver, direction: CommandDirection, memory: &mut [u8], places: &[(usize, usize)]) {
    let mut packets = Vec::new();
    let (mut rest, mut passed) = (memory, 0);
    for (sequence, (at, len)) in (0_u8..).zip(places) {
        let (_, behind) = rest.split_at_mut(at - passed);
        let (payload, behind) = behind.split_at_mut(*len);
        let (icv, behind) = behind.split_at_mut(ICV_BYTES);
        (rest, passed) = (behind, at + len + ICV_BYTES);
        packets.push(DriverPacket {
            sa: 1,
            esp: [0, 0, 1, 1, 0, 0, 0, sequence],
            seq_high: None,
            iv: &[9; 8],
            payload,
            icv,
            verdict: CardVerdict::Pending,
        });
    }
    driver.process(direction, &mut packets).expect("the card works");
    assert!(packets.iter().all(|packet| packet.verdict == CardVerdict::Done), "a packet was lost");
}

#[test]
fn packets_at_any_address_and_of_any_length_are_as_copied_ones_and_nothing_else_is_written() {
    // Each start and end relative to a word of the bus.
    let lengths = (0..64).map(|at| (at % 8, 40 + at / 8 + 16 * at));
    let mut places = Vec::new();
    let mut end = 0_usize;
    for (start, len) in lengths {
        let at = end.next_multiple_of(8) + start;
        places.push((at, len));
        end = at + len + ICV_BYTES;
    }
    let plain: Vec<u8> = (0..end + 8).map(|at| (at * 7) as u8).collect();
    let (mut copied, mut gathered) = (plain.clone(), plain.clone());
    process(&mut driver(usize::MAX), CommandDirection::Seal, &mut copied, &places);
    process(&mut driver(0), CommandDirection::Seal, &mut gathered, &places);
    assert!(copied == gathered, "another result than of copied packets");
    assert!(copied != plain);
    process(&mut driver(0), CommandDirection::Open, &mut gathered, &places);
    for (at, len) in &places {
        // What was the ICV stays, as on the wire.
        gathered[at + len..][..ICV_BYTES].copy_from_slice(&plain[at + len..][..ICV_BYTES]);
    }
    assert!(gathered == plain, "what was opened is another than was sealed");
}

#[test]
fn a_forged_packet_is_left_as_it_was() {
    let mut memory = vec![3; 600];
    let mut driver = driver(0);
    process(&mut driver, CommandDirection::Seal, &mut memory, &[(3, 500)]);
    memory[100] ^= 1;
    let before = memory.clone();
    let (payload, icv) = memory[3..][..500 + ICV_BYTES].split_at_mut(500);
    let esp = [0, 0, 1, 1, 0, 0, 0, 0];
    let verdict = CardVerdict::Pending;
    let mut packets = [DriverPacket { sa: 1, esp, seq_high: None, iv: &[9; 8], payload, icv, verdict }];
    driver.process(CommandDirection::Open, &mut packets).expect("the card works");
    assert_eq!(packets[0].verdict, CardVerdict::WrongIcv);
    assert!(memory == before);
}

/// Cycles of a packet when several are sealed together, by whether they are copied.
fn cycles(len: usize, copy_bytes: usize) -> u32 {
    let mut driver = driver(copy_bytes);
    driver.set_bus(BUS_MHZ, convoy_card::routed_mhz(FUNCTION));
    let stride = (len + ICV_BYTES).next_multiple_of(8);
    let mut memory = vec![0; PACKETS * stride];
    let places: Vec<(usize, usize)> = (0..PACKETS).map(|at| (at * stride, len)).collect();
    // Loads function and SA.
    process(&mut driver, CommandDirection::Seal, &mut memory, &places[..1]);
    let before = driver.cycles();
    process(&mut driver, CommandDirection::Seal, &mut memory, &places);
    driver.cycles().wrapping_sub(before) / PACKETS as u32
}

#[test]
fn the_page_has_what_tables_take_of_the_card_and_copies_of_the_host() {
    const PAGE: &str = include_str!("../../../../docs/lab/results/card-gather.csv");
    let figures = |row: &str| -> Vec<f64> { row.split(',').map(|n| n.parse().expect("a number")).collect() };
    let mut others = Vec::new();
    for (at, len) in [64, 256, 512, 1456, 9000].into_iter().enumerate() {
        let [copied, gathered] = [usize::MAX, 0].map(|copy_bytes| cycles(len, copy_bytes));
        // Both ways: what the host copies of a packet to be sealed, and of the sealed one.
        let host_bytes = 2 * len + ICV_BYTES;
        let row = format!("{len},{copied},{gathered},{host_bytes}");
        println!("{row}");
        let line = PAGE.lines().nth(1 + at).map(figures).unwrap_or_default();
        let is_close = |(page, now): (&f64, f64)| (page / now - 1.0).abs() <= TOLERANCE;
        let now = figures(&row);
        if line.len() != now.len() || !line.iter().zip(now).all(is_close) {
            others.push(row);
        }
    }
    assert!(others.is_empty(), "docs/lab/results/card-gather.csv has other figures than: {others:#?}");
    assert_eq!(COPY_BYTES, 256, "the page says why");
}
