//! Results of a run. Bytes are `b`: payload and header.

use serde::{Deserialize, Serialize};

use crate::time::TICKS_PER_SECOND;

/// Results of a run. Lists of processors have the platform's order, in the paper's platform with
/// the CPU first. A value that was never measured is 0.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Number of packets that processors served.
    pub packets: u64,
    /// Packets that each processor served, divided by all packets.
    pub share: Vec<f64>,
    /// Bytes divided by multi-packets, for each processor.
    pub average_length: Vec<f64>,
    /// Bytes divided by multi-packets, for all that were scheduled.
    pub average_length_scheduled: f64,
    /// Packets divided by multi-packets.
    pub packets_per_multipacket: f64,
    /// Bits of all packets divided by the time of the last completion, in Mbit/s.
    pub throughput_mbps: f64,
    /// Time from the scheduling of a packet's multi-packet to its completion, mean over packets, in
    /// ms.
    pub latency_ms: f64,
    /// Time from arrival to completion, or to the end of the last stage after it, mean over
    /// packets, in ms.
    pub sojourn_ms: f64,
    /// Requests that found their bus occupied, divided by all requests; 0 to 1.
    pub bus_conflicts: f64,
    /// Percentiles of the latency.
    pub latency_percentiles_ms: Percentiles,
    /// Percentiles of the sojourn time.
    pub sojourn_percentiles_ms: Percentiles,
    /// Number of multi-packets that processors served.
    pub multi_packets: u64,
    /// Bytes of all packets.
    pub bytes: u64,
    /// Packets that left the platform, equal to those that were admitted.
    pub packets_out: u64,
    /// Time at which the last packet left, in ms.
    pub end_ms: f64,
    /// Total time for which the source waited for room, in ms.
    pub source_waited_ms: f64,
    /// Load that the source offered.
    #[serde(default)]
    pub offered: Load,
    /// Load that left the platform. Together with `dropped` it equals `offered`.
    #[serde(default)]
    pub carried: Load,
    /// Load that the ingress queue dropped; zero without such a queue.
    #[serde(default)]
    pub dropped: Load,
    /// Carried packets divided by offered packets; 1 if none were offered.
    #[serde(default)]
    pub success_ratio: f64,
    /// The outer packets of aggregation; `None` without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outer: Option<OuterReport>,
    /// Each processor.
    pub processors: Vec<ProcessorReport>,
    /// Each bus.
    pub buses: Vec<BusReport>,
    /// Each stage in use, in order.
    #[serde(default)]
    pub stages: Vec<StageReport>,
    /// Each group of cores that serve only stages.
    #[serde(default)]
    pub cores: Vec<CoresReport>,
    /// Each traffic class that had packets.
    pub classes: Vec<ClassReport>,
}

/// Packets and their payload, without the header that the platform adds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Packets per second. The time is that of the arrivals for the offered and dropped load, and
    /// the whole run for the carried load.
    pub pps: f64,
    /// Payload in Mbit/s over the same time.
    pub mbps: f64,
}

impl Load {
    pub(crate) fn new(packets: u64, payload_bytes: u64, ticks: u64) -> Self {
        let rate = |of: f64| if ticks == 0 { 0.0 } else { of * TICKS_PER_SECOND / ticks as f64 };
        let (pps, mbps) = (rate(packets as f64), rate(payload_bytes as f64 * 8.0) / 1e6);
        Self { packets, payload_bytes, pps, mbps }
    }
}

/// Values below which 50, 90, 99 and 99.9 % of packets lie, in ms, with an error of at most 1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

/// Results for the outer packets of aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OuterReport {
    /// Number of outer packets.
    pub packets: u64,
    /// Bytes of their IPv4 packets.
    pub wire_bytes: u64,
}

/// Results for one processor.
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
    /// Busy time of its core divided by the whole time, 0 to 1.
    pub utilisation: f64,
    /// Results for its cache of SAs, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<SaCacheReport>,
}

/// Results for a cache of SAs, which each multi-packet uses once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaCacheReport {
    /// Capacity in SAs.
    pub sas: usize,
    /// Multi-packets whose SA was in the cache.
    pub hits: u64,
    /// Multi-packets whose SA had to be fetched.
    pub misses: u64,
}

/// Results for one bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusReport {
    /// Its name.
    pub name: String,
    /// Number of requested transfers.
    pub requests: u64,
    /// Requests that found the bus occupied.
    pub conflicts: u64,
    /// Time of all transfers divided by the whole time, 0 to 1.
    pub utilisation: f64,
}

/// Results for one stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Number of packets that passed through it.
    pub packets: u64,
    /// Its service time divided by the whole time of its servers, or of the processor, cores or bus
    /// that it shares; 0 to 1.
    pub utilisation: f64,
    /// Service time, mean over packets, in us.
    pub service_us: f64,
    /// Time from entering to leaving the stage, mean over packets, in us.
    pub sojourn_us: f64,
}

/// Results for a group of cores that serve only stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoresReport {
    /// Name of the group.
    pub name: String,
    /// Number of cores.
    pub count: usize,
    /// Busy time divided by the whole time, mean over the cores, 0 to 1.
    pub utilisation: f64,
}

/// Results for one traffic class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassReport {
    /// Number of the class, 0 being the highest.
    pub class: usize,
    /// Number of its packets.
    pub packets: u64,
    /// As in [`Report`], for the packets of this class.
    pub latency_ms: f64,
    /// As in [`Report`], for the packets of this class.
    pub sojourn_ms: f64,
}
