//! What the sliding window gains on the card, in the card's own cycles.
#![cfg(feature = "verilated")]

use convoy_card::{Algorithm, Cipher, Direction, Driver, Hash, Packet, Sa, Verdict};

/// Small packets: 64 bytes of payload with ESP's trailer.
const PAYLOAD_BYTES: usize = 64;
const PACKETS: u32 = 64;
const SAS: u32 = 8;

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

/// Seals one packet of each of these SAs, in calls of `bundle` packets; the cycles that all took.
fn cycles(driver: &mut Driver, icv_bytes: usize, sas: &[u32], bundle: usize) -> u32 {
    let mut bodies = vec![([0; PAYLOAD_BYTES], [0; 16]); sas.len()];
    let mut packets: Vec<Packet<'_>> = bodies
        .iter_mut()
        .zip(sas)
        .enumerate()
        .map(|(at, ((payload, icv), sa))| Packet {
            sa: *sa,
            esp: [0, 0, 0, *sa as u8, 0, 0, 0, at as u8],
            seq_high: None,
            iv: &[9; 8],
            payload,
            icv: &mut icv[..icv_bytes],
            verdict: Verdict::Pending,
        })
        .collect();
    let before = driver.cycles();
    for packets in packets.chunks_mut(bundle) {
        driver.process(Direction::Seal, packets).expect("the card works");
    }
    let taken = driver.cycles().wrapping_sub(before);
    assert!(packets.iter().all(|packet| packet.verdict == Verdict::Done));
    taken
}

#[test]
fn packets_of_one_sa_in_a_row_take_fewer_cycles_than_single_ones() {
    for (name, cipher, hash) in [
        ("AES-GCM-128", Cipher::AesGcm, Hash::None),
        ("AES-CTR-128 with HMAC-SHA-1", Cipher::AesCtr, Hash::HmacSha1),
    ] {
        let mut driver = Driver::new().expect("a card");
        let algorithm = Algorithm { cipher, hash };
        for number in 0..SAS {
            driver.install(number, sa_of(algorithm, number)).expect("the card has the function");
        }
        let icv_bytes = usize::from(sa_of(algorithm, 0).icv_bytes);
        let turns: Vec<u32> = (0..PACKETS).map(|at| at % SAS).collect();
        let rows: Vec<u32> = (0..PACKETS).map(|at| at / (PACKETS / SAS)).collect();
        // Into the cache first, which both orders would pay for once.
        cycles(&mut driver, icv_bytes, &rows, PACKETS as usize);
        let row = (PACKETS / SAS) as usize;
        let alone = cycles(&mut driver, icv_bytes, &turns, 1);
        let mixed = cycles(&mut driver, icv_bytes, &turns, PACKETS as usize);
        let bundled = cycles(&mut driver, icv_bytes, &rows, row);
        let all = cycles(&mut driver, icv_bytes, &rows, PACKETS as usize);
        println!("{name}, {PACKETS} packets of {PAYLOAD_BYTES} bytes of {SAS} SAs, cycles a packet:");
        for (what, taken) in [
            ("one at a time, SAs in turn", alone),
            ("all queued, SAs in turn", mixed),
            ("multi-packets of 8 of one SA, one at a time", bundled),
            ("all queued, 8 of one SA in a row", all),
        ] {
            println!("  {what}: {}", taken / PACKETS);
        }
        assert!(bundled < alone && all < mixed, "{name}: {alone} {mixed} {bundled} {all}");
    }
}
