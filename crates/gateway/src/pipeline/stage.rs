//! The crypto stage: scheduler, engines and order, for both directions of one worker.

mod frames;
mod sas;

use std::task::Waker;

use convoy_engine::{EngineDescription, EngineError, MultiPacket, Placement, Takes};
use convoy_ipsec::{CryptoStatus, Direction, Prepared, SaIndex, Transform};
use convoy_packet::FramePool;
use convoy_scheduler::{
    ConfigError, Dispatch, EngineModel, Input, Item, OrderedRelease, Scheduler, SchedulerConfig,
};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::Clock;
use super::engine_set::{Context, EngineEvent, EngineReport, EngineSet};
use super::engine_slot::{Deadlines, Timeouts};
use super::iv_source::IvSource;
use super::trains::{Algorithms, Place, Retry, Trains, WINDOW_NS};

/// How a stage behaves.
#[derive(Clone, Debug)]
pub struct StageConfig {
    /// The window, its limits and its policy.
    pub scheduler: SchedulerConfig,
    /// Whether packets of one SA leave in the order in which they came.
    pub ordered: bool,
    /// How long past its predicted finishing time an engine may be.
    pub timeouts: Timeouts,
}

impl StageConfig {
    /// A stage with this scheduler, order per SA and the usual timeouts.
    pub fn new(scheduler: SchedulerConfig) -> Self {
        Self { scheduler, ordered: true, timeouts: Timeouts::default() }
    }
}

/// Why a stage could not be made, or an SA not be taken.
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
    /// Of outbound SAs: encrypted.
    pub outbound: Vec<Prepared>,
    /// Of inbound SAs: decrypted, or refused.
    pub inbound: Vec<Prepared>,
}

impl Released {
    /// Those of one direction.
    pub(super) fn of(&mut self, direction: Direction) -> &mut Vec<Prepared> {
        match direction {
            Direction::Seal => &mut self.outbound,
            Direction::Open => &mut self.inbound,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.outbound.is_empty() && self.inbound.is_empty()
    }
}

/// What the stage knows of an SA.
pub(super) struct StageSa {
    pub(super) algorithm: u16,
    /// The engine whose device does it in flight.
    pub(super) bound_to: Option<usize>,
    /// Packets in the stage.
    pub(super) outstanding: u64,
    retiring: bool,
}

/// The scheduler, the engines and the order, tied together. Packets enter by [`push`](Self::push) and come
/// back from [`pump`](Self::pump) with their result, each exactly once.
pub struct CryptoStage {
    pub(super) scheduler: Scheduler<Prepared>,
    pub(super) engines: EngineSet,
    order: OrderedRelease<Prepared>,
    pub(super) config: StageConfig,
    pub(super) sas: Vec<Option<StageSa>>,
    /// By direction.
    pub(super) algorithms_of: [Algorithms; 2],
    /// Bursts done in place before the next whose time is measured.
    pub(super) unmeasured: u32,
    /// Whether it is asked how many SAs a burst has: an engine on this core takes those of one at a time.
    pub(super) counts_sas: bool,
    /// What the scheduler calls them by their places; the last part is the one engine that has it, where it is done in flight.
    algorithms: Vec<(Transform, Direction, Option<usize>)>,
    /// What failed engines left; it goes before new input.
    pub(super) retry: Retry,
    pub(super) trains: Trains,
    /// Makes the IVs of CBC for raw packets that are laid out here.
    pub(super) ivs: IvSource,
    /// Done before they came; they only wait for their turn in the order.
    done: Vec<Prepared>,
    /// Those of them that are of one SA; empty between calls.
    done_of_sa: Vec<Prepared>,
    /// A dispatch that waits for frames to keep its input in.
    held: Option<Dispatch<Prepared>>,
    /// Since when there is none for it, and no engine has any.
    starved_since_ns: Option<u64>,
    pub(super) reports: Vec<EngineReport>,
    retired: Vec<SaIndex>,
    pub(super) inside: u64,
    /// What engines on this core have taken so far, in ns.
    pub(super) inline_ns: u64,
    pub(super) clock: Clock,
}

impl CryptoStage {
    /// A stage of these engines; no SA is known yet.
    ///
    /// # Errors
    /// [`StageError::Scheduler`] for a configuration out of range.
    pub fn new(config: StageConfig, engines: EngineSet, clock: Clock) -> Result<Self, StageError> {
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
        let mut scheduler = Scheduler::new(config.scheduler.clone(), models)?;
        scheduler.set_window_cost(WINDOW_NS);
        let mut counts_sas = false;
        for engine in 0..engines.len() {
            let EngineDescription { gathers, takes, placement, .. } = *engines.description(engine);
            scheduler.set_gathers(engine, gathers);
            match takes {
                Takes::Trains => scheduler.set_takes_trains(engine),
                Takes::MultiPackets => counts_sas |= placement == Placement::Inline,
            }
        }
        Ok(Self {
            scheduler,
            engines,
            order: OrderedRelease::new(),
            config,
            sas: Vec::new(),
            algorithms_of: Default::default(),
            unmeasured: 0,
            counts_sas,
            algorithms: Vec::new(),
            retry: Retry::default(),
            trains: Trains::default(),
            ivs: IvSource::new(StdRng::from_os_rng()),
            done: Vec::new(),
            done_of_sa: Vec::new(),
            held: None,
            starved_since_ns: None,
            reports: Vec::new(),
            retired: Vec::new(),
            inside: 0,
            inline_ns: 0,
            clock,
        })
    }

