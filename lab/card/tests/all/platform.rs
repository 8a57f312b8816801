//! Compares `platforms/grip.toml` with the card: its parameters are fitted to the card's cycles,
//! and the simulator must predict from them what the card takes, with a bus at the card's clock and
//! with the paper's bus.

use convoy_card::{
    Algorithm, CardVerdict, Cipher, CommandDirection, Driver, DriverPacket as CardPacket, Hash, Sa,
    routed_mhz,
};
use convoy_sim::{Packet, Platform, Reference, Simulation, Traffic, TrafficError};

/// The number of the AES-GCM function, to whose clock the file's figures relate.
const AES_GCM: u8 = 1;
/// Largest relative error of a prediction.
const TOLERANCE: f64 = 0.15;
/// Largest relative deviation of the file from the fit: it has three digits.
const ROUNDING: f64 = 0.005;
/// Packets in a multi-packet, and payload bytes with the ESP trailer.
const SHAPES: [(u32, u32); 9] =
    [(1, 64), (2, 64), (8, 64), (1, 256), (2, 256), (8, 256), (1, 1400), (2, 1400), (8, 1400)];
const SAS: u32 = 8;
const ALGORITHMS: [(&str, Cipher, Hash); 2] = [
    ("AES-GCM-128", Cipher::AesGcm, Hash::None),
    ("AES-CTR-128 with HMAC-SHA-1", Cipher::AesCtr, Hash::HmacSha1),
];

fn card_mhz() -> f64 {
    routed_mhz(AES_GCM).into()
}

fn grip() -> Platform {
    Platform::open("grip").expect("it comes with the program")
}

/// A card with SAs of one algorithm installed.
fn card(cipher: Cipher, hash: Hash) -> (Driver, usize) {
    let mut driver = Driver::new().expect("a card");
    let (auth_bytes, icv_bytes) = if hash == Hash::None { (0, 16) } else { (20, 12) };
    for number in 0..SAS {
        let sa = Sa {
            algorithm: Algorithm { cipher, hash },
            salt: [number as u8; 4],
            key: vec![number as u8; 16],
            auth_key: vec![number as u8; auth_bytes],
            icv_bytes,
        };
        driver.install(number, sa).expect("the card has the function");
    }
    (driver, usize::from(icv_bytes))
}

/// Multi-packets in a run: more if they are small, and always within one batch of the driver.
fn runs(bundle: u32, bytes: u32) -> u32 {
    (65_536 / (bundle * (bytes + 100))).clamp(2, 64 / bundle)
}

/// The cycles of a burst of `runs` multi-packets, each of another SA than the one before.
fn cycles(driver: &mut Driver, icv_bytes: usize, bundle: u32, bytes: u32) -> f64 {
    let packets = runs(bundle, bytes) * bundle;
    let mut bodies = vec![(vec![0; bytes as usize], [0; 16]); packets as usize];
    let mut packets: Vec<CardPacket<'_>> = bodies
        .iter_mut()
        .zip(0..)
        .map(|((payload, icv), at)| CardPacket {
            sa: at / bundle % SAS,
            esp: [0, 0, 0, 1, 0, 0, 0, at as u8],
            seq_high: None,
            iv: &[9; 8],
            payload,
            icv: &mut icv[..icv_bytes],
            verdict: CardVerdict::Pending,
        })
        .collect();
    let before = driver.cycles();
    driver.process(CommandDirection::Seal, &mut packets).expect("the card works");
    let taken = driver.cycles().wrapping_sub(before);
    assert!(packets.iter().all(|packet| packet.verdict == CardVerdict::Done));
    f64::from(taken)
}

fn blocks(platform: &Platform, bundle: u32, bytes: u32) -> f64 {
    f64::from(bundle * (bytes + platform.source.header_bytes).div_ceil(16))
}

/// `T_init` and `T_block` in cycles, fitted by least squares of the relative error.
fn fit(measured: &[(f64, f64)]) -> (f64, f64) {
    // cycles = a + b n; each equation is divided by its cycles, which gives two normal equations.
    let (mut aa, mut ab, mut bb, mut ya, mut yb) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (blocks, cycles) in measured {
        let (one, n) = (1.0 / cycles, blocks / cycles);
        (aa, ab, bb, ya, yb) = (aa + one * one, ab + one * n, bb + n * n, ya + one, yb + n);
    }
    let determinant = aa * bb - ab * ab;
    ((ya * bb - yb * ab) / determinant, (yb * aa - ya * ab) / determinant)
}

