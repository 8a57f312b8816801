//! What an engine needs for a multi-packet (MODEL: rule 2).

/// An engine's time for one algorithm: `t_init + t_block * n`, in ticks, with `n` in blocks of 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostModel {
    /// Paid once per multi-packet.
    pub t_init: f64,
    /// Paid for each block.
    pub t_block: f64,
}

impl CostModel {
    /// The time for `blocks`, in whole ticks.
    pub fn cost(&self, blocks: u64) -> u64 {
        // Never negative: a fit through noisy measurements may be.
        (self.t_init + self.t_block * blocks as f64).round().max(0.0) as u64
    }
}

/// An engine as the scheduler sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineModel {
    /// For reports.
    pub name: String,
    /// Whether it is processor 0 of the model: the CPU on which the scheduler itself runs.
    pub is_cpu: bool,
    /// Multi-packets that may wait, the one in service not counted.
    pub depth: usize,
    /// The cost of each algorithm, by its number; `None`, or none at all, is an algorithm that it cannot do.
    pub costs: Vec<Option<CostModel>>,
}

/// A cost model that follows what is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    model: CostModel,
    /// Measured over predicted, averaged.
    ratio: f64,
}

/// Weight of the newest measurement in the average.
const GAIN: f64 = 1.0 / 16.0;
/// How far from the calibrated model the correction may go: further is not noise but another machine.
const RATIO_RANGE: std::ops::RangeInclusive<f64> = 0.125..=64.0;

impl Cost {
    pub(crate) fn new(model: CostModel) -> Self {
        Self { model, ratio: 1.0 }
    }

    pub(crate) fn of(&self, blocks: u64) -> u64 {
        // Exact while nothing was corrected, which is what the simulator relies on.
        if self.ratio == 1.0 {
            return self.model.cost(blocks);
        }
        ((self.model.t_init + self.model.t_block * blocks as f64) * self.ratio).round().max(0.0) as u64
    }

    pub(crate) fn t_init(&self) -> f64 {
        self.model.t_init * self.ratio
    }

    pub(crate) fn ratio(&self) -> f64 {
        self.ratio
    }

    /// Learns that `predicted` ticks were in fact `measured`.
    pub(crate) fn correct(&mut self, predicted: u64, measured: u64) {
        if predicted == 0 {
            return;
        }
        let now = self.ratio * measured as f64 / predicted as f64;
        let average = self.ratio + GAIN * (now - self.ratio);
        self.ratio = average.clamp(*RATIO_RANGE.start(), *RATIO_RANGE.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_is_a_line_over_blocks() {
        let model = CostModel { t_init: 2000.0, t_block: 556.521_739 };
        assert_eq!(model.cost(0), 2000);
        assert_eq!(model.cost(7), 5896);
        assert_eq!(CostModel { t_init: -5.0, t_block: 1.0 }.cost(1), 0);
    }

    #[test]
    fn the_correction_converges_to_what_is_measured() {
        let mut cost = Cost::new(CostModel { t_init: 100.0, t_block: 10.0 });
        for _ in 0..200 {
            let predicted = cost.of(10);
            cost.correct(predicted, 400);
        }
        assert!((399..=401).contains(&cost.of(10)));
    }
}