    /// The engines.
    pub fn engines(&self) -> &EngineSet {
        &self.engines
    }

    /// The scheduler, for its measures.
    pub fn scheduler(&self) -> &Scheduler<Prepared> {
        &self.scheduler
    }

    /// Has the engines wake their worker when something is done.
    pub fn wake_by(&mut self, waker: &Waker) {
        self.engines.wake_by(waker);
    }

    /// How long a worker may sleep at `now_ns` with packets inside, in ns, as far as the stage knows: until an engine wakes it or the scheduler wants
    /// to look again. `None` if an engine does not wake it.
    pub fn may_sleep_ns(&self, now_ns: u64) -> Option<u64> {
        let deadlines = [self.scheduler.next_deadline(now_ns), self.engines.next_deadline_ns()];
        let next_ns =
            deadlines.into_iter().flatten().min().map_or(u64::MAX, |at_ns| at_ns.saturating_sub(now_ns));
        self.engines.wakes().then_some(next_ns)
    }

    /// Until when the window holds all packets back that are inside (`max_wait`), in ns: no engine has any, so that only input or that time brings them
    /// on. `None` if there are others, or none.
    pub fn held_until_ns(&self) -> Option<u64> {
        let are_all = self.inside > 0 && self.scheduler.waiting() as u64 == self.inside;
        if are_all && self.engines.is_quiet() { self.scheduler.held_until() } else { None }
    }

    /// Packets inside: in the window, at engines, waiting for their turn in the order.
    pub fn len(&self) -> u64 {
        self.inside
    }

    /// Whether no packet is inside.
    pub fn is_empty(&self) -> bool {
        self.inside == 0
    }

    /// What the operator should hear since the last call.
    pub fn take_events(&mut self) -> Vec<EngineEvent> {
        self.engines.take_events()
    }

    /// Packets that the window takes now; what failed engines left goes first, and so do trains that are out.
    pub fn room(&self) -> usize {
        if self.retry.packets.is_empty() && self.trains.packets == 0 { self.scheduler.room() } else { 0 }
    }

    /// Puts a packet into the window at `now_ns` and gives it its place in the order of its SA. One that its port has opened already, or that
    /// was refused, only takes that place. The time comes from the caller, who reads the clock once a burst: read per packet it was a tenth of
    /// the path at 64 bytes.
    ///
    /// # Errors
    /// The packet itself, when there is no room or its SA is unknown here.
    pub fn push(&mut self, now_ns: u64, prepared: Prepared) -> Result<(), Prepared> {
        if self.room() == 0 { Err(prepared) } else { self.enter(now_ns, prepared) }
    }

