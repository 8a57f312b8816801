//! The scheduler: window, choice, and the mirror of each engine's queue.

use crate::adaptive::AdaptiveWindow;
use crate::config::{CLASSES, ClassDiscipline, ConfigError, Input, SchedulerConfig};
use crate::cost::{CostModel, EngineModel};
use crate::engine::EngineState;
use crate::policy::{Policy, choose};
use crate::snapshot::{Histogram, Snapshot};
use crate::window::{Group, Item, Window};

/// A multi-packet and where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dispatch<T> {
    /// The engine, by its place in the list that the scheduler was made with.
    pub engine: usize,
    /// The multi-packet's own number; [`Scheduler::complete`] asks for it.
    pub ticket: u64,
    /// The SA of all its packets.
    pub sa: u32,
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
    /// The engine had no such multi-packet: it was taken out meanwhile.
    Unknown,
}

/// Buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 256;

/// The sliding window and the finishing-time scheduler. `T` is whatever stands for a packet.
pub struct Scheduler<T> {
    config: SchedulerConfig,
    window: Window<T>,
    engines: Vec<EngineState>,
    adaptive: Option<AdaptiveWindow>,
    /// What each class may still take in this round, in blocks (weighted classes).
    deficits: [i64; CLASSES],
    turn: usize,
    last: usize,
    next_ticket: u64,
    spare: Vec<Vec<T>>,
    wait: Histogram,
}

impl<T> Scheduler<T> {
    /// A scheduler with an empty window for these engines.
    ///
    /// # Errors
    /// [`ConfigError`] says what is out of range.
    pub fn new(config: SchedulerConfig, engines: Vec<EngineModel>) -> Result<Self, ConfigError> {
        config.validate()?;
        if engines.is_empty() {
            return Err(ConfigError::NoEngine);
        }
        if config.policy == Policy::CpuOnly && !engines.iter().any(|engine| engine.is_cpu) {
            return Err(ConfigError::NoCpu);
        }
        let last = engines.len() - 1;
        Ok(Self {
            window: Window::new(config.largest_window()),
            adaptive: config.adaptive.map(|(least, most)| AdaptiveWindow::new(least, most)),
            engines: engines.into_iter().map(EngineState::new).collect(),
            deficits: [0; CLASSES],
            turn: 0,
            last,
            next_ticket: 0,
            spare: Vec::new(),
            wait: Histogram::default(),
            config,
        })
    }

    /// Sets what an algorithm costs on an engine; `None` if the engine cannot do it.
    pub fn set_cost(&mut self, engine: usize, algorithm: u16, model: Option<CostModel>) {
        self.engines[engine].set_cost(algorithm, model);
    }

    /// Packets that the window takes now.
    pub fn room(&self) -> usize {
        self.config.window.saturating_sub(self.window.len())
    }

    /// Packets that stand in the window.
    pub fn waiting(&self) -> usize {
        self.window.len()
    }

    /// Puts a packet into the window. With several classes, room is kept for each: under the strict discipline an
    /// eighth of the window for the highest, so that it always finds some; under the weighted one for each class its
    /// share by weight, so that none is kept out.
    ///
    /// # Errors
    /// The packet itself, when there is no room for it.
    pub fn push(&mut self, now: u64, item: Item<T>) -> Result<(), Item<T>> {
        let kept_free = if self.config.classes > 1 { self.kept_free(item.class) } else { 0 };
        if self.room() <= kept_free {
            return Err(item);
        }
        self.window.push(now, item);
        Ok(())
    }

    /// Room that classes other than this one have been promised and do not use yet, in packets.
    fn kept_free(&self, class: u8) -> usize {
        let unused = |of: usize, promised: usize| {
            if of == usize::from(class) { 0 } else { promised.saturating_sub(self.window.count(of)) }
        };
        match self.config.discipline {
            ClassDiscipline::Strict => unused(0, self.config.window / 8),
            ClassDiscipline::Weighted(weights) => {
                let weights = &weights[..self.config.classes];
                let sum: usize = weights.iter().map(|weight| *weight.max(&1) as usize).sum();
                let share = |weight: u32| self.config.window * weight.max(1) as usize / sum;
                weights.iter().enumerate().map(|(of, weight)| unused(of, share(*weight))).sum()
            }
        }
    }

