//! Packet traces of all workers, as `convoy trace` asks for them.
//!
//! A client begins a trace, takes what was found until all is, and ends it. One that stops asking
//! is forgotten after [`SILENCE`], so that no worker traces without a reader.

mod rows;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use convoy_dataplane::trace::{PacketTrace, TraceFilter, TraceOutcome};
use convoy_ipsec::TunnelId;
use serde::{Deserialize, Serialize};

use crate::worker_handles::WorkerHandles;
use crate::worker_thread::WorkerThread;

pub use rows::{EndRow, StageRow, StepRow, TraceRow};

/// Packets of one trace, at most.
pub const MOST_PACKETS: usize = 1000;
/// After this time without a question, a trace is ended.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Which packets are traced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TraceRequest {
    /// How many, from 1 to [`MOST_PACKETS`].
    pub count: usize,
    /// Only those of this tunnel, by its name; with charon also all of a connection.
    pub tunnel: Option<String>,
    /// Only those from or to this address, in the inner or the outer header.
    pub host: Option<IpAddr>,
    /// Only those that are dropped.
    pub dropped: bool,
}

/// What a trace has found since the last question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceReport {
    /// Packets in the order of their arrival.
    pub packets: Vec<TraceRow>,
    /// Whether all that were sought are found.
    pub is_complete: bool,
}

/// The trace in progress of a gateway.
#[derive(Default)]
pub(crate) struct Tracing(Option<TraceSession>);

struct TraceSession {
    request: TraceRequest,
    found: usize,
    asked: Instant,
    /// Packets that a worker handed over, until the other worker's part is there.
    handed_over: Vec<(TracePart, Instant)>,
}

/// A packet's trace by one worker, with its tunnel's name.
type TracePart = (PacketTrace, String);

/// How long a trace waits for its continuation by another worker.
const CONTINUES: Duration = Duration::from_secs(1);

impl Tracing {
    /// Begins a trace.
    ///
    /// # Errors
    /// What is wrong with the request, or that another client is tracing.
    pub(crate) fn begin(&mut self, handles: &WorkerHandles, request: TraceRequest) -> Result<(), String> {
        if !(1..=MOST_PACKETS).contains(&request.count) {
            return Err(format!("the number of packets must be from 1 to {MOST_PACKETS}"));
        }
        if self.0.is_some() {
            return Err("another `convoy trace` is running; wait until it ends".to_owned());
        }
        let TraceRequest { count, ref tunnel, host, dropped } = request;
        let name = tunnel.clone();
        let begun = handles.ask(move |thread| {
            let tunnels = name.as_deref().map_or_else(Vec::new, |name| thread.tunnels_named(name));
            let is_known = name.is_none() || !tunnels.is_empty();
            if is_known {
                let filter = TraceFilter { count, tunnels, host, only_dropped: dropped };
                thread.worker_mut().pipeline_mut().begin_trace(filter);
            }
            is_known
        });
        if !begun.iter().flatten().any(|is_known| *is_known) {
            return Err(match tunnel {
                Some(name) => format!("there is no tunnel {name}; `convoy show sa` lists them"),
                None => "no worker answered in time".to_owned(),
            });
        }
        self.0 = Some(TraceSession { request, found: 0, asked: Instant::now(), handed_over: Vec::new() });
        Ok(())
    }

    /// Takes what was found since the last call.
    ///
    /// # Errors
    /// That no trace is in progress.
    pub(crate) fn take(&mut self, handles: &WorkerHandles, clock_s: f64) -> Result<TraceReport, String> {
        let Some(session) = &mut self.0 else {
            return Err("the trace has ended: the gateway was not asked for its packets in time".to_owned());
        };
        session.asked = Instant::now();
        let taken = handles.ask(|thread| {
            let (traces, is_complete) = thread.worker_mut().pipeline_mut().take_traces();
            let parts: Vec<TracePart> = traces.into_iter().map(|trace| thread.named(trace)).collect();
            (parts, is_complete)
        });
        let is_complete = taken.iter().flatten().all(|(_, is_complete)| *is_complete);
        let parts = taken.into_iter().flatten().flat_map(|(parts, _)| parts).collect();
        let mut rows: Vec<TraceRow> = session
            .join(parts)
            .into_iter()
            .map(|(trace, tunnel)| TraceRow::new(trace, tunnel, clock_s))
            .collect();
        rows.sort_by(|one, other| one.began_s.total_cmp(&other.began_s));
        rows.truncate(session.request.count - session.found);
        session.found += rows.len();
        let is_complete =
            is_complete && session.handed_over.is_empty() || session.found >= session.request.count;
        Ok(TraceReport { packets: rows, is_complete })
    }

    /// Ends the trace in progress.
    pub(crate) fn end(&mut self, handles: &WorkerHandles) {
        if self.0.take().is_some() {
            handles.ask(|thread| thread.worker_mut().pipeline_mut().end_trace());
        }
    }

    /// Ends a trace that its client has abandoned.
    pub(crate) fn expire(&mut self, handles: &WorkerHandles) {
        if self.0.as_ref().is_some_and(|session| session.asked.elapsed() >= SILENCE) {
            self.end(handles);
        }
    }
}

impl TraceSession {
    /// Joins packets that were handed over with their traces by the other worker. One whose
    /// continuation does not appear is reported as it is.
    fn join(&mut self, parts: Vec<TracePart>) -> Vec<TracePart> {
        let (continued, first): (Vec<TracePart>, Vec<TracePart>) =
            parts.into_iter().partition(|(trace, _)| trace.is_continuation());
        let (handed, mut whole): (Vec<TracePart>, Vec<TracePart>) = first
            .into_iter()
            .partition(|(trace, _)| matches!(trace.outcome, Some(TraceOutcome::HandedOver { .. })));
        let now = Instant::now();
        self.handed_over.extend(handed.into_iter().map(|part| (part, now)));
        for (mut rest, tunnel) in continued {
            let precedes = |((before, _), _): &(TracePart, Instant)| before.continues_in(&rest);
            match self.handed_over.iter().position(precedes) {
                Some(place) => {
                    let ((mut before, _), _) = self.handed_over.swap_remove(place);
                    before.steps.append(&mut rest.steps);
                    whole.push((
                        PacketTrace { steps: before.steps, received: before.received, ..rest },
                        tunnel,
                    ));
                }
                None => whole.push((rest, tunnel)),
            }
        }
        let late = self.handed_over.extract_if(.., |(_, since)| since.elapsed() >= CONTINUES);
        whole.extend(late.map(|(part, _)| part));
        whole
    }
}

impl WorkerThread {
    /// The tunnels of a name: one of the configuration's, one of charon's, or all of a connection
    /// of charon's.
    fn tunnels_named(&self, name: &str) -> Vec<TunnelId> {
        let is_named = |(_, shown, child): &(TunnelId, &str, &str)| {
            let connection = child.split_once('/').map(|(connection, _)| connection);
            *shown == name || *child == name || connection == Some(name)
        };
        self.tunnel_names().filter(is_named).map(|(id, ..)| id).collect()
    }

    fn named(&self, trace: PacketTrace) -> TracePart {
        let name = trace.sa.and_then(|sa| self.name_of(sa.tunnel)).unwrap_or_default().to_owned();
        (trace, name)
    }
}
