//! The choice of an engine for a multi-packet (docs/lab/simulator.md: rule 3).

use crate::engine::{Engines, QueueModel};
use crate::engine_mask::EngineMask;
use crate::room::FullQueue;

/// A choice: the engine and the two parts of its finishing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) engine: usize,
    /// `w`, in ticks.
    pub(crate) wait: u64,
    /// `p`, in ticks.
    pub(crate) processing: u64,
    /// `f`, in ticks from now; for an engine on the caller's core including that core's overhead.
    pub(crate) finish: u64,
}

/// How many multi-packets an engine may hold when it gets one more: see
/// [`SchedulerConfig`](crate::SchedulerConfig). Without a bound [`NO_BOUND`].
#[derive(Clone, Copy)]
pub(crate) struct Credits {
    /// Of all classes.
    pub(crate) all: u32,
    /// Of `class`, that of the one more, and those below it.
    pub(crate) lower: u32,
    pub(crate) class: u8,
}

/// Stands for as many multi-packets as the depth allows.
pub(crate) const NO_BOUND: u32 = u32::MAX;

impl Credits {
    /// Whether neither is a bound, as in most schedulers.
    #[inline]
    fn is_unbounded(self) -> bool {
        self.all & self.lower == NO_BOUND
    }
}

/// The search for a multi-packet's engine.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a, R = ()> {
    pub(crate) engines: &'a Engines<R>,
    /// The engines that support its algorithm, and the time that each needs for it, in ticks.
    pub(crate) capable: EngineMask,
    pub(crate) processing: &'a [u64],
    pub(crate) blocks: u64,
    pub(crate) now: u64,
    /// How much of an engine's depth the multi-packet takes.
    pub(crate) places: u32,
    pub(crate) full_queue: FullQueue,
    pub(crate) late_margin: Option<u64>,
    pub(crate) credits: Credits,
    /// The overhead of the caller's core for the packets at hand, in ticks.
    pub(crate) overhead: u64,
}

