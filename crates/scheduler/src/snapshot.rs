//! The measurements of a scheduler.

use crate::engine::Pending;
use crate::histogram::Histogram;

/// The measurements of one engine. Times are in ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineSnapshot {
    /// Its name.
    pub name: String,
    /// Whether it is available.
    pub is_available: bool,
    /// Multi-packets at the engine, including the one in service.
    pub queued: usize,
    /// Packets dispatched to it.
    pub packets: u64,
    /// Its packets over those of all engines, 0 to 1.
    pub share: f64,
    /// Multi-packets dispatched to it.
    pub multi_packets: u64,
    /// Bytes dispatched to it.
    pub bytes: u64,
    /// Packets in each multi-packet.
    pub packets_per_multi_packet: Histogram,
    /// Multi-packets that it completed; the means below are over these.
    pub completed: u64,
    /// Mean time from dispatch to completion, as predicted.
    pub predicted_ticks: f64,
    /// Mean time from dispatch to completion, as measured.
    pub measured_ticks: f64,
    /// Mean absolute error of that prediction.
    pub error_ticks: f64,
    /// Mean error, positive where the engine was slower than predicted.
    pub bias_ticks: f64,
    /// For each algorithm, the factor by which its calibrated cost is currently multiplied.
    pub corrections: Vec<Option<f64>>,
}

/// The measurements of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct SchedulerSnapshot {
    /// The window now, in packets.
    pub window: usize,
    /// Packets that stand in it.
    pub waiting: usize,
    /// How long packets stood in the window, in ticks.
    pub wait: Histogram,
    /// Each engine.
    pub engines: Vec<EngineSnapshot>,
}

/// The counters of one engine.
pub(crate) struct EngineMeasures {
    pub(crate) name: String,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) packets_per_multi_packet: Histogram,
    pub(crate) completed: u64,
    // Sums over completions. A simulator counts in ps: 64 bits would overflow after some 10^10
    // multi-packets.
    predicted_ticks: u128,
    measured_ticks: u128,
    error_ticks: u128,
}

impl EngineMeasures {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            packets: 0,
            bytes: 0,
            packets_per_multi_packet: Histogram::default(),
            completed: 0,
            predicted_ticks: 0,
            measured_ticks: 0,
            error_ticks: 0,
        }
    }

    #[inline]
    pub(crate) fn dispatched(&mut self, packets: u32, bytes: u64) {
        self.packets += u64::from(packets);
        self.bytes += bytes;
        self.packets_per_multi_packet.add(packets.into());
    }

    #[inline]
    pub(crate) fn completed<R>(&mut self, now: u64, done: &Pending<R>) {
        self.completed += 1;
        self.predicted_ticks += u128::from(done.predicted_finish.saturating_sub(done.dispatched));
        self.measured_ticks += u128::from(now.saturating_sub(done.dispatched));
        self.error_ticks += u128::from(now.abs_diff(done.predicted_finish));
    }

    /// Counts work that never waited in a queue.
    pub(crate) fn done(&mut self, predicted: u64, measured: u64) {
        self.completed += 1;
        self.predicted_ticks += u128::from(predicted);
        self.measured_ticks += u128::from(measured);
        self.error_ticks += u128::from(measured.abs_diff(predicted));
    }

    /// Predicted, measured and absolute error, in ticks.
    pub(crate) fn means(&self) -> [f64; 3] {
        let mean = |sum: u128| if self.completed == 0 { 0.0 } else { sum as f64 / self.completed as f64 };
        [mean(self.predicted_ticks), mean(self.measured_ticks), mean(self.error_ticks)]
    }
}
