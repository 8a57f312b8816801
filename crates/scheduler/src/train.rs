//! Trains of many SAs: bursts that an engine takes as they came.
//!
//! Packets are bundled by SA where a change of SA costs an engine more than a separate
//! multi-packet. An engine that has all keys at hand gains nothing by that: it takes a *train*, the
//! packets of a burst in order of arrival, for `t_init` once, `t_block` a block and `t_key` a
//! change of SA. Such a burst stands in the window as it is, and is dispatched as it is. An engine
//! on the caller's core that takes the packets of one SA at a time must make up for the cost of
//! sorting in the window.

mod choice;
mod times;

use crate::config::Input;
use crate::engine::Pending;
use crate::engine_mask::EngineMask;
use crate::scheduler::{Dispatch, Scheduler};
use crate::window::Group;
use choice::TrainChoice;

/// Algorithms in a train, at most; a burst with more is sorted by SA.
const PARTS: usize = 4;

/// The packets of a train that have one algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainPart {
    /// The algorithm.
    pub algorithm: u16,
    /// The size of its longest packet in blocks of 16 bytes: no packet has more than fit here.
    pub longest: u16,
    /// The size of its packets in blocks.
    pub blocks: u32,
    /// How many packets it has.
    pub packets: u32,
    /// How many of its packets have an SA other than that of the previous packet in the train.
    pub changes: u32,
    /// The number of SAs of its packets, and hence of multi-packets that the window would make of
    /// them. Used only if an engine on the caller's core does not take trains.
    pub sas: u32,
}

impl TrainPart {
    /// Counts a packet of this many blocks.
    #[inline]
    pub fn add(&mut self, blocks: u32) {
        self.packets += 1;
        self.blocks += blocks;
        self.longest = self.longest.max(blocks as u16);
    }
}

/// The parts of a train by algorithm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts {
    parts: [TrainPart; PARTS],
    used: u8,
}

impl Parts {
    /// The parts of a train whose packets have one algorithm.
    #[inline]
    pub fn one(part: TrainPart) -> Self {
        let mut parts = Self::default();
        parts.parts[0] = part;
        parts.used = 1;
        parts
    }

    /// The part of an algorithm, added if necessary; `None` if there are too many.
    pub fn of(&mut self, algorithm: u16) -> Option<&mut TrainPart> {
        let used = usize::from(self.used);
        let at = self.parts[..used].iter().position(|part| part.algorithm == algorithm).unwrap_or(used);
        let part = self.parts.get_mut(at)?;
        if at == used {
            *part = TrainPart { algorithm, ..TrainPart::default() };
            self.used += 1;
        }
        Some(part)
    }

    #[inline]
    pub(crate) fn all(&self) -> &[TrainPart] {
        &self.parts[..self.used.into()]
    }

    fn blocks(&self) -> u64 {
        self.all().iter().map(|part| u64::from(part.blocks)).sum()
    }
}

/// What the caller has in flight beside the window's contents: order is kept either by SA or over
/// all, never both at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outstanding {
    /// Nothing.
    Nothing,
    /// Trains of many SAs: a multi-packet has to wait for them.
    Trains,
    /// Multi-packets: what arrives also goes by SA.
    MultiPackets,
}

/// A burst about to enter the window.
#[derive(Clone, Copy, Debug)]
pub struct Burst {
    /// Its parts by algorithm; `None` if there are too many, or if some packets are tied to one
    /// engine.
    pub parts: Option<Parts>,
    /// How many packets it has.
    pub packets: usize,
    /// Their size in bytes.
    pub bytes: u64,
    /// What is still in flight.
    pub outstanding: Outstanding,
}

impl Burst {
    /// A burst without packets.
    #[inline]
    pub fn new(parts: Option<Parts>) -> Self {
        Self { parts, packets: 0, bytes: 0, outstanding: Outstanding::Nothing }
    }
}

/// How a burst enters the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// As it came.
    Whole,
    /// Its packets are to be [pushed](Scheduler::push) one by one, so that the window sorts them by
    /// SA.
    BySa,
    /// Not yet.
    Later,
}

/// The dispatch of a train: its engine and prediction. The packets stay with the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainDispatch {
    /// The engine, by its index in the list given to the scheduler.
    pub engine: usize,
    /// Its unique number, for [`Scheduler::complete`].
    pub ticket: u64,
    /// The algorithm of all packets, or an unused number if they have several.
    algorithm: u16,
    /// The engine's predicted work ahead of it, in ticks.
    pub predicted_wait: u64,
    /// Its own predicted time, in ticks.
    pub predicted_processing: u64,
}

/// Stands for several algorithms; no algorithm has this number.
const SEVERAL: u16 = u16::MAX;

