//! Who gets a multi-packet (MODEL: rule 3).

use crate::cost::CostModel;
use crate::engine::EngineQueue;
use crate::policy::Policy;

/// A choice: the engine and the two parts of its finishing time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) engine: usize,
    /// `w`, in ticks.
    pub(crate) wait: u64,
    /// `p`, in ticks.
    pub(crate) processing: u64,
}

impl Choice {
    #[inline]
    fn finish(&self) -> u64 {
        self.wait.saturating_add(self.processing)
    }
}

/// A multi-packet that looks for an engine.
pub(crate) struct Search<'a> {
    /// All engines, with `costs` beside them: what its algorithm costs on each.
    pub(crate) engines: &'a [EngineQueue],
    pub(crate) costs: &'a [Option<CostModel>],
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
    pub(crate) now: u64,
}

impl Search<'_> {
    /// Chooses by the policy; `last` is the engine of the last choice. `None` if no engine has room.
    #[inline]
    pub(crate) fn choose(&self, policy: Policy, last: usize) -> Option<Choice> {
        match policy {
            Policy::FinishingTime => self.lowest(|_| true, Choice::finish),
            Policy::CpuOnly => self.of_kind(true),
            Policy::RoundRobin => self.next_after(last),
            Policy::PacketSize(threshold) => self.of_kind(self.bytes < u64::from(threshold)),
            Policy::FirstCapable => self.first(),
            Policy::LeastLoaded => self.lowest(|_| true, |choice| choice.wait),
        }
    }

    /// The engine with the lowest key. On a tie accelerators go before the CPU, then the faster before the slower,
    /// then the order of the configuration decides.
    #[inline]
    fn lowest(
        &self,
        is_wanted: impl Fn(&EngineQueue) -> bool,
        key: impl Fn(&Choice) -> u64,
    ) -> Option<Choice> {
        let mut best: Option<(u64, bool, Choice)> = None;
        for (engine, (queue, cost)) in self.engines.iter().zip(self.costs).enumerate() {
            let Some(cost) = cost else { continue };
            if !queue.is_available || !queue.has_room() || !is_wanted(queue) {
                continue;
            }
            let choice = Choice { engine, wait: queue.wait(self.now), processing: cost.cost(self.blocks) };
            let key = key(&choice);
            let is_better = best.is_none_or(|(lowest, is_cpu, best)| {
                key < lowest || key == lowest && (queue.is_cpu, choice.processing) < (is_cpu, best.processing)
            });
            if is_better {
                best = Some((key, queue.is_cpu, choice));
            }
        }
        best.map(|(_, _, choice)| choice)
    }

    fn can(&self, engine: usize) -> bool {
        self.engines[engine].is_available && self.costs.get(engine).is_some_and(Option::is_some)
    }

    /// Engines that are available and can do the algorithm, with room or without.
    fn capable(&self) -> impl Iterator<Item = usize> {
        (0..self.engines.len()).filter(|engine| self.can(*engine))
    }

    fn choice(&self, engine: usize) -> Option<Choice> {
        let processing = self.costs.get(engine)?.as_ref()?.cost(self.blocks);
        Some(Choice { engine, wait: self.engines[engine].wait(self.now), processing })
    }

    /// The lowest finishing time among the CPUs or among the accelerators; among all where there is none of the kind.
    fn of_kind(&self, is_cpu: bool) -> Option<Choice> {
        let has_kind = self.capable().any(|engine| self.engines[engine].is_cpu == is_cpu);
        self.lowest(|queue| queue.is_cpu == is_cpu || !has_kind, Choice::finish)
    }

    fn next_after(&self, last: usize) -> Option<Choice> {
        let count = self.engines.len();
        let around = (1..=count).map(|step| (last + step) % count);
        let next = around.into_iter().find(|engine| self.can(*engine) && self.engines[*engine].has_room());
        self.choice(next?)
    }

    fn first(&self) -> Option<Choice> {
        let first = self.capable().min_by_key(|engine| (self.engines[*engine].is_cpu, *engine))?;
        if self.engines[first].has_room() { self.choice(first) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Pending;

    /// An engine and its `t_init`; each block costs one tick.
    fn engine(is_cpu: bool, t_init: f64, depth: usize) -> (EngineQueue, Option<CostModel>) {
        (EngineQueue::new(is_cpu, depth), Some(CostModel { t_init, t_block: 1.0 }))
    }

    fn fill(queue: &mut EngineQueue, cost: u64) {
        let pending = Pending { ticket: 0, algorithm: 0, cost, dispatched: 0, predicted_finish: cost };
        queue.enqueue(0, pending);
    }

    fn chosen(
        policy: Policy,
        (engines, costs): &(Vec<EngineQueue>, Vec<Option<CostModel>>),
        bytes: u64,
        last: usize,
    ) -> Option<usize> {
        let search = Search { engines, costs, blocks: bytes.div_ceil(16), bytes, now: 0 };
        search.choose(policy, last).map(|choice| choice.engine)
    }

    #[test]
    fn on_a_tie_the_fastest_accelerator_goes_before_the_cpu() {
        let mut all: (Vec<_>, Vec<_>) =
            [engine(true, 10.0, 4), engine(false, 20.0, 4), engine(false, 10.0, 4)].into_iter().unzip();
        assert_eq!(chosen(Policy::FinishingTime, &all, 160, 0), Some(2));
        // Now 2 finishes at 40, 0 at 20.
        fill(&mut all.0[2], 20);
        assert_eq!(chosen(Policy::FinishingTime, &all, 160, 0), Some(0));
        fill(&mut all.0[0], 10);
        // 0: 10 + 20, 1: 0 + 30: a tie, and 1 is an accelerator.
        assert_eq!(chosen(Policy::FinishingTime, &all, 160, 0), Some(1));
    }

    #[test]
    fn each_baseline_has_its_own_mind() {
        let mut all: (Vec<_>, Vec<_>) =
            [engine(true, 1.0, 0), engine(false, 500.0, 0), engine(false, 2.0, 0)].into_iter().unzip();
        assert_eq!(chosen(Policy::CpuOnly, &all, 16, 0), Some(0));
        assert_eq!(chosen(Policy::RoundRobin, &all, 16, 0), Some(1));
        assert_eq!(chosen(Policy::RoundRobin, &all, 16, 2), Some(0));
        assert_eq!(chosen(Policy::PacketSize(128), &all, 64, 0), Some(0));
        assert_eq!(chosen(Policy::PacketSize(128), &all, 200, 0), Some(2));
        assert_eq!(chosen(Policy::FirstCapable, &all, 16, 0), Some(1));
        assert_eq!(chosen(Policy::LeastLoaded, &all, 16, 0), Some(2));
        fill(&mut all.0[1], 1);
        // First-capable waits for its accelerator, which has no room; round-robin does not.
        assert_eq!(chosen(Policy::FirstCapable, &all, 16, 0), None);
        assert_eq!(chosen(Policy::RoundRobin, &all, 16, 0), Some(2));
        all.0[1].is_available = false;
        assert_eq!(chosen(Policy::FirstCapable, &all, 16, 0), Some(2));
    }

    #[test]
    fn least_loaded_looks_at_the_wait_alone() {
        let mut all: (Vec<_>, Vec<_>) = [engine(false, 1.0, 4), engine(false, 500.0, 4)].into_iter().unzip();
        fill(&mut all.0[0], 3);
        assert_eq!(chosen(Policy::LeastLoaded, &all, 16, 0), Some(1));
        assert_eq!(chosen(Policy::FinishingTime, &all, 16, 0), Some(0));
    }

    #[test]
    fn where_one_kind_is_missing_the_other_takes_its_packets() {
        let mut all: (Vec<_>, Vec<_>) = [engine(true, 1.0, 4), engine(false, 2.0, 4)].into_iter().unzip();
        all.0[0].is_available = false;
        assert_eq!(chosen(Policy::CpuOnly, &all, 16, 0), Some(1));
        assert_eq!(chosen(Policy::PacketSize(128), &all, 16, 0), Some(1));
        all.0[0].is_available = true;
        // The accelerator is there but cannot do the algorithm.
        all.1[1] = None;
        for policy in Policy::ALL {
            assert_eq!(chosen(policy, &all, 1000, 0), Some(0), "{policy}");
        }
    }

    #[test]
    fn with_no_room_or_no_known_algorithm_nobody_is_chosen() {
        let mut all: (Vec<_>, Vec<_>) = [engine(true, 1.0, 0)].into_iter().unzip();
        fill(&mut all.0[0], 1);
        let unknown = ([engine(true, 1.0, 0).0].into_iter().collect(), Vec::new());
        for policy in Policy::ALL {
            assert_eq!(chosen(policy, &all, 16, 0), None, "{policy}");
            assert_eq!(chosen(policy, &unknown, 16, 0), None, "{policy}");
        }
    }
}