    /// Does as [`push`](Self::push) whether there is room or not: what finds none in the window is scheduled as soon as it has.
    pub(super) fn enter(&mut self, now_ns: u64, mut prepared: Prepared) -> Result<(), Prepared> {
        let Some(Some(entry)) = self.sas.get_mut(prepared.sa.0 as usize) else { return Err(prepared) };
        entry.outstanding += 1;
        self.inside += 1;
        if self.config.ordered {
            prepared.reorder_index = self.order.admit(prepared.sa.0);
        }
        if prepared.status != CryptoStatus::Pending {
            self.done.push(prepared);
        } else if !self.retry.packets.is_empty() {
            self.retry.packets.push_back(prepared);
        } else if let Err(refused) = self.schedule(now_ns, prepared) {
            self.retry.packets.push_back(refused);
        }
        Ok(())
    }

    fn schedule(&mut self, now_ns: u64, prepared: Prepared) -> Result<(), Prepared> {
        let Some(Some(entry)) = self.sas.get(prepared.sa.0 as usize) else { return Err(prepared) };
        let item = Item {
            sa: prepared.sa.0,
            algorithm: entry.algorithm,
            class: prepared.class,
            blocks: prepared.blocks(),
            bytes: prepared.frame.len() as u32,
            payload: prepared,
        };
        self.scheduler.push(now_ns, item).map_err(|item| item.payload)
    }

    /// Moves packets as far as they go without waiting: completions in, dispatches out. Packets with
    /// their result are appended to `released`, in order per SA. Returns whether anything moved.
    pub fn pump(&mut self, input: Input, pool: &mut FramePool, released: &mut Released) -> bool {
        if self.inside == 0 && self.engines.is_quiet() {
            return !released.is_empty();
        }
        let now_ns = self.clock.now_ns();
        let context = &mut Context { now_ns, pool, retry: &mut self.retry, reports: &mut self.reports };
        self.engines.poll(context);
        let mut moved = self.digest(released) | !self.done.is_empty();
        if self.trains.packets > 0 {
            return moved | self.retry_trains(pool, released);
        }
        self.release_done(released);
        // Read anew only after work was done: with many SAs a reading for each multi-packet would cost as much as its choice.
        let mut now_ns = self.clock.now_ns();
        loop {
            while let Some(packet) = self.retry.packets.pop_front() {
                if let Err(packet) = self.schedule(now_ns, packet) {
                    self.retry.packets.push_front(packet);
                    break;
                }
            }
            // What waits for another try must not wait for more input as well.
            let input = if self.retry.packets.is_empty() { input } else { Input::Paused };
            let held = self.held.take();
            let mut next = held.or_else(|| self.scheduler.dispatch(now_ns, input));
            let has_frames = next.as_mut().is_some_and(|dispatch| self.cut_to_frames(now_ns, dispatch, pool));
            match next {
                Some(dispatch) if has_frames => {
                    let engine = dispatch.engine;
                    self.submit(now_ns, dispatch, pool);
                    if self.engines.has_gathered(engine) {
                        moved = true;
                        continue;
                    }
                }
                unsent => {
                    let waits = unsent.is_some() || self.scheduler.room() == 0;
                    self.held = unsent;
                    // While more is at hand, and there is room for it, engines go on gathering.
                    if input == Input::More && !waits || !self.begin(now_ns, pool) {
                        break;
                    }
                }
            }
            now_ns = self.clock.now_ns();
            self.digest(released);
            moved = true;
        }
        if !self.done.is_empty() {
            self.release_done(released);
            moved = true;
        }
        moved
    }

    /// Has engines begin what they have gathered, whether there is more at hand or not.
    pub fn begin_gathered(&mut self, pool: &mut FramePool, released: &mut Released) {
        self.begin(self.clock.now_ns(), pool);
        self.digest(released);
    }

    fn begin(&mut self, now_ns: u64, pool: &mut FramePool) -> bool {
        let context = &mut Context { now_ns, pool, retry: &mut self.retry, reports: &mut self.reports };
        self.engines.begin(context)
    }

