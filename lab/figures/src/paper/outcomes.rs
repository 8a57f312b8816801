//! The runs of a paper, by case.

use std::collections::HashMap;
use std::hash::Hash;

/// The runs of all cases, each run made once.
pub(super) struct Outcomes<K, O> {
    pub(super) keys: Vec<K>,
    /// For each key and case, the first case with an equal platform.
    pub(super) first: Vec<Vec<usize>>,
    /// The results, by the places of the key and of that case.
    pub(super) results: HashMap<(usize, usize), O>,
    /// Number of cases, and of repetitions, which are numbered after them.
    pub(super) cases: usize,
    pub(super) repetitions: usize,
}

impl<K: Clone + Eq + Hash, O: Clone> Outcomes<K, O> {
    /// The runs of one case.
    pub(super) fn of(&self, case: usize) -> HashMap<K, O> {
        let places = self.keys.iter().enumerate().zip(&self.first);
        let found = places.filter_map(|((place, key), first)| {
            Some((key.clone(), self.results.get(&(place, *first.get(case)?))?.clone()))
        });
        found.collect()
    }

    /// The number of runs with convoy's choice, and of those that only other cases have.
    pub(super) fn made(&self) -> (usize, usize) {
        (self.keys.len(), self.results.len() - self.keys.len() - self.repeated())
    }

    /// The number of runs with other seeds.
    pub(super) fn repeated(&self) -> usize {
        self.results.keys().filter(|(_, case)| *case >= self.cases).count()
    }
}
