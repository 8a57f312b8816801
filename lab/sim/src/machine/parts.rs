//! The parts of a platform in the machine, and the slot of each part's event.

use convoy_scheduler::{CostModel, EngineModel};

use super::Carried;
use super::bus::Bus;
use super::cores::Cores;
use super::deviation::Deviation;
use super::processor::{Buffers, Processor, TransferMode};
use super::sa_cache::{SaCache, with_miss};
use super::stage::{Server, Stage};
use crate::platform::{Platform, ProcessorKind, ProcessorSpec, StageSpec};

/// The part to which an event belongs. At the same instant, transfers end first, then cores finish,
/// then the stages' own servers, then the window's timeout expires (open: the paper does not
/// specify an order).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// A processor's output has been transferred.
    Output(usize),
    /// The input of a processor with buffers has been transferred.
    Input(usize),
    /// The bus has transferred a stage's packet.
    Moved(usize),
    /// A processor's core has finished.
    Core(usize),
    /// One of a stage's own servers has finished: the stage, and the server.
    Server(usize, usize),
    /// A core has finished: the group of cores, and the core.
    OneOf(usize, usize),
    /// Expiry of the window's timeout, or of the time for which the scheduler waits for a late
    /// engine.
    Timeout,
}

/// Slots of the events of one processor; a slot that the processor does not use has no meaning.
#[derive(Clone, Copy, Default)]
pub(super) struct Slots {
    pub(super) output: usize,
    pub(super) input: usize,
    pub(super) core: usize,
}

pub(super) struct Parts {
    /// The processors as engines of the scheduler.
    pub(super) engines: Vec<EngineModel>,
    pub(super) processors: Vec<Processor<Carried>>,
    pub(super) stages: Vec<Stage>,
    pub(super) cores: Vec<Cores>,
    pub(super) slots: Vec<Slots>,
    /// The part of each slot.
    pub(super) parts: Vec<Part>,
}

impl Parts {
    pub(super) fn new(platform: &Platform, seed: u64) -> Self {
        let (engines, processors) = processors(platform, seed);
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
        // A processor on a bus of its own knows at the start when its output ends, so its core
        // needs no event.
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

fn processors(platform: &Platform, seed: u64) -> (Vec<EngineModel>, Vec<Processor<Carried>>) {
    let reference = &platform.reference;
    let (t_init, t_block) = (reference.t_init_us * 1e6, 128.0 / reference.block_mbps * 1e6);
    let (mut engines, mut processors) = (Vec::new(), Vec::new());
    let known_caches = platform.caches().filter(|_| platform.scheduler.knows_caches).count();
    let mut caches = 0;
    for spec in &platform.processors {
        // Equation 7.
        let cost = |(init, enc)| CostModel { t_init: t_init * init, t_block: t_block * enc };
        let costs: Vec<_> = platform.ratios_of(spec).into_iter().map(|ratios| ratios.map(cost)).collect();
        let way = way(platform, spec);
        for number in 1..=spec.count {
            let name = if spec.count == 1 { spec.name.clone() } else { format!("{}-{number}", spec.name) };
            let is_cpu = spec.kind == ProcessorKind::Cpu;
            // The low bits of the scheduler's algorithm are the caches that lack the packet's SA.
            let scheduled = (0..costs.len() << known_caches).map(|of| {
                let predicted = predicted(platform, spec, way, costs[of >> known_caches]?);
                let misses = spec.cache.as_ref().filter(|_| known_caches > 0 && of >> caches & 1 == 1);
                Some(misses.map_or(predicted, |cache| with_miss(cache, predicted)))
            });
            engines.push(EngineModel { name, is_cpu, depth: spec.depth, costs: scheduled.collect() });
            caches += usize::from(spec.cache.is_some());
            let buffers = Buffers { prefetch: spec.prefetch, write: spec.write_buffer };
            let mut processor = Processor::new(way, buffers, spec.depth, costs.clone());
            processor.cache_bits = known_caches as u32;
            processor.set_transfers(spec.transfers, platform.scheduler.predicts_transfers);
            processor.cache = spec.cache.map(SaCache::new);
            let place = processors.len() as u64;
            processor.deviation = spec.deviation.map(|deviation| Deviation::new(deviation, place, seed));
            processors.push(processor);
        }
    }
    (engines, processors)
}

/// The cost by which the scheduler chooses this processor.
fn predicted(platform: &Platform, spec: &ProcessorSpec, way: TransferMode, cost: CostModel) -> CostModel {
    match way.bus().filter(|_| platform.scheduler.predicts_transfers) {
        Some(bus) => {
            let transfers = Bus::new(&platform.buses[bus]).cost(spec.transfers);
            CostModel { t_init: cost.t_init + transfers.t_init, t_block: cost.t_block + transfers.t_block }
        }
        None => cost,
    }
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
    } else if users == 1 && !moves_packets && spec.transfers == 2 {
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