    /// The next multi-packet, if it is time for one and an engine has room.
    pub fn dispatch(&mut self, now: u64, input: Input) -> Option<Dispatch<T>> {
        let class = self.next_class()?;
        let group = self.window.group(class, self.config.byte_limit)?;
        if !self.is_due(now, input, &group) {
            return None;
        }
        let choice = choose(self.config.policy, &self.engines, &group, now, self.last)?;
        self.spend(class, &group);
        let mut items = self.spare.pop().unwrap_or_default();
        let (histogram, mut waited) = (&mut self.wait, 0);
        self.window.take(&group, now, &mut items, |ticks| {
            histogram.add(ticks);
            waited += ticks;
        });
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.last = choice.engine;
        let engine = &mut self.engines[choice.engine];
        let t_init = engine.t_init(group.algorithm);
        engine.enqueue(now, ticket, group.algorithm, choice.processing, group.packets, group.bytes);
        if let Some(adaptive) = &mut self.adaptive {
            let next = adaptive.note(self.config.window, group.packets, t_init, waited);
            self.config.window = next.unwrap_or(self.config.window);
        }
        Some(Dispatch {
            engine: choice.engine,
            ticket,
            sa: group.sa,
            items,
            blocks: group.blocks,
            bytes: group.bytes,
            predicted_wait: choice.wait,
            predicted_processing: choice.processing,
        })
    }

    /// Rule 1, and the rule that an idle engine does not wait for packets that nobody has.
    fn is_due(&self, now: u64, input: Input, group: &Group) -> bool {
        if self.room() == 0 || group.is_closed || input == Input::Ended {
            return true;
        }
        if self.config.max_wait > 0 {
            return self.deadline().is_some_and(|deadline| deadline <= now);
        }
        input == Input::Paused
            && self.engines.iter().any(|engine| {
                engine.is_available && engine.is_idle() && engine.cost(group.algorithm, 0).is_some()
            })
    }

    fn deadline(&self) -> Option<u64> {
        self.window.first_arrival().map(|first| first.saturating_add(self.config.max_wait))
    }

    /// When [`dispatch`](Self::dispatch) should be asked again though nothing else happens; `None` if never.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadline().filter(|_| self.config.max_wait > 0)
    }

    fn next_class(&mut self) -> Option<usize> {
        if self.config.classes == 1 {
            return (0..CLASSES).find(|class| self.window.has_class(*class));
        }
        match self.config.discipline {
            ClassDiscipline::Strict => (0..CLASSES).find(|class| self.window.has_class(*class)),
            ClassDiscipline::Weighted(weights) => self.next_weighted(&weights),
        }
    }

    /// Deficit round robin: the class whose turn it is sends while it has credit; credit is in blocks.
    fn next_weighted(&mut self, weights: &[u32; CLASSES]) -> Option<usize> {
        // A full Ethernet packet's blocks for each unit of weight.
        const QUANTUM: i64 = 96;
        if self.window.len() == 0 {
            return None;
        }
        loop {
            let class = self.turn;
            if self.window.has_class(class) && self.deficits[class] > 0 {
                return Some(class);
            }
            if !self.window.has_class(class) {
                self.deficits[class] = 0;
            }
            self.turn = (self.turn + 1) % CLASSES;
            if self.window.has_class(self.turn) {
                self.deficits[self.turn] += QUANTUM * i64::from(weights[self.turn].max(1));
            }
        }
    }

    fn spend(&mut self, class: usize, group: &Group) {
        self.deficits[class] -= group.blocks as i64;
    }

    /// Tells that a multi-packet is done; `measured` is how long the engine worked on it, in ticks, if known.
    pub fn complete(&mut self, now: u64, engine: usize, ticket: u64, measured: Option<u64>) -> Completed {
        let correct = self.config.correct;
        let dispatched =
            self.engines.get_mut(engine).and_then(|state| state.complete(now, ticket, measured, correct));
        dispatched.map_or(Completed::Unknown, |dispatched| Completed::Known { dispatched })
    }

    /// Takes an engine out of the choice, and forgets what it has; or puts it back.
    pub fn set_available(&mut self, engine: usize, is_available: bool) {
        let state = &mut self.engines[engine];
        state.is_available = is_available;
        if !is_available {
            state.clear();
        }
    }

    /// Takes the emptied buffer of a dispatch back, so that the next one need not allocate.
    pub fn recycle(&mut self, mut items: Vec<T>) {
        items.clear();
        if self.spare.len() < SPARE_BUFFERS {
            self.spare.push(items);
        }
    }

    /// What was measured so far.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            window: self.config.window,
            waiting: self.window.len(),
            wait: self.wait,
            engines: self.engines.iter().map(EngineState::snapshot).collect(),
        }
    }
}
