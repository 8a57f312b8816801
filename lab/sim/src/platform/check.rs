//! Checks that the grammar of TOML cannot express: ranges, and references to names elsewhere in the
//! file.

use std::collections::HashSet;
use std::ops::Range;

use convoy_scheduler::{ENGINES, Scheduler};
use convoy_settings::nearest;
use toml::de::DeTable;

use super::algorithm::ALGORITHMS_MAX;
use super::cache::SAS_MAX;
use super::{
    AlgorithmRatios, BusSpec, Platform, ProcessorKind, ProcessorSpec, SaCacheSpec, StagePosition, StageSpec,
};
use crate::aggregation::MTU_MIN;

/// The most servers of a stage: each has a place in the machine.
const MOST_SERVERS: usize = 65_536;

/// An error and its key. An element of a list is identified by the name of its table and its index.
#[derive(Debug)]
pub(crate) struct Problem {
    table: &'static str,
    place: Option<usize>,
    key: &'static str,
    pub(super) what: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.key(), self.what)
    }
}

impl Problem {
    pub(super) fn key(&self) -> String {
        let table = match self.place {
            Some(place) => format!("{}[{place}]", self.table),
            None => self.table.to_owned(),
        };
        if self.key.is_empty() { table } else { format!("{table}.{}", self.key) }
    }

    /// The place of the key's value if it is there, otherwise that of its table.
    pub(super) fn span(&self, document: &DeTable<'_>) -> Range<usize> {
        let Some(mut value) = document.get(self.table) else { return 0..0 };
        if let Some(item) = self.place.and_then(|place| value.get_ref().as_array()?.get(place)) {
            value = item;
        }
        let inner = value.get_ref().as_table().and_then(|table| table.get(self.key));
        inner.unwrap_or(value).span()
    }
}

/// The first error that a sequence of checks finds, if any.
type Checked = Result<(), Problem>;

fn problem(table: &'static str, place: Option<usize>, key: &'static str, what: impl Into<String>) -> Problem {
    Problem { table, place, key, what: what.into() }
}

/// Checks that a number is finite, and above 0 or, with `zero`, at least 0.
fn positive(table: &'static str, place: Option<usize>, key: &'static str, value: f64, zero: bool) -> Checked {
    if value.is_finite() && (value > 0.0 || zero && value == 0.0) {
        return Ok(());
    }
    let least = if zero { "0 or more" } else { "above 0" };
    Err(problem(table, place, key, format!("{value}; it must be a number {least}")))
}

/// Largest number of caches that a scheduler may know, since each doubles the number of cost
/// models.
const KNOWN_CACHES: usize = 8;

fn check_cache(at: usize, processor: &ProcessorSpec) -> Checked {
    let Some(cache) = &processor.cache else { return Ok(()) };
    if !(1..=SAS_MAX).contains(&cache.sas) {
        let what = format!("{} SAs; a cache must hold 1 to {SAS_MAX}", cache.sas);
        return Err(problem("processor", Some(at), "cache", what));
    }
    if !(cache.miss_us.is_finite() && cache.miss_us >= 0.0) {
        let what = format!("miss_us = {}; it must be a number 0 or more", cache.miss_us);
        return Err(problem("processor", Some(at), "cache", what));
    }
    Ok(())
}

fn check_transfers(at: usize, processor: &ProcessorSpec) -> Checked {
    let what = match processor.transfers {
        2 => return Ok(()),
        1 if processor.bus.is_some() => return Ok(()),
        1 => "it is only for a processor with a bus".to_owned(),
        other => format!("{other}; a multi-packet crosses the bus 1 or 2 times"),
    };
    Err(problem("processor", Some(at), "transfers", what))
}

fn check_deviation(at: usize, processor: &ProcessorSpec) -> Checked {
    let Some(deviation) = &processor.deviation else { return Ok(()) };
    let positive = |name: &'static str, value: f64, zero: bool| {
        let is_good = value.is_finite() && (value > 0.0 || zero && value == 0.0);
        let least = if zero { "0 or more" } else { "above 0" };
        let what = || format!("{name} = {value}; it must be a number {least}");
        if is_good { Ok(()) } else { Err(problem("processor", Some(at), "deviation", what())) }
    };
    positive("ratio", deviation.ratio, false)?;
    positive("from_us", deviation.from_us, true)?;
    positive("spread", deviation.spread, true)?;
    positive("stall_every_us", deviation.stall_every_us, false)?;
    positive("stall_us", deviation.stall_us, true)?;
    if deviation.spread > 1.0 {
        let what = format!("spread = {}; it must be at most 1", deviation.spread);
        return Err(problem("processor", Some(at), "deviation", what));
    }
    if deviation.stall_us > 0.0 && (processor.prefetch || processor.write_buffer) {
        let what = "stall_us is for a processor without prefetch and write_buffer";
        return Err(problem("processor", Some(at), "deviation", what));
    }
    Ok(())
}

