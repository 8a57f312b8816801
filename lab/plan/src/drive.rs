//! Drives packets through a worker's pipeline in memory, as fast as it takes them.

use std::time::{Duration, Instant};

use convoy_dataplane::pipeline::Pipeline;
use convoy_scheduler::Input;

/// Packets handed in at a time.
const BURST: usize = 64;

/// Rounds without progress before the thread sleeps to let engines' threads run, and for how long.
/// It does not yield, which costs whole time slices among busy threads.
const SPINS: u32 = 64;
const SLEEP: Duration = Duration::from_micros(20);

/// Packets of a section, of which the fastest run counts: about a millisecond, which is less than a
/// scheduling time slice.
const SECTION: usize = 1024;

/// Mean time per encrypted packet, in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Wall time per packet, over all rounds.
    pub(super) whole_ns: f64,
    /// Wall time per packet, with each section of packets taken from its fastest round, which
    /// excludes disturbance by other programs.
    pub(super) undisturbed_ns: f64,
    /// The part of it that is spent before the window: filling a frame, classifying and preparing.
    pub(super) before_ns: f64,
}

/// Progress of a run.
#[derive(Clone, Copy, Default)]
struct Progress {
    left: usize,
    time: Duration,
    before: Duration,
}

impl Progress {
    /// Time per packet since an earlier progress, in total and before the window, in ns.
    fn since(&self, other: &Self) -> (f64, f64) {
        let ns = |time: Duration| time.as_nanos() as f64 / (self.left - other.left).max(1) as f64;
        (ns(self.time - other.time), ns(self.before - other.before))
    }
}

/// The fastest time of each section of the packets.
struct Sections {
    packets: usize,
    fastest: Vec<Option<(f64, f64)>>,
    done: usize,
    last: Progress,
}

impl Sections {
    fn new(packets: usize) -> Self {
        Self { packets, fastest: vec![None; packets.div_ceil(SECTION)], done: 0, last: Progress::default() }
    }

    /// First packet of a section within a round.
    fn start(&self, section: usize) -> usize {
        self.packets.min(section * SECTION)
    }

    /// Records the progress if another section is complete.
    fn note(&mut self, progress: Progress) {
        let (round, section) = (self.done / self.fastest.len(), self.done % self.fastest.len());
        if progress.left < round * self.packets + self.start(section + 1) {
            return;
        }
        let taken = progress.since(&self.last);
        let fastest = &mut self.fastest[section];
        if fastest.is_none_or(|fastest| taken.0 < fastest.0) {
            *fastest = Some(taken);
        }
        (self.last, self.done) = (progress, self.done + 1);
    }

    /// The mean over sections. Sections without a time, as where packets are dropped, are left out.
    fn mean(&self) -> Option<(f64, f64)> {
        let (mut sum, mut packets) = ((0.0, 0.0), 0.0);
        for (section, fastest) in self.fastest.iter().enumerate() {
            let (Some(fastest), of) = (fastest, (self.start(section + 1) - self.start(section)) as f64)
            else {
                continue;
            };
            sum = (sum.0 + fastest.0 * of, sum.1 + fastest.1 * of);
            packets += of;
        }
        (packets > 0.0).then(|| (sum.0 / packets, sum.1 / packets))
    }
}

/// Sends `packets` outbound through the pipeline, `rounds` times.
pub(super) fn drive(pipeline: &mut Pipeline, packets: &[Vec<u8>], rounds: usize) -> Pace {
    let all = packets.len() * rounds;
    let (mut next, mut left, mut idle, mut before) = (0, 0, 0, Duration::ZERO);
    let (mut frames, mut sections) = (Vec::with_capacity(BURST), Sections::new(packets.len()));
    let began = Instant::now();
    while next < all || !pipeline.is_empty() {
        if pipeline.has_room() && next < all {
            let taking = Instant::now();
            let until = all.min(next + BURST);
            let pool = pipeline.pool_mut();
            frames.extend((next..until).map_while(|at| pool.take_filled(&packets[at % packets.len()], 0)));
            next += frames.len();
            pipeline.outbound(&mut frames);
            before += taking.elapsed();
        }
        let input = if next < all { Input::More } else { Input::Ended };
        idle = if pipeline.pump(input) { 0 } else { idle + 1 };
        if idle > SPINS {
            std::thread::sleep(SLEEP);
        }
        let (pool, departures) = pipeline.pool_and_departures();
        left += departures.to_outside.len();
        for leaving in [&mut departures.to_outside, &mut departures.bypass_out, &mut departures.to_inside] {
            pool.give_back_burst(leaving);
        }
        sections.note(Progress { left, time: began.elapsed(), before });
    }
    let whole = Progress { left, time: began.elapsed(), before }.since(&Progress::default());
    let (undisturbed_ns, before_ns) = sections.mean().unwrap_or(whole);
    Pace { whole_ns: whole.0, undisturbed_ns, before_ns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_section_counts_as_in_its_fastest_round() {
        let mut sections = Sections::new(SECTION + 512);
        assert_eq!(sections.mean(), None);
        let of = |left, time, before| Progress {
            left,
            time: Duration::from_nanos(time),
            before: Duration::from_nanos(before),
        };
        // The first section is fastest in the first round, with 10 and 1 ns per packet; the second
        // section in the second round, with 7 and 2 ns.
        for progress in [of(1024, 10_240, 1_024), of(1300, 0, 0), of(1536, 20_480, 4_096)] {
            sections.note(progress);
        }
        for progress in [of(2560, 40_960, 6_144), of(3072, 44_544, 7_168)] {
            sections.note(progress);
        }
        assert_eq!(sections.done, 4);
        assert_eq!(sections.mean(), Some((9.0, (1024.0 + 2.0 * 512.0) / 1536.0)));
    }
}
