//! Engines as the page shows them.

use convoy_report::snapshot::EngineRow;
use serde::Serialize;

use super::interval::Interval;

/// One engine of one worker. What is nothing before the second snapshot, or while the engine is
/// idle, has a `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct EngineLine {
    pub(super) name: String,
    pub(super) worker: u16,
    pub(super) is_model: bool,
    /// Why it is out of use; empty while it is in use.
    pub(super) down: String,
    /// Multi-packets in its queue.
    pub(super) queued: usize,
    pub(super) packets_per_s: Option<f64>,
    pub(super) packets_per_train: Option<f64>,
    /// Mean time of a train from dispatch to completion, in ns.
    pub(super) predicted_ns: Option<f64>,
    pub(super) measured_ns: Option<f64>,
}

/// Those that are out of use first, then the busiest.
pub(super) fn lines(engines: &[EngineRow], interval: Option<&Interval<'_>>) -> Vec<EngineLine> {
    let line = |row: &EngineRow| {
        let lately = interval.and_then(|interval| Some((interval, row.since(interval.engine(row)?))));
        EngineLine {
            name: row.name.clone(),
            worker: row.worker,
            is_model: row.is_model,
            down: row.down.clone(),
            queued: row.queued,
            packets_per_s: lately.map(|(interval, lately)| interval.per_second(lately.packets, 0).round()),
            packets_per_train: lately.and_then(|(_, lately)| lately.per_train),
            predicted_ns: lately.and_then(|(_, lately)| lately.predicted_ns),
            measured_ns: lately.and_then(|(_, lately)| lately.measured_ns),
        }
    };
    let mut lines: Vec<EngineLine> = engines.iter().map(line).collect();
    let rate = |line: &EngineLine| line.packets_per_s.unwrap_or_default();
    lines.sort_by(|one, other| {
        one.down.is_empty().cmp(&other.down.is_empty()).then(rate(other).total_cmp(&rate(one)))
    });
    lines
}
