//! The SAs that a gateway leads, between the cluster's numbers and the workers'.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use convoy_cluster::{GroupEvent, Report, SaFingerprint};
use convoy_reservation::Used;
use convoy_state::{SaProgress, StartId};

/// A group that a gateway leads from now on: its SAs by their starts, and what is written to the
/// store about them.
pub struct Led {
    pub(crate) starts: HashMap<StartId, SaFingerprint>,
    pub(crate) reported: Vec<GroupEvent>,
}

/// The last numbers of what a gateway led.
pub type Stopped = Vec<SaProgress>;

/// The SAs of the groups that are led, in their present terms.
#[derive(Default)]
pub(super) struct LedSas(Mutex<Groups>);

#[derive(Default)]
struct Groups {
    terms: HashMap<String, Term>,
    /// The group and the SA of each start: starts are of all groups.
    by_start: HashMap<StartId, (String, SaFingerprint)>,
}

struct Term {
    number: u64,
    by_sa: HashMap<SaFingerprint, StartId>,
}

impl LedSas {
    fn lock(&self) -> MutexGuard<'_, Groups> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds SAs to a group that is led.
    pub(super) fn add(&self, group: &str, starts: HashMap<StartId, SaFingerprint>) {
        let mut groups = self.lock();
        let Some(term) = groups.terms.get_mut(group) else { return };
        term.by_sa.extend(starts.iter().map(|(start, sa)| (*sa, *start)));
        let with_group = starts.into_iter().map(|(start, sa)| (start, (group.to_owned(), sa)));
        groups.by_start.extend(with_group);
    }

    /// Removes an SA from a group that is led.
    pub(super) fn remove(&self, group: &str, start: StartId) {
        let mut groups = self.lock();
        let removed = groups.by_start.remove(&start);
        if let (Some((_, sa)), Some(term)) = (removed, groups.terms.get_mut(group)) {
            term.by_sa.remove(&sa);
        }
    }

    /// Begins a group's term.
    pub(super) fn begin(&self, group: &str, number: u64, starts: HashMap<StartId, SaFingerprint>) {
        {
            let mut groups = self.lock();
            groups.end(group);
            groups.terms.insert(group.to_owned(), Term { number, by_sa: HashMap::new() });
        }
        self.add(group, starts);
    }

    /// Ends a group's term.
    pub(super) fn end(&self, group: &str) {
        self.lock().end(group);
    }

    /// The start of an SA, if it is led.
    pub(super) fn start_of(&self, group: &str, sa: SaFingerprint) -> Option<StartId> {
        self.lock().terms.get(group)?.by_sa.get(&sa).copied()
    }

    /// A report about a group's present term.
    pub(super) fn report(&self, group: &str, event: GroupEvent) -> Report {
        let term = self.lock().terms.get(group).map_or(0, |term| term.number);
        Report { group: group.to_owned(), term, event }
    }

    /// The last numbers of SAs of any group, as the cluster names them. Those of former terms are
    /// left out.
    pub(super) fn progress(&self, of: &[SaProgress]) -> Vec<Report> {
        let groups = self.lock();
        let report = |progress: &SaProgress| {
            let (group, sa) = groups.by_start.get(&progress.id)?;
            let event = GroupEvent::Progress { sa: *sa, used: progress.used };
            Some(Report { group: group.clone(), term: groups.terms.get(group)?.number, event })
        };
        of.iter().filter_map(report).collect()
    }

    /// The last numbers of a group's SAs, as the cluster names them.
    pub(super) fn stopped(&self, group: &str, of: &[SaProgress]) -> Vec<(SaFingerprint, Used)> {
        let groups = self.lock();
        let known = |progress: &SaProgress| {
            let (_, sa) = groups.by_start.get(&progress.id).filter(|(of, _)| of == group)?;
            Some((*sa, progress.used))
        };
        of.iter().filter_map(known).collect()
    }
}

impl Groups {
    fn end(&mut self, group: &str) {
        self.terms.remove(group);
        self.by_start.retain(|_, (of, _)| of != group);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn group_that_ends_leaves_the_others_their_terms() {
        let led = LedSas::default();
        let sas = |starts: &[(u64, u64)]| {
            starts.iter().map(|(start, sa)| (StartId(*start), SaFingerprint(*sa))).collect()
        };
        led.begin("a", 7, sas(&[(1, 10), (2, 11)]));
        led.begin("b", 8, sas(&[(3, 10)]));
        let start_of = |group: &str| led.start_of(group, SaFingerprint(10)).map(|start| start.0);
        assert_eq!(start_of("a"), Some(1));
        assert_eq!(start_of("b"), Some(3), "each group names its SAs");
        led.end("a");
        assert_eq!((start_of("a"), start_of("b")), (None, Some(3)));
        let term = |group: &str| led.report(group, GroupEvent::Remove { sa: SaFingerprint(1) }).term;
        assert_eq!((term("a"), term("b")), (0, 8));
        led.begin("b", 9, sas(&[(4, 10)]));
        assert_eq!(start_of("b"), Some(4), "a term replaces the one before");
        assert_eq!(led.lock().by_start.len(), 1);
    }
}
