//! What it gains to group packets by SA: the same packets of several SAs handed to an engine one by
//! one, in submissions of mixed SAs, and in submissions grouped by SA.

use convoy_engine::{Completion, Engine, Submission, sample_packet};
use convoy_ipsec::{CryptoPacket, Direction, KeyMaterial, SaIndex, Transform};
use convoy_packet::FramePool;

use super::report::Grouped;

/// The packets: as in the card's test of its window.
const PACKETS: usize = 64;
const SAS: usize = 8;
const BYTES: usize = 64;
/// The ESP trailer, in bytes.
const TRAILER: usize = 2;
const ROUNDS: usize = 1_001;

/// How the packets are ordered, and how many are in a submission.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    pub(crate) name: &'static str,
    by_sa: bool,
    in_submission: usize,
}

/// All ways, in the order of the table's columns.
pub(crate) const WAYS: [Way; 5] = [
    Way { name: "1", by_sa: false, in_submission: 1 },
    Way { name: "8 of 8 SAs", by_sa: false, in_submission: SAS },
    Way { name: "8 of one SA", by_sa: true, in_submission: PACKETS / SAS },
    Way { name: "64, in turn", by_sa: false, in_submission: PACKETS },
    Way { name: "64, by SA", by_sa: true, in_submission: PACKETS },
];

/// The processor's time stamp counter, which has a constant rate.
fn cycles() -> u64 {
    // SAFETY: every x86-64 processor has this counter, and reading it has no other effect.
    #[allow(unsafe_code)]
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
}

/// A number of packets of [`SAS`] SAs, and an engine with their keys.
struct Several<'e> {
    engine: &'e mut dyn Engine,
    packets: Vec<CryptoPacket>,
    completions: Vec<Completion>,
    ticket: u64,
}

impl<'e> Several<'e> {
    fn new(engine: &'e mut dyn Engine, transform: Transform) -> Self {
        for sa in 0..SAS {
            let key = (0..transform.key_material_len()).map(|at| (at * 37 + sa * 11) as u8).collect();
            let keys = KeyMaterial::new(transform, key).expect("a key of the transform's own length");
            engine.install_key(SaIndex(sa as u32), &keys).expect("the engine claims the transform");
        }
        let mut pool = FramePool::new(PACKETS, 0);
        let packets = (0..PACKETS).map(|_| sample_packet(&mut pool, transform, BYTES + TRAILER)).collect();
        Self { engine, packets, completions: Vec::new(), ticket: 0 }
    }

    /// Seals all packets once; each submission is back before the next. Returns the cycles.
    fn run(&mut self, way: Way) -> u64 {
        for (at, packet) in self.packets.iter_mut().enumerate() {
            let sa = if way.by_sa { at / (PACKETS / SAS) } else { at % SAS };
            packet.sa = SaIndex(sa as u32);
        }
        let mut submissions: Vec<Submission> = Vec::with_capacity(PACKETS);
        let mut left = std::mem::take(&mut self.packets).into_iter();
        while left.len() > 0 {
            let packets: Vec<CryptoPacket> = left.by_ref().take(way.in_submission).collect();
            submissions.push(Submission::new(self.ticket, packets[0].sa, Direction::Seal, packets));
            self.ticket += 1;
        }
        let mut back = Vec::with_capacity(submissions.len());
        let began = cycles();
        for submission in submissions {
            self.engine.submit(submission).expect("an idle engine has room");
            while self.completions.is_empty() {
                self.engine.poll(&mut self.completions);
            }
            back.append(&mut self.completions);
        }
        let taken = cycles() - began;
        self.packets = back.into_iter().flat_map(|done| done.submission.packets).collect();
        taken
    }
}

/// Median cycles per packet of each way. The ways take turns, so that a change of the machine's
/// speed affects all of them.
pub(crate) fn measure(engine: &mut dyn Engine, transform: Transform, proposal: &'static str) -> Grouped {
    let name = engine.description().name.clone();
    let mut several = Several::new(engine, transform);
    let mut times = WAYS.map(|_| Vec::with_capacity(ROUNDS));
    for _ in 0..ROUNDS {
        for (way, times) in WAYS.into_iter().zip(&mut times) {
            times.push(several.run(way));
        }
    }
    let median = |mut times: Vec<u64>| {
        times.sort_unstable();
        times[times.len() / 2] as f64 / PACKETS as f64
    };
    Grouped { engine: name, proposal, cycles: times.map(median).to_vec() }
}
