//! The scheduler: window, choice, and the mirror of each engine's queue.

use crate::adaptive::AdaptiveWindow;
use crate::choice::{Choice, Search};
use crate::classes::Classes;
use crate::config::{ConfigError, Input, SchedulerConfig};
use crate::cost::{CostTable, EngineModel};
use crate::engine::{Engines, Pending};
use crate::engine_mask::{ENGINES, EngineMask};
use crate::handover::HandoverSearch;
use crate::histogram::Histogram;
use crate::policy::Policy;
use crate::room::{DepthUnit, FullQueue};
use crate::snapshot::{EngineMeasures, EngineSnapshot, Snapshot};
use crate::window::{Group, Item, Window, WindowSize};

/// A multi-packet or a train, and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch<T> {
    /// The engine, by its place in the list that the scheduler was made with.
    pub engine: usize,
    /// The multi-packet's own number; [`Scheduler::complete`] asks for it.
    pub ticket: u64,
    /// The SA of all its packets, unless they [are of many](Self::is_of_many).
    pub sa: u32,
    /// The algorithm of all packets, or a number that none has if they have several.
    pub algorithm: u16,
    /// Whether it is a train: a burst as it came, whatever its SAs.
    pub is_of_many: bool,
    /// Its packets, in order.
    pub items: Vec<T>,
    /// Their size in blocks of 16 bytes.
    pub blocks: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// `w`: what the engine has to do first, in ticks.
    pub predicted_wait: u64,
    /// `p`: the multi-packet's own time, in ticks.
    pub predicted_processing: u64,
}

/// What came of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The multi-packet was the engine's; it was dispatched at this tick.
    Known {
        /// When.
        dispatched: u64,
    },
    /// The engine had no such multi-packet: it was quarantined meanwhile.
    Unknown,
}

/// The sliding window and the finishing-time scheduler. `T` is whatever stands for a packet, `R`
/// what the caller has to know of a multi-packet that an engine has.
pub struct Scheduler<T, R = ()> {
    pub(crate) policy: Policy,
    full_queue: FullQueue,
    depth_unit: DepthUnit,
    pub(crate) late_margin: Option<u64>,
    overtakes: bool,
    /// Packets that the window may hold now.
    pub(crate) size: usize,
    byte_limit: u32,
    pub(crate) max_wait: u64,
    /// What the caller's core does for each packet besides the work of engines, in ticks.
    pub(crate) worker_overhead: u64,
    /// What it has to do in any case before it can give other engines more, in ticks.
    pub(crate) overhead_ahead: u64,
    /// Packets that the caller keeps until the window has room for them.
    pub(crate) before_window: usize,
    pub(crate) corrects: bool,
    pub(crate) keeps_measures: bool,
    pub(crate) window: Window<T>,
    pub(crate) classes: Classes,
    adaptive: Option<AdaptiveWindow>,
    pub(crate) engines: Engines<R>,
    pub(crate) costs: CostTable,
    pub(crate) measures: Vec<EngineMeasures>,
    /// The engine of the last dispatch.
    last: usize,
    next_ticket: u64,
    wait: Histogram,
}

impl<T> Scheduler<T> {
    /// A scheduler with an empty window for these engines.
    ///
    /// # Errors
    /// [`ConfigError`] says what is out of range.
    pub fn new(config: SchedulerConfig, engines: Vec<EngineModel>) -> Result<Self, ConfigError> {
        Self::with_records(config, engines)
    }
}

