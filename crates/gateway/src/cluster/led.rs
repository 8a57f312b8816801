//! The SAs that a gateway leads, between the cluster's numbers and the workers'.

use std::collections::HashMap;
use std::sync::mpsc::Receiver;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_cluster::{Event, Report, SaId};

use super::line::Line;
use crate::config::GROUP;
use crate::state::{Note, Progress};

/// What a gateway leads: its SAs by their generations, and those that the store does not know yet.
pub struct Led {
    pub(crate) generations: HashMap<u64, SaId>,
    pub(crate) new: Vec<Event>,
}

/// The last numbers of what a gateway led.
pub type Stopped = Vec<Progress>;

/// The SAs of the present term.
#[derive(Default)]
pub(super) struct Generations(Mutex<Term>);

#[derive(Default)]
struct Term {
    term: u64,
    by_generation: HashMap<u64, SaId>,
    by_sa: HashMap<SaId, u64>,
}

impl Generations {
    fn lock(&self) -> MutexGuard<'_, Term> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a term.
    pub(super) fn begin(&self, term: u64, by_generation: HashMap<u64, SaId>) {
        let by_sa = by_generation.iter().map(|(generation, sa)| (*sa, *generation)).collect();
        *self.lock() = Term { term, by_generation, by_sa };
    }

    /// The generation of an SA, if it is led.
    pub(super) fn of(&self, sa: SaId) -> Option<u64> {
        self.lock().by_sa.get(&sa).copied()
    }

    /// A report about this term.
    pub(super) fn report(&self, event: Event) -> Report {
        Report { group: GROUP.to_owned(), term: self.lock().term, event }
    }

    /// How far SAs have come, as the cluster numbers them. Those of former terms are left out.
    pub(super) fn progress(&self, of: &[Progress]) -> Vec<(SaId, u64, u64)> {
        let term = self.lock();
        let known = |progress: &Progress| {
            let sa = *term.by_generation.get(&progress.generation())?;
            Some((sa, progress.sent(), progress.received()))
        };
        of.iter().filter_map(known).collect()
    }
}

/// Passes the workers' reports on until they have ended.
pub(super) fn report(notes: &Receiver<Note>, generations: &Generations, line: &Line) {
    for note in notes {
        let Note::Report(report) = note else { continue };
        for (sa, sent, received) in generations.progress(report.progress()) {
            line.report(generations.report(Event::Progress { sa, sent, seen: received }));
        }
    }
}
