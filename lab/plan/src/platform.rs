//! Describes this machine as a platform of the simulator.

use std::collections::HashMap;

use convoy_assembly::assemble;
use convoy_config::Config;
use convoy_dataplane::costs::Costs;
use convoy_devices::model::ModelSettings;
use convoy_engine::{EngineControl, IdleEngine, Multibuffer, Placement};
use convoy_ipsec::Transform;
use convoy_scheduler::{ClassDiscipline, CostModel, SchedulerConfig};
use convoy_sim::{
    BusSpec, Platform, ProcessorKind, ProcessorSpec, Reference, SaCacheSpec, SchedulerSpec, SourceSpec,
    StagePosition, StageSpec, Variants,
};
use serde::Serialize;

use super::bus::spec;
use super::card::Card;
use super::overhead::{OverheadByWindow, PacketOverhead};
use super::{PlanError, Trace, WINDOWS};

/// An arrival rate that saturates any platform, in Mbit/s.
const SATURATED_MBPS: f64 = 1e7;
/// Name of the processor that stands for the worker's own core.
const WORKER: &str = "worker";

/// Cost of an engine for the transforms of the trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EngineCost {
    /// Its name.
    pub name: String,
    /// Whether it runs on the worker's core.
    pub is_inline: bool,
    /// Whether its timing is modelled.
    pub is_model: bool,
    /// Time per multi-packet, in ns.
    pub t_init_ns: f64,
    /// Time per 16-byte block, in ns.
    pub t_block_ns: f64,
    /// Limit on multi-packets in its queue.
    pub depth: usize,
    /// The modelled bus that connects it.
    pub bus: Option<String>,
    /// Cache of SAs on a card.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<SaCacheSpec>,
}

/// One worker and its engines.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The engines, in the order of the configuration.
    pub engines: Vec<EngineCost>,
    /// The configured window, in packets.
    pub window: usize,
    /// Engines that could be added, besides duplicates of existing ones.
    spare: Vec<EngineCost>,
    /// Hypothetical cards to try.
    cards: Vec<Card>,
    buses: HashMap<String, BusSpec>,
    scheduler: SchedulerConfig,
    overhead: OverheadByWindow,
}

impl Machine {
    /// The engines of a configuration for one worker, calibrated for the transforms of a trace.
    ///
    /// # Errors
    /// [`PlanError`] if an engine is not available or fails during calibration.
    pub fn new(config: &Config, trace: &Trace) -> Result<Self, PlanError> {
        let config = config.with_one_worker();
        let mut costs = assemble::costs();
        let made = assemble::engines(&config, &mut costs)?.pop().unwrap_or_default();
        let (mut engines, mut described) = (Vec::new(), Vec::new());
        for (at, engine) in made.into_iter().enumerate() {
            let model = config.engines.get(at).and_then(|engine| engine.settings.of::<ModelSettings>());
            let bus = model.and_then(|model| model.bus.clone());
            described.push(engine.description().clone());
            engines.extend(cost_of(engine.into(), bus, &trace.transforms, &mut costs)?);
        }
        let mut spare = Vec::new();
        let has_pinned = engines.iter().any(|engine| !engine.is_inline && !engine.is_model);
        // The last core, which workers are least likely to use.
        let core = std::thread::available_parallelism().map_or(0, |cores| cores.get() - 1);
        if !has_pinned && let Ok(engine) = Multibuffer::on_core("multibuffer on a core of its own", core) {
            described.push(engine.description().clone());
            spare.extend(cost_of(IdleEngine::new(engine), None, &trace.transforms, &mut costs)?);
        }
        costs.save();
        let windows = WINDOWS.into_iter().chain([config.scheduler.window]);
        let overhead = OverheadByWindow::measure(&config, &trace.sample, &described, windows)?;
        Ok(Self {
            engines,
            window: config.scheduler.window,
            spare,
            cards: Vec::new(),
            buses: config.buses.into_iter().map(|(name, bus)| (name.clone(), spec(name, &bus))).collect(),
            scheduler: config.scheduler,
            overhead,
        })
    }