impl<T, R> Scheduler<T, R> {
    /// The same for a caller that notes [records](Self::note).
    ///
    /// # Errors
    /// [`ConfigError`] says what is out of range.
    pub fn with_records(config: SchedulerConfig, engines: Vec<EngineModel>) -> Result<Self, ConfigError> {
        config.validate()?;
        if engines.is_empty() {
            return Err(ConfigError::NoEngine);
        }
        if engines.len() > ENGINES {
            return Err(ConfigError::Engines(engines.len()));
        }
        if config.policy == Policy::CpuOnly && !engines.iter().any(|engine| engine.is_cpu) {
            return Err(ConfigError::NoCpu);
        }
        let (least, most) = config.adaptive.unwrap_or((config.window, config.window));
        let size = config.window.clamp(least, most);
        Ok(Self {
            policy: config.policy,
            full_queue: config.full_queue,
            depth_unit: config.depth_unit,
            late_margin: config.late_margin,
            overtakes: config.overtake,
            size,
            byte_limit: config.byte_limit,
            max_wait: config.max_wait,
            worker_overhead: 0,
            overhead_ahead: 0,
            before_window: 0,
            corrects: config.correct,
            keeps_measures: config.measure,
            window: Window::new(WindowSize {
                packets: most,
                classes: config.classes,
                byte_limit: config.byte_limit,
                notes_arrivals: config.measure || config.adaptive.is_some(),
            }),
            classes: Classes::new(config.classes, config.discipline, size),
            adaptive: config.adaptive.map(|(least, most)| AdaptiveWindow::new(least, most)),
            engines: Engines::new(engines.iter().map(|engine| (engine.is_cpu, engine.depth))),
            costs: CostTable::new(&engines),
            last: engines.len() - 1,
            measures: engines.into_iter().map(|engine| EngineMeasures::new(engine.name)).collect(),
            next_ticket: 0,
            wait: Histogram::default(),
        })
    }

    /// Packets that the window takes now. With several classes some of it may be promised to
    /// others: [`room_for`](Self::room_for) knows.
    #[inline]
    pub fn room(&self) -> usize {
        self.size.saturating_sub(self.window.len())
    }

    /// Packets of one class that the window takes now.
    #[inline]
    pub fn room_for(&self, class: u8) -> usize {
        let kept_free = self.classes.kept_free(self.classes.of(class), self.window.counts());
        self.room().saturating_sub(kept_free)
    }

    /// Whether packets of an SA stand in the window; `sa_of` says whose a packet is.
    pub fn holds(&self, sa: u32, sa_of: impl Fn(&T) -> u32) -> bool {
        self.window.has(sa, sa_of)
    }

    /// Packets that stand in the window.
    pub fn waiting(&self) -> usize {
        self.window.len()
    }

    /// Puts a packet into the window.
    ///
    /// With several classes, part of the window is kept for each. Strict: an eighth for every class
    /// but the lowest, against those below it, so that a higher class always finds room. Weighted:
    /// half of the window, split by weight, so that none is kept out.
    ///
    /// # Errors
    /// The packet itself, when there is no room for it. [`dispatch`](Self::dispatch) then is due.
    #[inline]
    pub fn push(&mut self, now: u64, item: Item<T>) -> Result<(), Item<T>> {
        if self.room_for(item.class) == 0 {
            return Err(item);
        }
        self.window.push(now, self.classes.of(item.class), item);
        Ok(())
    }

    /// The next multi-packet, if it is time for one and the policy finds room for it.
    #[inline]
    pub fn dispatch(&mut self, now: u64, input: Input) -> Option<Dispatch<T>> {
        if self.window.has_bursts() {
            return self.dispatch_burst(now, input);
        }
        // Full queues first: under load that is the answer to every second call, and the cheapest
        // question.
        if self.engines.open.is_empty() || !self.is_due(now, input) {
            return None;
        }
        let class = self.classes.next(self.window.counts())?;
        let mut group = self.window.group(class)?;
        let choice = loop {
            if let Some(choice) = self.choose(now, input, &group) {
                break choice;
            }
            if !self.overtakes {
                return None;
            }
            group = self.window.group_behind(&group)?;
        };
        self.classes.spend(class, group.blocks);
        Some(self.send(now, &group, choice))
    }

    /// Where a group goes now; `None` if it has to wait.
    #[inline]
    pub(crate) fn choose(&mut self, now: u64, input: Input, group: &Group) -> Option<Choice> {
        if self.is_only_idle_time(input) && !self.has_idle(self.costs.capable(group.algorithm)) {
            return None;
        }
        self.costs.price(group.algorithm, group.blocks);
        if self.costs.has_handovers() && self.policy == Policy::FinishingTime {
            return self.choose_with_handovers(now, input, group);
        }
        self.search(now, input, group).choose(self.policy, self.last)
    }

