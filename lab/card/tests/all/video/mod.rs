//! One frame of HDTV through the card, in the card's cycles, and the rate that follows from them at
//! the card's routed clock (docs/lab/results/card.md, "HDTV").

mod packets;

use std::time::Instant;

use convoy_card::line::memory;
use convoy_card::nic::Nic;
use convoy_card::{CardVerdict, CommandDirection, Driver, DriverPacket};
use convoy_packet::Frame;
use packets::{
    AES_CTR_SHA1, AES_GCM, IV_BYTES, Protection, esp, frames, inbound, line_cycles, payloads, seal,
};

/// The clock of the papers' bus, in MHz (`platforms/grip.toml`).
const BUS_MHZ: u32 = 33;
/// Cycles between two looks at the queues.
const STEP_CYCLES: u64 = 64;
/// Largest relative deviation of the figures on the page.
const TOLERANCE: f64 = 0.005;
/// The SAs from card A to card B, and back.
const A_TO_B: u8 = 1;
const B_TO_A: u8 = 2;

/// Two cards at the ends of a line, with SAs in both directions.
fn cards(protection: Protection, frames: usize) -> (Nic, Nic) {
    let (line_a, line_b) = memory(2 * frames).expect("descriptors");
    let mut cards = [line_a, line_b].map(|line| Nic::new(Box::new(line)).expect("a card"));
    for (card, [outbound, opened]) in cards.iter_mut().zip([[A_TO_B, B_TO_A], [B_TO_A, A_TO_B]]) {
        card.set_bus(BUS_MHZ, protection.mhz());
        card.install(outbound.into(), protection.sa(outbound), None).expect("the card has the function");
        let spi = Some(inbound(opened));
        card.install(opened.into(), protection.sa(opened), spi).expect("the card has the function");
    }
    let [a, b] = cards;
    (a, b)
}

/// What a run gave: the cycles, and the frames that were opened.
struct Run {
    cycles: u32,
    opened: Vec<Vec<u8>>,
}

/// Keeps the card's queues full: gives it `outgoing` as it has room, and takes from the line what
/// is there, until all has left and `incoming` frames were opened.
fn run(card: &mut Nic, outgoing: &[Vec<u8>], sa: u8, incoming: usize) -> Run {
    let (before, sent) = (card.cycles(), card.counters().sent);
    let (mut given, mut opened) = (0, Vec::with_capacity(incoming));
    while card.counters().sent - sent < outgoing.len() as u64 || opened.len() < incoming {
        while given < outgoing.len() && card.transmit_copy(&outgoing[given], Some(seal(sa))) {
            given += 1;
        }
        let mut receive = |number: Option<u32>, frame: Frame| {
            assert!(number.is_some(), "a frame was not opened");
            opened.push(frame.to_vec());
        };
        card.step(STEP_CYCLES, &mut receive).expect("the card works");
    }
    Run { cycles: card.cycles().wrapping_sub(before), opened }
}

/// A row of the page's table.
struct Row {
    protection: Protection,
    way: &'static str,
    direction: &'static str,
    cycles: u32,
    line_cycles: usize,
    video_bytes: usize,
}

impl Row {
    /// As the file of the page has it; the rate is derived from the cycles and the routed clock.
    fn csv(&self) -> String {
        let Self { protection, way, direction, cycles, line_cycles, video_bytes } = self;
        let mhz = protection.mhz();
        let mbps = (8 * video_bytes) as f64 * f64::from(mhz) / f64::from(*cycles);
        format!("{},{way},{direction},{cycles},{line_cycles},{mhz},{mbps:.0}", protection.name)
    }
}

/// Each frame as it was given, without the room for its ICV.
fn assert_equal(opened: &[Vec<u8>], given: &[Vec<u8>], icv_bytes: usize) {
    assert_eq!(opened.len(), given.len());
    for (at, (opened, given)) in opened.iter().zip(given).enumerate() {
        assert!(*opened == given[..given.len() - icv_bytes], "packet {at} is another than was sent");
    }
}

