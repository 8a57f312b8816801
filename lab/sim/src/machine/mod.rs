//! The state of a running simulation. Time advances from event to event; [`Part`] defines the order
//! of events at the same instant. A packet arrives after all other events of the same instant.
//! After each arrival, completion and timeout the scheduler runs until it has nothing to dispatch,
//! and then the source continues if there is room.

mod aggregate;
mod bus;
mod cores;
mod deviation;
mod events;
mod flow;
mod ingress;
mod parts;
mod processor;
mod sa_cache;
mod source;
mod stage;
mod stages;
mod worker;

use std::collections::VecDeque;

use convoy_scheduler::{Heuristic, Scheduler};

use aggregate::Aggregate;
use bus::Bus;
use cores::Cores;
use events::Events;
use ingress::Ingress;
use parts::{Part, Parts, Slots};
use processor::Processor;
use sa_cache::SaCache;
use source::Source;
use stage::{Server, Single, Stage};

use crate::measures::Measures;
use crate::platform::{AlgorithmsOfSas, Platform, StagePosition};
use crate::report::{CoresReport, Load, Report};
use crate::simulation::Simulation;
use crate::time::NEVER;
use crate::traffic::{Traffic, TrafficError};

/// A packet inside the platform.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// When its last bit arrived, in ticks.
    pub arrived_ticks: u64,
    /// `b`: payload and header, in bytes.
    pub bytes: u32,
    /// Its traffic class.
    pub class: u8,
}

/// A multi-packet that a processor has completed.
#[derive(Debug)]
pub struct Served<'a> {
    /// Index of the processor in the platform's order.
    pub processor: usize,
    /// The SA of all its packets.
    pub sa: u32,
    /// When it was scheduled, in ticks.
    pub scheduled_ticks: u64,
    /// When it was completed, in ticks.
    pub completed_ticks: u64,
    /// `w` (equation 2), in ticks.
    pub predicted_wait_ticks: u64,
    /// `p` (equation 7), in ticks, including the time to fetch its SA if the processor's cache did
    /// not hold it.
    pub processing_ticks: u64,
    /// Its packets, in order.
    pub packets: &'a [Carried],
}

/// Receives what happens in a run.
pub trait Observer {
    /// Called for each completed multi-packet.
    fn served(&mut self, multi_packet: &Served<'_>);
}

/// Ignores everything.
impl Observer for () {
    #[inline]
    fn served(&mut self, _: &Served<'_>) {}
}

impl<F: FnMut(&Served<'_>)> Observer for F {
    #[inline]
    fn served(&mut self, multi_packet: &Served<'_>) {
        self(multi_packet);
    }
}

pub(crate) struct Machine<'a, T, O> {
    now: u64,
    events: Events,
    /// The part of each slot of `events`.
    parts: Vec<Part>,
    slots: Vec<Slots>,
    timeout_slot: Option<usize>,
    source: Source<T>,
    /// Present if the source does not wait.
    ingress: Option<Ingress>,
    /// When the next packet arrives; [`NEVER`] while the source's clock is stopped.
    arrival: u64,
    scheduler: Scheduler<Carried>,
    /// Present if the packets of a multi-packet share outer packets.
    aggregate: Option<Aggregate>,
    /// The processor on whose core the scheduler runs, if any.
    worker: Option<usize>,
    is_work_conserving: bool,
    /// Whether multi-packets are dispatched only when the window is full or the traffic has ended.
    only_full_windows_go: bool,
    buses: Vec<Bus>,
    processors: Vec<Processor<Carried>>,
    algorithms: AlgorithmsOfSas,
    /// Processors with caches of SAs whose contents the scheduler knows. The low bits of the number
    /// of a scheduler's algorithm stand for them, in this order.
    known_caches: Vec<usize>,
    has_stages: bool,
    stages: Vec<Stage>,
    cores: Vec<Cores>,
    /// Stages before and after cryptography, in order.
    before: Vec<usize>,
    after: Vec<usize>,
    /// Packets that have passed the stages before cryptography and wait for room in the window.
    door: VecDeque<Single>,
    /// Largest number of packets in the platform, and their current number, which is counted only
    /// if there are stages.
    frames: usize,
    inside: usize,
    /// The most packets that all processors hold together, and how many they hold.
    pool: usize,
    at_processors: usize,
    measures: Measures,
    observer: &'a mut O,
}

/// Why the scheduler refuses a platform.
pub(crate) type Refused = String;

impl<'a, T: Traffic, O: Observer> Machine<'a, T, O> {
    pub(crate) fn new(simulation: &Simulation, traffic: T, observer: &'a mut O) -> Result<Self, Refused> {
        let platform = &simulation.platform;
        let Parts { engines, processors, stages, cores, slots, parts } =
            Parts::new(platform, simulation.seed);
        let cached = (0..processors.len()).filter(|at| processors[*at].cache.is_some());
        let cached: Vec<usize> = cached.collect();
        let mut config = platform.scheduler.config().map_err(|(key, what)| format!("{key}: {what}"))?;
        // In all other cases predictions are exact.
        config.correct |= !platform.scheduler.knows_caches && !cached.is_empty();
        let of = |place| {
            let all = platform.stages.iter().enumerate();
            all.filter(|(_, stage)| stage.place == place && stage.enabled)
                .map(|(at, _)| at)
                .collect::<Vec<_>>()
        };
        let packets = simulation.packets.unwrap_or(u64::MAX);
        let is_work_conserving = platform.scheduler.work_conserving;
        let worker = platform.scheduler.on.as_ref().map(|name| platform.first_of(name));
        let is_staged = !stages.is_empty() || worker.is_some();
        let names = engines.iter().map(|engine| engine.name.clone()).collect();
        let mut scheduler = Scheduler::new(config.clone(), engines).map_err(|error| error.to_string())?;
        if let Some(heuristic) = platform.scheduler.heuristic() {
            scheduler.set_heuristic(heuristic);
        }
        Ok(Self {
            now: 0,
            events: Events::new(parts.len()),
            timeout_slot: parts.iter().position(|part| *part == Part::Timeout),
            parts,
            slots,
            source: Source::new(traffic, simulation.arrivals, simulation.seed, &platform.source, packets),
            ingress: Ingress::of(&platform.source),
            arrival: NEVER,
            only_full_windows_go: config.classes == 1
                && config.max_wait == 0
                && config.late_margin.is_none()
                && config.byte_limit == u32::MAX
                && config.research.window_bytes == u64::MAX
                && !is_work_conserving
                && !is_staged
                && !platform.source.is_lossy(),
            measures: Measures::new(names, config.classes),
            scheduler,
            aggregate: Aggregate::of(platform),
            worker,
            is_work_conserving,
            buses: platform.buses.iter().map(Bus::new).collect(),
            processors,
            algorithms: AlgorithmsOfSas::new(&platform.algorithms),
            known_caches: if platform.scheduler.knows_caches { cached } else { Vec::new() },
            frames: if stages.is_empty() { usize::MAX } else { platform.source.frames },
            has_stages: is_staged,
            stages,
            cores,
            before: of(StagePosition::Before),
            after: of(StagePosition::After),
            door: VecDeque::new(),
            inside: 0,
            pool: platform.scheduler.pool.unwrap_or(usize::MAX),
            at_processors: 0,
            observer,
        })
    }

