//! Measures the gain of error concealment: the moving test picture over a simulated link with loss
//! and jitter, in virtual time and from a fixed seed. Prints the PSNR of the displayed video over
//! all frames.
//!
//! `cargo run --release -p convoy-hdtv --example concealment`

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use convoy_hdtv::{
    Assembler, Concealment, Counts, Difference, Finished, Format, Layout, PAYLOAD_TYPE, Picture, conceal,
};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Address of the sender.
const FROM: std::net::SocketAddr =
    std::net::SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 5004);
const FRAMES: u64 = 120;
const MS: u64 = 1_000_000;

/// One simulated link with the receiver's settings.
struct Trial {
    mtu: usize,
    /// Packet loss rate in parts per million.
    loss_ppm: u64,
    /// Largest extra delay of a packet; each packet gets a uniformly random one.
    jitter_ns: u64,
    delay_ns: u64,
    concealment: Concealment,
}

struct Viewer {
    format: Format,
    picture: Picture,
    concealment: Concealment,
    previous: Option<Vec<u8>>,
    difference: Difference,
    should: Vec<u8>,
}

impl Viewer {
    fn process(&mut self, frame: Finished) -> Option<Vec<u8>> {
        let Finished { mut bytes, timestamp, holes, missing_before } = frame;
        let number = u64::from(timestamp) / self.format.ticks(1, 0);
        conceal(self.concealment, &self.format, &mut bytes, &holes, self.previous.as_deref());
        let still = self.previous.as_deref().filter(|_| missing_before > 0);
        for missing in number - u64::from(missing_before).min(number)..number {
            self.picture.draw(missing, &mut self.should);
            self.difference.add(&self.format, still.unwrap_or(&bytes), &self.should);
        }
        self.picture.draw(number, &mut self.should);
        self.difference.add(&self.format, &bytes, &self.should);
        self.previous.replace(bytes)
    }
}

fn run(format: Format, trial: &Trial) -> (Difference, Counts) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(18);
    let mut layout = Layout::new(&format, trial.mtu - 28, 7).expect("an MTU that fits");
    let count = layout.packets().len();
    let mut assembler = Assembler::new(format, PAYLOAD_TYPE, 16, format.frame_start_ns(1) + trial.delay_ns);
    let should = vec![0; format.frame_bytes()];
    let picture = Picture::new(format);
    let difference = Difference::default();
    let mut viewer =
        Viewer { format, picture, concealment: trial.concealment, previous: None, difference, should };
    let mut under_way: BinaryHeap<Reverse<(u64, Vec<u8>)>> = BinaryHeap::new();
    let mut frame = vec![0; format.frame_bytes()];
    for number in 0..=FRAMES {
        let begin = format.frame_start_ns(number);
        let interval = format.frame_start_ns(number + 1) - begin;
        if number < FRAMES {
            viewer.picture.draw(number, &mut frame);
            layout.number(0..count, (number * count as u64) as u32, [format.ticks(number, 0) as u32; 2]);
            for (at, plan) in layout.packets().iter().enumerate() {
                // The very first packet is never lost, so that there is a first frame.
                if rng.next_u64() % 1_000_000 < trial.loss_ppm && number + at as u64 > 0 {
                    continue;
                }
                let mut packet = Vec::new();
                layout.write(plan, &frame, &mut packet);
                let sent = begin + interval * at as u64 / count as u64;
                under_way.push(Reverse((sent + rng.next_u64() % trial.jitter_ns.max(1), packet)));
            }
        }
        let until = if number < FRAMES { begin + interval } else { u64::MAX };
        while let Some(Reverse((now, packet))) = under_way.pop_if_before(until) {
            while let Some(due) = assembler.poll(now) {
                viewer.process(due).into_iter().for_each(|bytes| assembler.give_back(bytes));
            }
            assembler.take(&packet, FROM, now);
        }
    }
    while let Some(due) = assembler.flush() {
        viewer.process(due).into_iter().for_each(|bytes| assembler.give_back(bytes));
    }
    (viewer.difference, assembler.counts())
}

trait PopIfBefore {
    fn pop_if_before(&mut self, until: u64) -> Option<Reverse<(u64, Vec<u8>)>>;
}

impl PopIfBefore for BinaryHeap<Reverse<(u64, Vec<u8>)>> {
    fn pop_if_before(&mut self, until: u64) -> Option<Reverse<(u64, Vec<u8>)>> {
        self.peek().is_some_and(|next| next.0.0 < until).then(|| self.pop())?
    }
}

fn db(difference: &Difference) -> String {
    difference.psnr_db().map_or_else(|| "infinite".to_owned(), |psnr| format!("{psnr:.1}"))
}

fn main() {
    let format: Format = "720p60".parse().expect("a name");
    println!("PSNR in dB of {FRAMES} frames of {format}\n");
    println!("| MTU | lost | jitter, buffer | late or lost | zeros | previous frame | lines around |");
    println!("| --: | --: | --: | --: | --: | --: | --: |");
    let links = [
        (100, 0, 40),
        (1000, 0, 40),
        (10_000, 0, 40),
        (50_000, 0, 40),
        (1000, 20, 40),
        (1000, 20, 15),
        (0, 20, 15),
    ];
    for mtu in [1500, 9000] {
        for (loss_ppm, jitter_ms, delay_ms) in links {
            let results =
                [Concealment::None, Concealment::Previous, Concealment::Interpolate].map(|concealment| {
                    let (jitter_ns, delay_ns) = (jitter_ms * MS, delay_ms * MS);
                    run(format, &Trial { mtu, loss_ppm, jitter_ns, delay_ns, concealment })
                });
            let counts = results[0].1;
            let sent =
                FRAMES as f64 * Layout::new(&format, mtu - 28, 7).expect("it fits").packets().len() as f64;
            println!(
                "| {mtu} | {:.2} % | {jitter_ms} ms, {delay_ms} ms | {:.2} % | {} |",
                loss_ppm as f64 / 10_000.0,
                (counts.lost + counts.late) as f64 * 100.0 / sent,
                results.map(|result| db(&result.0)).join(" | "),
            );
        }
    }
}
