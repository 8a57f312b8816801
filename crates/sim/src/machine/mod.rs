//! The machine: a platform under way. Time goes from event to event; see [`Events`] for what comes first.
//!
//! At one instant transfers end first, then processors are done in their order, then stages, then the window's
//! timeout, then a packet arrives (open: MODEL.md does not say). After each event the scheduler is asked until it has
//! nothing to send, and then the source goes on if there is room.

mod bus;
mod events;
mod flow;
mod processor;
mod source;
mod stage;
mod stages;

use std::collections::VecDeque;

use convoy_scheduler::{CostModel, EngineModel, Scheduler};

use bus::{Bus, Client};
use events::Events;
use processor::Processor;
use source::Source;
use stage::{Server, Single, Stage};

use crate::measures::Measures;
use crate::platform::{Place, Platform, ProcessorKind};
use crate::report::Report;
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

/// A multi-packet that a processor is done with.
#[derive(Debug)]
pub struct Served<'a> {
    /// The processor, by its place; the CPU first where the platform names it first.
    pub processor: usize,
    /// The SA of all its packets.
    pub sa: u32,
    /// When it was scheduled, in ticks.
    pub scheduled_ticks: u64,
    /// When it was done, in ticks.
    pub completed_ticks: u64,
    /// `w` (equation 2), in ticks.
    pub predicted_wait_ticks: u64,
    /// `p` (equation 7), in ticks.
    pub processing_ticks: u64,
    /// Its packets, in order.
    pub packets: &'a [Carried],
}

/// Watches a run.
pub trait Observer {
    /// A multi-packet is done.
    fn served(&mut self, multi_packet: &Served<'_>);
}

/// Watches nothing.
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
    /// The slots of the first processor, of the first stage's server, and of the timeout; buses have the first ones,
    /// the source the last.
    processors_at: usize,
    stages_at: usize,
    timeout_at: usize,
    source_at: usize,
    source: Source<T>,
    scheduler: Scheduler<Carried>,
    is_work_conserving: bool,
    has_timeout: bool,
    buses: Vec<Bus>,
    processors: Vec<Processor<Carried>>,
    /// The slot that each stage's own server has; which stage it is.
    stage_of_server: Vec<usize>,
    stages: Vec<Stage>,
    /// Stages before and after cryptography, in order.
    before: Vec<usize>,
    after: Vec<usize>,
    /// Packets that are through the stages before, and wait for room in the window.
    door: VecDeque<Single>,
    /// Packets that may be inside, and those that are; without stages nobody counts.
    frames: usize,
    inside: usize,
    measures: Measures,
    observer: &'a mut O,
}

/// Why a machine cannot be made of a platform: the scheduler refuses it.
pub(crate) type Refused = String;

impl<'a, T: Traffic, O: Observer> Machine<'a, T, O> {
    pub(crate) fn new(simulation: &Simulation, traffic: T, observer: &'a mut O) -> Result<Self, Refused> {
        let platform = &simulation.platform;
        let (engines, processors) = processors(platform);
        let config = platform.scheduler.config().map_err(|(key, what)| format!("{key}: {what}"))?;
        let has_timeout = config.max_wait > 0;
        let processors_at = platform.buses.len();
        let stages_at = processors_at + processors.len();
        let (stages, stage_of_server) = stages(platform, stages_at);
        let timeout_at = stages_at + stage_of_server.len();
        let of = |place| {
            let all = platform.stages.iter().enumerate();
            all.filter(|(_, stage)| stage.place == place).map(|(at, _)| at).collect::<Vec<_>>()
        };
        let line = (platform.source.rate_mbps, platform.source.header_bytes);
        let packets = simulation.packets.unwrap_or(u64::MAX);
        Ok(Self {
            now: 0,
            events: Events::new(timeout_at + 2),
            processors_at,
            stages_at,
            timeout_at,
            source_at: timeout_at + 1,
            source: Source::new(traffic, (simulation.arrivals, simulation.seed), line, packets),
            measures: Measures::new(engines.iter().map(|engine| engine.name.clone()).collect()),
            scheduler: Scheduler::new(config, engines).map_err(|error| error.to_string())?,
            is_work_conserving: platform.scheduler.work_conserving,
            has_timeout,
            buses: platform.buses.iter().map(Bus::new).collect(),
            processors,
            stage_of_server,
            stages,
            before: of(Place::Before),
            after: of(Place::After),
            door: VecDeque::new(),
            frames: if platform.stages.is_empty() { usize::MAX } else { platform.source.frames },
            inside: 0,
            observer,
        })
    }

