//! Times from sender to receiver.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Values are kept to this many digits: within 0.1 %.
const DIGITS: u8 = 3;
/// The longest time that is told apart, in ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Quantiles of times, in us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Packets.
    pub packets: u64,
    /// The shortest.
    pub least_us: f64,
    /// The median.
    pub p50_us: f64,
    /// 90 of 100 took no longer.
    pub p90_us: f64,
    /// 99 of 100.
    pub p99_us: f64,
    /// 999 of 1000.
    pub p999_us: f64,
    /// The longest.
    pub most_us: f64,
    /// The mean.
    pub mean_us: f64,
}

/// The times of one stream.
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
