//! One-way delay.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Significant digits of the histogram: a resolution of 0.1 %.
const DIGITS: u8 = 3;
/// Longest delay that is recorded, in ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Quantiles of the one-way delay, in µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Number of packets.
    pub packets: u64,
    /// Minimum.
    pub least_us: f64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Maximum.
    pub most_us: f64,
    /// Mean.
    pub mean_us: f64,
}

/// Histogram of one stream.
pub(crate) struct Times(Histogram<u64>);

impl Times {
    pub(crate) fn new() -> Self {
        Self(Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("bounds and digits are in range"))
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("both have the same bounds");
    }

    pub(crate) fn latency(&self) -> Latency {
        let us = |ns: u64| ns as f64 / 1000.0;
        let quantile = |part| us(self.0.value_at_quantile(part));
        if self.0.is_empty() {
            return Latency::default();
        }
        Latency {
            packets: self.0.len(),
            least_us: us(self.0.min()),
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            most_us: us(self.0.max()),
            mean_us: self.0.mean() / 1000.0,
        }
    }
}
