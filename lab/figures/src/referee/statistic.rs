//! A measure over several seeds.

/// The values, in the order of the seeds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Statistic(Vec<f64>);

/// Student's t for a two-sided interval of 95 %, by the number of values less one.
const STUDENT: [f64; 10] = [0.0, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262];

impl Statistic {
    pub(super) fn add(&mut self, value: f64) {
        self.0.push(value);
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The mean; 0 without values.
    pub(super) fn mean(&self) -> f64 {
        self.0.iter().sum::<f64>() / self.0.len().max(1) as f64
    }

    /// The lowest and the highest value.
    pub(super) fn range(&self) -> (f64, f64) {
        let lowest = self.0.iter().copied().fold(f64::INFINITY, f64::min);
        (lowest, self.0.iter().copied().fold(f64::NEG_INFINITY, f64::max))
    }

    /// Half of the interval that has the mean with a probability of 95 %; 0 with fewer than two
    /// values.
    pub(super) fn half_interval(&self) -> f64 {
        let count = self.0.len();
        if count < 2 {
            return 0.0;
        }
        let mean = self.mean();
        let squares: f64 = self.0.iter().map(|value| (value - mean).powi(2)).sum();
        let t = STUDENT.get(count - 1).copied().unwrap_or(1.96);
        t * (squares / (count - 1) as f64 / count as f64).sqrt()
    }

    /// In percent of the values of another measure, seed by seed.
    pub(super) fn over(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one / other * 100.0).collect())
    }

    /// What is left after another measure is subtracted, seed by seed.
    pub(super) fn less(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(one, other)| one - other).collect())
    }

    /// With the opposite sign.
    pub(super) fn negative(&self) -> Self {
        Self(self.0.iter().map(|value| -value).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_that_of_student() {
        let mut of = Statistic::default();
        [1.0, 2.0, 3.0].into_iter().for_each(|value| of.add(value));
        assert_eq!((of.mean(), of.range()), (2.0, (1.0, 3.0)));
        assert!((of.half_interval() - 4.303 / 3f64.sqrt()).abs() < 1e-9);
        assert_eq!(of.over(&of).half_interval(), 0.0);
        assert_eq!(of.less(&of), Statistic(vec![0.0; 3]));
        assert_eq!(of.negative().mean(), -2.0);
    }
}
