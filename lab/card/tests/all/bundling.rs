//! The gain of the sliding window on the card, in the card's cycles.

use convoy_card::line::{Line, MemoryLine, memory};
use convoy_card::nic::{Nic, Seal};
use convoy_card::{
    Algorithm, CardVerdict, Cipher, CommandDirection, Driver, DriverPacket, Hash, LINE_MHZ, Sa, routed_mhz,
};

/// Small packets: 64 bytes of payload with the ESP trailer.
const PAYLOAD_BYTES: usize = 64;
const PACKETS: u32 = 64;
const SAS: u32 = 8;
/// Offset of the ESP header on the line, behind Ethernet and IPv4.
const LINE_ESP_AT: usize = 34;
/// Preamble, FCS and gap of a frame.
const LINE_OVERHEAD_BYTES: usize = 24;
/// The function whose routed clock the first model has.
const AES_GCM: u8 = 1;
const ALGORITHMS: [(&str, Cipher, Hash); 2] = [
    ("AES-GCM-128", Cipher::AesGcm, Hash::None),
    ("AES-CTR-128 with HMAC-SHA-1", Cipher::AesCtr, Hash::HmacSha1),
];

fn sa_of(algorithm: Algorithm, number: u32) -> Sa {
    let (auth_bytes, icv_bytes) = if algorithm.hash == Hash::None { (0, 16) } else { (20, 12) };
    Sa {
        algorithm,
        salt: [number as u8; 4],
        key: vec![number as u8; 16],
        auth_key: vec![number as u8; auth_bytes],
        icv_bytes,
    }
}

/// The order of packets by SA: SAs in turn, and all packets of an SA in a row.
fn orders() -> (Vec<u32>, Vec<u32>) {
    ((0..PACKETS).map(|at| at % SAS).collect(), (0..PACKETS).map(|at| at / (PACKETS / SAS)).collect())
}

/// Seals one packet for each element of `sas`, in calls of `bundle` packets, and returns the cycles
/// that they took.
fn cycles(driver: &mut Driver, icv_bytes: usize, sas: &[u32], bundle: usize) -> u32 {
    let mut bodies = vec![([0; PAYLOAD_BYTES], [0; 16]); sas.len()];
    let mut packets: Vec<DriverPacket<'_>> = bodies
        .iter_mut()
        .zip(sas)
        .enumerate()
        .map(|(at, ((payload, icv), sa))| DriverPacket {
            sa: *sa,
            esp: [0, 0, 0, *sa as u8, 0, 0, 0, at as u8],
            seq_high: None,
            iv: &[9; 8],
            payload,
            icv: &mut icv[..icv_bytes],
            verdict: CardVerdict::Pending,
        })
        .collect();
    let before = driver.cycles();
    for packets in packets.chunks_mut(bundle) {
        driver.process(CommandDirection::Seal, packets).expect("the card works");
    }
    let taken = driver.cycles().wrapping_sub(before);
    assert!(packets.iter().all(|packet| packet.verdict == CardVerdict::Done));
    taken
}

#[test]
fn packets_of_one_sa_in_a_row_take_fewer_cycles_than_single_ones() {
    for (name, cipher, hash) in ALGORITHMS {
        let mut driver = Driver::new().expect("a card");
        let algorithm = Algorithm { cipher, hash };
        for number in 0..SAS {
            driver.install(number, sa_of(algorithm, number)).expect("the card has the function");
        }
        let icv_bytes = usize::from(sa_of(algorithm, 0).icv_bytes);
        let (turns, rows) = orders();
        // Fills the cache first, since both orders would pay for that once.
        cycles(&mut driver, icv_bytes, &rows, PACKETS as usize);
        let row = (PACKETS / SAS) as usize;
        let alone = cycles(&mut driver, icv_bytes, &turns, 1);
        let several = cycles(&mut driver, icv_bytes, &turns, SAS as usize);
        let mixed = cycles(&mut driver, icv_bytes, &turns, PACKETS as usize);
        let bundled = cycles(&mut driver, icv_bytes, &rows, row);
        let all = cycles(&mut driver, icv_bytes, &rows, PACKETS as usize);
        println!("{name}, {PACKETS} packets of {PAYLOAD_BYTES} bytes of {SAS} SAs, cycles a packet:");
        for (what, taken) in [
            ("one at a time, SAs in turn", alone),
            ("8 of 8 SAs at a time", several),
            ("all queued, SAs in turn", mixed),
            ("multi-packets of 8 of one SA, one at a time", bundled),
            ("all queued, 8 of one SA in a row", all),
        ] {
            println!("  {what}: {}", taken / PACKETS);
        }
        assert!(
            bundled < several && several < alone && all < mixed,
            "{name}: {alone} {several} {mixed} {bundled} {all}"
        );
    }
}

/// Seals one packet for each element of `sas` inline, and returns the cycles until the last one has
/// left.
fn inline_cycles(nic: &mut Nic, line: &mut MemoryLine, icv_bytes: usize, sas: &[u32]) -> u32 {
    let mut frame = vec![0; LINE_ESP_AT + 16 + PAYLOAD_BYTES + icv_bytes];
    let before = nic.cycles();
    for sa in sas {
        let seal = Seal { sa: *sa, esp_at: LINE_ESP_AT as u16, seq_high: None };
        assert!(nic.transmit_copy(&frame, Some(seal)), "the ring holds them all");
    }
    let mut left = 0;
    while left < sas.len() {
        nic.step(8, &mut |_, _| ()).expect("the card works");
        while line.receive(&mut frame).expect("a line").is_some() {
            left += 1;
        }
    }
    nic.cycles().wrapping_sub(before)
}

#[test]
fn packets_of_one_sa_in_a_row_leave_the_card_faster_than_mixed_ones_unless_the_line_bounds_both() {
    for (name, cipher, hash) in ALGORITHMS {
        let (line, mut peer) = memory(PACKETS as usize).expect("descriptors");
        let mut nic = Nic::new(Box::new(line)).expect("a card");
        let algorithm = Algorithm { cipher, hash };
        for number in 0..SAS {
            nic.install(number, sa_of(algorithm, number), None).expect("the card has the function");
        }
        let icv_bytes = usize::from(sa_of(algorithm, 0).icv_bytes);
        let (turns, rows) = orders();
        // Fills the cache first, since both orders would pay for that once.
        inline_cycles(&mut nic, &mut peer, icv_bytes, &rows[..PACKETS as usize / 2]);
        inline_cycles(&mut nic, &mut peer, icv_bytes, &rows[PACKETS as usize / 2..]);
        let mixed = inline_cycles(&mut nic, &mut peer, icv_bytes, &turns);
        let all = inline_cycles(&mut nic, &mut peer, icv_bytes, &rows);
        let wire_bytes = LINE_ESP_AT + 16 + PAYLOAD_BYTES + icv_bytes + LINE_OVERHEAD_BYTES;
        let wire = wire_bytes * routed_mhz(AES_GCM) as usize / LINE_MHZ as usize;
        println!("{name} inline, {PACKETS} packets of {PAYLOAD_BYTES} bytes of {SAS} SAs, cycles a packet:");
        println!("  SAs in turn: {}", mixed / PACKETS);
        println!("  8 of one SA in a row: {}", all / PACKETS);
        println!("  the line alone: {wire}");
        // If the line is the bottleneck in either order, grouping packets cannot gain anything.
        let line_bound = (mixed as usize) < PACKETS as usize * wire * 21 / 20;
        // The driver sees the end of a run some cycles late, more in one run than in another.
        assert!(all < mixed || (line_bound && all - mixed < mixed / 100), "{name}: {mixed} {all}");
    }
}
