//! What was measured of one scheme.

use convoy_measure::{Found, Lengths, Scheme};
use serde::Serialize;

use super::super::spread::Spread;

/// One service by one scheme.
#[derive(Serialize)]
pub(super) struct Measured {
    pub(super) scheme: Scheme,
    /// What is off the worker's core.
    pub(super) off: &'static str,
    /// Why there is none of this scheme here, if there is none.
    pub(super) unavailable: Option<String>,
    /// By length.
    pub(super) found: Vec<AtLength>,
}

/// The highest rates without loss at one length.
#[derive(Serialize)]
pub(super) struct AtLength {
    lengths: Lengths,
    /// What each round found.
    rounds: Vec<Found>,
    /// Over the rounds that found a rate.
    mbps: Option<Spread>,
}

impl Measured {
    /// Before the first round.
    pub(super) fn new(scheme: Scheme, lengths: &[Lengths]) -> Self {
        let at = |lengths: &Lengths| AtLength { lengths: *lengths, rounds: Vec::new(), mbps: None };
        Self { scheme, off: scheme.name(), unavailable: None, found: lengths.iter().map(at).collect() }
    }

    /// Adds what a round found of each length, or why it could not.
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

    /// `~` where time was up before a search had ended, `≥` where the tester was the limit.
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