/// A card that has done a first run, which loads function and SAs, so that later runs do not pay
/// for it.
fn warmed(cipher: Cipher, hash: Hash) -> (Driver, usize) {
    let (mut driver, icv_bytes) = card(cipher, hash);
    for _ in 0..2 {
        cycles(&mut driver, icv_bytes, 1, 64);
    }
    (driver, icv_bytes)
}

fn measure(cipher: Cipher, hash: Hash) -> (f64, f64) {
    let platform = grip();
    let (mut driver, icv_bytes) = warmed(cipher, hash);
    let measured: Vec<(f64, f64)> = SHAPES
        .iter()
        .map(|(bundle, bytes)| {
            let each = cycles(&mut driver, icv_bytes, *bundle, *bytes) / f64::from(runs(*bundle, *bytes));
            (blocks(&platform, *bundle, *bytes), each)
        })
        .collect();
    let (init, block) = fit(&measured);
    for ((bundle, bytes), (blocks, cycles)) in SHAPES.iter().zip(&measured) {
        let off = 100.0 * ((init + block * blocks) / cycles - 1.0);
        println!("  {bundle} of {bytes} bytes: {cycles:.0} cycles, {off:+.0} % by the fit");
    }
    (init, block)
}

#[test]
fn the_platform_s_figures_are_the_fit_to_the_card_s_cycles() {
    let reference = grip().reference;
    let [gcm, _] = ALGORITHMS.map(|(name, cipher, hash)| {
        println!("{name}, each multi-packet of another SA than the one before:");
        let (init, block) = measure(cipher, hash);
        let fitted = Reference { t_init_us: init / card_mhz(), block_mbps: 128.0 * card_mhz() / block };
        println!("  T_init {init:.1} cycles, T_block {block:.2}; at {} MHz {fitted:.3?}", card_mhz());
        fitted
    });
    let near = |file: f64, fit: f64| (file / fit - 1.0).abs() < ROUNDING;
    assert!(
        near(reference.t_init_us, gcm.t_init_us) && near(reference.block_mbps, gcm.block_mbps),
        "the file says {reference:?}"
    );
}

/// Multi-packets in sequence, of SAs in turn.
struct Rows {
    at: u32,
    packets: u32,
    bundle: u32,
    bytes: u32,
}

impl Traffic for Rows {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let at = self.at;
        self.at += 1;
        let packet = Packet { payload_bytes: self.bytes, sa: at / self.bundle % SAS, ..Packet::default() };
        Ok((at < self.packets).then_some(packet))
    }
}

/// The simulator's prediction for the same burst, in cycles of the card.
fn predicted(bus_mhz: f64, bundle: u32, bytes: u32) -> f64 {
    let mut platform = grip();
    platform.set_accelerators(1); // sealing uses X1 only
    platform.buses[0].clock_mhz = bus_mhz;
    platform.source.rate_mbps = 1e9; // all packets are there from the start
    platform.scheduler.window = bundle as usize;
    let packets = runs(bundle, bytes) * bundle;
    let report =
        Simulation::new(platform).run(Rows { at: 0, packets, bundle, bytes }).expect("a good platform");
    assert_eq!(report.multi_packets, u64::from(packets / bundle));
    report.end_ms * 1e3 * card_mhz()
}

#[test]
fn the_simulator_predicts_the_cycles_of_a_burst() {
    let paper = grip().buses[0].clock_mhz;
    let (mut driver, icv_bytes) = warmed(Cipher::AesGcm, Hash::None);
    for bus_mhz in [card_mhz(), 66.0, paper] {
        driver.set_bus(bus_mhz as u32, card_mhz() as u32);
        for (bundle, bytes) in SHAPES {
            let measured = cycles(&mut driver, icv_bytes, bundle, bytes);
            let predicted = predicted(bus_mhz, bundle, bytes);
            let off = predicted / measured - 1.0;
            println!(
                "bus at {bus_mhz} MHz, {bundle} of {bytes} bytes: {measured} cycles, predicted {predicted:.0}, {:+.1} %",
                100.0 * off
            );
            assert!(
                off.abs() < TOLERANCE,
                "bus at {bus_mhz} MHz, {bundle} of {bytes} bytes: {measured} {predicted}"
            );
        }
    }
}
