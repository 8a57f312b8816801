//! The crypto stage: window, engines and order, for both directions of one worker.
//!
//! Packets arrive in bursts of one direction and wait in a line while the window has no room. The
//! window yields a [`Train`]: a multi-packet of one SA, or a burst as it came. It is assigned its
//! position in the order, its packets their sequence numbers, and anyone who processes it lays it
//! out: this core at once, or an engine from jobs. Results leave in order.

mod admission;
mod again;
mod dispatch;
mod line;
mod sas;
mod verify;

use std::cell::RefCell;
use std::task::Waker;

use convoy_engine::{EngineDescription, EngineError, Placement, RunTemplate, Takes};
use convoy_ipsec::{CryptoPacket, Direction, Tables, Transform};
use convoy_packet::FramePool;
use convoy_scheduler::{
    ConfigError, EngineModel, Input, OrderedRelease, Scheduler, SchedulerConfig, SchedulerSnapshot,
    TrainDispatch,
};

use super::engine_set::{EngineEvent, EngineSet};
use super::engine_slot::Timeouts;
use super::in_flight::{Again, SubmitContext, TrainRecords, Trains};
use super::iv_source::IvSource;
use super::train::{Algorithms, OrderPosition, SeenSas, Train};
use crate::append::append;
use crate::clock::Clock;
use crate::trace::Tracer;
use line::WaitingLine;
use sas::{Retiring, StageSa};
use verify::Verification;

/// Assumed cost of sorting a packet by SA in the window where it was not measured, in ns.
pub(crate) const WINDOW_NS: f64 = 50.0;
/// Buffers kept for reuse.
const SPARE_BUFFERS: usize = 64;

/// How a stage behaves.
#[derive(Clone, Debug)]
pub struct StageConfig {
    /// The window, its limits and the policy.
    pub scheduler: SchedulerConfig,
    /// Whether packets of one SA leave in the order in which they arrived.
    pub ordered: bool,
    /// How long past its predicted completion an engine may take.
    pub timeouts: Timeouts,
    /// Cost of sorting a packet by SA in the window, in ns: bundling has to save at least this
    /// beside `t_init`.
    pub window_ns: f64,
    /// One packet in this many is computed again by another engine; none with 0.
    pub verify_one_in: u32,
}

impl StageConfig {
    /// A stage with this scheduler, order per SA and the default timeouts.
    pub fn new(scheduler: SchedulerConfig) -> Self {
        Self {
            scheduler,
            ordered: true,
            timeouts: Timeouts::default(),
            window_ns: WINDOW_NS,
            verify_one_in: 0,
        }
    }
}

