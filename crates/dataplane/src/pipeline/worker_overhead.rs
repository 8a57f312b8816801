//! The overhead of a worker's core for each packet beside the work of engines: receive, classify,
//! prepare, finish, send.
//!
//! Meanwhile the core gives engines elsewhere no work, so this also computes for how long they must
//! have work in advance: some rounds, scaled by how busy the core is.
//!
//! The clock is read once a round, at its beginning: until the next round begins the core did
//! nothing else, unless nothing moved and it slept.

/// Packets in a sample: fewer are not worth a division.
const PACKETS: u64 = 64;
/// The newest sample has the weight 1 / SHARE.
const SHARE: u64 = 8;
/// A sample counts as at most this many times the average: a thread that lost its core for a while
/// had no more overhead than usual.
const OUTLIER: u64 = 2;
/// Rounds for which engines elsewhere must have work: a choice is made in one round, takes effect
/// in the next, and both may be longer than the average. docs/results/own-work.csv compares the
/// throughput with 1, 2 and 4.
const ROUNDS_AHEAD: f64 = 4.0;
/// After this long without a packet the average is outdated, in ns.
const FORGOTTEN_NS: u64 = 1_000_000_000;

/// A core's overhead, in ns; 0 while unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WorkerOverhead {
    /// For each packet.
    pub(super) per_packet_ns: u64,
    /// During the time for which engines elsewhere must have work, times the fraction of time in
    /// which the core is busy.
    pub(super) ahead_ns: u64,
}

/// A moving average of the overhead.
#[derive(Default)]
pub(super) struct OverheadAverage {
    /// The start of the current round, and the total time of engines on this core until then; both
    /// in ns.
    began: Option<(u64, u64)>,
    has_moved: bool,
    last_packet_ns: u64,
    /// The sample in progress: time of its rounds, time of engines on this core in them, and
    /// packets.
    rounds_ns: u64,
    inline_ns: u64,
    packets: u64,
    rounds: u64,
    /// When the last sample ended; `None` before the first.
    sampled_ns: Option<u64>,
    average: WorkerOverhead,
}

impl OverheadAverage {
    /// Counts packets taken in.
    pub(super) fn took_in(&mut self, packets: usize) {
        self.packets += packets as u64;
    }

    /// Ends a round; if nothing moved in it, the time until the next is not counted as overhead.
    pub(super) fn end_round(&mut self, moved: bool) {
        self.has_moved = moved;
    }

    /// Begins a round at `now_ns`, which ends the previous one; `inline_ns` is the total time of
    /// engines on this core. Returns the overhead.
    pub(super) fn begin_round(&mut self, now_ns: u64, inline_ns: u64) -> WorkerOverhead {
        let last = self.began.replace((now_ns, inline_ns));
        if let (true, Some((began_ns, inline_before))) = (self.has_moved, last) {
            self.rounds_ns += now_ns.saturating_sub(began_ns);
            self.inline_ns += inline_ns.saturating_sub(inline_before);
            self.rounds += 1;
            self.last_packet_ns = now_ns;
        }
        if self.packets >= PACKETS {
            self.take_sample(now_ns);
        } else if now_ns.saturating_sub(self.last_packet_ns) > FORGOTTEN_NS {
            *self = Self { began: self.began, ..Self::default() };
        }
        self.average
    }

    fn take_sample(&mut self, now_ns: u64) {
        let own_ns = self.rounds_ns.saturating_sub(self.inline_ns);
        let busy = self.sampled_ns.replace(now_ns).map_or(0.0, |last_ns| {
            let all_ns = now_ns.saturating_sub(last_ns).max(1);
            (self.rounds_ns as f64 / all_ns as f64).min(1.0)
        });
        let ahead_ns = ROUNDS_AHEAD * busy * own_ns as f64 / self.rounds.max(1) as f64;
        let WorkerOverhead { per_packet_ns, ahead_ns: ahead_before } = self.average;
        self.average = WorkerOverhead {
            per_packet_ns: follow(per_packet_ns, own_ns / self.packets),
            ahead_ns: follow(ahead_before, ahead_ns as u64),
        };
        (self.rounds_ns, self.inline_ns, self.packets, self.rounds) = (0, 0, 0, 0);
    }
}

