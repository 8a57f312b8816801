//! Quantiles of times in constant memory.

use hdrhistogram::Histogram;

/// Significant digits of a quantile: it is within 1 % of the true one.
const DIGITS: u8 = 2;

pub(crate) struct Quantiles(Histogram<u64>);

impl Quantiles {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_max(u64::MAX, DIGITS).expect("the widest range and few digits are possible"))
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64, times: u64) {
        // Every value is in range, so that none is cut.
        self.0.saturating_record_n(value, times);
    }

    /// The value below which `share` of all values lie; 0 without any.
    pub(crate) fn at(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_any_size_is_told_within_one_percent() {
        for value in (0..1000).chain([1 << 20, (1 << 40) - 1, 123_456_789_012, u64::MAX]) {
            let mut quantiles = Quantiles::new();
            quantiles.add(value, 3);
            let told = quantiles.at(0.5);
            assert!((told - value as f64).abs() <= value as f64 / 100.0, "{value}: {told}");
        }
    }

    #[test]
    fn quantiles_of_even_numbers_are_where_they_belong() {
        let mut quantiles = Quantiles::new();
        (0..100_000).for_each(|value| quantiles.add(value * 10, 2));
        for share in [0.01, 0.5, 0.99, 0.999] {
            assert!((quantiles.at(share) / (share * 1e6) - 1.0).abs() < 0.01);
        }
        assert_eq!(Quantiles::new().at(0.5), 0.0);
    }
}