/// Why a stage could not be created, or an SA not be installed.
#[derive(Debug, thiserror::Error)]
pub enum StageError {
    /// The scheduler refused its configuration.
    #[error(transparent)]
    Scheduler(#[from] ConfigError),
    /// No engine can do the SA's transform.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Packets that left the stage, in order per SA, each with its result.
#[derive(Debug, Default)]
pub struct Released {
    /// Packets of outbound SAs: encrypted.
    pub outbound: Vec<CryptoPacket>,
    /// Packets of inbound SAs: decrypted, or refused.
    pub inbound: Vec<CryptoPacket>,
}

impl Released {
    /// The packets of one direction.
    pub(super) fn of(&mut self, direction: Direction) -> &mut Vec<CryptoPacket> {
        match direction {
            Direction::Seal => &mut self.outbound,
            Direction::Open => &mut self.inbound,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outbound.is_empty() && self.inbound.is_empty()
    }
}

/// What the stage works with and writes to; lent by the caller.
pub struct StageContext<'a> {
    /// The SAs, from which packets get their numbers and layout.
    pub tables: &'a mut Tables,
    /// Frames for copies of input that engines may lose.
    pub pool: &'a mut FramePool,
    /// Receives the packets that leave.
    pub released: &'a mut Released,
}

/// An algorithm of the scheduler's: a transform in one direction.
#[derive(Clone, Copy, PartialEq, Eq)]
struct StageAlgorithm {
    transform: Transform,
    direction: Direction,
    /// The only engine that has it, if it is processed in flight.
    only: Option<usize>,
}

/// The scheduler, the engines and the order, tied together. Packets enter through
/// [`enter`](Self::enter) and come back from [`pump`](Self::pump) with their result, each exactly
/// once.
pub struct CryptoStage {
    pub(super) scheduler: Trains,
    pub(super) engines: EngineSet,
    order: OrderedRelease<CryptoPacket>,
    config: StageConfig,
    sas: Vec<Option<StageSa>>,
    /// By direction.
    algorithms_of: [Algorithms; 2],
    /// The scheduler's algorithms, by number.
    algorithms: Vec<StageAlgorithm>,
    /// Whether to count the SAs of a burst: an engine on this core takes the packets of one SA at a
    /// time.
    counts_sas: bool,
    /// Whether an engine works off this core.
    has_engine_elsewhere: bool,
    seen: RefCell<SeenSas>,
    line: WaitingLine,
    /// Trains that failed engines left unfinished.
    again: Again,
    /// A train that waits for frames to copy its input to.
    held: Option<(Train, TrainDispatch)>,
    /// Since when there has been no frame for it while no engine has work that would free one.
    starved_since_ns: Option<u64>,
    /// Trains completed by engines; empty between calls.
    done: Vec<Train>,
    retiring: Vec<Retiring>,
    inside: u64,
    spare: Vec<Vec<CryptoPacket>>,
    spare_templates: Vec<Vec<RunTemplate>>,
    /// Generates the IVs of CBC.
    pub(super) ivs: IvSource,
    /// Trains processed in place until the next one that is measured.
    unmeasured: u32,
    /// Which packets are computed again, if any.
    verification: Option<Verification>,
    pub(super) clock: Clock,
    /// Follows packets while an operator traces.
    pub(super) tracer: Option<Box<Tracer>>,
}

impl CryptoStage {
    /// A stage with these engines and no SAs.
    ///
    /// # Errors
    /// [`StageError::Scheduler`] for a configuration out of range.
    pub fn new(config: StageConfig, mut engines: EngineSet, clock: Clock) -> Result<Self, StageError> {
        let models = (0..engines.len())
            .map(|engine| {
                let description = engines.description(engine);
                EngineModel {
                    name: description.name.clone(),
                    is_cpu: description.placement == Placement::Inline,
                    depth: description.depth,
                    costs: Vec::new(),
                }
            })
            .collect();
        let line = WaitingLine::new(config.scheduler.classes, &config.scheduler.discipline);
        let mut scheduler = Scheduler::with_records(config.scheduler.clone(), models)?;
        scheduler.set_window_cost(config.window_ns);
        let (mut counts_sas, mut has_engine_elsewhere) = (false, false);
        for engine in 0..engines.len() {
            let EngineDescription { gathers, takes, placement, .. } = *engines.description(engine);
            scheduler.set_gathers(engine, gathers);
            has_engine_elsewhere |= placement != Placement::Inline;
            match takes {
                Takes::Trains => {
                    scheduler.set_takes_trains(engine);
                    if engines.in_place(engine).is_some() {
                        scheduler.set_at_once(engine);
                    }
                }
                Takes::MultiPackets => counts_sas |= placement == Placement::Inline,
            }
        }
        Ok(Self {
            scheduler,
            engines,
            order: OrderedRelease::new(),
            verification: Verification::of_one_in(config.verify_one_in),
            config,
            sas: Vec::new(),
            algorithms_of: Default::default(),
            algorithms: Vec::new(),
            counts_sas,
            has_engine_elsewhere,
            seen: RefCell::default(),
            line,
            again: Again::new(),
            held: None,
            starved_since_ns: None,
            done: Vec::new(),
            retiring: Vec::new(),
            inside: 0,
            spare: Vec::new(),
            spare_templates: Vec::new(),
            ivs: IvSource::from_system(),
            unmeasured: 0,
            clock,
            tracer: None,
        })
    }

    /// The engines.
    pub fn engines(&self) -> &EngineSet {
        &self.engines
    }

    /// The scheduler's measurements.
    pub fn snapshot(&self) -> SchedulerSnapshot {
        self.scheduler.snapshot()
    }

    /// The overhead of the worker's core for each packet beside the work of engines, in ns.
    pub fn worker_overhead(&self) -> u64 {
        self.scheduler.worker_overhead()
    }

    /// Whether the window may hold packets back for a while to grow a multi-packet (`max_wait`).
    pub fn holds_back(&self) -> bool {
        self.scheduler.holds_back()
    }

    /// Trains in flight at all engines together.
    pub fn in_flight(&self) -> usize {
        self.engines.in_flight(&self.scheduler)
    }

    /// Whether every engine with work in flight wakes the worker on completion, and no engine waits
    /// for a probe.
    pub fn wakes(&self) -> bool {
        self.engines.wakes(&self.scheduler)
    }

    /// The ticket of the oldest train that an engine has gathered.
    pub(super) fn oldest_gathered(&self) -> Option<u64> {
        self.engines.oldest_gathered(&self.scheduler)
    }

    /// Makes the engines wake their worker on completion.
    pub fn wake_by(&mut self, waker: &Waker) {
        self.engines.wake_by(waker);
    }

    /// How long the worker may sleep at `now_ns` with packets inside, in ns, as far as the stage
    /// knows: until an engine wakes it or the scheduler must be asked again. `None` if an engine
    /// with work cannot wake it.
    pub fn may_sleep_ns(&self, now_ns: u64) -> Option<u64> {
        let deadlines =
            [self.scheduler.next_deadline(now_ns), self.engines.next_deadline_ns(&self.scheduler)];
        let next_ns =
            deadlines.into_iter().flatten().min().map_or(u64::MAX, |at_ns| at_ns.saturating_sub(now_ns));
        self.engines.wakes(&self.scheduler).then_some(next_ns)
    }

    /// The deadline until which the window holds all packets inside back (`max_wait`), in ns: no
    /// engine has work, so that only input or that deadline moves them. `None` if other packets are
    /// inside, or none.
    pub fn held_until_ns(&self) -> Option<u64> {
        let are_all = self.inside > 0 && self.scheduler.waiting() as u64 == self.inside;
        if are_all && self.engines.is_quiet(&self.scheduler) { self.scheduler.held_until() } else { None }
    }

    /// Packets inside: in the line, in the window, at engines, or waiting for their turn in the
    /// order.
    pub fn len(&self) -> u64 {
        self.inside
    }

    /// Whether no packet is inside.
    pub fn is_empty(&self) -> bool {
        self.inside == 0
    }

    /// Whether packets have classes: those in the line are sorted by them.
    pub fn has_classes(&self) -> bool {
        self.line.classes() > 1
    }

    /// Packets in the line before the window.
    pub fn in_line(&self) -> usize {
        self.line.len()
    }

    /// Takes the operator's events since the last call.
    pub fn take_events(&mut self) -> Vec<EngineEvent> {
        self.engines.take_events()
    }

    /// Whether there is nothing to [`pump`](Self::pump): no packet is inside, and no engine has
    /// completions.
    pub fn is_quiet(&self) -> bool {
        self.inside == 0 && self.engines.is_quiet(&self.scheduler)
    }

    /// Moves packets as far as possible without waiting: completions in, trains out. Returns
    /// whether anything moved.
    pub fn pump(&mut self, input: Input, context: &mut StageContext<'_>) -> bool {
        let now_ns = self.clock.now_ns();
        self.with_engines(now_ns, context.pool, EngineSet::poll);
        let moved = self.apply_reports(context.released);
        // Read again only after work was done: with many SAs, a reading for each multi-packet would
        // cost as much as choosing its engine.
        let now_ns = self.clock.now_ns();
        self.advance(now_ns, input, context) | moved
    }

    /// Makes engines start what they have gathered, whether or not more input is at hand.
    pub fn begin_gathered(&mut self, context: &mut StageContext<'_>) {
        self.begin(self.clock.now_ns(), context.pool);
        self.apply_reports(context.released);
    }

    fn begin(&mut self, now_ns: u64, pool: &mut FramePool) -> bool {
        self.with_engines(now_ns, pool, EngineSet::begin)
    }

    /// Lends the engines what they work with.
    fn with_engines<T>(
        &mut self,
        now_ns: u64,
        pool: &mut FramePool,
        work: impl FnOnce(&mut EngineSet, &mut SubmitContext<'_>) -> T,
    ) -> T {
        let Self { engines, scheduler, done, again, .. } = self;
        let records = TrainRecords { now_ns, trains: scheduler, again };
        work(engines, &mut SubmitContext { records, pool, done })
    }

    /// Releases finished trains in order; returns whether there were any.
    fn apply_reports(&mut self, released: &mut Released) -> bool {
        if self.done.is_empty() {
            return false;
        }
        let mut done = std::mem::take(&mut self.done);
        for mut train in done.drain(..) {
            if self.verification.is_some() {
                self.verify_done(self.clock.now_ns(), &mut train);
            }
            self.put_in_order(train, released);
        }
        self.done = done;
        true
    }

    /// Lets a finished train leave once all that precede it in the order have left.
    fn put_in_order(&mut self, train: Train, released: &mut Released) {
        let Train { place, mut packets, templates } = train;
        self.release(place, &mut packets, released);
        if place.is_of_sa() {
            self.scheduler.recycle(packets);
        } else {
            self.keep_buffer(packets);
        }
        self.keep_templates(templates);
    }

    /// Lets the packets of a finished train leave, in order; an empty buffer is left in their
    /// place.
    fn release(&mut self, place: OrderPosition, packets: &mut Vec<CryptoPacket>, released: &mut Released) {
        let Some(direction) = packets.first().map(|packet| packet.direction) else { return };
        if self.tracer.is_some() {
            self.trace_done(packets);
        }
        let released = released.of(direction);
        let before = released.len();
        if self.config.ordered {
            self.order.complete(place.stream, place.first, packets, released);
        } else {
            self.order.pass(place.stream, place.first, packets.len(), released);
            append(packets, released);
        }
        self.inside -= (released.len() - before) as u64;
    }

    fn keep_buffer(&mut self, buffer: Vec<CryptoPacket>) {
        if self.spare.len() < SPARE_BUFFERS && buffer.capacity() > 0 {
            self.spare.push(buffer);
        }
    }

    fn keep_templates(&mut self, mut templates: Vec<RunTemplate>) {
        if templates.capacity() > 0 && self.spare_templates.len() < SPARE_BUFFERS {
            templates.clear();
            self.spare_templates.push(templates);
        }
    }
}
