//! What a run was, for whoever shows it.

use serde::Serialize;

use super::delivery::Latency;
use super::rule::Rule;

/// One engine of the gateway in question.
#[derive(Clone, Debug, Serialize)]
pub struct DemoEngineReport {
    /// Its name.
    pub name: String,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether it is in use.
    pub is_up: bool,
    /// Part of all packets, 0 to 1.
    pub share: f64,
    /// Packets whose result was used.
    pub packets: u64,
    /// Packets per multi-packet.
    pub packets_per_multi_packet: f64,
    /// Mean time per packet in which it worked, in ns of its own time; 0 if it does not tell.
    pub service_ns: f64,
    /// Multi-packets that it has now.
    pub queued: usize,
    /// Mean time from dispatch to completion, in ns, as predicted.
    pub predicted_ns: f64,
    /// Mean absolute error of that prediction, in ns.
    pub prediction_error_ns: f64,
}

/// What is going on.
#[derive(Clone, Debug, Serialize)]
pub struct LiveView {
    /// The policy.
    pub rule: Rule,
    /// The window.
    pub window: usize,
    /// Seconds since the run began.
    pub elapsed_s: f64,
    /// Seconds that it will take.
    pub length_s: f64,
    /// Packets that came out so far, both ways.
    pub delivered: u64,
    /// Throughput so far of inner packets, in Mbit/s, both ways.
    pub mbps: f64,
    /// Engines of the gateway in question.
    pub engines: Vec<DemoEngineReport>,
    /// What happened since the last view.
    pub events: Vec<String>,
}

/// What came of a run.
#[derive(Clone, Debug, Serialize)]
pub struct TrialReport {
    /// The policy.
    pub rule: Rule,
    /// The window.
    pub window: usize,
    /// Packets sent, both ways.
    pub sent: u64,
    /// Packets that came at a rate and were not sent, as the ring of their port was full.
    pub refused: u64,
    /// Of those sent, the ones that came out byte for byte and in order.
    pub good: u64,
    /// Of these, those that came out after a later one of their SA.
    pub out_of_order: u64,
    /// Packets that came out and were never sent.
    pub wrong: u64,
    /// Packets that were sent and did not come out.
    pub lost: u64,
    /// Inner packets a second, both ways.
    pub packets_per_second: f64,
    /// Throughput of inner packets in Mbit/s, both ways.
    pub mbps: f64,
    /// How long packets took.
    pub latency: Latency,
    /// Packets per multi-packet over all engines of the gateway in question.
    pub packets_per_multi_packet: f64,
    /// Engines of the gateway in question.
    pub engines: Vec<DemoEngineReport>,
    /// What happened.
    pub events: Vec<String>,
    /// Engines of the gateway in question that failed and were quarantined.
    pub quarantined: Vec<String>,
    /// Whether each packet came out once, byte for byte and in order.
    pub is_perfect: bool,
}
