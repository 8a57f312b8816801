//! Counts by powers of two.

/// Buckets of a [`Histogram`]: powers of two up to 2^39, and one for everything above.
const BUCKETS: usize = 41;

/// Counts by powers of two: bucket `k` holds values up to `2^k`, the last all larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Histogram {
    buckets: [u64; BUCKETS],
    sum: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { buckets: [0; BUCKETS], sum: 0 }
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.add_many(value, 1);
    }

    /// Counts a value several times.
    #[inline]
    pub(crate) fn add_many(&mut self, value: u64, times: u64) {
        let bucket = 64 - value.saturating_sub(1).leading_zeros() as usize;
        self.buckets[bucket.min(BUCKETS - 1)] += times;
        self.sum = self.sum.saturating_add(value.saturating_mul(times));
    }

    /// Upper bound and count of each bucket up to the last non-empty one; the final bucket has no
    /// bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let used = self.buckets.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let bound = |k: usize| (k < BUCKETS - 1).then(|| 1 << k);
        self.buckets[..used].iter().enumerate().map(move |(k, count)| (bound(k), *count))
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Their sum, saturating at [`u64::MAX`].
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// Their mean; 0 without any.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            count => self.sum as f64 / count as f64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 5, 1 << 50] {
            histogram.add(value);
        }
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets[..4], [(Some(1), 2), (Some(2), 1), (Some(4), 2), (Some(8), 1)]);
        assert_eq!(buckets.last(), Some(&(None, 1)));
        assert_eq!(histogram.count(), 7);
        histogram.add_many(4, 3);
        assert_eq!((histogram.count(), histogram.sum()), (10, 15 + (1 << 50) + 12));
        histogram.add_many(u64::MAX / 2, 3);
        assert_eq!(histogram.sum(), u64::MAX);
    }
}
