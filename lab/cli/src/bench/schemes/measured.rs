//! Measured results of one scheme.

use convoy_measure::{Found, Lengths, Scheme, ThreadCost};
use serde::Serialize;

use super::super::spread::Spread;
use super::derived::{Derived, ThreadTime, thread_times};

/// Results of one service in one scheme.
#[derive(Serialize)]
pub(super) struct MeasuredScheme {
    pub(super) scheme: Scheme,
    /// What is moved off the worker's core.
    pub(super) off: &'static str,
    /// Why the scheme is not available here, if it is not.
    pub(super) unavailable: Option<String>,
    /// Results by length.
    pub(super) found: Vec<AtLength>,
}

/// Result of one round at one length.
#[derive(Serialize)]
pub(super) struct Round {
    /// The highest rate without loss.
    #[serde(flatten)]
    pub(super) found: Found,
    /// CPU time of each thread per packet under overload; empty where threads poll.
    pub(super) threads: Vec<ThreadCost>,
}

/// Results at one length.
#[derive(Serialize)]
pub(super) struct AtLength {
    lengths: Lengths,
    rounds: Vec<Round>,
    /// Measured throughput in Mbit/s over the rounds that found a rate.
    mbps: Option<Spread>,
    /// CPU time of each thread, over the rounds.
    threads: Vec<ThreadTime>,
    /// What cores of their own would carry, derived from the CPU time.
    derived: Option<Derived>,
}

impl MeasuredScheme {
    /// No results yet.
    pub(super) fn new(scheme: Scheme, lengths: &[Lengths]) -> Self {
        let at = |lengths: &Lengths| AtLength {
            lengths: *lengths,
            rounds: Vec::new(),
            mbps: None,
            threads: Vec::new(),
            derived: None,
        };
        Self { scheme, off: scheme.name(), unavailable: None, found: lengths.iter().map(at).collect() }
    }

    /// Adds the result of a round for each length, or why the scheme is not available.
    pub(super) fn add(&mut self, found: Result<Vec<Round>, String>) {
        match found {
            Ok(found) => self.found.iter_mut().zip(found).for_each(|(at, found)| at.add(found)),
            Err(why) => self.unavailable = Some(why),
        }
    }

    fn of(&self, lengths: Lengths) -> Option<&AtLength> {
        self.found.iter().find(|at| at.lengths == lengths)
    }

    pub(super) fn mbps(&self, lengths: Lengths) -> Option<Spread> {
        self.of(lengths)?.mbps
    }

    /// The median of what is compared with others: of searches that ended by themselves.
    pub(super) fn final_mbps(&self, lengths: Lengths) -> Option<f64> {
        self.mbps(lengths).filter(|_| self.mark(lengths).is_empty()).map(|mbps| mbps.median)
    }

    pub(super) fn threads(&self, lengths: Lengths) -> &[ThreadTime] {
        self.of(lengths).map_or(&[], |at| &at.threads)
    }

    pub(super) fn derived(&self, lengths: Lengths) -> Option<Derived> {
        self.of(lengths)?.derived
    }

    /// Mark for a cell: `~` if a search ran out of time, `≥` if the tester was the limit.
    pub(super) fn mark(&self, lengths: Lengths) -> &'static str {
        let rounds = self.of(lengths).map(|at| at.rounds.as_slice()).unwrap_or_default();
        if rounds.iter().any(|round| !round.found.is_settled) {
            "~ "
        } else if rounds.iter().any(|round| round.found.is_limited_by_tester) {
            "≥ "
        } else {
            ""
        }
    }
}

impl AtLength {
    fn add(&mut self, round: Round) {
        self.rounds.push(round);
        let to_mbps = self.lengths.mean() * 8e-6;
        let rates = self.rounds.iter().filter_map(|round| round.found.packets_per_second);
        self.mbps = Spread::of(rates.map(|rate| rate * to_mbps));
        let costs: Vec<&[ThreadCost]> = self.rounds.iter().map(|round| round.threads.as_slice()).collect();
        self.threads = thread_times(&costs);
        self.derived = Derived::of(&costs, &self.threads, to_mbps);
    }
}