    /// Runs to the end of the traffic and until everything is done.
    pub(crate) fn run(mut self, simulation: &Simulation) -> Result<Report, TrafficError> {
        self.source.fetch()?;
        self.resume_source();
        while let Some((now, slot)) = self.events.pop() {
            self.now = now;
            // The most frequent first.
            if slot == self.source_at {
                self.arrive()?;
            } else if slot < self.processors_at {
                self.transferred(slot);
            } else if slot < self.stages_at {
                self.computed(slot - self.processors_at);
            } else if slot < self.timeout_at {
                self.server_done(slot);
            }
            self.schedule();
            self.resume_source();
        }
        let busy: Vec<u64> = self.processors.iter().map(|processor| processor.busy_ticks).collect();
        let buses = simulation.platform.buses.iter().zip(&self.buses);
        let buses = buses.map(|(spec, bus)| bus.report(&spec.name, self.now)).collect();
        Ok(self.measures.report(&busy, buses, self.source.waited_ticks, self.now))
    }
}

impl Bus {
    fn report(&self, name: &str, end: u64) -> crate::report::BusReport {
        crate::report::BusReport {
            name: name.to_owned(),
            requests: self.requests,
            conflicts: self.conflicts,
            utilisation: if end == 0 { 0.0 } else { self.busy_ticks as f64 / end as f64 },
        }
    }
}

/// Processors as the scheduler and as the machine sees them.
fn processors(platform: &Platform) -> (Vec<EngineModel>, Vec<Processor<Carried>>) {
    let reference = &platform.reference;
    let (t_init, t_block) = (reference.t_init_us * 1e6, 128.0 / reference.block_mbps * 1e6);
    let (mut engines, mut processors) = (Vec::new(), Vec::new());
    for spec in &platform.processors {
        // Equation 7.
        let cost = CostModel { t_init: t_init * spec.init_ratio, t_block: t_block * spec.enc_ratio };
        let bus = platform.buses.iter().position(|bus| Some(&bus.name) == spec.bus.as_ref());
        for number in 1..=spec.count {
            let name = if spec.count == 1 { spec.name.clone() } else { format!("{}-{number}", spec.name) };
            let is_cpu = spec.kind == ProcessorKind::Cpu;
            engines.push(EngineModel { name, is_cpu, depth: spec.depth, costs: vec![Some(cost)] });
            processors.push(Processor::new(bus, spec.prefetch, spec.write_buffer, spec.depth));
        }
    }
    (engines, processors)
}

/// Stages, and for each of their own servers which stage it is.
fn stages(platform: &Platform, stages_at: usize) -> (Vec<Stage>, Vec<usize>) {
    let mut of_server = Vec::new();
    let mut processor_at = Vec::new();
    for spec in &platform.processors {
        let at = processor_at.last().map_or(0, |(_, next)| *next);
        processor_at.push((at, at + spec.count));
    }
    let stage = |(at, spec): (usize, &crate::platform::StageSpec)| {
        let bus = platform.buses.iter().position(|bus| Some(&bus.name) == spec.bus.as_ref());
        let on = platform.processors.iter().position(|processor| Some(&processor.name) == spec.on.as_ref());
        let server = match (bus, on) {
            (Some(bus), _) => Server::Bus(bus),
            (None, Some(on)) => Server::Processor(processor_at[on].0),
            (None, None) => {
                let slot = stages_at + of_server.len();
                of_server.extend(std::iter::repeat_n(at, spec.servers));
                Server::Own { slot, packets: vec![None; spec.servers] }
            }
        };
        Stage::new(spec, server, platform.source.frames)
    };
    let stages = platform.stages.iter().enumerate().map(stage).collect();
    (stages, of_server)
}
