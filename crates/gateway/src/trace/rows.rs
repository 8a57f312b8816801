//! Traced packets as the control socket reports them.

use convoy_dataplane::trace::{PacketTrace, TraceEvent, TraceOutcome, TraceStep};
use convoy_dataplane::worker::Side;
use convoy_ipsec::FlowKey;
use convoy_report::drop_words::meaning;
use data_encoding::HEXLOWER;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// One traced packet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceRow {
    /// The worker that followed it, to the end.
    pub worker: u16,
    /// The side on which it arrived: `inside` or `outside`.
    pub side: String,
    /// When it arrived, in seconds since 1970.
    pub began_s: f64,
    /// Its tunnel; empty if it has none.
    pub tunnel: String,
    /// The SPI of its SA; `None` if it has none.
    pub spi: Option<u32>,
    /// Its source when it arrived; `None` if it is no IP packet.
    pub source: Option<IpAddr>,
    /// Its destination then.
    pub destination: Option<IpAddr>,
    /// The protocol above IP.
    pub protocol: Option<u8>,
    /// Source and destination port; of ICMP twice its type and code, as `type << 8 | code`.
    pub ports: Option<(u16, u16)>,
    /// The packet as it arrived, from its IP header on, in hexadecimal; at most 2,048 bytes.
    pub received: String,
    /// Its length then, in bytes.
    pub received_len: usize,
    /// The packet as it left; empty if it did not.
    pub sent: String,
    /// Its length then, in bytes.
    pub sent_len: usize,
    /// What happened to it, in order.
    pub steps: Vec<StepRow>,
    /// How it ended.
    pub end: EndRow,
}

/// One step of a packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepRow {
    /// Time since the first step, in ns.
    pub after_ns: u64,
    /// What happened.
    #[serde(flatten)]
    pub stage: StageRow,
}

/// What happened at a stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "kebab-case")]
pub enum StageRow {
    /// A port received it.
    Port {
        /// The port.
        port: String,
    },
    /// The worker of its SA took it over.
    Handover,
    /// Its policy and SA were found.
    Classify,
    /// Policy lets it pass unprotected.
    Bypass,
    /// It waits for an SA that charon negotiates.
    Acquire,
    /// It entered the window.
    Window {
        /// Packets in the window before it.
        waiting: usize,
        /// Packets before the window for which there was no room.
        in_line: usize,
    },
    /// It was given to an engine, with the others of its train.
    Train {
        /// The engine.
        engine: String,
        /// Packets of the train.
        packets: usize,
        /// SAs of the train.
        sas: usize,
        /// Predicted wait for the engine, in ns.
        wait_ns: u64,
        /// Predicted time of the engine for the train, in ns.
        processing_ns: u64,
    },
    /// The engine was done.
    Engine {
        /// Whether the packet is sealed, or authentic.
        is_good: bool,
    },
    /// All packets before it in the order had left.
    Order,
    /// Its way ended, as [`TraceRow::end`] says.
    End,
}

/// How a packet ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "end", rename_all = "kebab-case")]
pub enum EndRow {
    /// A port sent it.
    Sent {
        /// The port.
        port: String,
    },
    /// It was dropped.
    Dropped {
        /// The drop reason.
        reason: String,
        /// What the reason means, and what to do.
        meaning: String,
    },
    /// The worker of its SA got it, and its trace does not continue there.
    HandedOver {
        /// That worker.
        worker: u16,
    },
    /// charon got it: it is an IKE message.
    Daemon,
    /// Its bytes go on in other packets: it was cut, reassembled, or is a part of IP-TFS payloads.
    TakenUp,
    /// It is still inside.
    #[default]
    Inside,
}

impl TraceRow {
    /// The row of a trace; `clock_s` is the time at which the gateway's clock read 0, in seconds
    /// since 1970.
    pub(super) fn new(trace: PacketTrace, tunnel: String, clock_s: f64) -> Self {
        let began_ns = trace.steps.first().map_or(0, |step| step.at_ns);
        let flow = FlowKey::of_quoted(&trace.received);
        let step = |TraceStep { at_ns, event }: TraceStep| StepRow {
            after_ns: at_ns - began_ns,
            stage: event.into(),
        };
        Self {
            worker: trace.worker,
            side: match trace.side {
                Side::Inside => "inside",
                Side::Outside => "outside",
            }
            .to_owned(),
            began_s: clock_s + began_ns as f64 * 1e-9,
            tunnel,
            spi: trace.sa.map(|sa| sa.spi).filter(|spi| *spi != 0),
            source: flow.map(|flow| flow.source()),
            destination: flow.map(|flow| flow.destination()),
            protocol: flow.map(|flow| flow.protocol()),
            ports: flow.and_then(|flow| flow.ports()),
            received: HEXLOWER.encode(&trace.received),
            received_len: trace.received_len,
            sent: HEXLOWER.encode(&trace.sent),
            sent_len: trace.sent_len,
            steps: trace.steps.into_iter().map(step).collect(),
            end: trace.outcome.map(EndRow::from).unwrap_or_default(),
        }
    }
}

impl From<TraceEvent> for StageRow {
    fn from(event: TraceEvent) -> Self {
        match event {
            TraceEvent::Received { port } => Self::Port { port },
            TraceEvent::TakenOver => Self::Handover,
            TraceEvent::Classified => Self::Classify,
            TraceEvent::Bypassed => Self::Bypass,
            TraceEvent::WaitsForSa => Self::Acquire,
            TraceEvent::Window { waiting, in_line } => Self::Window { waiting, in_line },
            TraceEvent::Train { engine, packets, sas, wait_ns, processing_ns } => {
                Self::Train { engine, packets, sas, wait_ns, processing_ns }
            }
            TraceEvent::Done { is_good } => Self::Engine { is_good },
            TraceEvent::InOrder => Self::Order,
            TraceEvent::Ended => Self::End,
        }
    }
}

impl From<TraceOutcome> for EndRow {
    fn from(outcome: TraceOutcome) -> Self {
        match outcome {
            TraceOutcome::Sent { port } => Self::Sent { port },
            TraceOutcome::Dropped(reason) => {
                Self::Dropped { reason: reason.name().to_owned(), meaning: meaning(reason) }
            }
            TraceOutcome::HandedOver { worker, .. } => Self::HandedOver { worker },
            TraceOutcome::ToDaemon => Self::Daemon,
            TraceOutcome::TakenUp => Self::TakenUp,
        }
    }
}
