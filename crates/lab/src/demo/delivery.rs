//! What was sent one way, how it arrived, and when.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Packets of one way that may be under way: more than the frames of two gateways.
const STAMPS: usize = 1 << 16;
/// The longest latency that is told from longer ones, in ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// What was sent one way and how it arrived. Shared between the two ports of a direction.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Whether packets are sent.
    pub(super) sending: AtomicBool,
    /// Whether latencies are recorded.
    pub(super) recording: AtomicBool,
    /// Packets sent.
    pub(super) sent: AtomicU64,
    /// Their bytes, IP header included.
    pub(super) sent_bytes: AtomicU64,
    /// Packets that came at a rate and found the port's ring full; they were not sent.
    pub(super) refused: AtomicU64,
    /// Packets that arrived byte for byte, in the order of their SA.
    pub(super) good: AtomicU64,
    /// Packets that arrived byte for byte, but after a later one of their SA.
    pub(super) out_of_order: AtomicU64,
    /// Packets that arrived and were never sent.
    pub(super) wrong: AtomicU64,
    epoch: Instant,
    /// When each packet came to the port that it was sent from, in ns, by its number.
    stamps: Box<[AtomicU64]>,
    latency: Mutex<Histogram<u64>>,
}

impl Delivery {
    pub(super) fn new() -> Self {
        let histogram = Histogram::new_with_max(LONGEST_NS, 3).expect("3 digits of a minute are possible");
        Self {
            sending: AtomicBool::default(),
            recording: AtomicBool::default(),
            sent: AtomicU64::default(),
            sent_bytes: AtomicU64::default(),
            refused: AtomicU64::default(),
            good: AtomicU64::default(),
            out_of_order: AtomicU64::default(),
            wrong: AtomicU64::default(),
            epoch: Instant::now(),
            stamps: (0..STAMPS).map(|_| AtomicU64::default()).collect(),
            latency: Mutex::new(histogram),
        }
    }

    /// Now, in ns, as stamps count.
    pub(super) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Notes when packet `number` came.
    pub(super) fn stamp(&self, number: u64, came_ns: u64) {
        self.stamps[number as usize % STAMPS].store(came_ns, Ordering::Relaxed);
    }

    /// Notes that these packets left the other end just now.
    pub(super) fn record(&self, numbers: &[u64]) {
        if numbers.is_empty() || !self.recording.load(Ordering::Relaxed) {
            return;
        }
        let now_ns = self.now_ns();
        let mut latency = self.latency.lock().unwrap_or_else(PoisonError::into_inner);
        for number in numbers {
            let came_ns = self.stamps[*number as usize % STAMPS].load(Ordering::Relaxed);
            latency.saturating_record(now_ns.saturating_sub(came_ns));
        }
    }

    /// Packets that arrived, good or not.
    pub(super) fn arrived(&self) -> u64 {
        self.good.load(Ordering::Relaxed)
            + self.out_of_order.load(Ordering::Relaxed)
            + self.wrong.load(Ordering::Relaxed)
    }

    /// Whether each packet that was sent came out once, byte for byte and in order.
    pub(super) fn is_perfect(&self) -> bool {
        self.good.load(Ordering::Relaxed) == self.sent.load(Ordering::Relaxed)
            && self.arrived() == self.good.load(Ordering::Relaxed)
    }
}

/// How long packets took from the port inside that they came to, until they left by the one inside
/// at the other end. A packet that came at a rate counts from when it came, not from when it was
/// read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// Half of the packets took no longer, in us.
    pub p50_us: f64,
    /// 99 % took no longer, in us.
    pub p99_us: f64,
    /// 99.9 % took no longer, in us.
    pub p999_us: f64,
}

impl Latency {
    /// Of both ways together.
    pub(super) fn of(deliveries: &[impl AsRef<Delivery>]) -> Self {
        let mut all =
            Histogram::<u64>::new_with_max(LONGEST_NS, 3).expect("3 digits of a minute are possible");
        for delivery in deliveries {
            let latency = delivery.as_ref().latency.lock().unwrap_or_else(PoisonError::into_inner);
            all.add(&*latency).expect("both have the same range");
        }
        let us = |quantile| all.value_at_quantile(quantile) as f64 / 1000.0;
        Self { p50_us: us(0.5), p99_us: us(0.99), p999_us: us(0.999) }
    }
}
