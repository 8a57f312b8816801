//! A platform's parts as the machine has them, and the slot in which each has its event.

use convoy_scheduler::{CostModel, EngineModel};

use super::Carried;
use super::cores::Cores;
use super::processor::{Processor, TransferMode};
use super::sa_cache::{SaCache, with_miss};
use super::stage::{Server, Stage};
use crate::platform::{Platform, ProcessorKind, ProcessorSpec, StageSpec};

/// Whose event a slot has. At one instant transfers end first, then cores are done, then stages'
/// own servers, then the window's timeout is due (open: the paper does not say).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A processor's output is out.
    Output(usize),
    /// A buffered processor's input is in.
    Input(usize),
    /// The bus has moved a stage's packet.
    Moved(usize),
    /// A processor's core is done.
    Core(usize),
    /// A server of a stage's own is done: the stage and the server.
    Server(usize, usize),
    /// A core is done: which cores, and which of them.
    OneOf(usize, usize),
    /// The window's timeout, or that of an engine for which it waits.
    Timeout,
}

/// Slots of the parts of one processor; meaningless where it has no such part.
#[derive(Clone, Copy, Default)]
pub(super) struct Slots {
    pub(super) output: usize,
    pub(super) input: usize,
    pub(super) core: usize,
}

pub(super) struct Parts {
    /// As the scheduler sees processors.
    pub(super) engines: Vec<EngineModel>,
    pub(super) processors: Vec<Processor<Carried>>,
    pub(super) stages: Vec<Stage>,
    pub(super) cores: Vec<Cores>,
    pub(super) slots: Vec<Slots>,
    /// By slot.
    pub(super) parts: Vec<Part>,
}

impl Parts {
    pub(super) fn new(platform: &Platform) -> Self {
        let (engines, processors) = processors(platform);
        let mut stages: Vec<Stage> = platform.stages.iter().map(|spec| stage(platform, spec)).collect();
        let mut slots = vec![Slots::default(); processors.len()];
        let mut parts = Vec::new();
        let mut slot = |part| {
            parts.push(part);
            parts.len() - 1
        };
        for (at, processor) in processors.iter().enumerate().filter(|(_, it)| it.way != TransferMode::Direct)
        {
            slots[at].output = slot(Part::Output(at));
            if let TransferMode::Buffered(_) = processor.way {
                slots[at].input = slot(Part::Input(at));
            }
        }
        for (at, stage) in stages.iter_mut().enumerate() {
            if let Server::Bus(_) = stage.server {
                stage.slot = slot(Part::Moved(at));
            }
        }
        // Where output is known from the start, nobody asks when the core is done.
        for (at, _) in
            processors.iter().enumerate().filter(|(_, it)| !matches!(it.way, TransferMode::OwnBus(_)))
        {
            slots[at].core = slot(Part::Core(at));
        }
        for (at, stage) in stages.iter_mut().enumerate() {
            if let Server::Own(packets) = &stage.server {
                let first = slot(Part::Server(at, 0));
                (1..packets.len()).for_each(|server| _ = slot(Part::Server(at, server)));
                stage.slot = first;
            }
        }
        let mut cores = Vec::with_capacity(platform.cores.len());
        for (at, spec) in platform.cores.iter().enumerate() {
            let first = slot(Part::OneOf(at, 0));
            (1..spec.count).for_each(|core| _ = slot(Part::OneOf(at, core)));
            cores.push(Cores { slot: first, at: vec![None; spec.count], busy_ticks: 0 });
        }
        if platform.scheduler.max_wait_us > 0.0 || platform.scheduler.late_margin_us.is_some() {
            slot(Part::Timeout);
        }
        Self { engines, processors, stages, cores, slots, parts }
    }
}

fn processors(platform: &Platform) -> (Vec<EngineModel>, Vec<Processor<Carried>>) {
    let reference = &platform.reference;
    let (t_init, t_block) = (reference.t_init_us * 1e6, 128.0 / reference.block_mbps * 1e6);
    let (mut engines, mut processors) = (Vec::new(), Vec::new());
    let known_caches = platform.caches().filter(|_| platform.scheduler.knows_caches).count();
    let mut caches = 0;
    for spec in &platform.processors {
        // Equation 7.
        let cost = CostModel { t_init: t_init * spec.init_ratio, t_block: t_block * spec.enc_ratio };
        let way = way(platform, spec);
        for number in 1..=spec.count {
            let name = if spec.count == 1 { spec.name.clone() } else { format!("{}-{number}", spec.name) };
            let is_cpu = spec.kind == ProcessorKind::Cpu;
            // An algorithm is a set of those caches in which a packet's SA is missing.
            let mut costs = vec![Some(cost); 1 << known_caches];
            let cache = spec.cache.as_ref().map(|cache| SaCache::new(cache, cost));
            if let Some(cache) = &spec.cache {
                let misses = costs.iter_mut().enumerate().filter(|(missing, _)| missing & (1 << caches) != 0);
                misses.for_each(|(_, of)| *of = Some(with_miss(cache, cost)));
                caches += 1;
            }
            engines.push(EngineModel { name, is_cpu, depth: spec.depth, costs });
            let mut processor = Processor::new(way, spec.prefetch, spec.write_buffer, spec.depth);
            processor.cache = cache;
            processors.push(processor);
        }
    }
    (engines, processors)
}

fn way(platform: &Platform, spec: &ProcessorSpec) -> TransferMode {
    let Some(bus) = platform.buses.iter().position(|bus| Some(&bus.name) == spec.bus.as_ref()) else {
        return TransferMode::Direct;
    };
    let same = |of: &&ProcessorSpec| of.bus == spec.bus;
    let users: usize = platform.processors.iter().filter(same).map(|of| of.count).sum();
    let moves_packets = platform.stages.iter().any(|stage| stage.bus == spec.bus);
    if spec.prefetch || spec.write_buffer {
        TransferMode::Buffered(bus)
    } else if users == 1 && !moves_packets {
        TransferMode::OwnBus(bus)
    } else {
        TransferMode::Bus(bus)
    }
}

fn stage(platform: &Platform, spec: &StageSpec) -> Stage {
    let bus = platform.buses.iter().position(|bus| Some(&bus.name) == spec.bus.as_ref());
    let server = match (bus, &spec.on) {
        (Some(bus), _) => Server::Bus(bus),
        (None, Some(on)) => match platform.cores_of(on) {
            Some(cores) => Server::Cores(cores),
            None => Server::Processor(platform.first_of(on)),
        },
        (None, None) => Server::Own(vec![None; spec.servers]),
    };
    Stage::new(spec, server)
}
