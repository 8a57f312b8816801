//! Counters and latencies of one direction.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;

/// Limit on packets in flight per direction: more than the frames of two gateways.
const STAMPS: usize = 1 << 16;
/// Upper end of the latency histogram, in ns.
const LONGEST_NS: u64 = 60_000_000_000;

/// Counters of one direction, shared between its sending and its receiving port.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// Whether packets are sent.
    pub(crate) sending: AtomicBool,
    /// Whether latencies are recorded.
    pub(crate) recording: AtomicBool,
    /// Packets sent.
    pub(crate) sent: AtomicU64,
    /// Their bytes, IP header included.
    pub(crate) sent_bytes: AtomicU64,
    /// Packets dropped because the port's ring was full; they were not sent.
    pub(crate) refused: AtomicU64,
    /// Packets that arrived unchanged, in the order of their SA.
    pub(crate) good: AtomicU64,
    /// Packets that arrived unchanged, but after a later one of their SA.
    pub(crate) out_of_order: AtomicU64,
    /// Packets that arrived and were never sent, for example changed ones.
    pub(crate) wrong: AtomicU64,
    epoch: Instant,
    /// Arrival time of each packet at its sending port in ns, indexed by its number.
    stamps: Box<[AtomicU64]>,
    latency: Mutex<Histogram<u64>>,
}

impl Delivery {
    pub(crate) fn new() -> Self {
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

    /// The current time in ns, on the clock of the stamps.
    pub(crate) fn now_ns(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Records when packet `number` arrived at its sending port.
    pub(crate) fn stamp(&self, number: u64, came_ns: u64) {
        self.stamps[number as usize % STAMPS].store(came_ns, Ordering::Relaxed);
    }

    /// Records that these packets have left the other gateway.
    pub(crate) fn record(&self, numbers: &[u64]) {
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

    /// Packets that arrived, correct or not.
    pub(crate) fn arrived(&self) -> u64 {
        self.good.load(Ordering::Relaxed)
            + self.out_of_order.load(Ordering::Relaxed)
            + self.wrong.load(Ordering::Relaxed)
    }

    /// Whether each packet sent arrived exactly once, unchanged and in order.
    pub(crate) fn is_perfect(&self) -> bool {
        self.good.load(Ordering::Relaxed) == self.sent.load(Ordering::Relaxed)
            && self.arrived() == self.good.load(Ordering::Relaxed)
    }
}

/// Latency from arrival at the plaintext port of one gateway until departure from that of the
/// other. At a given rate it counts from the arrival, not from when the gateway reads the packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DeliveryLatency {
    /// Median, in µs.
    pub p50_us: f64,
    /// 99th percentile, in µs.
    pub p99_us: f64,
    /// 99.9th percentile, in µs.
    pub p999_us: f64,
}

impl DeliveryLatency {
    /// Latency over both directions.
    pub(crate) fn of(deliveries: &[impl AsRef<Delivery>]) -> Self {
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