    /// Sets what takes the policy's place.
    pub(crate) fn set_heuristic(&mut self, heuristic: Box<dyn Heuristic>) {
        self.scheduler.set_heuristic(heuristic);
    }

    /// Runs until the traffic has ended and all packets have left.
    pub(crate) fn run(mut self, simulation: &Simulation) -> Result<Report, TrafficError> {
        self.source.read()?;
        self.resume_source();
        loop {
            let (time, slot) = self.events.next();
            let mut is_news = true;
            if self.arrival < time {
                if self.ingress.is_some() { self.arrive_or_drop() } else { self.arrive(time) }?;
            } else if time == NEVER {
                break;
            } else {
                self.now = time;
                self.events.set(slot, NEVER);
                is_news = self.happen(self.parts[slot]);
            }
            if self.ingress.is_some() && is_news {
                self.schedule_and_let_in();
            } else if is_news {
                self.schedule();
                self.resume_source();
            }
        }
        let busy: Vec<u64> = self.processors.iter().map(|processor| processor.busy_ticks).collect();
        let buses = simulation.platform.buses.iter().zip(&self.buses);
        let buses = buses.map(|(spec, bus)| bus.report(&spec.name, self.now)).collect();
        let mut report = self.measures.report(&busy, buses, self.source.waited_ticks, self.now);
        for (report, processor) in report.processors.iter_mut().zip(&self.processors) {
            report.cache = processor.cache.as_ref().map(SaCache::report);
        }
        Ok(self.with_loads_and_stages(report, &simulation.platform))
    }

    /// Adds the offered, carried and dropped load, and the reports of stages and cores.
    fn with_loads_and_stages(&self, report: Report, platform: &Platform) -> Report {
        let header = u64::from(platform.source.header_bytes);
        let load = |packets: u64, bytes: u64, until: u64| Load::new(packets, bytes - header * packets, until);
        let (packets, bytes) = (self.source.offered_packets, self.source.offered_bytes);
        let last_arrival = self.source.stands_since;
        let (lost_packets, lost_bytes) =
            self.ingress.as_ref().map_or((0, 0), |it| (it.dropped_packets, it.dropped_bytes));
        let servers = |stage: &Stage| match &stage.server {
            Server::Own(servers) => servers.len(),
            Server::Cores(of) => self.cores[*of].at.len(),
            Server::Processor(_) | Server::Bus(_) => 1,
        };
        let stages = platform.stages.iter().zip(&self.stages).filter(|(spec, _)| spec.enabled);
        let busy = |ticks: u64, of: usize| {
            if self.now == 0 { 0.0 } else { ticks as f64 / self.now as f64 / of as f64 }
        };
        let cores = platform.cores.iter().zip(&self.cores).map(|(spec, cores)| CoresReport {
            name: spec.name.clone(),
            count: spec.count,
            utilisation: busy(cores.busy_ticks, spec.count),
        });
        Report {
            offered: load(packets, bytes, last_arrival),
            carried: load(report.packets_out, report.bytes, self.now),
            dropped: load(lost_packets, lost_bytes, last_arrival),
            success_ratio: if packets == 0 { 1.0 } else { report.packets_out as f64 / packets as f64 },
            stages: stages.map(|(spec, stage)| stage.report(&spec.name, servers(stage), self.now)).collect(),
            cores: cores.collect(),
            outer: self.aggregate.as_ref().map(Aggregate::report),
            ..report
        }
    }

    /// Handles an event, and returns whether the scheduler should run. It runs after arrivals,
    /// completions and timeouts but not after the steps between them; with stages, any step may
    /// concern the worker.
    #[inline]
    fn happen(&mut self, part: Part) -> bool {
        match part {
            Part::Output(processor) => self.moved_out(processor),
            Part::Input(processor) => {
                self.moved_in(processor);
                return self.has_stages;
            }
            Part::Core(processor) => return self.computed(processor) || self.has_stages,
            Part::Moved(stage) => self.stage_moved(stage),
            Part::Server(stage, server) => self.server_done(stage, server),
            Part::OneOf(cores, core) => self.core_done(cores, core),
            // The only effect of a timeout is that the scheduler runs.
            Part::Timeout => {}
        }
        true
    }
}
