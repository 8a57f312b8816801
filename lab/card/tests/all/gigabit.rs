//! Packets of 1500 bytes in both directions at once, with each function: how much of the line's
//! gigabit a card fills at the clock for which it was routed (docs/lab/results/card.md, "A
//! gigabit").

use convoy_card::line::memory;
use convoy_card::nic::{Nic, NicSettings, Seal};
use convoy_card::{Algorithm, Cipher, Hash, Inbound, LINE_MHZ, Sa, routed_mhz};
use convoy_packet::Frame;

/// The clock of the papers' bus, in MHz (`platforms/grip.toml`), and of a PCI bus twice as fast.
const BUS_MHZ: u32 = 33;
const FAST_BUS_MHZ: u32 = 66;
const PACKETS: usize = 200;
/// The rate is that between the ends of these packets of each direction, in the midst of others:
/// the way of the first packet through the card is no part of it.
const FIRST: usize = 20;
const LAST: usize = 180;
/// Cycles between two looks at the queues.
const STEP_CYCLES: u64 = 64;
const IP_PACKET_BYTES: usize = 1_500;
/// Ethernet and IPv4, before ESP.
const ESP_AT: usize = 34;
const IPV4_BYTES: usize = 20;
const ESP_BYTES: usize = 8;
/// The longest block of a cipher.
const BLOCK_BYTES: usize = 16;
/// Preamble, FCS and gap of a frame on the line.
const LINE_OVERHEAD_BYTES: usize = 24;
/// Largest relative deviation of the figures on the page.
const TOLERANCE: f64 = 0.005;
const LINE_GBPS: f64 = LINE_MHZ as f64 * 8.0 / 1e3;
const A_TO_B: u8 = 1;
const B_TO_A: u8 = 2;

/// A function with its protection.
struct Protection {
    name: &'static str,
    function: u8,
    algorithm: Algorithm,
    key_bytes: usize,
    auth_bytes: usize,
    icv_bytes: usize,
}

const fn protection(name: &'static str, function: u8, cipher: Cipher, hash: Hash) -> Protection {
    let key_bytes = if matches!(cipher, Cipher::TripleDesCbc) { 24 } else { 16 };
    let (auth_bytes, icv_bytes) = match hash {
        Hash::None => (0, 16),
        Hash::HmacSha1 => (20, 12),
        Hash::HmacSha512 => (64, 32),
    };
    Protection { name, function, algorithm: Algorithm { cipher, hash }, key_bytes, auth_bytes, icv_bytes }
}

const PROTECTIONS: [Protection; 6] = [
    protection("aes128gcm16", 1, Cipher::AesGcm, Hash::None),
    protection("aes128ctr-sha1", 2, Cipher::AesCtr, Hash::HmacSha1),
    protection("aes128-sha1", 3, Cipher::AesCbc, Hash::HmacSha1),
    protection("3des-sha1", 4, Cipher::TripleDesCbc, Hash::HmacSha1),
    protection("aes128ctr-sha512", 5, Cipher::AesCtr, Hash::HmacSha512),
    protection("aes128gcm16-unrolled", 6, Cipher::AesGcm, Hash::None),
];

impl Protection {
    fn sa(&self, number: u8) -> Sa {
        Sa {
            algorithm: self.algorithm,
            salt: [number; 4],
            // Three keys of 3DES that differ.
            key: (0..self.key_bytes as u8).map(|at| number.wrapping_mul(37) ^ at.wrapping_mul(11)).collect(),
            auth_key: vec![number; self.auth_bytes],
            icv_bytes: self.icv_bytes as u8,
        }
    }

    /// Frames that are not sealed yet, with different payloads.
    fn frames(&self, number: u8) -> Vec<Vec<u8>> {
        let iv_bytes = self.algorithm.cipher.iv_bytes();
        let room = IP_PACKET_BYTES - IPV4_BYTES - ESP_BYTES - iv_bytes - self.icv_bytes;
        let payload_bytes = room / BLOCK_BYTES * BLOCK_BYTES;
        let make = |sequence: usize| {
            let total = IPV4_BYTES + ESP_BYTES + iv_bytes + payload_bytes + self.icv_bytes;
            let [high, low] = (total as u16).to_be_bytes();
            let ethernet = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0];
            let ip = [0x45, 0, high, low, 0, 0, 0x40, 0, 64, 50, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2];
            let esp = [0, 0, 1, number, 0, 0, 0, sequence as u8 + 1];
            let payload: Vec<u8> = (0..payload_bytes).map(|at| (at * 7 + sequence) as u8).collect();
            let iv = vec![sequence as u8; iv_bytes];
            [&ethernet[..], &ip, &esp, &iv, &payload, &vec![0; self.icv_bytes]].concat()
        };
        (0..PACKETS).map(make).collect()
    }
}

/// The cycles in which packets FIRST to LAST of a direction passed.
#[derive(Default)]
struct Passage {
    first: Option<u32>,
    last: Option<u32>,
}