fn check_buffers(at: usize, processor: &ProcessorSpec) -> Checked {
    if processor.bus.is_none() && (processor.prefetch || processor.write_buffer) {
        let key = if processor.prefetch { "prefetch" } else { "write_buffer" };
        return Err(problem("processor", Some(at), key, "it is only for a processor with a bus"));
    }
    Ok(())
}

fn check_bus_spec(at: usize, bus: &BusSpec) -> [Checked; 2] {
    let has_width = || {
        let what = "0; a cycle carries at least 1 byte";
        if bus.width_bytes == 0 { Err(problem("bus", Some(at), "width_bytes", what)) } else { Ok(()) }
    };
    [positive("bus", Some(at), "clock_mhz", bus.clock_mhz, false), has_width()]
}

impl Platform {
    /// Checks platforms that were built in code as well as those read from a file; the first error.
    pub(crate) fn check(&self) -> Checked {
        self.problems().into_iter().next().map_or(Ok(()), Err)
    }

    /// All errors.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let single = [
            positive("source", None, "rate_mbps", self.source.rate_mbps, false),
            positive("reference", None, "t_init_us", self.reference.t_init_us, true),
            positive("reference", None, "block_mbps", self.reference.block_mbps, false),
            positive("scheduler", None, "max_wait_us", self.scheduler.max_wait_us, true),
            positive("scheduler", None, "late_margin_us", self.scheduler.late_margin_us.unwrap_or(0.0), true),
            self.check_pool(),
            self.check_worker(),
            self.check_scheduler(),
            self.check_aggregation(),
            self.check_names(),
        ];
        let buses = self.buses.iter().enumerate().flat_map(|(at, bus)| check_bus_spec(at, bus));
        let algorithms = self.algorithms.iter().enumerate();
        let algorithms = algorithms.map(|(at, of)| positive("algorithm", Some(at), "share", of.share, false));
        let processors = self.processors.iter().enumerate();
        let processors = processors.flat_map(|(at, processor)| self.check_processor(at, processor));
        let stages = self.stages.iter().enumerate().map(|(at, stage)| self.check_stage(at, stage));
        let last = [
            self.check_processors(),
            self.check_algorithms(),
            self.check_cores(),
            self.check_queue(),
            self.check_frames(),
        ];
        let all =
            single.into_iter().chain(buses).chain(algorithms).chain(processors).chain(stages).chain(last);
        all.filter_map(Result::err).collect()
    }

    fn check_queue(&self) -> Checked {
        if self.source.queue_bytes == Some(0) {
            let what = "0; a queue holds at least 1 byte, or give queue_packets = 0 for none";
            return Err(problem("source", None, "queue_bytes", what));
        }
        Ok(())
    }

    fn check_frames(&self) -> Checked {
        let window = self.scheduler.window_max.unwrap_or(0).max(self.scheduler.window);
        if !self.stages.is_empty() && self.source.frames < window {
            let what = format!("{} frames do not fill a window of {window}", self.source.frames);
            return Err(problem("source", None, "frames", what));
        }
        Ok(())
    }

    fn check_pool(&self) -> Checked {
        if self.scheduler.pool == Some(0) {
            return Err(problem("scheduler", None, "pool", "0; at least 1 packet is needed"));
        }
        Ok(())
    }

    fn check_worker(&self) -> Checked {
        if let Some(on) = &self.scheduler.on
            && !self.is_single_without_bus(on)
        {
            let what = format!("{on:?} is not the name of a single processor without a bus");
            return Err(problem("scheduler", None, "on", what));
        }
        Ok(())
    }

    fn check_scheduler(&self) -> Checked {
        let config = self.scheduler.config().map_err(|(key, what)| problem("scheduler", None, key, what))?;
        // The bounds are checked by the scheduler's constructor, which needs at least one engine.
        let engine =
            convoy_scheduler::EngineModel { name: String::new(), is_cpu: true, depth: 0, costs: Vec::new() };
        Scheduler::<()>::new(config, vec![engine])
            .map(|_| ())
            .map_err(|error| problem("scheduler", None, "", error.to_string()))
    }

    fn check_aggregation(&self) -> Checked {
        if self.source.esp_bytes > self.source.header_bytes {
            let what =
                format!("{}; it cannot exceed header_bytes, of which it is a part", self.source.esp_bytes);
            return Err(problem("source", None, "esp_bytes", what));
        }
        let Some(mtu) = self.scheduler.aggregation else { return Ok(()) };
        if !(MTU_MIN..=u32::from(u16::MAX)).contains(&mtu) {
            let what = format!("{mtu} bytes; a path MTU must be {MTU_MIN} to {}", u16::MAX);
            return Err(problem("scheduler", None, "aggregation", what));
        }
        // A stage serves inner packets, while those behind cryptography would get outer ones.
        let is_behind = |stage: &&StageSpec| stage.place == StagePosition::After && stage.enabled;
        match self.stages.iter().find(is_behind) {
            Some(stage) => {
                let what = format!(
                    "stage {:?} is after cryptography and processes single packets, so packets cannot \
                        be aggregated",
                    stage.name
                );
                Err(problem("scheduler", None, "aggregation", what))
            }
            None => Ok(()),
        }
    }

    fn check_names(&self) -> Checked {
        let processors = self.processors.iter().map(|processor| &processor.name);
        let lists: [(&'static str, Vec<&String>); 5] = [
            ("algorithm", self.algorithms.iter().map(|algorithm| &algorithm.name).collect()),
            ("bus", self.buses.iter().map(|bus| &bus.name).collect()),
            ("processor", processors.clone().collect()),
            // A stage's `on` may name a processor or cores, so that they share one set of names.
            ("cores", processors.chain(self.cores.iter().map(|cores| &cores.name)).collect()),
            ("stage", self.stages.iter().map(|stage| &stage.name).collect()),
        ];
        for (table, names) in lists {
            let mut seen = HashSet::new();
            if let Some(at) = names.iter().position(|name| !seen.insert(*name)) {
                let what = format!("{:?} is used twice; names must differ", names[at]);
                let at = if table == "cores" { at - self.processors.len() } else { at };
                return Err(problem(table, Some(at), "name", what));
            }
        }
        Ok(())
    }

    fn check_processor(&self, at: usize, processor: &ProcessorSpec) -> Vec<Checked> {
        vec![
            positive("processor", Some(at), "init_ratio", processor.init_ratio, true),
            positive("processor", Some(at), "enc_ratio", processor.enc_ratio, true),
            self.check_bus("processor", at, processor.bus.as_deref()),
            check_transfers(at, processor),
            check_cache(at, processor),
            check_deviation(at, processor),
            check_buffers(at, processor),
            self.check_supported(at, processor),
        ]
    }

    fn check_supported(&self, at: usize, processor: &ProcessorSpec) -> Checked {
        let wrong = |what: String| Err(problem("processor", Some(at), "algorithms", what));
        for (name, AlgorithmRatios { init_ratio, enc_ratio }) in processor.algorithms.iter().flatten() {
            if !self.algorithms.iter().any(|algorithm| algorithm.name == *name) {
                let known: Vec<&str> = self.algorithms.iter().map(|of| of.name.as_str()).collect();
                let meant = nearest(name, &known).map(|meant| format!("; did you mean {meant:?}?"));
                let meant = meant.unwrap_or_default();
                return wrong(format!("there is no [[algorithm]] with the name {name:?}{meant}"));
            }
            for (key, ratio) in [("init_ratio", init_ratio), ("enc_ratio", enc_ratio)] {
                if let Some(ratio) = ratio.filter(|ratio| !(ratio.is_finite() && *ratio >= 0.0)) {
                    return wrong(format!("{name}.{key} = {ratio}; it must be a number 0 or more"));
                }
            }
        }
        Ok(())
    }

    /// Checks that each algorithm has a processor: its packets would stop the window.
    fn check_algorithms(&self) -> Checked {
        if self.algorithms.len() > ALGORITHMS_MAX {
            let what = format!("there are {}; at most {ALGORITHMS_MAX} are possible", self.algorithms.len());
            return Err(problem("algorithm", None, "", what));
        }
        let there = || self.processors.iter().filter(|processor| processor.count > 0);
        for (at, algorithm) in self.algorithms.iter().enumerate() {
            let supports = |processor: &ProcessorSpec| self.ratios_of(processor)[at].is_some();
            if !there().any(supports) {
                let what = format!("no processor supports {:?}, so its packets never leave", algorithm.name);
                return Err(problem("algorithm", Some(at), "name", what));
            }
        }
        Ok(())
    }

    fn check_processors(&self) -> Checked {
        let all: usize = self.processors.iter().map(|processor| processor.count).sum();
        if !(1..=ENGINES).contains(&all) {
            let what = format!("there are {all} processors; 1 to {ENGINES} are possible");
            return Err(problem("processor", None, "", what));
        }
        let known = if self.scheduler.knows_caches { self.caches().count() } else { 0 };
        if known > KNOWN_CACHES {
            let what = format!(
                "there are {known} caches of SAs; with scheduler.knows_caches at most {KNOWN_CACHES} are possible"
            );
            return Err(problem("processor", None, "", what));
        }
        let has_cpu = self.processors.iter().any(|it| it.kind == ProcessorKind::Cpu && it.count > 0);
        if self.scheduler.policy == "cpu-only" && !has_cpu {
            return Err(problem("scheduler", None, "policy", "cpu-only needs a processor of kind \"cpu\""));
        }
        Ok(())
    }

    fn check_cores(&self) -> Checked {
        match self.cores.iter().position(|cores| cores.count == 0) {
            Some(at) => Err(problem("cores", Some(at), "count", "0; at least 1 is needed")),
            None => Ok(()),
        }
    }

    fn check_bus(&self, table: &'static str, at: usize, bus: Option<&str>) -> Checked {
        match bus {
            Some(name) if !self.buses.iter().any(|bus| bus.name == name) => {
                let buses: Vec<&str> = self.buses.iter().map(|bus| bus.name.as_str()).collect();
                let meant = nearest(name, &buses).map(|meant| format!("; did you mean {meant:?}?"));
                let what = format!("there is no [[bus]] with the name {name:?}{}", meant.unwrap_or_default());
                Err(problem(table, Some(at), "bus", what))
            }
            _ => Ok(()),
        }
    }

    fn check_stage(&self, at: usize, stage: &StageSpec) -> Checked {
        let wrong = |key, what: String| Err(problem("stage", Some(at), key, what));
        positive("stage", Some(at), "packet_us", stage.packet_us, true)?;
        positive("stage", Some(at), "byte_ns", stage.byte_ns, true)?;
        self.check_bus("stage", at, stage.bus.as_deref())?;
        if stage.servers == 0 {
            return wrong("servers", "0; at least 1 is needed".to_owned());
        }
        if stage.servers > MOST_SERVERS {
            return wrong("servers", format!("{}; at most {MOST_SERVERS} are simulated", stage.servers));
        }
        if stage.bus.is_some() && (stage.on.is_some() || stage.packet_us > 0.0 || stage.byte_ns > 0.0) {
            return wrong("bus", "a stage is either on a bus or takes time of its own".to_owned());
        }
        match &stage.on {
            Some(on) if !self.is_single_without_bus(on) && self.cores_of(on).is_none() => wrong(
                "on",
                format!("{on:?} is neither the name of a single processor without a bus nor of [[cores]]"),
            ),
            _ => Ok(()),
        }
    }

    /// The caches of all processors, where identical processors count separately.
    pub(crate) fn caches(&self) -> impl Iterator<Item = &SaCacheSpec> {
        self.processors.iter().flat_map(|of| std::iter::repeat_n(of.cache.as_ref(), of.count).flatten())
    }

    /// Index of the cores of this name.
    pub(crate) fn cores_of(&self, name: &str) -> Option<usize> {
        self.cores.iter().position(|cores| cores.name == name)
    }

    fn is_single_without_bus(&self, name: &str) -> bool {
        let found = self.processors.iter().find(|processor| processor.name == name);
        found.is_some_and(|processor| processor.count == 1 && processor.bus.is_none())
    }
}