    /// Out of the way of those who have no engine elsewhere, which pay a comparison for it.
    #[inline(never)]
    fn choose_with_handovers(&self, now: u64, input: Input, group: &Group) -> Option<Choice> {
        let search = self.search(now, input, group);
        let handovers = self.costs.handovers(group.algorithm);
        let (packets, has_more) = (u64::from(group.packets), input == Input::More);
        HandoverSearch { search, handovers, packets, has_more }.choose()
    }

    #[inline]
    fn search(&self, now: u64, input: Input, group: &Group) -> Search<'_, R> {
        Search {
            engines: &self.engines,
            capable: self.costs.capable(group.algorithm),
            processing: self.costs.prices(),
            blocks: group.blocks,
            bytes: group.bytes,
            now,
            places: self.depth_unit.places(group.packets),
            full_queue: self.full_queue,
            late_margin: self.late_margin,
            overhead: self.overhead(input, group),
        }
    }

    /// What the caller's core has to do for the packets at hand besides the work of engines. With
    /// no more input at hand only the packets beside the group are kept waiting by an engine on
    /// that core; after the end of input nobody is.
    #[inline]
    fn overhead(&self, input: Input, group: &Group) -> u64 {
        if self.worker_overhead == 0 || input == Input::Ended || self.policy != Policy::FinishingTime {
            return 0;
        }
        let chosen_for = if input == Input::More { 0 } else { group.packets as usize };
        let packets = (self.window.len() + self.before_window - chosen_for) as u64;
        self.worker_overhead.saturating_mul(packets).max(self.overhead_ahead)
    }

    /// Whether rule 1 closes the window, or the rule that an idle engine does not wait for packets
    /// that nobody has.
    #[inline]
    fn is_due(&self, now: u64, input: Input) -> bool {
        self.is_closed(input)
            || match self.max_wait {
                0 => input == Input::Paused,
                _ => self.deadline().is_some_and(|deadline| deadline <= now),
            }
    }

    /// Whether the window is full in packets or bytes, or nothing will come any more.
    #[inline]
    fn is_closed(&self, input: Input) -> bool {
        self.classes.is_full(self.room(), self.window.counts())
            || self.window.bytes() >= u64::from(self.byte_limit)
            || input == Input::Ended
    }

    /// Whether the window is due for no other reason than that an engine may be idle.
    #[inline]
    fn is_only_idle_time(&self, input: Input) -> bool {
        input == Input::Paused && self.max_wait == 0 && !self.is_closed(input)
    }

    fn has_idle(&self, capable: EngineMask) -> bool {
        self.engines.open.and(capable).any(|engine| self.engines.queue(engine).may_begin())
    }

    /// Takes the group out of the window and notes it with its engine.
    #[inline]
    fn send(&mut self, now: u64, group: &Group, choice: Choice) -> Dispatch<T> {
        let Choice { engine, wait, processing, .. } = choice;
        let items = if self.keeps_measures || self.adaptive.is_some() {
            self.take_measured(now, group, engine)
        } else {
            self.window.take(group, now, |_, _| ())
        };
        let ticket = self.enqueue(now, group, choice);
        Dispatch {
            engine,
            ticket,
            sa: group.sa,
            algorithm: group.algorithm,
            is_of_many: false,
            items,
            blocks: group.blocks,
            bytes: group.bytes,
            predicted_wait: wait,
            predicted_processing: processing,
        }
    }

    /// Notes a group with its engine; its ticket.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, group: &Group, choice: Choice) -> u64 {
        let Choice { engine, wait, processing, .. } = choice;
        let ticket = self.take_ticket(engine);
        let predicted_finish = now.saturating_add(wait).saturating_add(processing);
        let algorithm = group.algorithm;
        let places = self.depth_unit.places(group.packets);
        let pending = Pending {
            ticket,
            algorithm,
            cost: processing,
            places,
            dispatched: now,
            predicted_finish,
            record: None,
        };
        self.engines.enqueue(now, engine, pending);
        ticket
    }

    /// The ticket of what this engine is given next.
    #[inline]
    pub(crate) fn take_ticket(&mut self, engine: usize) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.last = engine;
        ticket
    }

    /// Takes the group out of the window, and counts what it is and how long its packets stood
    /// there.
    #[inline(never)]
    fn take_measured(&mut self, now: u64, group: &Group, engine: usize) -> Vec<T> {
        let idle = self.engines.queue(engine).idle(now);
        let (histogram, mut lost) = (&mut self.wait, 0);
        let items = self.window.take(group, now, |waited, packets| {
            histogram.add_many(waited, packets.into());
            lost += waited.min(idle) * u64::from(packets);
        });
        self.measures[engine].dispatched(group.packets, group.bytes);
        self.adapt(engine, group, lost);
        items
    }

    #[inline]
    fn adapt(&mut self, engine: usize, group: &Group, lost: u64) {
        let Some(adaptive) = &mut self.adaptive else { return };
        let t_init = self.costs.models(group.algorithm)[engine].t_init;
        if let Some(size) = adaptive.note(self.size, group.packets, t_init, lost) {
            self.size = size;
            self.classes.set_window(size);
        }
    }

    fn deadline(&self) -> Option<u64> {
        self.window.first_arrival().map(|first| first.saturating_add(self.max_wait))
    }

    /// Whether packets may be held back for a time to grow a multi-packet (`max_wait`).
    pub fn holds_back(&self) -> bool {
        self.max_wait > 0
    }

    /// Until when the window is held back to grow, unless it is full before (`max_wait`); `None` if
    /// it is empty or never held back.
    pub fn held_until(&self) -> Option<u64> {
        if self.max_wait == 0 { None } else { self.deadline() }
    }

    /// When [`dispatch`](Self::dispatch) should be asked again though nothing else happens; `None`
    /// if never. That is when the window has been held back for long enough, or when an engine for
    /// which it may wait turns late. Later than both, it waits for room in a queue, that is for a
    /// completion.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let held_back = self.held_until().filter(|deadline| *deadline > now);
        let margin = self.late_margin.filter(|_| {
            self.full_queue == FullQueue::Wait && self.policy == Policy::FinishingTime && self.waiting() > 0
        });
        let late = margin.and_then(|margin| self.engines.next_late(now, margin));
        [held_back, late].into_iter().flatten().min()
    }

    /// Tells that a multi-packet is done; `measured` is how long the engine worked on it, in ticks,
    /// if known.
    #[inline]
    pub fn complete(&mut self, now: u64, engine: usize, ticket: u64, measured: Option<u64>) -> Completed {
        let Some(done) = self.engines.complete(now, engine, ticket) else { return Completed::Unknown };
        if self.keeps_measures {
            self.measures[engine].completed(now, &done);
        }
        if let (true, Some(measured)) = (self.corrects, measured) {
            self.costs.correct(engine, done.algorithm, done.cost, measured);
        }
        Completed::Known { dispatched: done.dispatched }
    }

    /// Takes the buffer of a dispatch back, so that the next one need not allocate; what is in it
    /// is dropped.
    #[inline]
    pub fn recycle(&mut self, items: Vec<T>) {
        self.window.keep_buffer(items);
    }

    /// What was measured so far.
    pub fn snapshot(&self) -> Snapshot {
        let packets: u64 = self.measures.iter().map(|measures| measures.packets).sum();
        let engine = |(at, measures): (usize, &EngineMeasures)| {
            let [predicted_ticks, measured_ticks, error_ticks] = measures.means();
            EngineSnapshot {
                name: measures.name.clone(),
                is_available: self.engines.available.contains(at),
                queued: self.engines.queue(at).len(),
                packets: measures.packets,
                share: if packets == 0 { 0.0 } else { measures.packets as f64 / packets as f64 },
                multi_packets: measures.packets_per_multi_packet.count(),
                bytes: measures.bytes,
                packets_per_multi_packet: measures.packets_per_multi_packet,
                completed: measures.completed,
                predicted_ticks,
                measured_ticks,
                error_ticks,
                bias_ticks: measured_ticks - predicted_ticks,
                corrections: self.costs.ratios(at),
            }
        };
        Snapshot {
            window: self.size,
            waiting: self.window.len(),
            wait: self.wait,
            engines: self.measures.iter().enumerate().map(engine).collect(),
        }
    }
}