/// A moving average with `sample` as the newest; 0 if there is none yet.
fn follow(average: u64, sample: u64) -> u64 {
    match average {
        0 => sample,
        average => (average * (SHARE - 1) + sample.min(average * OUTLIER)).div_ceil(SHARE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A round: packets taken in, its time and the time of engines on the core, in ns.
    struct Round(usize, u64, u64);

    /// A core that executes rounds, and the latest overhead reported for it.
    #[derive(Default)]
    struct Core {
        cost: OverheadAverage,
        now_ns: u64,
        inline_ns: u64,
    }

    impl Core {
        fn live(&mut self, rounds: impl IntoIterator<Item = Round>) -> u64 {
            for Round(packets, took_ns, inline_ns) in rounds {
                self.cost.begin_round(self.now_ns, self.inline_ns);
                self.cost.took_in(packets);
                self.now_ns += took_ns;
                self.inline_ns += inline_ns;
                self.cost.end_round(packets > 0);
            }
            self.cost.begin_round(self.now_ns, self.inline_ns).per_packet_ns
        }
    }

    #[test]
    fn it_is_the_time_of_rounds_less_that_of_engines_on_the_core_by_packets() {
        let mut core = Core::default();
        assert_eq!(core.live([Round(63, 100_000, 40_000)]), 0, "too few packets");
        let mut core = Core::default();
        assert_eq!(core.live([Round(64, 100_000, 36_000)]), 1_000);
        // If engines report more time than the rounds took, the overhead is not negative.
        assert_eq!(Core::default().live([Round(64, 1_000, 36_000)]), 0);
    }

    #[test]
    fn it_follows_packets_that_become_dearer_and_cheaper() {
        let mut core = Core::default();
        core.live([Round(64, 64_000, 0)]);
        assert_eq!(core.live((0..100).map(|_| Round(64, 640_000, 0))), 10_000);
        assert!((500..=510).contains(&core.live((0..100).map(|_| Round(64, 32_000, 0)))));
    }

    #[test]
    fn rounds_in_which_nothing_moved_do_not_count_and_a_lost_core_counts_for_little() {
        let mut core = Core::default();
        assert_eq!(core.live([Round(64, 64_000, 0), Round(0, 500_000_000, 0)]), 1_000);
        assert_eq!(core.live([Round(64, 64_000, 0)]), 1_000);
        // Four milliseconds without the core would be 63 us a packet.
        assert_eq!(core.live([Round(64, 4_000_000, 0)]), 1_125);
    }

    #[test]
    fn work_ahead_is_some_rounds_as_far_as_the_core_is_busy() {
        let ahead = |idle_ns| {
            let mut core = Core::default();
            let round = |at| if at % 2 == 0 { Round(64, 64_000, 14_000) } else { Round(0, idle_ns, 0) };
            core.live((0..200).map(round));
            core.cost.average.ahead_ns as f64 / (ROUNDS_AHEAD * 50_000.0)
        };
        assert!((0.99..=1.01).contains(&ahead(0)), "always busy: {}", ahead(0));
        assert!((0.24..=0.26).contains(&ahead(3 * 64_000)), "a quarter of its time: {}", ahead(3 * 64_000));
        assert!(ahead(100_000_000) < 0.01, "packets that come alone: {}", ahead(100_000_000));
    }

    #[test]
    fn it_is_forgotten_after_a_second_without_packets() {
        let mut core = Core::default();
        assert_eq!(core.live([Round(64, 64_000, 0)]), 1_000);
        assert_eq!(core.live([Round(0, FORGOTTEN_NS, 0)]), 1_000);
        assert_eq!(core.live([Round(0, 1, 0)]), 0);
        assert_eq!(core.live([Round(64, 128_000, 0)]), 2_000);
    }
}