    /// Also tries the accelerators of this platform.
    ///
    /// # Errors
    /// [`PlanError::Card`] if it has none.
    pub fn try_card(&mut self, platform: &Platform) -> Result<(), PlanError> {
        self.cards.push(Card::of(platform)?);
        Ok(())
    }

    /// The accelerators of all cards to try.
    pub fn card_engines(&self) -> impl Iterator<Item = &EngineCost> {
        self.cards.iter().flat_map(|card| &card.engines)
    }

    /// Worker's time per packet before the window and after cryptography, in ns, with this window
    /// and this share of the packets at engines off its core.
    pub fn worker_ns(&self, window: usize, lookaside: f64) -> (f64, f64) {
        let overhead = self.overhead(window, lookaside);
        (overhead.before_ns, overhead.after_ns)
    }

    fn overhead(&self, window: usize, lookaside: f64) -> PacketOverhead {
        let has_others = self.engines.iter().any(|engine| !engine.is_inline);
        self.overhead.with(window, has_others.then_some(lookaside))
    }

    /// Variants of the machine with an engine added or removed, each with a description.
    pub fn changes(&self) -> Vec<(String, Self)> {
        let with = |engines| Self { engines, ..self.clone() };
        let mut changes = Vec::new();
        for (at, engine) in self.engines.iter().enumerate() {
            if self.engines.len() > 1 {
                let left = self.engines.iter().enumerate().filter(|(other, _)| *other != at);
                changes.push((
                    format!("without {}", engine.name),
                    with(left.map(|(_, engine)| engine.clone()).collect()),
                ));
            }
        }
        let more = self.engines.iter().filter(|engine| !engine.is_inline).chain(&self.spare);
        for engine in more {
            let another = EngineCost { name: format!("another {}", engine.name), ..engine.clone() };
            changes.push((format!("with {}", another.name), with([&self.engines[..], &[another]].concat())));
        }
        for card in &self.cards {
            let mut with = with([&self.engines[..], &card.engines].concat());
            with.buses.extend(card.buses.iter().map(|bus| (bus.name.clone(), bus.clone())));
            changes.push((format!("with {}", card.name), with));
        }
        changes
    }

    /// This machine as a simulator platform. Engines on the worker's core cannot work at the same
    /// time, so the fastest one stands for all of them; it shares the core with the worker's other
    /// work and with the scheduler. `lookaside` is the share of the packets at other engines, for
    /// which handing over takes a different time.
    pub fn platform(&self, window: usize, rate_mbps: Option<f64>, lookaside: f64) -> Platform {
        let overhead = self.overhead(window, lookaside);
        let (before_us, after_us) = (overhead.before_ns * 1e-3, overhead.after_ns * 1e-3);
        let inline = self.engines.iter().filter(|engine| engine.is_inline);
        let fastest = inline.min_by(|a, b| typical_ns(a).total_cmp(&typical_ns(b)));
        let mut processors: Vec<ProcessorSpec> =
            fastest.map(|engine| processor(engine, true)).into_iter().collect();
        processors.extend(
            self.engines.iter().filter(|engine| !engine.is_inline).map(|engine| processor(engine, false)),
        );
        let stage = |name: &str, place, packet_us, on: Option<&str>| StageSpec {
            name: name.to_owned(),
            place,
            on: on.map(str::to_owned),
            packet_us,
            ..StageSpec::default()
        };
        let stages = if fastest.is_some() {
            // A stage of zero time is omitted.
            vec![
                stage("classify and prepare", StagePosition::Before, before_us, Some(WORKER)),
                stage("finish", StagePosition::After, after_us, Some(WORKER)),
            ]
        } else {
            vec![stage("classify, prepare and finish", StagePosition::Before, before_us + after_us, None)]
        };
        Platform {
            name: "this machine".to_owned(),
            source: SourceSpec {
                rate_mbps: rate_mbps.unwrap_or(SATURATED_MBPS),
                header_bytes: 0,
                ..SourceSpec::default()
            },
            scheduler: SchedulerSpec {
                on: fastest.map(|_| WORKER.to_owned()),
                ..scheduler(&self.scheduler, window)
            },
            // 1 µs per multi-packet and per block, so that the engines' ratios are times in µs.
            reference: Reference { t_init_us: 1.0, block_mbps: 128.0 },
            algorithms: Vec::new(),
            buses: self.buses.values().cloned().collect(),
            processors,
            cores: Vec::new(),
            stages: stages.into_iter().filter(|stage| stage.packet_us > 0.0).collect(),
            variants: Variants::new(),
        }
    }
}

