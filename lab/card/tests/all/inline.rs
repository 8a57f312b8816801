//! Compares `platforms/grip-inline.toml` with the card as a network interface: the simulator must
//! predict how long a burst takes until its last packet is on the line, with a bus at the card's
//! clock and with slower ones.

use convoy_card::line::{Line, MemoryLine, memory};
use convoy_card::nic::{Nic, Seal};
use convoy_card::{Algorithm, Cipher, Hash, Sa, routed_mhz};
use convoy_sim::{Packet, Platform, Simulation, Traffic, TrafficError};

const AES_GCM: u8 = 1;
/// Largest relative error of a prediction.
const TOLERANCE: f64 = 0.15;
/// Consecutive packets of one SA, and payload bytes with the ESP trailer.
const SHAPES: [(u32, u32); 9] =
    [(1, 64), (2, 64), (8, 64), (1, 256), (2, 256), (8, 256), (1, 1400), (2, 1400), (8, 1400)];
const SAS: u32 = 8;
/// Packets of a burst, which fill the driver's ring.
const PACKETS: u32 = 64;
/// Length of Ethernet and IPv4 before ESP; of ESP header and IV; of the ICV.
const ESP_AT: usize = 34;
const HEADER_BYTES: usize = 16;
const ICV_BYTES: usize = 16;

fn card_mhz() -> f64 {
    routed_mhz(AES_GCM).into()
}

fn card() -> (Nic, MemoryLine) {
    let (line, peer) = memory(PACKETS as usize).expect("descriptors");
    let mut nic = Nic::new(Box::new(line)).expect("a card");
    for number in 0..SAS {
        let sa = Sa {
            algorithm: Algorithm { cipher: Cipher::AesGcm, hash: Hash::None },
            salt: [number as u8; 4],
            key: vec![number as u8; 16],
            auth_key: Vec::new(),
            icv_bytes: ICV_BYTES as u8,
        };
        nic.install(number, sa, None).expect("the card has the function");
    }
    (nic, peer)
}

/// The cycles of a burst, from the first doorbell until the last frame has left.
fn cycles(nic: &mut Nic, line: &mut MemoryLine, (row, bytes): (u32, u32), packets: u32) -> f64 {
    let mut frame = vec![0; ESP_AT + HEADER_BYTES + bytes as usize + ICV_BYTES];
    let before = nic.cycles();
    for at in 0..packets {
        let seal = Seal { sa: at / row % SAS, esp_at: ESP_AT as u16, seq_high: None };
        assert!(nic.transmit_copy(&frame, Some(seal)), "the ring holds them all");
    }
    let mut left = 0;
    while left < packets {
        nic.step(8, &mut |_, _| ()).expect("the card works");
        while line.receive(&mut frame).expect("a line").is_some() {
            left += 1;
        }
    }
    f64::from(nic.cycles().wrapping_sub(before))
}

/// Packets of SAs in turn, with `row` consecutive packets of each.
struct Rows {
    at: u32,
    row: u32,
    bytes: u32,
}

impl Traffic for Rows {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        let at = self.at;
        self.at += 1;
        let packet = Packet { payload_bytes: self.bytes, sa: at / self.row % SAS, ..Packet::default() };
        Ok((at < PACKETS).then_some(packet))
    }
}

/// The simulator's prediction for the same burst, in cycles of the card.
fn predicted(bus_mhz: f64, (row, bytes): (u32, u32)) -> f64 {
    let platform = Platform::open("grip-inline").expect("it comes with the program");
    let mut platform = platform.with_variants("verilated").expect("it has this variant");
    let bus = platform.buses.iter_mut().find(|bus| bus.name == "pci").expect("it has one");
    bus.clock_mhz = bus_mhz;
    platform.source.rate_mbps = 1e9; // all is there from the start
    (platform.source.queue_packets, platform.source.frames) = (None, PACKETS as usize);
    platform.scheduler.window = row as usize;
    let report = Simulation::new(platform).run(Rows { at: 0, row, bytes }).expect("a good platform");
    assert_eq!(report.packets_out, u64::from(PACKETS));
    report.end_ms * 1e3 * card_mhz()
}

#[test]
fn the_simulator_predicts_the_cycles_until_a_burst_is_on_the_line() {
    let paper = Platform::open("grip-inline").expect("it comes with the program").buses[0].clock_mhz;
    let (mut nic, mut line) = card();
    // The first round loads the SAs, whose cost later rounds do not have.
    for _ in 0..2 {
        cycles(&mut nic, &mut line, (1, 64), PACKETS / 2);
    }
    for bus_mhz in [card_mhz(), 66.0, paper] {
        nic.set_bus(bus_mhz as u32, card_mhz() as u32);
        for shape in SHAPES {
            let measured = cycles(&mut nic, &mut line, shape, PACKETS);
            let predicted = predicted(bus_mhz, shape);
            let off = predicted / measured - 1.0;
            println!(
                "inline, bus at {bus_mhz} MHz, {} of {} bytes in a row: {measured} cycles, predicted {predicted:.0}, {:+.1} %",
                shape.0,
                shape.1,
                100.0 * off
            );
            assert!(off.abs() < TOLERANCE, "bus at {bus_mhz} MHz, {shape:?}: {measured} {predicted}");
        }
    }
}
