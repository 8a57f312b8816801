//! The policy `sufferage`: see [the crate's page](crate#the-policy-sufferage).

use crate::choice::Choice;
use crate::config::Input;
use crate::cost::CostModel;
use crate::engine_mask::{ENGINES, EngineMask};
use crate::room::FullQueue;
use crate::scheduler::Scheduler;
use crate::window::Group;

/// So many times the packets of the window may pass a multi-packet, if the configuration says
/// nothing. In the simulator twice carried as much as no limit, and once up to 3 % less.
const AGEING_WINDOWS: usize = 2;

/// The engines as all multi-packets of one algorithm meet them: without it a decision over a window
/// of 32 packets took 1.6 times as many instructions.
struct Prospects {
    algorithm: u16,
    in_time: EngineMask,
    cpus: EngineMask,
    /// `w` of each engine, in ticks.
    waits: [u64; ENGINES],
}

impl Prospects {
    /// By how much the second lowest finishing time of a multi-packet exceeds its lowest, in ticks;
    /// 0 if only one engine can process it.
    #[inline]
    fn sufferage(&self, models: &[CostModel], blocks: u64, overhead: u64) -> u64 {
        let (mut lowest, mut second) = (u64::MAX, u64::MAX);
        for engine in self.in_time {
            let overhead = if self.cpus.contains(engine) { overhead } else { 0 };
            let wait = self.waits[engine];
            let finish = wait.saturating_add(models[engine].cost(blocks)).saturating_add(overhead);
            second = second.min(lowest.max(finish));
            lowest = lowest.min(finish);
        }
        if self.in_time.is_one() { 0 } else { second - lowest }
    }
}

impl<T, R> Scheduler<T, R> {
    /// Whether as many have passed the first multi-packet of a class as may.
    #[inline]
    pub(crate) fn is_passed_enough(&self, first: &Group) -> bool {
        self.window.passed(first) >= self.ageing.unwrap_or(AGEING_WINDOWS * self.size) as u64
    }

    /// Once the window is full, the multi-packet that would suffer most by its second best engine,
    /// with its best one; `None` while it waits for room there. The first one goes next while the
    /// window has room, or if enough have passed it.
    #[inline(never)]
    pub(crate) fn most_suffering(&mut self, now: u64, input: Input, first: Group) -> Option<(Group, Choice)> {
        if !self.is_closed(input) || self.is_passed_enough(&first) {
            return self.choose(now, input, &first).map(|choice| (first, choice));
        }
        let chosen = self.most_suffering_with(now, input, first, true);
        if chosen.is_some() || self.worker_overhead == 0 {
            return chosen;
        }
        // While the caller waits for room its core has no overhead.
        self.most_suffering_with(now, input, first, false)
    }

    fn most_suffering_with(
        &mut self,
        now: u64,
        input: Input,
        first: Group,
        with_overhead: bool,
    ) -> Option<(Group, Choice)> {
        let prospects = self.prospects(now, input, &first);
        let mut most: Option<(u64, Group)> = None;
        let mut next = Some(first);
        while let Some(group) = next {
            let sufferage = match &prospects {
                Some(prospects) if prospects.algorithm == group.algorithm => {
                    let overhead = if with_overhead { self.overhead(input, &group) } else { 0 };
                    Some(prospects.sufferage(self.costs.models(group.algorithm), group.blocks, overhead))
                }
                _ => self.two_best(now, input, &group, with_overhead).map(|(_, sufferage)| sufferage),
            };
            // On a tie the one nearer to the head goes first.
            if let Some(sufferage) = sufferage
                && most.is_none_or(|(most, _)| sufferage > most)
            {
                most = Some((sufferage, group));
            }
            next = self.window.group_behind(&group);
        }
        let (_, group) = most?;
        let (choice, _) = self.two_best(now, input, &group, with_overhead)?;
        self.search(now, input, &group).has_room(choice.engine).then_some((group, choice))
    }

    /// What all multi-packets of the algorithm of the first one have in common; `None` where more
    /// than their size decides which engines are considered.
    fn prospects(&self, now: u64, input: Input, first: &Group) -> Option<Prospects> {
        let in_time = self.search(now, input, first).in_time();
        if self.full_queue != FullQueue::Wait || self.costs.has_handovers() || in_time.is_empty() {
            return None;
        }
        let mut waits = [0; ENGINES];
        for engine in in_time {
            waits[engine] = self.engines.queue(engine).wait(now);
        }
        Some(Prospects { algorithm: first.algorithm, in_time, cpus: self.engines.cpus, waits })
    }

    /// The best engine for a multi-packet, and by how much the second best is worse, in ticks.
    #[inline]
    fn two_best(
        &mut self,
        now: u64,
        input: Input,
        group: &Group,
        with_overhead: bool,
    ) -> Option<(Choice, u64)> {
        self.costs.price(group.algorithm, group.blocks);
        if self.costs.has_handovers() {
            let mut search = self.handover_search(now, input, group);
            search.search.overhead *= u64::from(with_overhead);
            return search.two_lowest();
        }
        let mut search = self.search(now, input, group);
        search.overhead *= u64::from(with_overhead);
        search.two_lowest(search.considered(), |choice| choice.finish)
    }
}
