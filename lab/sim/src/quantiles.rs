//! Quantiles of times in constant memory.

use hdrhistogram::Histogram;

/// Significant digits of a quantile, which gives an error of at most 1 %.
const DIGITS: u8 = 2;

/// Number of leading bits of a value that are kept: as many as these digits need, so that the
/// histogram has no finer buckets than the counts.
const KEPT_BITS: u32 = 8;
const HALF: usize = 1 << (KEPT_BITS - 1);
const BUCKETS: usize = (64 - KEPT_BITS as usize + 2) * HALF;

/// Counts by the leading bits of values. The histogram is built from them at the end, because
/// adding each packet to the histogram takes seven times as many instructions.
pub(crate) struct Quantiles(Vec<u64>);

impl Quantiles {
    pub(crate) fn new() -> Self {
        Self(vec![0; BUCKETS])
    }

    #[inline]
    pub(crate) fn add(&mut self, value: u64, times: u64) {
        self.0[bucket(value)] += times;
    }

    /// The values below which these shares of all values lie; 0 if there are no values.
    pub(crate) fn at<const N: usize>(&self, shares: [f64; N]) -> [f64; N] {
        let new = Histogram::<u64>::new_with_max(u64::MAX, DIGITS);
        let mut histogram = new.expect("the widest range and few digits are possible");
        for (bucket, times) in self.0.iter().enumerate().filter(|(_, times)| **times > 0) {
            // The histogram covers all values, so that none is cut off.
            histogram.saturating_record_n(least_of(bucket), *times);
        }
        shares.map(|share| histogram.value_at_quantile(share) as f64)
    }
}

#[inline]
fn bucket(value: u64) -> usize {
    let dropped_bits = u64::BITS - KEPT_BITS - (value | ((1 << KEPT_BITS) - 1)).leading_zeros();
    dropped_bits as usize * HALF + (value >> dropped_bits) as usize
}

/// The smallest value that is counted in a bucket.
fn least_of(bucket: usize) -> u64 {
    let dropped_bits = (bucket / HALF).saturating_sub(1);
    ((bucket - dropped_bits * HALF) as u64) << dropped_bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_any_size_is_reported_within_one_percent() {
        for value in (0..1000).chain([1 << 20, (1 << 40) - 1, 123_456_789_012, u64::MAX]) {
            let mut quantiles = Quantiles::new();
            quantiles.add(value, 3);
            let [reported] = quantiles.at([0.5]);
            assert!((reported - value as f64).abs() <= value as f64 / 100.0, "{value}: {reported}");
        }
    }

    #[test]
    fn quantiles_of_even_numbers_are_where_they_belong() {
        let mut quantiles = Quantiles::new();
        (0..100_000).for_each(|value| quantiles.add(value * 10, 2));
        for share in [0.01, 0.5, 0.99, 0.999] {
            assert!((quantiles.at([share])[0] / (share * 1e6) - 1.0).abs() < 0.01);
        }
        assert_eq!(Quantiles::new().at([0.5]), [0.0]);
    }

    #[test]
    fn values_are_counted_as_the_histogram_itself_would() {
        let shares = [0.0, 0.1, 0.5, 0.9, 0.99, 1.0];
        let edges = (0..64)
            .flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1, 3 << bit >> 1, 255 << bit >> 7]);
        let values: Vec<u64> = edges.chain((0..5_000).map(|value| value * 977)).chain([u64::MAX]).collect();
        for upto in 1..values.len() {
            if upto > 400 && upto % 500 > 0 {
                continue;
            }
            let mut quantiles = Quantiles::new();
            let mut plain = Histogram::<u64>::new_with_max(u64::MAX, DIGITS).expect("possible");
            for value in &values[..upto] {
                quantiles.add(*value, 2);
                plain.saturating_record_n(*value, 2);
            }
            assert_eq!(quantiles.at(shares), shares.map(|share| plain.value_at_quantile(share) as f64));
        }
    }
}
