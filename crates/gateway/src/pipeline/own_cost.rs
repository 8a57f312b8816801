//! What a worker's core does for each packet besides the work of engines: receive, classify, prepare, finish, send.
//!
//! The clock is read once a round, at its beginning: from there to the beginning of the next round the core did nothing else, unless
//! nothing moved and it slept.

/// Packets over which the time of rounds is divided: fewer are not worth a division.
const PACKETS: u64 = 64;
/// The weight of the newest sample is one over this.
const SHARE: u64 = 8;
/// A sample counts at most so many times what the average is: a thread that lost its core for a while had no more to do.
const OUTLIER: u64 = 2;
/// After so long without a packet the average says nothing of the packets that come next, in ns.
const FORGOTTEN_NS: u64 = 1_000_000_000;

/// A moving average of it.
#[derive(Default)]
pub(super) struct OwnCost {
    /// When the round that is under way began, and what engines on this core had taken in all until then; both in ns.
    began: Option<(u64, u64)>,
    has_moved: bool,
    last_packet_ns: u64,
    /// Of the sample that is being taken: the time of its rounds, that of engines on this core in them, and packets.
    rounds_ns: u64,
    inline_ns: u64,
    packets: u64,
    average_ns: u64,
}

impl OwnCost {
    /// Packets were taken in.
    pub(super) fn took_in(&mut self, packets: usize) {
        self.packets += packets as u64;
    }

    /// A round ends; if nothing moved in it, the time until the next is not spent on packets.
    pub(super) fn end_round(&mut self, moved: bool) {
        self.has_moved = moved;
    }

    /// A round begins at `now_ns`, and with it the last one ends; engines on this core have taken `inline_ns` since they were made.
    /// What a packet costs, in ns; 0 while it is not known.
    pub(super) fn begin_round(&mut self, now_ns: u64, inline_ns: u64) -> u64 {
        let last = self.began.replace((now_ns, inline_ns));
        if let (true, Some((began_ns, inline_before))) = (self.has_moved, last) {
            self.rounds_ns += now_ns.saturating_sub(began_ns);
            self.inline_ns += inline_ns.saturating_sub(inline_before);
            self.last_packet_ns = now_ns;
        }
        if self.packets >= PACKETS {
            self.take_sample();
        } else if now_ns.saturating_sub(self.last_packet_ns) > FORGOTTEN_NS {
            *self = Self { began: self.began, ..Self::default() };
        }
        self.average_ns
    }

    fn take_sample(&mut self) {
        let sample = self.rounds_ns.saturating_sub(self.inline_ns) / self.packets;
        self.average_ns = match self.average_ns {
            0 => sample,
            average => (average * (SHARE - 1) + sample.min(average * OUTLIER)).div_ceil(SHARE),
        };
        (self.rounds_ns, self.inline_ns, self.packets) = (0, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One round: packets taken in, its time and that of engines on the core, in ns.
    struct Round(usize, u64, u64);

    /// A core that lives by its rounds, and the last cost that it was told.
    #[derive(Default)]
    struct Core {
        cost: OwnCost,
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
            self.cost.begin_round(self.now_ns, self.inline_ns)
        }
    }

    #[test]
    fn it_is_the_time_of_rounds_less_that_of_engines_on_the_core_by_packets() {
        let mut core = Core::default();
        assert_eq!(core.live([Round(63, 100_000, 40_000)]), 0, "too few packets");
        let mut core = Core::default();
        assert_eq!(core.live([Round(64, 100_000, 36_000)]), 1_000);
        // Engines that say they took longer than the rounds do not make it negative.
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
    fn it_is_forgotten_after_a_second_without_packets() {
        let mut core = Core::default();
        assert_eq!(core.live([Round(64, 64_000, 0)]), 1_000);
        assert_eq!(core.live([Round(0, FORGOTTEN_NS, 0)]), 1_000);
        assert_eq!(core.live([Round(0, 1, 0)]), 0);
        assert_eq!(core.live([Round(64, 128_000, 0)]), 2_000);
    }
}