/// Inline: from the host's memory to the line, and from the line to the host's memory.
fn inline(protection: Protection, payloads: &[Vec<u8>], video_bytes: usize) -> Vec<Row> {
    let (out, back) = (frames(protection, A_TO_B, payloads), frames(protection, B_TO_A, payloads));
    let (mut a, mut b) = cards(protection, out.len());
    // Loads functions and SAs, which is no part of a frame.
    for (to, from) in [(A_TO_B, &out), (B_TO_A, &back)] {
        let (sender, receiver) = if to == A_TO_B { (&mut a, &mut b) } else { (&mut b, &mut a) };
        run(sender, &from[..1], to, 0);
        run(receiver, &[], to, 1);
    }
    let sealed = run(&mut a, &out, A_TO_B, 0);
    let opened = run(&mut b, &[], B_TO_A, out.len());
    assert_equal(&opened.opened, &out, protection.icv_bytes);
    run(&mut a, &out, A_TO_B, 0);
    let both = run(&mut b, &back, B_TO_A, out.len());
    assert_equal(&both.opened, &out, protection.icv_bytes);
    let returned = run(&mut a, &[], A_TO_B, back.len());
    assert_equal(&returned.opened, &back, protection.icv_bytes);
    let line_cycles = line_cycles(&out, protection.mhz());
    [("encrypt", sealed.cycles), ("decrypt", opened.cycles), ("both at once", both.cycles)]
        .map(|(direction, cycles)| Row {
            protection,
            way: "inline",
            direction,
            cycles,
            line_cycles,
            video_bytes,
        })
        .into()
}

/// The pipelines alone: from the host's memory through X1 or X2 back to it, with a bus at the
/// card's clock, so that neither line nor bus bounds them.
fn pipelines(protection: Protection, payloads: &[Vec<u8>], video_bytes: usize) -> Vec<Row> {
    let mut driver = Driver::new().expect("a card");
    driver.install(1, protection.sa(A_TO_B)).expect("the card has the function");
    let mut texts = payloads.to_vec();
    let mut icvs = vec![[0; 16]; texts.len()];
    let mut rows = Vec::new();
    for (word, direction) in [("encrypt", CommandDirection::Seal), ("decrypt", CommandDirection::Open)] {
        let ivs: Vec<[u8; IV_BYTES]> = (0..texts.len() as u64).map(u64::to_be_bytes).collect();
        let mut packets: Vec<DriverPacket<'_>> = texts
            .iter_mut()
            .zip(&mut icvs)
            .zip(&ivs)
            .enumerate()
            .map(|(at, ((payload, icv), iv))| DriverPacket {
                sa: 1,
                esp: esp(A_TO_B, at + 1),
                seq_high: None,
                iv,
                payload,
                icv: &mut icv[..protection.icv_bytes],
                verdict: CardVerdict::Pending,
            })
            .collect();
        let before = driver.cycles();
        driver.process(direction, &mut packets).expect("the card works");
        let cycles = driver.cycles().wrapping_sub(before);
        assert!(packets.iter().all(|packet| packet.verdict == CardVerdict::Done));
        rows.push(Row { protection, way: "pipeline", direction: word, cycles, line_cycles: 0, video_bytes });
    }
    assert!(texts == payloads, "what was decrypted is another than was encrypted");
    rows
}

/// The figures of the page by protection, way and direction.
fn documented() -> Vec<(String, f64)> {
    const PAGE: &str = include_str!("../../../../../docs/lab/results/card-hdtv.csv");
    let rows = PAGE.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        (fields[..3].join(","), fields[3].parse().expect("cycles"))
    });
    rows.collect()
}

/// Sends a frame of video through two cards, and through a pipeline alone, and compares the cycles
/// with the page's.
fn assert_documented(protection: Protection) {
    let (payloads, video_bytes) = payloads();
    let documented = documented();
    let began = Instant::now();
    let mut rows = inline(protection, &payloads, video_bytes);
    let simulated = f64::from(4 * rows[0].cycles + rows[2].cycles) / began.elapsed().as_secs_f64();
    for row in &rows {
        // The line is a gigabit in each direction; nothing is faster.
        assert!(row.cycles as usize >= row.line_cycles, "{}", row.csv());
    }
    rows.extend(pipelines(protection, &payloads, video_bytes));
    let is_other = |row: &&Row| {
        let name = [protection.name, row.way, row.direction].join(",");
        let page = documented.iter().find(|(known, _)| *known == name).map_or(0.0, |(_, cycles)| *cycles);
        (page / f64::from(row.cycles) - 1.0).abs() > TOLERANCE
    };
    let lines: Vec<String> = rows.iter().map(Row::csv).collect();
    println!("{}", lines.join("\n"));
    println!("simulated at {:.0} thousand cycles a second", simulated / 1e3);
    let others: Vec<String> = rows.iter().filter(is_other).map(Row::csv).collect();
    assert!(others.is_empty(), "docs/lab/results/card-hdtv.csv has other cycles than: {others:#?}");
}

#[test]
fn a_video_frame_under_aes_gcm_passes_bit_for_bit_in_the_cycles_that_the_page_has() {
    assert_documented(AES_GCM);
}

#[test]
fn a_video_frame_under_aes_ctr_with_hmac_passes_bit_for_bit_in_the_cycles_that_the_page_has() {
    assert_documented(AES_CTR_SHA1);
}