impl<R> Search<'_, R> {
    /// The engine with the lowest finishing time. `None` if it is to be waited for.
    #[inline]
    pub(crate) fn choose(&self) -> Option<Choice> {
        match self.full_queue {
            FullQueue::Wait => self.lowest_of_all(),
            FullQueue::Skip => self.lowest(self.open_with_credit(), |choice| choice.finish),
        }
    }

    /// The lowest finishing time of all engines that are not late; `None` if that engine's queue is
    /// full, both with the core's overhead and without it. If all are late, waiting for none of
    /// them is better, and any with room will do.
    #[inline]
    fn lowest_of_all(&self) -> Option<Choice> {
        let in_time = self.in_time();
        if in_time.is_empty() {
            return self.lowest_of_open();
        }
        let best = self.lowest(in_time, |choice| choice.finish)?;
        if self.has_room(best.engine) {
            return Some(best);
        }
        // While the caller waits for room its core has no overhead.
        if self.overhead > 0 { self.lowest_without_overhead(in_time) } else { None }
    }

    #[inline(never)]
    fn lowest_without_overhead(&self, in_time: EngineMask) -> Option<Choice> {
        let without = Self { overhead: 0, ..*self };
        let best = without.lowest(in_time, |choice| choice.finish)?;
        self.has_room(best.engine).then_some(best)
    }

    /// Whether an engine has room and a credit for this multi-packet. Credits hold it back only
    /// while the engine has more to do than any engine would have with this multi-packet alone:
    /// otherwise an engine that is slower than the others by more than the credits would get none.
    #[inline]
    pub(crate) fn has_room(&self, engine: usize) -> bool {
        self.engines.queue(engine).has_room(self.places)
            && (self.credits.is_unbounded() || self.has_credit(engine))
    }

    /// Kept out of the code of those without credits.
    #[inline(never)]
    fn has_credit(&self, engine: usize) -> bool {
        let Credits { all, lower, class } = self.credits;
        let (queue, slowest) = (self.engines.queue(engine), self.slowest());
        queue.has_credit(self.now, all as usize, slowest)
            && queue.has_class_credit(self.now, class, lower as usize, slowest)
    }

    /// The longest processing time of an engine that could take it, in ticks.
    fn slowest(&self) -> u64 {
        self.available().map(|engine| self.processing[engine]).max().unwrap_or(0)
    }

    #[inline(never)]
    fn lowest_of_open(&self) -> Option<Choice> {
        self.lowest(self.open(), |choice| choice.finish)
    }

    /// Capable engines that are not late.
    #[inline]
    pub(crate) fn in_time(&self) -> EngineMask {
        let mut in_time = self.available();
        if let Some(margin) = self.late_margin {
            for engine in in_time {
                in_time.set(engine, !self.engines.queue(engine).is_late(self.now, margin));
            }
        }
        in_time
    }

    /// Capable engines that have room for this multi-packet.
    #[inline]
    pub(crate) fn open(&self) -> EngineMask {
        let mut open = self.engines.open.and(self.capable);
        if self.places > 1 {
            for engine in open {
                open.set(engine, self.engines.queue(engine).has_room(self.places));
            }
        }
        open
    }

    /// Capable engines that have room and a credit for this multi-packet.
    #[inline]
    pub(crate) fn open_with_credit(&self) -> EngineMask {
        let mut open = self.open();
        if !self.credits.is_unbounded() {
            for engine in open {
                open.set(engine, self.has_room(engine));
            }
        }
        open
    }

    /// The engines among which a policy chooses: all that are not late where it waits for room, and
    /// otherwise, or if all are late, those with room.
    #[inline]
    pub(crate) fn considered(&self) -> EngineMask {
        match self.full_queue {
            FullQueue::Wait => self.in_time().or_if_empty(self.open()),
            FullQueue::Skip => self.open_with_credit(),
        }
    }

    #[inline]
    fn choice(&self, engine: usize) -> Choice {
        self.choice_of(engine, self.engines.queue(engine), self.processing[engine])
    }

    #[inline]
    fn choice_of(&self, engine: usize, queue: &QueueModel<R>, processing: u64) -> Choice {
        let wait = queue.wait(self.now);
        let finish = wait.saturating_add(processing).saturating_add(self.overhead & queue.if_cpu);
        Choice { engine, wait, processing, finish }
    }

    /// The engine with the lowest key. On a tie accelerators precede the CPU, then faster engines
    /// slower ones, then the order of the configuration decides.
    #[inline]
    pub(crate) fn lowest(&self, among: EngineMask, key: impl Fn(&Choice) -> u64) -> Option<Choice> {
        let first = among.first()?;
        Some(self.choice(self.lowest_from(first, among, key)))
    }

    /// A function of its own, so that the loop has all registers: inlined it took a third more
    /// instructions.
    #[inline(never)]
    fn lowest_from(&self, first: usize, among: EngineMask, key: impl Fn(&Choice) -> u64) -> usize {
        let (mut best, mut lowest) = (first, u128::MAX);
        // Iterators, since indexing would check bounds for each engine of the set.
        for (engine, (queue, processing)) in self.engines.queues().zip(self.processing).enumerate() {
            if !among.contains(engine) {
                continue;
            }
            let rank = self.rank(key(&self.choice_of(engine, queue, *processing)), queue, *processing);
            if rank < lowest {
                (best, lowest) = (engine, rank);
            }
        }
        best
    }

    /// The engine with the lowest key, in the order of [`lowest`](Self::lowest), and by how much
    /// the second lowest key exceeds it, in ticks: 0 if there is no other engine.
    #[inline]
    pub(crate) fn two_lowest(
        &self,
        among: EngineMask,
        key: impl Fn(&Choice) -> u64,
    ) -> Option<(Choice, u64)> {
        let (mut best, mut lowest, mut second) = (among.first()?, u128::MAX, u128::MAX);
        for (engine, (queue, processing)) in self.engines.queues().zip(self.processing).enumerate() {
            if !among.contains(engine) {
                continue;
            }
            let rank = self.rank(key(&self.choice_of(engine, queue, *processing)), queue, *processing);
            second = second.min(lowest.max(rank));
            if rank < lowest {
                (best, lowest) = (engine, rank);
            }
        }
        let sufferage = if second == u128::MAX { 0 } else { (second >> 64) as u64 - (lowest >> 64) as u64 };
        Some((self.choice(best), sufferage))
    }

    /// One number for a key and what decides on a tie, so that no branch depends on which engine is
    /// faster, which is unpredictable. Times are those of an `i64`, which leaves a bit.
    #[inline]
    fn rank(&self, key: u64, queue: &QueueModel<R>, processing: u64) -> u128 {
        u128::from(key) << 64 | u128::from(queue.if_cpu & 1 << 63 | processing)
    }

    /// Capable engines that are available, with room or without.
    fn available(&self) -> EngineMask {
        self.engines.available.and(self.capable)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::engine::Pending;

    pub(crate) struct All {
        engines: Engines,
        pub(crate) capable: EngineMask,
        /// By blocks: each engine's time.
        processing: Vec<Vec<u64>>,
    }

    /// Engines by (is a CPU, `t_init`, depth); each block costs one tick.
    pub(crate) fn all(engines: &[(bool, f64, usize)]) -> All {
        let mut capable = EngineMask::default();
        for engine in 0..engines.len() {
            capable.set(engine, true);
        }
        let of = |blocks| engines.iter().map(|engine| engine.1 as u64 + blocks).collect();
        let processing = (0..64).map(of).collect();
        All { engines: Engines::new(engines.iter().map(|engine| (engine.0, engine.2))), capable, processing }
    }

    pub(crate) fn fill(all: &mut All, engine: usize, cost: u64) {
        let pending = Pending {
            ticket: 0,
            algorithm: 0,
            class: 0,
            cost,
            places: 1,
            dispatched: 0,
            predicted_finish: cost,
            record: None,
        };
        all.engines.enqueue(0, engine, pending);
    }

    pub(crate) fn search(all: &All, bytes: u64) -> Search<'_> {
        let All { engines, capable, processing } = all;
        let blocks = bytes.div_ceil(16);
        Search {
            engines,
            capable: *capable,
            processing: &processing[blocks as usize],
            blocks,
            now: 0,
            places: 1,
            full_queue: FullQueue::Wait,
            late_margin: None,
            credits: Credits { all: NO_BOUND, lower: NO_BOUND, class: 0 },
            overhead: 0,
        }
    }

    fn chosen(all: &All, bytes: u64) -> Option<usize> {
        search(all, bytes).choose().map(|choice| choice.engine)
    }

    #[test]
    fn a_full_queue_is_waited_for_or_skipped() {
        let mut all = all(&[(true, 100.0, 1), (false, 10.0, 0)]);
        fill(&mut all, 1, 20);
        let by = |full_queue, now, late_margin| {
            let search = Search { full_queue, now, late_margin, ..search(&all, 16) };
            search.choose().map(|choice| choice.engine)
        };
        // 1 finishes at 31 and 0 at 101: 1 is worth waiting for.
        assert_eq!(by(FullQueue::Wait, 0, None), None);
        assert_eq!(by(FullQueue::Skip, 0, None), Some(0));
        // It should have completed at 20.
        assert_eq!(by(FullQueue::Wait, 30, Some(10)), None);
        assert_eq!(by(FullQueue::Wait, 31, Some(10)), Some(0));
        assert_eq!(by(FullQueue::Wait, 31, None), None);
    }

    #[test]
    fn an_engine_without_credits_gets_no_more_until_it_has_less_to_do_than_the_slowest_would_need() {
        let mut all = all(&[(true, 100.0, 8), (false, 10.0, 8)]);
        let by = |all: &All, now| {
            let search =
                Search { credits: Credits { all: 2, lower: NO_BOUND, class: 0 }, now, ..search(all, 16) };
            search.choose().map(|choice| choice.engine)
        };
        fill(&mut all, 1, 20);
        assert_eq!(by(&all, 0), Some(1));
        // 1 now has two, and finishes at 31; the slowest would take 101.
        fill(&mut all, 1, 0);
        assert_eq!(by(&all, 0), Some(1));
        // It would finish at 96, 0 at 101 beside what waits there: 1 is chosen, and must wait.
        fill(&mut all, 0, 300);
        fill(&mut all, 1, 90);
        assert_eq!(by(&all, 0), None);
        assert_eq!(by(&all, 20), Some(1));
    }

    #[test]
    fn worker_overhead_delays_the_engines_of_that_core_alone() {
        let mut all = all(&[(true, 100.0, 1), (false, 120.0, 1), (true, 101.0, 1)]);
        let by = |all: &All, overhead, full_queue| {
            let search = Search { overhead, full_queue, ..search(all, 16) };
            search.choose().map(|choice| (choice.engine, choice.wait))
        };
        for full_queue in FullQueue::ALL {
            assert_eq!(by(&all, 19, full_queue), Some((0, 0)));
            // 121 each: a tie, which accelerators win.
            assert_eq!(by(&all, 20, full_queue), Some((1, 0)));
            assert_eq!(by(&all, u64::MAX, full_queue), Some((1, 0)));
        }
        fill(&mut all, 1, 50);
        for full_queue in FullQueue::ALL {
            assert_eq!(by(&all, 69, full_queue), Some((0, 0)));
            assert_eq!(by(&all, 71, full_queue), Some((1, 50)));
        }
    }

    #[test]
    fn who_waits_for_room_has_no_work_of_its_own_meanwhile() {
        let mut all = all(&[(true, 100.0, 1), (false, 10.0, 0)]);
        let by = |all: &All, overhead| {
            let search = Search { overhead, ..search(all, 16) };
            search.choose().map(|choice| choice.engine)
        };
        // 1 has no room and finishes at 121, 0 at 101.
        fill(&mut all, 1, 110);
        assert_eq!(by(&all, 1_000), Some(0));
        // Now 1 finishes at 81, and is worth waiting for without the overhead, too.
        drop(all.engines.clear(1));
        fill(&mut all, 1, 70);
        assert_eq!(by(&all, 1_000), None);
    }

    #[test]
    fn where_all_engines_are_late_anyone_who_has_room_takes_the_packets() {
        let mut all = all(&[(true, 100.0, 1), (false, 10.0, 0)]);
        fill(&mut all, 0, 20);
        fill(&mut all, 1, 20);
        let late = Search { now: 500, late_margin: Some(10), ..search(&all, 16) };
        assert_eq!(late.choose().map(|choice| choice.engine), Some(0));
    }

    #[test]
    fn on_a_tie_the_fastest_accelerator_goes_before_the_cpu() {
        let mut all = all(&[(true, 10.0, 4), (false, 20.0, 4), (false, 10.0, 4)]);
        assert_eq!(chosen(&all, 160), Some(2));
        // Now 2 finishes at 40, 0 at 20.
        fill(&mut all, 2, 20);
        assert_eq!(chosen(&all, 160), Some(0));
        fill(&mut all, 0, 10);
        // 0: 10 + 20, 1: 0 + 30: a tie, and 1 is an accelerator.
        assert_eq!(chosen(&all, 160), Some(1));
    }

    #[test]
    fn no_engine_is_chosen_without_room_or_known_algorithm() {
        let mut full = all(&[(true, 1.0, 0)]);
        fill(&mut full, 0, 1);
        let mut unknown = all(&[(true, 1.0, 0)]);
        unknown.capable = EngineMask::default();
        assert_eq!((chosen(&full, 16), chosen(&unknown, 16)), (None, None));
    }
}
