//! The SAs that a gateway leads, between the cluster's numbers and the workers'.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_cluster::{Event, Report, SaId};

use crate::state::Progress;

/// A group that a gateway leads from now on: its SAs by their generations, and what is
/// written to the store about them.
pub struct Led {
    pub(crate) generations: HashMap<u64, SaId>,
    pub(crate) reported: Vec<Event>,
}

/// The last numbers of what a gateway led.
pub type Stopped = Vec<Progress>;

/// The SAs of the groups that are led, in their present terms.
#[derive(Default)]
pub(super) struct Generations(Mutex<Groups>);

#[derive(Default)]
struct Groups {
    terms: HashMap<String, Term>,
    /// The group and the SA of each generation: generations are of all groups.
    by_generation: HashMap<u64, (String, SaId)>,
}

struct Term {
    number: u64,
    by_sa: HashMap<SaId, u64>,
}

impl Generations {
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds SAs to a group that is led.
    pub(super) fn add(&self, group: &str, generations: HashMap<u64, SaId>) {
        let mut groups = self.lock();
        let Some(term) = groups.terms.get_mut(group) else { return };
        term.by_sa.extend(generations.iter().map(|(generation, sa)| (*sa, *generation)));
        let with_group = generations.into_iter().map(|(generation, sa)| (generation, (group.to_owned(), sa)));
        groups.by_generation.extend(with_group);
    }

    /// Removes an SA from a group that is led.
    pub(super) fn remove(&self, group: &str, generation: u64) {
        let mut groups = self.lock();
        let removed = groups.by_generation.remove(&generation);
        if let (Some((_, sa)), Some(term)) = (removed, groups.terms.get_mut(group)) {
            term.by_sa.remove(&sa);
        }
    }

    /// Begins a group's term.
    pub(super) fn begin(&self, group: &str, number: u64, generations: HashMap<u64, SaId>) {
        {
            let mut groups = self.lock();
            groups.end(group);
            groups.terms.insert(group.to_owned(), Term { number, by_sa: HashMap::new() });
        }
        self.add(group, generations);
    }

    /// Ends a group's term.
    pub(super) fn end(&self, group: &str) {
        self.lock().end(group);
    }

    /// The generation of an SA, if it is led.
    pub(super) fn of(&self, group: &str, sa: SaId) -> Option<u64> {
        self.lock().terms.get(group)?.by_sa.get(&sa).copied()
    }

    /// A report about a group's present term.
    pub(super) fn report(&self, group: &str, event: Event) -> Report {
        let term = self.lock().terms.get(group).map_or(0, |term| term.number);
        Report { group: group.to_owned(), term, event }
    }

    /// How far SAs of any group have come, as the cluster numbers them. Those of former terms are
    /// left out.
    pub(super) fn progress(&self, of: &[Progress]) -> Vec<Report> {
        let groups = self.lock();
        let report = |progress: &Progress| {
            let (group, sa) = groups.by_generation.get(&progress.generation())?;
            let (sent, seen) = (progress.sent(), progress.received());
            let event = Event::Progress { sa: *sa, sent, seen };
            Some(Report { group: group.clone(), term: groups.terms.get(group)?.number, event })
        };
        of.iter().filter_map(report).collect()
    }

    /// The last numbers of a group's SAs, as the cluster numbers them.
    pub(super) fn stopped(&self, group: &str, of: &[Progress]) -> Vec<(SaId, u64, u64)> {
        let groups = self.lock();
        let known = |progress: &Progress| {
            let (_, sa) = groups.by_generation.get(&progress.generation()).filter(|(of, _)| of == group)?;
            Some((*sa, progress.sent(), progress.received()))
        };
        of.iter().filter_map(known).collect()
    }
}

impl Groups {
    fn end(&mut self, group: &str) {
        self.terms.remove(group);
        self.by_generation.retain(|_, (of, _)| of != group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_that_ends_leaves_the_others_their_terms() {
        let generations = Generations::default();
        generations.begin("a", 7, HashMap::from([(1, SaId(10)), (2, SaId(11))]));
        generations.begin("b", 8, HashMap::from([(3, SaId(10))]));
        assert_eq!(generations.of("a", SaId(10)), Some(1));
        assert_eq!(generations.of("b", SaId(10)), Some(3), "each group numbers its SAs");
        generations.end("a");
        assert_eq!((generations.of("a", SaId(10)), generations.of("b", SaId(10))), (None, Some(3)));
        let term = |group: &str| generations.report(group, Event::Remove { sa: SaId(1) }).term;
        assert_eq!((term("a"), term("b")), (0, 8));
        generations.begin("b", 9, HashMap::from([(4, SaId(10))]));
        assert_eq!(generations.of("b", SaId(10)), Some(4), "a term replaces the one before");
        assert_eq!(generations.lock().by_generation.len(), 1);
    }
}
