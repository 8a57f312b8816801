//! Measured results of one scheme.

use convoy_measure::{Found, Lengths, Scheme};
use serde::Serialize;

use super::super::spread::Spread;

/// Results of one service in one scheme.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) scheme: Scheme,
    /// What is moved off the worker's core.
    pub(super) off: &'static str,
    /// Why the scheme is not available here, if it is not.
    pub(super) unavailable: Option<String>,
    /// Results by length.
    pub(super) found: Vec<AtLength>,
}

/// The highest rate without loss at one length.
#[derive(Serialize)]
pub(super) struct AtLength {
    lengths: Lengths,
    /// Result of each round.
    rounds: Vec<Found>,
    /// Throughput in Mbit/s over the rounds that found a rate.
    mbps: Option<Spread>,
}

impl Measured {
    /// No results yet.
    pub(super) fn new(scheme: Scheme, lengths: &[Lengths]) -> Self {
        let at = |lengths: &Lengths| AtLength { lengths: *lengths, rounds: Vec::new(), mbps: None };
        Self { scheme, off: scheme.name(), unavailable: None, found: lengths.iter().map(at).collect() }
    }

    /// Adds the result of a round for each length, or why the scheme is not available.
    pub(super) fn add(&mut self, found: Result<Vec<Found>, String>) {
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

    /// Mark for a cell: `~` if a search ran out of time, `≥` if the tester was the limit.
    pub(super) fn mark(&self, lengths: Lengths) -> &'static str {
        let rounds = self.of(lengths).map(|at| at.rounds.as_slice()).unwrap_or_default();
        if rounds.iter().any(|found| !found.is_settled) {
            "~ "
        } else if rounds.iter().any(|found| found.is_limited_by_tester) {
            "≥ "
        } else {
            ""
        }
    }
}

impl AtLength {
    fn add(&mut self, found: Found) {
        self.rounds.push(found);
        let mbps = |found: &Found| found.packets_per_second.map(|rate| rate * self.lengths.mean() * 8e-6);
        self.mbps = Spread::of(self.rounds.iter().filter_map(mbps));
    }
}