/// Time of a multi-packet of ten packets of 500 bytes.
fn typical_ns(engine: &EngineCost) -> f64 {
    engine.t_init_ns + engine.t_block_ns * 320.0
}

fn processor(engine: &EngineCost, is_worker: bool) -> ProcessorSpec {
    ProcessorSpec {
        kind: if is_worker { ProcessorKind::Cpu } else { ProcessorKind::Accelerator },
        bus: engine.bus.clone(),
        depth: engine.depth.max(1),
        init_ratio: engine.t_init_ns * 1e-3,
        enc_ratio: engine.t_block_ns * 1e-3,
        cache: engine.cache,
        ..ProcessorSpec::named(if is_worker { WORKER } else { &engine.name })
    }
}

fn scheduler(config: &SchedulerConfig, window: usize) -> SchedulerSpec {
    let weights = match &config.discipline {
        ClassDiscipline::Strict => None,
        ClassDiscipline::Weighted(weights) => Some(weights[..config.classes].to_vec()),
    };
    let research = &config.research;
    SchedulerSpec {
        policy: research.heuristic.map_or(config.policy.name(), |rival| rival.name).to_owned(),
        packet_size_threshold: None,
        full_queue: research.full_queue.name().to_owned(),
        depth_unit: research.depth_unit.name().to_owned(),
        late_margin_us: config.late_margin.map(|margin| margin as f64 * 1e-3),
        ageing: research.ageing,
        credits: research.credits,
        class_credits: research.class_credits,
        pool: None,
        predicts_transfers: false,
        on: None,
        window,
        window_min: None,
        window_max: None,
        max_wait_us: config.max_wait as f64 * 1e-3,
        byte_limit: Some(config.byte_limit),
        window_bytes: (research.window_bytes < u64::MAX).then_some(research.window_bytes),
        aggregation: None,
        classes: config.classes,
        weights,
        work_conserving: true,
        // The gateway does not know the content of a device's cache; it corrects its cost models by
        // measured times.
        knows_caches: false,
        corrects: false,
    }
}

/// The mean over transforms, weighted by bytes; `None` if the engine supports none of them.
fn cost_of(
    mut engine: IdleEngine,
    bus: Option<String>,
    transforms: &HashMap<Transform, u64>,
    costs: &mut Costs,
) -> Result<Option<EngineCost>, PlanError> {
    let (mut sum, mut weights) = (CostModel { t_init: 0.0, t_block: 0.0 }, 0.0);
    for (transform, bytes) in transforms {
        if engine.description().transforms.contains(transform) {
            let (model, weight) = (costs.of_engine(&mut engine, *transform)?.model, *bytes as f64);
            sum.t_init += model.t_init * weight;
            sum.t_block += model.t_block * weight;
            weights += weight;
        }
    }
    let description = engine.description();
    Ok((weights > 0.0).then(|| EngineCost {
        name: description.name.clone(),
        is_inline: description.placement == Placement::Inline,
        is_model: description.is_model,
        t_init_ns: sum.t_init / weights,
        t_block_ns: sum.t_block / weights,
        depth: description.depth,
        bus,
        cache: None,
    }))
}
