//! The list of runs: those behind the figures, and those over the range of open parameters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use convoy_scheduler::FullQueue;
use convoy_sim::parallel::for_each;
use convoy_sim::{Pattern, Platform};

use super::claims::opens;
use super::readings::{Limit, Open, Reading, Transfers};
use super::runs::{Key, Outcome, Runs, is_of_trace, keys, run};
use super::trace::Trace;
use super::{FigureError, FigureOptions};

/// Identity of a run, so that equal runs are made once: a run that does not depend on the trace's
/// locality is shared by all localities, and none depends on when latency begins.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    key: Key,
    limit: Limit,
    full_queue: FullQueue,
    transfers: Transfers,
    /// Bit patterns, because the values are only compared.
    t_init_us: u64,
    locality: u64,
}

impl Identity {
    fn new(key: Key, open: &Open, has_trace: bool) -> Self {
        let is_touched = is_of_trace(&key) && !has_trace;
        let locality = if is_touched { open.locality.to_bits() } else { 0 };
        Self {
            key,
            limit: open.limit,
            full_queue: open.full_queue,
            transfers: open.transfers,
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
    readings: HashMap<Reading, Open>,
    trace: Option<Trace>,
    jobs: Vec<Job>,
    figures: HashMap<Identity, Arc<Outcome>>,
    range: HashMap<Identity, Arc<Outcome>>,
}

impl Plan {
    /// Reads the trace, if there is one.
    pub(super) fn new(platform: &Platform, options: &FigureOptions) -> Result<Self, FigureError> {
        let most = options.packets.max(options.range_packets);
        let trace = options.trace.as_ref().map(|path| Trace::open(path, most)).transpose()?;
        let has_trace = trace.is_some();
        let all_keys: Vec<Key> = Pattern::PAPER.into_iter().flat_map(keys).collect();
        let jobs = |opens: Vec<Open>, packets, is_range| {
            let mut seen = HashSet::new();
            let each = opens.into_iter().flat_map(|open| {
                all_keys.iter().map(move |key| Job {
                    identity: Identity::new(*key, &open, has_trace),
                    open,
                    packets,
                    is_range,
                })
            });
            each.filter(|job| seen.insert(job.identity)).collect::<Vec<Job>>()
        };
        let readings = Reading::ALL.map(|reading| (reading, reading.open(platform)));
        let mut list = jobs(readings.iter().map(|(_, open)| *open).collect(), options.packets, false);
        list.extend(jobs(opens(), options.range_packets, true));
        let (figures, range) = (HashMap::new(), HashMap::new());
        Ok(Self { readings: readings.into(), trace, jobs: list, figures, range })
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
        let trace = self.trace.as_ref();
        let work = |job: &Job| run(platform, &job.open, job.identity.key, job.packets, trace);
        for_each(&self.jobs, threads, work, |place, outcome| {
            let job = &self.jobs[place];
            let results = if job.is_range { &mut self.range } else { &mut self.figures };
            results.insert(job.identity, Arc::new(outcome?));
            done += job.packets;
            progress(done, total);
            Ok(())
        })
    }

    /// Whether a file takes the place of the synthetic trace.
    pub(super) fn has_trace(&self) -> bool {
        self.trace.is_some()
    }

    /// Description of the trace file, if there is one.
    pub(super) fn trace(&self) -> Option<String> {
        self.trace.as_ref().map(Trace::described)
    }

    /// Description of the readings.
    pub(super) fn described(&self) -> String {
        let each = Reading::ALL.map(|reading| format!("{}: {}", reading.name(), self.readings[&reading]));
        each.join("; ")
    }

    /// Runs in a reading.
    pub(super) fn runs(&self, reading: Reading) -> Runs {
        self.of(&self.figures, &self.readings[&reading])
    }

    /// Runs with each combination of the range.
    pub(super) fn range(&self) -> Vec<(Open, Runs)> {
        opens().into_iter().map(|open| (open, self.of(&self.range, &open))).collect()
    }

    fn of(&self, results: &HashMap<Identity, Arc<Outcome>>, open: &Open) -> Runs {
        let has_trace = self.trace.is_some();
        let outcome = |key: &Key| results.get(&Identity::new(*key, open, has_trace)).map(Arc::clone);
        let all = Pattern::PAPER.into_iter().flat_map(keys);
        let found = all.filter_map(|key| Some((key, outcome(&key)?)));
        Runs { of: found.collect(), latency: open.latency }
    }
}
