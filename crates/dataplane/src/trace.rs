//! Packet traces: real packets, followed through the stages of one worker with times.
//!
//! A tracer exists only while an operator traces. It recognizes a packet by its frame, which
//! stays the same from the port where the packet arrives to the one where it leaves. Each stage
//! tells the tracer of all its packets at once, and the tracer picks those that it follows.

mod tracer;

use std::net::IpAddr;

use convoy_ipsec::{DropReason, TunnelId};

pub(crate) use tracer::{Departing, Loss, PacketPlace, Tracer};

use crate::side::Side;

/// Bytes kept of a packet as it arrived, and as it left.
pub const KEPT_BYTES: usize = 2048;
/// Packets that one worker traces at a time, at most.
const MOST_ACTIVE: usize = 4096;

/// Which packets are traced.
#[derive(Clone, Debug, Default)]
pub struct TraceFilter {
    /// Traces after which a worker traces no further packets.
    pub count: usize,
    /// If not empty, only packets of these tunnels.
    pub tunnels: Vec<TunnelId>,
    /// Only packets from or to this address, in the inner or the outer header.
    pub host: Option<IpAddr>,
    /// Only packets that were dropped.
    pub only_dropped: bool,
}

impl TraceFilter {
    /// Whether every packet is traced, so that no more than `count` need be followed.
    fn takes_all(&self) -> bool {
        self.tunnels.is_empty() && self.host.is_none() && !self.only_dropped
    }

    /// Whether a complete trace is one of those sought.
    fn takes(&self, trace: &PacketTrace) -> bool {
        let is_of_tunnel = || trace.sa.is_some_and(|sa| self.tunnels.contains(&sa.tunnel));
        let has_host = |host| {
            let ends = |packet: &[u8]| ends(packet).is_some_and(|ends| ends.contains(&host));
            ends(&trace.received) || ends(&trace.sent)
        };
        (self.tunnels.is_empty() || is_of_tunnel())
            && self.host.is_none_or(has_host)
            && (!self.only_dropped || matches!(trace.outcome, Some(TraceOutcome::Dropped(_))))
    }
}

/// The addresses of a packet, even if only its beginning is there.
fn ends(packet: &[u8]) -> Option<[IpAddr; 2]> {
    let word = |at: usize| packet.get(at..at + 4)?.first_chunk::<4>().copied();
    let long = |at: usize| packet.get(at..at + 16)?.first_chunk::<16>().copied();
    match packet.first()? >> 4 {
        4 => Some([IpAddr::from(word(12)?), IpAddr::from(word(16)?)]),
        6 => Some([IpAddr::from(long(8)?), IpAddr::from(long(24)?)]),
        _ => None,
    }
}

/// The SA of a traced packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedSa {
    /// Its SPI; 0 if the tunnel has no SA yet.
    pub spi: u32,
    /// Its tunnel.
    pub tunnel: TunnelId,
}

/// One packet, followed from its arrival.
#[derive(Clone, Debug)]
pub struct PacketTrace {
    /// The worker that followed it.
    pub worker: u16,
    /// The side on which it arrived.
    pub side: Side,
    /// Its frame when the worker got it.
    pub first_frame: u32,
    /// The packet as it arrived, at most [`KEPT_BYTES`].
    pub received: Vec<u8>,
    /// Its length then, in bytes.
    pub received_len: usize,
    /// The packet as it left, at most [`KEPT_BYTES`]; empty if it did not.
    pub sent: Vec<u8>,
    /// Its length then, in bytes.
    pub sent_len: usize,
    /// Its SA, once known.
    pub sa: Option<TracedSa>,
    /// What happened to it, in order.
    pub steps: Vec<TraceStep>,
    /// How it ended; `None` while it is inside.
    pub outcome: Option<TraceOutcome>,
}

impl PacketTrace {
    /// Whether another worker had the packet before.
    pub fn is_continuation(&self) -> bool {
        self.steps.first().is_some_and(|step| step.event == TraceEvent::TakenOver)
    }

    /// Whether this is the packet that another worker handed over to the one that traced `rest`.
    pub fn continues_in(&self, rest: &Self) -> bool {
        let handed = TraceOutcome::HandedOver { worker: rest.worker, frame: rest.first_frame };
        let begin = |trace: &Self| trace.steps.first().map(|step| step.at_ns);
        self.outcome == Some(handed) && begin(self) <= begin(rest)
    }
}

/// One stage of a packet's way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceStep {
    /// When, in ns of the gateway's clock.
    pub at_ns: u64,
    /// What happened.
    pub event: TraceEvent,
}

/// What happens to a packet at a stage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceEvent {
    /// A port received it.
    Received {
        /// The port's name.
        port: String,
    },
    /// Another worker handed it over.
    TakenOver,
    /// It is to be protected or opened with the keys of its SA.
    Classified,
    /// Policy lets it pass unprotected.
    Bypassed,
    /// It waits until its tunnel has an SA.
    WaitsForSa,
    /// It entered the window.
    Window {
        /// Packets that stood in the window already.
        waiting: usize,
        /// Packets that waited before the window for room.
        in_line: usize,
    },
    /// It was given to an engine.
    Train {
        /// The engine's name.
        engine: String,
        /// Packets that went there together.
        packets: usize,
        /// How many different SAs they have.
        sas: usize,
        /// Predicted work of the engine before them, in ns.
        wait_ns: u64,
        /// Predicted time of the engine for them, in ns.
        processing_ns: u64,
    },
    /// The engine returned it.
    Done {
        /// Whether it is sealed, or authentic.
        is_good: bool,
    },
    /// All packets before it in the order have left.
    InOrder,
    /// Its way through the worker ended, as [`PacketTrace::outcome`] says.
    Ended,
}

/// How a packet's way through a worker ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TraceOutcome {
    /// A port sent it.
    Sent {
        /// The port's name.
        port: String,
    },
    /// It was dropped.
    Dropped(DropReason),
    /// It was handed over to the worker of its SA, in this frame.
    HandedOver {
        /// That worker.
        worker: u16,
        /// The frame.
        frame: u32,
    },
    /// The key daemon gets it: it is an IKE message.
    ToDaemon,
    /// Its bytes go on in other packets: it was cut, reassembled, or is a part of IP-TFS payloads.
    TakenUp,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_of_a_cut_packet_are_found() {
        let mut v4 = [0; 20];
        v4[0] = 0x45;
        v4[12..20].copy_from_slice(&[10, 1, 0, 7, 10, 2, 0, 9]);
        assert_eq!(ends(&v4), Some([IpAddr::from([10, 1, 0, 7]), IpAddr::from([10, 2, 0, 9])]));
        assert_eq!(ends(&v4[..19]), None);
        let mut v6 = [0; 40];
        (v6[0], v6[23], v6[39]) = (0x60, 1, 2);
        let [one, two] = ends(&v6).expect("both");
        assert_eq!((one.to_string(), two.to_string()), ("::1".to_owned(), "::2".to_owned()));
        assert_eq!((ends(&[]), ends(&[0x15; 60])), (None, None));
    }
}
