//! The list of runs: those behind the figures, and those over the range of open parameters.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::parallel::for_each;
use convoy_sim::{Pattern, Platform};

use super::claims::opens;
use super::runs::{Key, Open, Outcome, Runs, Variant, keys, run};
use super::{FigureError, FigureOptions};

/// Identity of a run, so that equal runs are made once: a run that does not depend on the trace's
/// locality is shared by all localities.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    key: Key,
    full_queue: FullQueue,
    depth_unit: DepthUnit,
    depth: usize,
    /// Bit patterns, because the values are only compared.
    t_init_us: u64,
    locality: u64,
}

impl Identity {
    fn new(key: Key, open: &Open) -> Self {
        let is_touched = key.pattern == Pattern::Trace && !matches!(key.variant, Variant::Locality(_));
        let locality = if is_touched { open.locality.to_bits() } else { 0 };
        Self {
            key,
            full_queue: open.full_queue,
            depth_unit: open.depth_unit,
            depth: open.depth,
            t_init_us: open.t_init_us.to_bits(),
            locality,
        }
    }
}

struct Job {
    identity: Identity,
    open: Open,
    packets: u64,
    is_range: bool,
}

/// All runs and their results.
pub(super) struct Plan {
    chosen: Open,
    jobs: Vec<Job>,
    figures: HashMap<Identity, Arc<Outcome>>,
    range: HashMap<Identity, Arc<Outcome>>,
}

impl Plan {
    pub(super) fn new(platform: &Platform, options: &FigureOptions) -> Self {
        let chosen = Open::chosen(platform);
        let all_keys: Vec<Key> = Pattern::PAPER.into_iter().flat_map(keys).collect();
        let jobs = |open: Open, packets, is_range| {
            let each = all_keys.iter().map(move |key| Identity::new(*key, &open));
            each.map(move |identity| Job { identity, open, packets, is_range }).collect::<Vec<Job>>()
        };
        let mut list = jobs(chosen, options.packets, false);
        let mut seen = std::collections::HashSet::new();
        for open in opens() {
            let new = jobs(open, options.range_packets, true).into_iter();
            list.extend(new.filter(|job| seen.insert(job.identity)));
        }
        Self { chosen, jobs: list, figures: HashMap::new(), range: HashMap::new() }
    }

    /// Number of runs behind the figures, and over the range.
    pub(super) fn counts(&self) -> (usize, usize) {
        let over_range = self.jobs.iter().filter(|job| job.is_range).count();
        (self.jobs.len() - over_range, over_range)
    }

    pub(super) fn carry_out(
        &mut self,
        platform: &Platform,
        threads: usize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<(), FigureError> {
        let total = self.jobs.iter().map(|job| job.packets).sum();
        let mut done = 0;
        let work = |job: &Job| run(platform, &job.open, job.identity.key, job.packets);
        for_each(&self.jobs, threads, work, |place, outcome| {
            let job = &self.jobs[place];
            let results = if job.is_range { &mut self.range } else { &mut self.figures };
            results.insert(job.identity, Arc::new(outcome?));
            done += job.packets;
            progress(done, total);
            Ok(())
        })
    }

    /// Description of convoy's choice.
    pub(super) fn choice(&self) -> String {
        self.chosen.to_string()
    }

    /// Runs with convoy's choice.
    pub(super) fn chosen(&self) -> Runs {
        of(&self.figures, &self.chosen)
    }

    /// Runs with each other combination.
    pub(super) fn range(&self) -> Vec<(Open, Runs)> {
        opens().into_iter().map(|open| (open, of(&self.range, &open))).collect()
    }
}

fn of(results: &HashMap<Identity, Arc<Outcome>>, open: &Open) -> Runs {
    let all = Pattern::PAPER.into_iter().flat_map(keys);
    let found = all.filter_map(|key| Some((key, Arc::clone(results.get(&Identity::new(key, open))?))));
    Runs(found.collect())
}