    fn submit(&mut self, now_ns: u64, dispatch: Dispatch<Prepared>, pool: &mut FramePool) {
        let Dispatch { engine, ticket, sa, items, predicted_wait, predicted_processing, .. } = dispatch;
        let Some(direction) = items.first().map(|packet| packet.direction) else {
            // All of it was given up for want of frames.
            self.scheduler.complete(now_ns, engine, ticket, None);
            return;
        };
        let multi_packet = MultiPacket::new(ticket, SaIndex(sa), direction, items);
        let deadlines = self.deadlines(now_ns, engine, predicted_wait + predicted_processing);
        let context = &mut Context { now_ns, pool, retry: &mut self.retry, reports: &mut self.reports };
        self.engines.submit(engine, multi_packet, Place::OfEach, deadlines, context);
        if !self.engines.has_gathered(engine) {
            context.now_ns = self.clock.now_ns();
            self.engines.poll_one(engine, context);
        }
    }

    /// When an engine is late with what it is predicted to do within so many ns from now, and when it has failed.
    pub(super) fn deadlines(&self, now_ns: u64, engine: usize, predicted_ns: u64) -> Deadlines {
        let slack_ns = self.engines.description(engine).slack_ns;
        self.config.timeouts.deadlines(now_ns, predicted_ns, slack_ns)
    }

    /// Tells the scheduler what the engines reported and lets packets go in order.
    fn digest(&mut self, released: &mut Released) -> bool {
        let mut reports = std::mem::take(&mut self.reports);
        let moved = !reports.is_empty();
        let now_ns = if moved { self.clock.now_ns() } else { 0 };
        for report in reports.drain(..) {
            match report {
                EngineReport::Done { engine, ticket, service_ns, place, packets, templates } => {
                    self.scheduler.complete(now_ns, engine, ticket, service_ns);
                    if self.engines.description(engine).placement == Placement::Inline {
                        self.inline_ns += service_ns.unwrap_or_default();
                    }
                    if let Place::Train(place) = place {
                        self.trains.keep_templates(templates);
                        self.release_train(place, packets, released);
                        continue;
                    }
                    let buffer = self.release(packets, released);
                    self.scheduler.recycle(buffer);
                }
                EngineReport::Out { engine } => self.withdraw(engine),
                EngineReport::Back { engine } => self.scheduler.set_available(engine, true),
            }
        }
        self.reports = reports;
        moved
    }

    fn withdraw(&mut self, engine: usize) {
        self.scheduler.set_available(engine, false);
        if self.held.as_ref().is_some_and(|held| held.engine == engine) {
            let held = self.held.take().map(|held| held.items).unwrap_or_default();
            self.retry.packets.extend(held);
        }
    }

    pub(super) fn release_done(&mut self, released: &mut Released) {
        let mut done = std::mem::take(&mut self.done);
        let mut of_sa = std::mem::take(&mut self.done_of_sa);
        for packet in done.drain(..) {
            if of_sa.last().is_some_and(|last: &Prepared| last.sa != packet.sa) {
                of_sa = self.release(of_sa, released);
            }
            of_sa.push(packet);
        }
        self.done_of_sa = self.release(of_sa, released);
        self.done = done;
    }

    /// Lets packets of one SA go when those before them have gone. Leaves an empty buffer for others.
    fn release(&mut self, mut packets: Vec<Prepared>, released: &mut Released) -> Vec<Prepared> {
        let Some((sa, direction)) = packets.first().map(|packet| (packet.sa, packet.direction)) else {
            return packets;
        };
        let Some(Some(entry)) = self.sas.get_mut(sa.0 as usize) else {
            packets.clear();
            return packets;
        };
        let released = released.of(direction);
        let before = released.len();
        if self.config.ordered {
            self.order.complete_all(sa.0, &mut packets, |packet| packet.reorder_index, released);
        } else {
            released.append(&mut packets);
        }
        let left = (released.len() - before) as u64;
        self.inside -= left;
        entry.outstanding -= left;
        if entry.retiring && entry.outstanding == 0 {
            self.forget(sa);
        }
        packets
    }
}
