//! The list of runs: those behind the figures, and those over the range of open parameters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use convoy_scheduler::FullQueue;
use convoy_sim::parallel::for_each;
use convoy_sim::{Pattern, Platform};

use super::claims::opens;
use super::noise::{PatternNoise, SEEDS, SHORTER, is_repeated};
use super::readings::{Limit, Open, Reading, Transfers};
use super::runs::{Key, Outcome, Runs, is_of_trace, keys, reading_keys, run};
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
    purpose: Purpose,
}

/// What a run is for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Purpose {
    /// The figures and the claims.
    Figures,
    /// The noise: another seed.
    Noise(u64),
    /// The range of open parameters.
    Range,
}

/// All runs and their results.
pub(super) struct Plan {
    readings: HashMap<Reading, Open>,
    trace: Option<Trace>,
    jobs: Vec<Job>,
    results: HashMap<(Purpose, Identity), Arc<Outcome>>,
    /// Packets of each run behind the figures, for the noise, and over the range.
    packets: [u64; 3],
    /// The noise of runs behind the figures.
    noise: PatternNoise,
}

impl Plan {
    /// Reads the trace, if there is one.
    pub(super) fn new(platform: &Platform, options: &FigureOptions) -> Result<Self, FigureError> {
        let most = options.packets.max(options.range_packets);
        let trace = options.trace.as_ref().map(|path| Trace::open(path, most)).transpose()?;
        let readings = Reading::ALL.map(|reading| (reading, reading.open(platform)));
        let packets = [options.packets, (options.packets / SHORTER).max(1), options.range_packets];
        let mut jobs = Jobs { list: Vec::new(), seen: HashSet::new(), has_trace: trace.is_some() };
        for (_, open) in readings {
            jobs.add(open, packets[0], Purpose::Figures, reading_keys, |_| true);
        }
        for seed in SEEDS {
            for (reading, open) in readings {
                if let Some(is_pool) = repeated(reading) {
                    let wanted = |key: &Key| is_repeated(key, is_pool);
                    jobs.add(open, packets[1], Purpose::Noise(seed), reading_keys, wanted);
                }
            }
        }
        for open in opens() {
            jobs.add(open, packets[2], Purpose::Range, keys, |_| true);
        }
        let (jobs, results, noise) = (jobs.list, HashMap::new(), PatternNoise::default());
        Ok(Self { readings: readings.into(), trace, jobs, results, packets, noise })
    }

    /// Number of runs behind the figures, and over the range.
    pub(super) fn counts(&self) -> (usize, usize) {
        let of = |wanted: fn(Purpose) -> bool| self.jobs.iter().filter(|job| wanted(job.purpose)).count();
        (of(|purpose| purpose == Purpose::Figures), of(|purpose| purpose == Purpose::Range))
    }

    /// Number of runs with other seeds, and their packets.
    pub(super) fn repetitions(&self) -> (usize, u64) {
        let (figures, range) = self.counts();
        (self.jobs.len() - figures - range, self.packets[1])
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
        let work = |job: &Job| {
            let seed = if let Purpose::Noise(seed) = job.purpose { Some(seed) } else { None };
            run(platform, &job.open, job.identity.key, job.packets, seed, trace)
        };
        for_each(&self.jobs, threads, work, |place, outcome| {
            let job = &self.jobs[place];
            self.results.insert((job.purpose, job.identity), Arc::new(outcome?));
            done += job.packets;
            progress(done, total);
            Ok::<(), FigureError>(())
        })?;
        let seeds = SEEDS.map(|seed| self.of(Purpose::Noise(seed), &self.readings[&Reading::Pool]));
        self.noise =
            PatternNoise::measured(&seeds).with_packets(self.packets[0] as f64 / self.packets[1] as f64);
        Ok(())
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

    /// Names and values of the readings.
    pub(super) fn readings(&self) -> Vec<(&'static str, String)> {
        Reading::ALL.map(|reading| (reading.name(), self.readings[&reading].to_string())).into()
    }

    /// Runs in a reading.
    pub(super) fn runs(&self, reading: Reading) -> Runs {
        self.of(Purpose::Figures, &self.readings[&reading])
    }

    /// Runs in a reading with each other seed; none if no claim is checked in it.
    pub(super) fn repeated(&self, reading: Reading) -> Vec<Runs> {
        let seeds = if repeated(reading).is_some() { &SEEDS[..] } else { &[] };
        seeds.iter().map(|seed| self.of(Purpose::Noise(*seed), &self.readings[&reading])).collect()
    }

    /// Runs with each combination of the range.
    pub(super) fn range(&self) -> Vec<(Open, Runs)> {
        opens().into_iter().map(|open| (open, self.of(Purpose::Range, &open))).collect()
    }

    /// The noise of runs behind the figures, and over the range.
    pub(super) fn noise(&self) -> [PatternNoise; 2] {
        [self.noise, self.noise.with_packets(self.packets[2] as f64 / self.packets[0] as f64)]
    }

    fn of(&self, purpose: Purpose, open: &Open) -> Runs {
        let has_trace = self.trace.is_some();
        let outcome =
            |key: &Key| self.results.get(&(purpose, Identity::new(*key, open, has_trace))).map(Arc::clone);
        let all = Pattern::PAPER.into_iter().flat_map(reading_keys);
        let found = all.filter_map(|key| Some((key, outcome(&key)?)));
        let packets = match purpose {
            Purpose::Figures => self.packets[0],
            Purpose::Noise(_) => self.packets[1],
            Purpose::Range => self.packets[2],
        };
        let noise = self.noise.with_packets(packets as f64 / self.packets[0] as f64);
        Runs { of: found.collect(), latency: open.latency, noise }
    }
}

/// Whether a reading that is repeated with other seeds is one of the pool; `None` if it is not
/// repeated, because no claim is checked in it.
fn repeated(reading: Reading) -> Option<bool> {
    match reading {
        Reading::Queues => None,
        Reading::Pool | Reading::PoolFromWindow => Some(true),
        Reading::LocalMemory => Some(false),
    }
}

/// The list of runs, without those that are in it already.
struct Jobs {
    list: Vec<Job>,
    seen: HashSet<(Purpose, Identity)>,
    has_trace: bool,
}

impl Jobs {
    /// Adds the runs of all patterns that are wanted.
    fn add(
        &mut self,
        open: Open,
        packets: u64,
        purpose: Purpose,
        keys: fn(Pattern) -> Vec<Key>,
        wanted: impl Fn(&Key) -> bool,
    ) {
        for key in Pattern::PAPER.into_iter().flat_map(keys).filter(|key| wanted(key)) {
            let identity = Identity::new(key, &open, self.has_trace);
            if self.seen.insert((purpose, identity)) {
                self.list.push(Job { identity, open, packets, purpose });
            }
        }
    }
}
