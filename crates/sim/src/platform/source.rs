//! `[source]`.

use serde::{Deserialize, Serialize};

/// Where packets come from (docs/internals/simulator.md: arrival).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct SourceSpec {
    /// Nominal line rate, in Mbit/s.
    pub rate_mbps: f64,
    /// What is added to every payload, in bytes: `b = L + 40` in the paper.
    pub header_bytes: u32,
    /// What each packet takes of the line beside its payload, in bytes; `header_bytes` without. On
    /// Ethernet it is 20, preamble and gap, where payloads are whole frames.
    pub line_bytes: Option<u32>,
    /// Packets that may be inside at once, wherever they are; with none free the source waits. Only
    /// platforms with stages need it, since elsewhere queues bound them.
    pub frames: usize,
    /// Packets that an ingress queue holds while there is no room behind it. With this or
    /// `queue_bytes` the source never waits: what finds the queue full is dropped and counted.
    pub queue_packets: Option<usize>,
    /// The same in bytes `b`.
    pub queue_bytes: Option<u64>,
}

impl Default for SourceSpec {
    fn default() -> Self {
        Self {
            rate_mbps: 1000.0,
            header_bytes: 40,
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