impl Passage {
    fn see(&mut self, packets: usize, now: u32) {
        if packets >= FIRST {
            self.first.get_or_insert(now);
        }
        if packets >= LAST {
            self.last.get_or_insert(now);
        }
    }

    fn cycles(&self) -> Option<u32> {
        Some(self.last?.wrapping_sub(self.first?))
    }
}

/// Sends `outgoing` and opens `incoming` frames with full queues; the cycles of the slower
/// direction from packet FIRST to LAST, and what was opened.
fn run(card: &mut Nic, outgoing: &[Vec<u8>], sa: u8, incoming: usize) -> (Option<u32>, Vec<Vec<u8>>) {
    let before = card.counters().sent;
    let (mut given, mut sent, mut opened) = (0, 0, Vec::with_capacity(incoming));
    let (mut out, mut back) = (Passage::default(), Passage::default());
    let seal = Seal { sa: sa.into(), esp_at: ESP_AT as u16, seq_high: None };
    while sent < outgoing.len() || opened.len() < incoming {
        while given < outgoing.len() && card.transmit_copy(&outgoing[given], Some(seal)) {
            given += 1;
        }
        let mut receive = |number: Option<u32>, frame: Frame| {
            assert!(number.is_some(), "a frame was not opened");
            opened.push(frame.to_vec());
        };
        card.step(STEP_CYCLES, &mut receive).expect("the card works");
        sent = (card.counters().sent - before) as usize;
        out.see(sent, card.cycles());
        back.see(opened.len(), card.cycles());
    }
    (out.cycles().max(back.cycles()), opened)
}

/// A row of the page's file: the bus, the cycles in which LAST - FIRST packets passed in each
/// direction, and the line's Gbit/s.
fn both_ways(protection: &Protection, bus_mhz: u32) -> String {
    let mhz = routed_mhz(protection.function);
    let (line_a, line_b) = memory(2 * PACKETS).expect("descriptors");
    let [mut a, mut b] = [(line_a, A_TO_B, B_TO_A), (line_b, B_TO_A, A_TO_B)].map(|(line, out, back)| {
        let settings = NicSettings { function: Some(protection.function), ..NicSettings::default() };
        let mut card = Nic::with(Box::new(line), &settings).expect("a card");
        card.set_bus(bus_mhz, mhz);
        card.install(out.into(), protection.sa(out), None).expect("the card has the function");
        let inbound = Inbound { spi: [0, 0, 1, back], is_tunnel: false };
        card.install(back.into(), protection.sa(back), Some(inbound)).expect("the card has the function");
        card
    });
    let (out, back) = (protection.frames(A_TO_B), protection.frames(B_TO_A));
    // Loads functions and SAs, which is no part of the rate.
    for (to, from) in [(A_TO_B, &out), (B_TO_A, &back)] {
        let (sender, receiver) = if to == A_TO_B { (&mut a, &mut b) } else { (&mut b, &mut a) };
        run(sender, &from[..1], to, 0);
        run(receiver, &[], to, 1);
    }
    run(&mut a, &out, A_TO_B, 0);
    let (cycles, opened) = run(&mut b, &back, B_TO_A, out.len());
    let cycles = cycles.expect("all packets passed");
    assert_eq!(opened.len(), out.len());
    for (opened, given) in opened.iter().zip(&out) {
        assert!(*opened == given[..given.len() - protection.icv_bytes], "a packet is another than was sent");
    }
    let bytes = (LAST - FIRST) * (back[0].len() + LINE_OVERHEAD_BYTES);
    let gbps = (8 * bytes) as f64 * f64::from(mhz) / f64::from(cycles) / 1e3;
    assert!(gbps <= LINE_GBPS * (1.0 + TOLERANCE), "nothing is faster than the line");
    format!("{},{bus_mhz},{cycles},{mhz},{gbps:.3}", protection.name)
}

#[test]
fn packets_of_1500_bytes_both_ways_take_the_cycles_that_the_page_has() {
    const PAGE: &str = include_str!("../../../../docs/lab/results/card-gigabit.csv");
    // The row's name and bus, and its cycles.
    let parts = |row: &str| -> Option<(String, f64)> {
        let mut fields = row.split(',');
        let named = format!("{},{}", fields.next()?, fields.next()?);
        Some((named, fields.next()?.parse().ok()?))
    };
    let page: Vec<(String, f64)> = PAGE.lines().skip(1).filter_map(parts).collect();
    let mut others = Vec::new();
    for bus_mhz in [BUS_MHZ, FAST_BUS_MHZ] {
        for protection in &PROTECTIONS {
            let row = both_ways(protection, bus_mhz);
            println!("{row}");
            let (named, cycles) = parts(&row).expect("a row of the page");
            let known = page.iter().find(|(name, _)| *name == named).map_or(0.0, |(_, cycles)| *cycles);
            if (known / cycles - 1.0).abs() > TOLERANCE {
                others.push(row);
            }
        }
    }
    assert!(others.is_empty(), "docs/lab/results/card-gigabit.csv has other cycles than: {others:#?}");
}
