//! The scheduler: window, choice, and a mirror of each engine's queue.

use crate::adaptive::AdaptiveWindow;
use crate::choice::{Choice, Credits, NO_BOUND, Search};
use crate::classes::Classes;
use crate::config::{ConfigError, Input, SchedulerConfig};
use crate::cost::{CostTable, EngineModel};
use crate::engine::{Engines, Pending};
use crate::engine_mask::{ENGINES, EngineMask};
use crate::handover::HandoverSearch;
use crate::heuristic::{Done, HeuristicMapping};
use crate::histogram::Histogram;
use crate::policy::SchedulingPolicy;
use crate::room::FullQueue;
use crate::snapshot::{EngineMeasures, EngineSnapshot, SchedulerSnapshot};
use crate::window::{Group, Item, Window, WindowSize};

/// A multi-packet or a train, and the engine it goes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch<T> {
    /// The engine, by its index in the list given to the scheduler.
    pub engine: usize,
    /// Its unique number, for [`Scheduler::complete`].
    pub ticket: u64,
    /// The SA of all its packets, unless they [are of many](Self::is_of_many).
    pub sa: u32,
    /// The algorithm of all packets, or an unused number if they have several.
    pub algorithm: u16,
    /// Whether it is a train: a burst as it came, of whatever SAs.
    pub is_of_many: bool,
    /// Its packets, in order.
    pub items: Vec<T>,
    /// Their size in blocks of 16 bytes.
    pub blocks: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// `w`: the engine's work ahead of it, in ticks.
    pub predicted_wait: u64,
    /// `p`: its own time, in ticks.
    pub predicted_processing: u64,
}

/// The outcome of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completed {
    /// The multi-packet was at the engine, dispatched at this tick.
    Known {
        /// When.
        dispatched: u64,
    },
    /// The engine has no such multi-packet: it was quarantined meanwhile.
    Unknown,
}

/// The sliding window and the finishing-time scheduler. `T` represents a packet, `R` the caller's
/// record of a multi-packet at an engine.
pub struct Scheduler<T, R = ()> {
    pub(crate) config: SchedulerConfig,
    bounds: CreditBounds,
    /// Current size of the window, in packets.
    pub(crate) size: usize,
    pub(crate) core: CoreLoad,
    pub(crate) window: Window<T>,
    pub(crate) classes: Classes,
    adaptive: Option<AdaptiveWindow>,
    /// A heuristic that takes the policy's place, if any.
    pub(crate) mapping: Option<HeuristicMapping>,
    pub(crate) engines: Engines<R>,
    pub(crate) costs: CostTable,
    pub(crate) measures: Vec<EngineMeasures>,
    next_ticket: u64,
    wait: Histogram,
}

/// The load of the caller's core beside the work of engines.
#[derive(Clone, Copy, Default)]
pub(crate) struct CoreLoad {
    /// Its overhead for each packet, in ticks.
    pub(crate) overhead: u64,
    /// Its minimum overhead before it can give other engines more work, in ticks.
    pub(crate) overhead_ahead: u64,
    /// Packets that the caller holds until the window has room.
    pub(crate) before_window: usize,
}

/// Credits of the configuration as a search has them.
struct CreditBounds {
    all: u32,
    class: u32,
}

