//! The mitigation of interrupts: packets for each interrupt, and what it costs in latency, against
//! the load of the line (docs/lab/results/card.md, "Interrupts").

use convoy_card::LINE_MHZ;
use convoy_card::line::{Line, memory};
use convoy_card::nic::{Interrupts, Nic, NicSettings};
use convoy_packet::Frame;

/// AES-GCM, whose clock the card has.
const FUNCTION: u8 = 1;
/// Preamble, FCS and gap of a frame, in byte times of the line.
const LINE_OVERHEAD_BYTES: u32 = 24;
/// Loads of the line, in per cent, and the frames of a run with each.
const LOADS: [(u32, u32); 4] = [(5, 16), (20, 32), (50, 64), (100, 128)];
/// Largest deviation of the figures on the page, relative, or in their last digit.
const TOLERANCE: f64 = 0.03;

/// Mitigations: completions, and microseconds.
const MITIGATIONS: [(u16, u32); 4] = [(1, 0), (8, 5), (32, 20), (64, 100)];

struct Measured {
    interrupts: u64,
    cycles: u32,
    /// The sum over all frames, from the first byte on the line until the host has it, in cycles.
    latency: u64,
}

/// Sends frames of `len` bytes to a card, one each `interval` cycles.
fn measure(interrupts: Interrupts, len: u32, interval: u32, frames: u32) -> Measured {
    let (line, mut peer) = memory(frames as usize).expect("descriptors");
    let settings = NicSettings { function: Some(FUNCTION), interrupts, ..NicSettings::default() };
    let mut nic = Nic::with(Box::new(line), &settings).expect("a card");
    let frame: Vec<u8> =
        [0xff; 12].into_iter().chain([0x88, 0xb5]).chain((14..len).map(|at| at as u8)).collect();
    let (mut sent, mut arrived, mut latency) = (0, 0, 0);
    let start = nic.cycles();
    let mut now = 0;
    while arrived < frames {
        while sent < frames && now >= sent * interval {
            assert!(peer.send(&frame).expect("a card"));
            sent += 1;
        }
        let until = if sent < frames { sent * interval } else { now + interval };
        let mut came = 0;
        let mut receive = |_, received: Frame| {
            assert!(received[..] == frame[..], "another frame than was sent");
            came += 1;
        };
        nic.step(u64::from(until.saturating_sub(now).max(1)), &mut receive).expect("the card works");
        now = nic.cycles().wrapping_sub(start);
        for at in arrived..arrived + came {
            latency += u64::from(now.saturating_sub(at * interval));
        }
        arrived += came;
    }
    assert_eq!(nic.counters().completions, u64::from(frames));
    Measured { interrupts: nic.counters().interrupts, cycles: now, latency }
}

/// The rows of the page's table.
fn rows() -> Vec<String> {
    let mhz = convoy_card::routed_mhz(FUNCTION);
    let mut rows = Vec::new();
    for len in [60, 1514] {
        for (load, frames) in LOADS {
            // The line has a byte in each cycle of its clock.
            let interval = (len + LINE_OVERHEAD_BYTES) * 100 * mhz / (load * LINE_MHZ);
            for (completions, us) in MITIGATIONS {
                let measured = measure(Interrupts { completions, cycles: us * mhz }, len, interval, frames);
                let packets = f64::from(frames) / measured.interrupts as f64;
                let seconds = f64::from(measured.cycles) / f64::from(mhz) / 1e6;
                let a_second = measured.interrupts as f64 / seconds / 1e3;
                let latency_us = measured.latency as f64 / f64::from(frames) / f64::from(mhz);
                rows.push(format!(
                    "{},{load},{completions},{us},{packets:.1},{a_second:.1},{latency_us:.1}",
                    len + 4
                ));
            }
        }
    }
    rows
}

#[test]
fn the_page_has_how_many_packets_an_interrupt_reports_at_which_load() {
    const PAGE: &str = include_str!("../../../../docs/lab/results/card-interrupts.csv");
    let figures = |row: &str| -> Vec<f64> { row.split(',').map(|n| n.parse().expect("a number")).collect() };
    let rows = rows();
    let is_close = |row: &str, line: Option<&str>| {
        line.is_some_and(|line| {
            let both = figures(line).into_iter().zip(figures(row));
            both.into_iter().all(|(page, now)| (page - now).abs() <= (TOLERANCE * now).max(0.11))
        })
    };
    println!("{}", rows.join("\n"));
    let others: Vec<&String> = rows
        .iter()
        .enumerate()
        .filter(|(at, row)| !is_close(row, PAGE.lines().nth(at + 1)))
        .map(|(_, row)| row)
        .collect();
    assert!(others.is_empty(), "docs/lab/results/card-interrupts.csv has other figures than: {others:#?}");
}
