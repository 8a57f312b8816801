//! Predicted times of a burst: as a train, as multi-packets, and for the handover.

use super::TrainPart;
use crate::cost::CostModel;
use crate::scheduler::Scheduler;

impl<T, R> Scheduler<T, R> {
    /// The time of the caller's core for a burst on an engine that gets it through the window, a
    /// multi-packet an SA.
    pub(super) fn bundled_cost(&self, engine: usize, parts: &[TrainPart], packets: usize) -> u64 {
        let of_part = |part: &TrainPart| {
            let CostModel { t_init, t_block } = self.costs.models(part.algorithm)[engine];
            CostModel { t_init: t_init * f64::from(part.sas), t_block }.cost(part.blocks.into())
        };
        let of_parts: u64 = parts.iter().map(of_part).sum();
        of_parts.saturating_add(self.costs.window_cost(packets))
    }

    /// The core's cost of handing a train to an engine elsewhere. Packets of all algorithms are
    /// handed over alike, so that the first part represents all.
    pub(super) fn handover(&self, engine: usize, parts: &[TrainPart], packets: usize) -> u64 {
        let handovers = parts.first().map_or(&[][..], |part| self.costs.handovers(part.algorithm));
        let blocks = parts.iter().map(|part| u64::from(part.blocks)).sum();
        handovers.get(engine).map_or(0, |handover| handover.cost(packets as u64, blocks))
    }

    /// A train's own time. It is started once, however many parts it has.
    pub(super) fn train_cost(&self, engine: usize, parts: &[TrainPart]) -> u64 {
        let Some((first, rest)) = parts.split_first() else { return 0 };
        let model = |part: &TrainPart| self.costs.models(part.algorithm)[engine];
        let mut cost = self.part_cost(engine, model(first), first);
        for part in rest {
            let begun = model(part).cost(0);
            cost += self.part_cost(engine, model(part), part).saturating_sub(begun);
        }
        cost
    }

    /// The time for a part as a train of its own.
    #[inline]
    pub(super) fn part_cost(&self, engine: usize, model: CostModel, part: &TrainPart) -> u64 {
        let TrainPart { algorithm, blocks, packets, longest, changes, .. } = *part;
        let model = self.costs.train(engine, algorithm, packets, longest).unwrap_or(model);
        let changes = self.costs.t_key(engine, algorithm) * f64::from(changes);
        CostModel { t_init: model.t_init + changes, ..model }.cost(blocks.into())
    }
}
