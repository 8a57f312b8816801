//! State and result of a run.

use serde::Serialize;

use super::core_use::CoreUse;
use super::delivery::DeliveryLatency;
use super::rule::Rule;

/// State of one engine of the gateway under test.
#[derive(Clone, Debug, Serialize)]
pub struct DemoEngineReport {
    /// Its name.
    pub name: String,
    /// Whether its timing is modelled.
    pub is_model: bool,
    /// Whether it is in use.
    pub is_up: bool,
    /// Share of all packets, 0 to 1.
    pub share: f64,
    /// Packets whose result was used.
    pub packets: u64,
    /// Packets per multi-packet.
    pub packets_per_multi_packet: f64,
    /// Mean processing time per packet by the engine's own clock, in ns; 0 if it does not report
    /// it.
    pub service_ns: f64,
    /// Multi-packets that it currently has.
    pub queued: usize,
    /// Mean predicted time from dispatch to completion, in ns.
    pub predicted_ns: f64,
    /// Mean absolute error of that prediction, in ns.
    pub prediction_error_ns: f64,
}

impl DemoEngineReport {
    /// How long it worked by its own clock, in s.
    pub(crate) fn busy_s(&self) -> f64 {
        self.service_ns * self.packets as f64 * 1e-9
    }
}

/// State of a running trial.
#[derive(Clone, Debug, Serialize)]
pub struct LiveView {
    /// The rule.
    pub rule: Rule,
    /// The window, in packets.
    pub window: usize,
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Planned duration in seconds.
    pub length_s: f64,
    /// Packets delivered so far, in both directions.
    pub delivered: u64,
    /// Throughput of inner packets so far, in Mbit/s, in both directions.
    pub mbps: f64,
    /// Engines of the gateway under test.
    pub engines: Vec<DemoEngineReport>,
    /// Events since the last view.
    pub events: Vec<String>,
}

/// Result of a trial.
#[derive(Clone, Debug, Serialize)]
pub struct TrialReport {
    /// The rule.
    pub rule: Rule,
    /// The window, in packets.
    pub window: usize,
    /// Packets sent, in both directions.
    pub sent: u64,
    /// Packets dropped because the port's ring was full; they were not sent.
    pub refused: u64,
    /// Packets that arrived unchanged and in order.
    pub good: u64,
    /// Packets that arrived unchanged, but after a later one of their SA.
    pub out_of_order: u64,
    /// Packets that arrived and were never sent.
    pub wrong: u64,
    /// Packets that were sent and did not arrive.
    pub lost: u64,
    /// Inner packets per second, in both directions.
    pub packets_per_second: f64,
    /// Throughput of inner packets in Mbit/s, in both directions.
    pub mbps: f64,
    /// Latency of the packets.
    pub latency: DeliveryLatency,
    /// How long it took until nothing moved any more, in s.
    pub elapsed_s: f64,
    /// Packets per multi-packet, over all engines of the gateway under test.
    pub packets_per_multi_packet: f64,
    /// Engines of the gateway under test.
    pub engines: Vec<DemoEngineReport>,
    /// Events of the run.
    pub events: Vec<String>,
    /// Engines of the gateway under test that were quarantined.
    pub quarantined: Vec<String>,
    /// Whether each packet arrived exactly once, unchanged and in order.
    pub is_perfect: bool,
    /// ESP packets between the gateways, in both directions.
    pub esp_packets: u64,
    /// Their bytes as they would occupy an Ethernet: the outer IP packets, and 38 bytes for each
    /// (preamble 8, header 14, checksum 4, gap 12).
    pub ethernet_bytes: u64,
    /// Processor time of this process for each packet, in ns: both gateways, their engines, and the
    /// ports that compare the packets. With an offered load most of it is waiting.
    pub cpu_ns_per_packet: f64,
    /// What this process's threads had of the cores.
    pub core_use: CoreUse,
}
