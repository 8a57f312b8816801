//! `[source]`.

use serde::{Deserialize, Serialize};

/// Where packets come from (docs/lab/simulator.md: arrival).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceSpec {
    /// Nominal line rate, in Mbit/s.
    pub rate_mbps: f64,
    /// Bytes added to every payload: `b = L + 40` in the paper.
    pub header_bytes: u32,
    /// The part of `header_bytes` that an engine processes for the ESP packet and not for the inner
    /// packet. With aggregation, each outer packet has it once.
    #[serde(skip_serializing_if = "is_zero")]
    pub esp_bytes: u32,
    /// Bytes that each packet occupies on the line in addition to its payload; `header_bytes` if
    /// not given. On Ethernet this is 20 (preamble and gap) if payloads are whole frames.
    pub line_bytes: Option<u32>,
    /// Largest number of packets in the platform at once; if it is reached, the source waits. Only
    /// platforms with stages use it: in others the window and the queues are the limit.
    pub frames: usize,
    /// Capacity of the ingress queue in packets. With this or `queue_bytes` the source never waits:
    /// packets that find the queue full are dropped and counted.
    pub queue_packets: Option<usize>,
    /// Capacity of the ingress queue in bytes `b`.
    pub queue_bytes: Option<u64>,
}

fn is_zero(bytes: &u32) -> bool {
    *bytes == 0
}

impl Default for SourceSpec {
    fn default() -> Self {
        Self {
            rate_mbps: 1000.0,
            header_bytes: 40,
            esp_bytes: 0,
            line_bytes: None,
            frames: 4096,
            queue_packets: None,
            queue_bytes: None,
        }
    }
}

impl SourceSpec {
    /// Whether packets can be lost.
    pub fn is_lossy(&self) -> bool {
        self.queue_packets.is_some() || self.queue_bytes.is_some()
    }
}