fn bound(credits: Option<usize>) -> u32 {
    credits.map_or(NO_BOUND, |credits| u32::try_from(credits).unwrap_or(NO_BOUND))
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
    /// A scheduler for a caller that attaches [records](Self::note).
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
        let (least, most) = config.adaptive.unwrap_or((config.window, config.window));
        let size = config.window.clamp(least, most);
        Ok(Self {
            bounds: CreditBounds {
                all: bound(config.research.credits),
                class: bound(config.research.class_credits),
            },
            size,
            core: CoreLoad::default(),
            window: Window::new(WindowSize {
                packets: most,
                classes: config.classes,
                byte_limit: config.byte_limit,
                notes_arrivals: config.measure || config.adaptive.is_some(),
                is_compared: config.policy == SchedulingPolicy::Sufferage
                    && config.research.heuristic.is_none(),
            }),
            classes: Classes::new(config.classes, config.discipline, size),
            adaptive: config.adaptive.map(|(least, most)| AdaptiveWindow::new(least, most)),
            mapping: config.research.heuristic.map(|factory| HeuristicMapping::new((factory.make)())),
            engines: Engines::new(engines.iter().map(|engine| (engine.is_cpu, engine.depth))),
            costs: CostTable::new(&engines),
            measures: engines.into_iter().map(|engine| EngineMeasures::new(engine.name)).collect(),
            next_ticket: 0,
            wait: Histogram::default(),
            config,
        })
    }

    /// Packets that the window has room for, as far as the bytes of those to come do not fill it
    /// before (`window_bytes`). With several classes part of it may be reserved: see
    /// [`room_for`](Self::room_for).
    #[inline]
    pub fn room(&self) -> usize {
        if self.window.bytes() >= self.config.research.window_bytes {
            return 0;
        }
        self.size.saturating_sub(self.window.len())
    }

    /// Packets of one class that the window has room for.
    #[inline]
    pub fn room_for(&self, class: u8) -> usize {
        let kept_free = self.classes.kept_free(self.classes.of(class), self.window.counts());
        self.room().saturating_sub(kept_free)
    }

    /// Whether packets of an SA stand in the window; `sa_of` returns a packet's SA.
    pub fn holds(&self, sa: u32, sa_of: impl Fn(&T) -> u32) -> bool {
        self.window.has(sa, sa_of)
    }

    /// Packets that stand in the window.
    pub fn waiting(&self) -> usize {
        self.window.len()
    }

    /// Puts a packet into the window.
    ///
    /// With several classes, part of the window is reserved for each. Strict: an eighth for every
    /// class but the lowest, against those below it, so that a higher class always finds room.
    /// Weighted: half of the window, split by weight, so that none is kept out.
    ///
    /// # Errors
    /// The packet itself, if there is no room for it. [`dispatch`](Self::dispatch) is then due.
    #[inline]
    pub fn push(&mut self, now: u64, item: Item<T>) -> Result<(), Item<T>> {
        if self.room_for(item.class) == 0 {
            return Err(item);
        }
        self.window.push(now, self.classes.of(item.class), item);
        Ok(())
    }

    /// The next multi-packet, if one is due and the policy finds an engine with room for it.
    #[inline]
    pub fn dispatch(&mut self, now: u64, input: Input) -> Option<Dispatch<T>> {
        if self.window.has_bursts() {
            return self.dispatch_burst(now, input);
        }
        // Full queues first: under load that is the answer to every second call, and the cheapest
        // test.
        if self.engines.open.is_empty() || !self.is_due(now, input) {
            return None;
        }
        let class = self.classes.next(self.window.counts())?;
        if self.mapping.is_some() {
            return self.dispatch_mapped(now, class, self.is_only_idle_time(input));
        }
        let (group, choice) = self.next_group(now, input, class)?;
        self.classes.spend(class, group.blocks);
        Some(self.send(now, &group, choice))
    }

    /// The multi-packet of a class that goes next, with its engine; `None` if it waits for room.
    #[inline]
    fn next_group(&mut self, now: u64, input: Input, class: usize) -> Option<(Group, Choice)> {
        let group = self.window.group(class)?;
        if self.config.policy == SchedulingPolicy::Sufferage {
            return self.most_suffering(now, input, group);
        }
        self.choose(now, input, &group).map(|choice| (group, choice))
    }

    /// The engine for a group now; `None` if it has to wait.
    #[inline]
    pub(crate) fn choose(&mut self, now: u64, input: Input, group: &Group) -> Option<Choice> {
        if self.is_only_idle_time(input) && !self.has_idle(self.costs.capable(group.algorithm)) {
            return None;
        }
        self.costs.price(group.algorithm, group.blocks);
        if self.costs.has_handovers() {
            return self.handover_search(now, input, group).choose();
        }
        self.search(now, input, group).choose()
    }

    /// Not inlined, for those without an engine elsewhere, who pay only a comparison.
    #[inline(never)]
    pub(crate) fn handover_search(&self, now: u64, input: Input, group: &Group) -> HandoverSearch<'_, R> {
        let search = self.search(now, input, group);
        let handovers = self.costs.handovers(group.algorithm);
        let (packets, has_more) = (u64::from(group.packets), input == Input::More);
        HandoverSearch { search, handovers, packets, has_more }
    }

    #[inline]
    pub(crate) fn search(&self, now: u64, input: Input, group: &Group) -> Search<'_, R> {
        Search {
            engines: &self.engines,
            capable: self.costs.capable(group.algorithm),
            processing: self.costs.prices(),
            blocks: group.blocks,
            now,
            places: self.config.research.depth_unit.places(group.packets, group.bytes),
            full_queue: self.config.research.full_queue,
            late_margin: self.config.late_margin,
            credits: Credits {
                all: self.bounds.all,
                lower: if group.class > 0 { self.bounds.class } else { NO_BOUND },
                class: group.class,
            },
            overhead: self.overhead(input, group),
        }
    }

    /// The overhead of the caller's core for the packets at hand. Without more input only packets
    /// outside the group are delayed by an engine on that core; after the end of input none is.
    #[inline]
    pub(crate) fn overhead(&self, input: Input, group: &Group) -> u64 {
        let CoreLoad { overhead, overhead_ahead, before_window } = self.core;
        if overhead == 0 || input == Input::Ended {
            return 0;
        }
        let (chosen_for, at_least) = match input {
            Input::More => (0, overhead_ahead),
            Input::Paused | Input::Ended => (group.packets as usize, 0),
        };
        let packets = (self.window.len() + before_window - chosen_for) as u64;
        overhead.saturating_mul(packets).max(at_least)
    }

    /// Whether the window is closed by rule 1, or must be dispatched because an engine is idle and
    /// no more input is at hand.
    #[inline]
    fn is_due(&self, now: u64, input: Input) -> bool {
        self.is_closed(input)
            || match self.config.max_wait {
                0 => input == Input::Paused,
                _ => self.deadline().is_some_and(|deadline| deadline <= now),
            }
    }

    /// Whether the window is full in packets or bytes, or the input has ended.
    #[inline]
    pub(crate) fn is_closed(&self, input: Input) -> bool {
        self.classes.is_full(self.room(), self.window.counts())
            || self.window.bytes() >= u64::from(self.config.byte_limit)
            || input == Input::Ended
    }

    /// Whether the only reason to dispatch the window is an idle engine.
    #[inline]
    fn is_only_idle_time(&self, input: Input) -> bool {
        input == Input::Paused && self.config.max_wait == 0 && !self.is_closed(input)
    }

    pub(crate) fn has_idle(&self, capable: EngineMask) -> bool {
        self.engines.open.and(capable).any(|engine| self.engines.queue(engine).may_begin())
    }

    /// Takes the group out of the window and enters it in its engine's queue.
    #[inline]
    pub(crate) fn send(&mut self, now: u64, group: &Group, choice: Choice) -> Dispatch<T> {
        let Choice { engine, wait, processing, .. } = choice;
        let items = if self.config.measure || self.adaptive.is_some() {
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

    /// Enters a group in its engine's queue; returns its ticket.
    #[inline]
    pub(crate) fn enqueue(&mut self, now: u64, group: &Group, choice: Choice) -> u64 {
        let Choice { engine, wait, processing, .. } = choice;
        let ticket = self.take_ticket();
        let predicted_finish = now.saturating_add(wait).saturating_add(processing);
        let algorithm = group.algorithm;
        let places = self.config.research.depth_unit.places(group.packets, group.bytes);
        let pending = Pending {
            ticket,
            algorithm,
            class: group.class,
            cost: processing,
            places,
            dispatched: now,
            predicted_finish,
            record: None,
        };
        self.engines.enqueue(now, engine, pending);
        ticket
    }

    /// The ticket of the next work.
    #[inline]
    pub(crate) fn take_ticket(&mut self) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        ticket
    }

    /// Takes the group out of the window, and measures it and its packets' waits.
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
        self.window.first_arrival().map(|first| first.saturating_add(self.config.max_wait))
    }

    /// Whether packets may be held back for a while to grow a multi-packet (`max_wait`).
    pub fn holds_back(&self) -> bool {
        self.config.max_wait > 0
    }

    /// The deadline until which the window is held back to grow unless it fills up before
    /// (`max_wait`); `None` if it is empty or never held back.
    pub fn held_until(&self) -> Option<u64> {
        if self.config.max_wait == 0 { None } else { self.deadline() }
    }

    /// When [`dispatch`](Self::dispatch) should be called again even if nothing else happens;
    /// `None` if never. This is when the window has been held back for long enough, or when an
    /// engine for which it may wait turns late. Beyond both, it waits for room in a queue, and
    /// hence for a completion.
    pub fn next_deadline(&self, now: u64) -> Option<u64> {
        let held_back = self.held_until().filter(|deadline| *deadline > now);
        let waits = self.config.research.full_queue == FullQueue::Wait && self.waiting() > 0;
        let margin = self.config.late_margin.filter(|_| waits);
        let late = margin.and_then(|margin| self.engines.next_late(now, margin));
        [held_back, late].into_iter().flatten().min()
    }

    /// Completes a multi-packet; `measured` is the engine's time for it, in ticks, if known.
    #[inline]
    pub fn complete(&mut self, now: u64, engine: usize, ticket: u64, measured: Option<u64>) -> Completed {
        let Some(done) = self.engines.complete(now, engine, ticket) else { return Completed::Unknown };
        if self.config.measure {
            self.measures[engine].completed(now, &done);
        }
        if let Some(mapping) = &mut self.mapping {
            let (dispatched, predicted) = (done.dispatched, done.cost);
            mapping.heuristic.completed(&Done { now, engine, dispatched, predicted });
        }
        if let (true, Some(measured)) = (self.config.correct, measured) {
            self.costs.correct(engine, done.algorithm, done.cost, measured);
        }
        Completed::Known { dispatched: done.dispatched }
    }

    /// Takes the buffer of a dispatch back, so that the next one need not allocate; its contents
    /// are dropped.
    #[inline]
    pub fn recycle(&mut self, items: Vec<T>) {
        self.window.keep_buffer(items);
    }

    /// The measurements so far.
    pub fn snapshot(&self) -> SchedulerSnapshot {
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
        SchedulerSnapshot {
            window: self.size,
            waiting: self.window.len(),
            wait: self.wait,
            engines: self.measures.iter().enumerate().map(engine).collect(),
        }
    }
}