impl<T, R> Scheduler<T, R> {
    /// How a burst enters the window: as it came, whatever its SAs, if sorting it gains nothing.
    ///
    /// It is sorted by SA
    /// - if an engine elsewhere that takes no trains supports all its parts;
    /// - if an engine on the caller's core that takes no trains is cheaper than those that do,
    ///   including the cost of [sorting](Self::set_window_cost);
    /// - if its packets are [better bundled](Self::set_t_key) for one of these engines;
    /// - if there are several engines and a heuristic takes the policy's place;
    /// - if the window bundles nothing, or holds packets back;
    /// - if there are several classes and an engine elsewhere;
    /// - and while anything else is sorted.
    pub fn admission(&self, burst: &Burst) -> Admission {
        let is_sorted = self.window.len() > 0 && !self.window.has_bursts();
        let are_trains_out = burst.outstanding == Outstanding::Trains;
        let may_be_whole = !is_sorted && burst.outstanding != Outstanding::MultiPackets;
        let is_train = |parts: &Parts| self.is_train(parts, burst.packets, are_trains_out);
        if may_be_whole && burst.parts.as_ref().is_some_and(is_train) {
            if self.window.len() < self.size { Admission::Whole } else { Admission::Later }
        } else if are_trains_out || self.window.has_bursts() {
            Admission::Later
        } else {
            Admission::BySa
        }
    }

    /// Whether every burst is currently sorted by SA, whatever it consists of.
    pub fn sorts_all(&self, outstanding: Outstanding) -> bool {
        let is_sorted = self.window.len() > 0 && !self.window.has_bursts();
        let never_whole = is_sorted || self.size == 1 || self.config.max_wait > 0;
        match outstanding {
            Outstanding::Nothing => never_whole,
            Outstanding::Trains => false,
            Outstanding::MultiPackets => true,
        }
    }

    /// Puts a burst into the window [as it came](Self::admission), and leaves an empty buffer in
    /// `packets`.
    pub fn push_burst(&mut self, packets: &mut Vec<T>, burst: &Burst) {
        debug_assert!(burst.parts.is_some(), "it was admitted");
        self.window.push_burst(packets, burst.parts.unwrap_or_default(), burst.bytes);
    }

    /// Whether a burst is best given to an engine as it came. `are_trains_out` says that it would
    /// have to wait for others if it were sorted.
    fn is_train(&self, parts: &Parts, packets: usize, are_trains_out: bool) -> bool {
        if self.size == 1 || self.config.max_wait > 0 {
            return false;
        }
        let parts = parts.all();
        let capable = self.capable_of(parts);
        let elsewhere = capable.without(self.engines.cpus);
        let takers = capable.and(self.engines.train_takers);
        let has_choice = !capable.without(capable.first_alone()).is_empty();
        if takers.is_empty()
            || !elsewhere.without(takers).is_empty()
            || has_choice && self.mapping.is_some()
            || !elsewhere.is_empty() && self.classes.count() > 1
            || parts.iter().any(|part| self.costs.is_better_bundled(part.algorithm, capable))
        {
            return false;
        }
        let among = self.engines.available.and(capable);
        let others = among.without(takers);
        if others.is_empty() || are_trains_out && !among.and(takers).is_empty() {
            return true;
        }
        let own = among.and(takers).and(self.engines.cpus).map(|engine| self.train_cost(engine, parts)).min();
        own.is_some_and(|own| !{ others }.any(|engine| self.bundled_cost(engine, parts, packets) < own))
    }

    /// The engines that support all of these parts.
    fn capable_of(&self, parts: &[TrainPart]) -> EngineMask {
        let all = EngineMask::all();
        parts.iter().fold(all, |capable, part| capable.and(self.costs.capable(part.algorithm)))
    }

    /// Whether no available engine that supports these parts takes trains, while another one is
    /// available.
    pub fn has_only_others(&self, parts: &Parts) -> bool {
        let available = self.engines.available.and(self.capable_of(parts.all()));
        !available.is_empty() && available.and(self.engines.train_takers).is_empty()
    }

    /// Whether bursts stand in the window as they came.
    #[inline]
    pub fn has_bursts(&self) -> bool {
        self.window.has_bursts()
    }

    /// Takes the packets of all bursts out of the window if no available engine that takes trains
    /// supports the first of them while another engine does.
    pub fn take_back(&mut self) -> Vec<T> {
        let mut packets = Vec::new();
        if self.window.first_burst().is_some_and(|first| self.has_only_others(&first.parts)) {
            while let Some(mut burst) = self.window.take_burst() {
                packets.append(&mut burst.items);
            }
        }
        packets
    }

    /// Dispatches a burst that [may enter](Self::admission) the window as it came at once, if the
    /// window is empty and an engine has room.
    pub fn pass(&mut self, now: u64, input: Input, burst: &Burst) -> Option<TrainDispatch> {
        let parts = burst.parts.as_ref().filter(|_| self.window.len() == 0)?;
        if let Some(given) = self.give_only(burst, parts) {
            return Some(given);
        }
        if self.admission(burst) != Admission::Whole {
            return None;
        }
        let choice = self.train_choice(now, input, parts, burst.packets)?;
        Some(self.give_train(now, parts, burst.packets, burst.bytes, choice))
    }

