//! What a run has shown. Bytes are `b`: payload and header.

use serde::{Deserialize, Serialize};

/// What a run has shown. Lists of processors have the platform's order: CPU first in the paper's. What nothing
/// was measured of is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Packets that processors served.
    pub packets: u64,
    /// Packets that each processor served, over all packets.
    pub share: Vec<f64>,
    /// Bytes over multi-packets, of each processor.
    pub average_length: Vec<f64>,
    /// Bytes over multi-packets, of all that were scheduled.
    pub average_length_scheduled: f64,
    /// Packets over multi-packets.
    pub packets_per_multipacket: f64,
    /// Bits of all packets over the time of the last completion, in Mbit/s.
    pub throughput_mbps: f64,
    /// From when its multi-packet was scheduled to its completion, mean over packets, in ms.
    pub latency_ms: f64,
    /// From arrival to completion, or to the end of the last stage behind it; mean over packets, in ms.
    pub sojourn_ms: f64,
    /// Requests that found their bus taken, over all requests; 0 to 1.
    pub bus_conflicts: f64,
    /// Of `latency_ms`.
    pub latency_percentiles_ms: Percentiles,
    /// Of `sojourn_ms`.
    pub sojourn_percentiles_ms: Percentiles,
    /// Multi-packets that processors served.
    pub multi_packets: u64,
    /// Bytes of all packets.
    pub bytes: u64,
    /// Packets that left the platform: as many as came in.
    pub packets_out: u64,
    /// When everything was done, in ms.
    pub end_ms: f64,
    /// How long the source had to wait for room, in ms.
    pub source_waited_ms: f64,
    /// Each processor.
    pub processors: Vec<ProcessorReport>,
    /// Each bus.
    pub buses: Vec<BusReport>,
    /// Each traffic class that had packets.
    pub classes: Vec<ClassReport>,
}

/// Values below which 50, 90, 99 and 99.9 % of packets lie, in ms, within 1.6 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90 %.
    pub p90: f64,
    /// 99 %.
    pub p99: f64,
    /// 99.9 %.
    pub p999: f64,
}

/// What one processor did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessorReport {
    /// Its name.
    pub name: String,
    /// Packets that it served.
    pub packets: u64,
    /// Multi-packets that it served.
    pub multi_packets: u64,
    /// Bytes that it served.
    pub bytes: u64,
    /// Time at its core over the whole time, 0 to 1.
    pub utilisation: f64,
}

/// What one bus did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusReport {
    /// Its name.
    pub name: String,
    /// Transfers that were asked for.
    pub requests: u64,
    /// Those that found it taken.
    pub conflicts: u64,
    /// Time in transfers over the whole time, 0 to 1.
    pub utilisation: f64,
}

/// What became of one traffic class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Its number, 0 highest.
    pub class: usize,
    /// Its packets.
    pub packets: u64,
    /// As in [`Report`], of its packets.
    pub latency_ms: f64,
    /// As in [`Report`], of its packets.
    pub sojourn_ms: f64,
}
