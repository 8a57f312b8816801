//! Quantiles of times in constant memory: counts over 64 steps for each power of two, so that a quantile is within
//! 1.6 % of the true one, and nearer since it is interpolated.

/// Steps for each power of two, as a power of two.
const STEP_BITS: u32 = 6;
const STEPS: usize = 1 << STEP_BITS;

pub(crate) struct Quantiles {
    counts: Vec<u64>,
}

impl Quantiles {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; (64 - STEP_BITS as usize + 1) * STEPS] }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64, times: u64) {
        self.counts[Self::step(value)] += times;
    }

    /// Below 64 each value has its own step; above, the leading bit picks the row and the next six bits the step.
    #[inline]
    fn step(value: u64) -> usize {
        let row = (63 - (value | (STEPS as u64 - 1)).leading_zeros()).saturating_sub(STEP_BITS - 1);
        let shift = row.saturating_sub(1);
        ((row as usize) << STEP_BITS) + ((value >> shift) as usize & (STEPS - 1))
    }

    /// The smallest value of a step, and the first beyond it.
    fn bounds(step: usize) -> (f64, f64) {
        let (row, within) = (step >> STEP_BITS, (step & (STEPS - 1)) as f64);
        if row == 0 {
            return (within, within + 1.0);
        }
        let width = 2f64.powi(row as i32 - 1);
        let least = width * (STEPS as f64 + within);
        (least, least + width)
    }

    /// The value below which `share` of all values lie; 0 without any.
    pub(crate) fn at(&self, share: f64) -> f64 {
        let all: u64 = self.counts.iter().sum();
        let mut left = share * all as f64;
        for (step, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if left <= count {
                let (least, beyond) = Self::bounds(step);
                return least + (beyond - least) * left / count;
            }
            left -= count;
        }
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_within_its_step() {
        for value in (0..1000).chain([1 << 20, (1 << 40) - 1, 123_456_789_012, u64::MAX]) {
            let (least, beyond) = Quantiles::bounds(Quantiles::step(value));
            assert!(least <= value as f64 && value as f64 <= beyond, "{value}: {least} to {beyond}");
            assert!(value < 64 || beyond - least <= value as f64 / 64.0);
        }
    }

    #[test]
    fn quantiles_of_even_numbers_are_where_they_belong() {
        let mut quantiles = Quantiles::new();
        (0..100_000).for_each(|value| quantiles.add(value * 10, 2));
        for share in [0.01, 0.5, 0.99, 0.999] {
            assert!((quantiles.at(share) / (share * 1e6) - 1.0).abs() < 0.001);
        }
        assert_eq!(Quantiles::new().at(0.5), 0.0);
    }
}
