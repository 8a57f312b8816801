//! What a run has shown. Bytes are `b`: payload and header.

use serde::{Deserialize, Serialize};

use crate::time::TICKS_PER_SECOND;

/// What a run has shown. Lists of processors have the platform's order: CPU first in the paper's.
/// What nothing was measured of is 0.
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
    /// From arrival to completion, or to the end of the last stage behind it; mean over packets, in
    /// ms.
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
    /// What has arrived from the source.
    #[serde(default)]
    pub offered: Load,
    /// What has left the platform. With `dropped` it is what was offered.
    #[serde(default)]
    pub carried: Load,
    /// What the ingress queue has dropped; nothing where there is none.
    #[serde(default)]
    pub dropped: Load,
    /// Carried over offered packets; 1 of nothing.
    #[serde(default)]
    pub success_ratio: f64,
    /// Each processor.
    pub processors: Vec<ProcessorReport>,
    /// Each bus.
    pub buses: Vec<BusReport>,
    /// Each stage that is there, in order.
    #[serde(default)]
    pub stages: Vec<StageReport>,
    /// Cores that do stages alone.
    #[serde(default)]
    pub cores: Vec<CoresReport>,
    /// Each traffic class that had packets.
    pub classes: Vec<ClassReport>,
}

/// Packets, and the payload in them: what the source gave, without the platform's header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Packets.
    pub packets: u64,
    /// Bytes of payload.
    pub payload_bytes: u64,
    /// Packets a second, over the time of arrivals for what was offered and dropped, over the whole
    /// time for what was carried.
    pub pps: f64,
    /// Payload over the same time, in Mbit/s.
    pub mbps: f64,
}

impl Load {
    pub(crate) fn new(packets: u64, payload_bytes: u64, ticks: u64) -> Self {
        let rate = |of: f64| if ticks == 0 { 0.0 } else { of * TICKS_PER_SECOND / ticks as f64 };
        let (pps, mbps) = (rate(packets as f64), rate(payload_bytes as f64 * 8.0) / 1e6);
        Self { packets, payload_bytes, pps, mbps }
    }
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
    /// Its cache of SAs, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<SaCacheReport>,
}

/// What a cache of SAs did; each multi-packet uses it once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaCacheReport {
    /// SAs that it holds.
    pub sas: usize,
    /// Multi-packets whose SA it held.
    pub hits: u64,
    /// Multi-packets whose SA had to be fetched.
    pub misses: u64,
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

/// What one stage did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Packets that went through it.
    pub packets: u64,
    /// Its time in service over the whole time, of its servers, or of the processor, cores or bus
    /// that it shares; 0 to 1.
    pub utilisation: f64,
    /// In service, mean over packets, in us.
    pub service_us: f64,
    /// From coming to leaving, mean over packets, in us.
    pub sojourn_us: f64,
}

/// What cores did that do stages alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoresReport {
    /// Their name.
    pub name: String,
    /// How many there are.
    pub count: usize,
    /// Their time at work over the whole time, mean of all, 0 to 1.
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