    /// The shortcut of [`pass`](Self::pass) for a single engine that processes at once what it is
    /// given. A packet that arrives alone passes here, and a choice between many would cost it
    /// more.
    #[inline]
    fn give_only(&mut self, burst: &Burst, parts: &Parts) -> Option<TrainDispatch> {
        const ENGINE: usize = 0;
        let [part] = parts.all() else { return None };
        let may_pass = self.engines.is_only_at_once()
            && burst.outstanding != Outstanding::MultiPackets
            && self.size > 1
            && self.config.max_wait == 0
            && !self.costs.is_better_bundled(part.algorithm, self.costs.capable(part.algorithm));
        let model = *self.costs.models(part.algorithm).first().filter(|_| may_pass)?;
        if !self.costs.capable(part.algorithm).contains(ENGINE) {
            return None;
        }
        if self.config.measure {
            self.measures[ENGINE].dispatched(burst.packets as u32, burst.bytes);
        }
        Some(TrainDispatch {
            engine: ENGINE,
            ticket: self.take_ticket(),
            algorithm: part.algorithm,
            predicted_wait: 0,
            predicted_processing: self.part_cost(ENGINE, model, part),
        })
    }

    /// The first burst of the window as a train, if an engine has room for it.
    pub(crate) fn dispatch_burst(&mut self, now: u64, input: Input) -> Option<Dispatch<T>> {
        let first = self.window.first_burst()?;
        let choice = self.train_choice(now, input, &first.parts, first.items.len())?;
        let burst = self.window.take_burst()?;
        let given = self.give_train(now, &burst.parts, burst.items.len(), burst.bytes, choice);
        Some(Dispatch {
            engine: choice.engine,
            ticket: given.ticket,
            sa: 0,
            algorithm: given.algorithm,
            is_of_many: true,
            blocks: burst.parts.blocks(),
            bytes: burst.bytes,
            items: burst.items,
            predicted_wait: choice.wait,
            predicted_processing: choice.processing,
        })
    }

    /// Chooses another engine for packets whose engine has failed. For packets of one SA the policy
    /// decides, as if they stood in a full window; others go to an engine that takes trains. `None`
    /// while no engine has room.
    pub fn give_again(&mut self, now: u64, sa: Option<u32>, burst: &Burst) -> Option<TrainDispatch> {
        let parts = burst.parts?;
        let ([part], Some(sa)) = (parts.all(), sa) else {
            let choice = self.train_choice(now, Input::Paused, &parts, burst.packets)?;
            return Some(self.give_train(now, &parts, burst.packets, burst.bytes, choice));
        };
        let group = Group {
            sa,
            algorithm: part.algorithm,
            packets: burst.packets as u32,
            blocks: part.blocks.into(),
            bytes: burst.bytes,
            ..Group::NOWHERE
        };
        let choice = self.choose(now, Input::Ended, &group)?;
        if self.config.measure {
            self.measures[choice.engine].dispatched(group.packets, group.bytes);
        }
        let ticket = self.enqueue(now, &group, choice);
        let (engine, predicted_wait, predicted_processing) = (choice.engine, choice.wait, choice.processing);
        Some(TrainDispatch {
            engine,
            ticket,
            algorithm: group.algorithm,
            predicted_wait,
            predicted_processing,
        })
    }

    /// Enters a train in its engine's queue, unless that engine processes it at once.
    fn give_train(
        &mut self,
        now: u64,
        parts: &Parts,
        packets: usize,
        bytes: u64,
        choice: TrainChoice,
    ) -> TrainDispatch {
        let TrainChoice { engine, wait, processing } = choice;
        if self.config.measure {
            self.measures[engine].dispatched(packets as u32, bytes);
        }
        let ticket = self.take_ticket();
        let algorithm = if let [one] = parts.all() { one.algorithm } else { SEVERAL };
        if !self.engines.at_once.contains(engine) {
            let pending = Pending {
                ticket,
                algorithm,
                class: 0,
                cost: processing,
                places: 1,
                dispatched: now,
                predicted_finish: now.saturating_add(wait).saturating_add(processing),
                record: None,
            };
            self.engines.enqueue(now, engine, pending);
        }
        TrainDispatch { engine, ticket, algorithm, predicted_wait: wait, predicted_processing: processing }
    }

    /// Reports that the caller has itself processed at once what an engine on its core was given at
    /// `now`; `measured` is the time that took, in ticks, if measured.
    pub fn complete_at_once(&mut self, now: u64, given: &TrainDispatch, measured: Option<u64>) {
        let TrainDispatch { engine, ticket, algorithm, predicted_wait, predicted_processing } = *given;
        if !self.engines.queue(engine).is_idle() {
            self.engines.complete(now, engine, ticket);
        }
        let Some(measured) = measured else { return };
        if self.config.measure {
            self.measures[engine].done(predicted_wait.saturating_add(predicted_processing), measured);
        }
        if self.config.correct {
            self.costs.correct(engine, algorithm, predicted_processing, measured);
        }
    }
}

impl<T> Dispatch<T> {
    /// The dispatch without its packets.
    pub fn train_dispatch(&self) -> TrainDispatch {
        let Self { engine, ticket, algorithm, predicted_wait, predicted_processing, .. } = *self;
        TrainDispatch { engine, ticket, algorithm, predicted_wait, predicted_processing }
    }
}

#[cfg(test)]
mod tests;
