//! What needs no window: bursts that an engine takes as they came, whatever their SAs.
//!
//! Packets are bundled by SA where a change of SA costs an engine more than a multi-packet of its own. An engine that has all keys at hand gains
//! nothing by it: it takes a *train*, the packets of a burst in the order in which they came, for `t_init` once, `t_block` a block and
//! `t_key` a change of SA. One on the caller's core does it at once, where it lies; one elsewhere
//! while the caller goes on. One on the caller's core that takes packets of one SA at a time has to win by what the window costs.

mod times;

use crate::config::Input;
use crate::engine::Pending;
use crate::engine_mask::EngineMask;
use crate::handover::is_worth_it;
use crate::policy::Policy;
use crate::scheduler::Scheduler;

/// The part of a train that has one algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainPart {
    /// The algorithm.
    pub algorithm: u16,
    /// Its packets' size in blocks of 16 bytes.
    pub blocks: u64,
    /// How many of its packets have another SA than the packet before them in the train.
    pub changes: u64,
    /// How many SAs its packets have: the multi-packets that the window would make of them. Looked at only where an engine on the caller's core takes no trains.
    pub sas: u64,
}

/// A burst that may go as a train.
#[derive(Clone, Copy, Debug)]
pub struct Burst<'a> {
    /// Its parts by algorithm.
    pub parts: &'a [TrainPart],
    /// How many packets it has.
    pub packets: usize,
    /// Whether more is at hand.
    pub input: Input,
    /// Whether trains are with engines elsewhere: what goes by the window would have to wait until they have left.
    pub are_trains_out: bool,
}

/// Where a train goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrainChoice {
    /// Nowhere: its packets are to be scheduled by the window.
    Schedule,
    /// Nowhere yet: no engine has room.
    Wait,
    /// To an engine on the caller's core, which does it at once.
    Here {
        /// The engine, by its place in the list that the scheduler was made with.
        engine: usize,
        /// How long that is predicted to take, in ticks.
        processing: u64,
    },
    /// To an engine elsewhere.
    Elsewhere {
        /// The engine, by its place in the list that the scheduler was made with.
        engine: usize,
        /// What it has to do first, as predicted, in ticks.
        wait: u64,
        /// The train's own time, as predicted, in ticks.
        processing: u64,
    },
}

/// A train that was given to an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenTrain {
    /// The engine, by its place in the list that the scheduler was made with.
    pub engine: usize,
    /// The algorithm of all packets; `None` if they have several, so that nothing can be learned of one.
    pub algorithm: Option<u16>,
    /// How many they are.
    pub packets: u32,
    /// Their size in bytes.
    pub bytes: u64,
    /// The time that was predicted for it, in ticks.
    pub predicted: u64,
}

/// An engine elsewhere that a train may go to; times in ticks.
struct Elsewhere {
    engine: usize,
    /// What it has to do first.
    wait: u64,
    processing: u64,
    /// What the caller's core pays.
    handover: u64,
}

/// No algorithm has this number.
const SEVERAL: u16 = u16::MAX;

impl<T> Scheduler<T> {
    /// Says that an engine takes trains.
    pub fn set_takes_trains(&mut self, engine: usize) {
        self.engines.train_takers.set(engine, true);
    }

    /// Sets what a change of SA inside a train costs an engine for an algorithm, `t_key`, in ticks; nothing without. Where that is more than a
    /// multi-packet of its own costs, which is `t_init` and the [window](Self::set_window_cost), packets are bundled by SA.
    pub fn set_t_key(&mut self, engine: usize, algorithm: u16, t_key: f64) {
        self.costs.set_t_key(engine, usize::from(algorithm), t_key);
    }

    /// Sets what a packet costs the caller on its way through the window, in ticks; nothing without.
    pub fn set_window_cost(&mut self, ticks_per_packet: f64) {
        self.costs.set_window_cost(ticks_per_packet);
    }

    /// Where a burst goes at `now`.
    ///
    /// It is left to the window if an engine elsewhere can do all its parts that takes no trains; if one on the caller's core takes none and is cheaper
    /// than those that do, with what it costs to [bundle](Self::set_window_cost) packets by SA for it; if its packets are [better
    /// bundled](Self::set_t_key) for one of these engines; if there are several and the policy is not the finishing time; or if the window bundles
    /// nothing, holds packets back or is not empty. A train that would have to queue is left to it as well where there are several classes.
    ///
    /// Between the caller's core and an engine elsewhere the finishing time decides as long as nothing else is at hand, with what
    /// the [handover](crate#the-handover) costs. With more at hand it is the finishing time of this train and the next together: while the caller
    /// does one itself, it can give nobody else work. So it keeps a train for itself as soon as the others are busy for longer than it would be,
    /// and where the handover would cost its core half as much.
    pub fn train_choice(&self, now: u64, burst: &Burst<'_>) -> TrainChoice {
        if self.size == 1 || self.max_wait > 0 || self.window.len() > 0 {
            return TrainChoice::Schedule;
        }
        match (burst.parts, &self.measures[..]) {
            ([part], [_]) if !self.engines.cpus.is_empty() => self.only_choice(part),
            _ => self.choice_among(now, burst),
        }
    }

    fn choice_among(&self, now: u64, burst: &Burst<'_>) -> TrainChoice {
        let Burst { parts, packets, input, .. } = *burst;
        let all = EngineMask::all();
        let capable = parts.iter().fold(all, |capable, part| capable.and(self.costs.capable(part.algorithm)));
        let elsewhere = capable.without(self.engines.cpus);
        let has_choice = !capable.without(capable.first_alone()).is_empty();
        if capable.and(self.engines.train_takers).is_empty()
            || !elsewhere.without(self.engines.train_takers).is_empty()
            || has_choice && self.policy != Policy::FinishingTime
            || !elsewhere.is_empty() && self.classes.count() > 1
            || parts.iter().any(|part| self.costs.is_better_bundled(part.algorithm, capable))
        {
            return TrainChoice::Schedule;
        }
        let among = self.engines.available.and(capable);
        let here = among.and(self.engines.cpus);
        let has_others_alone = !among.is_empty() && among.and(self.engines.train_takers).is_empty();
        if has_others_alone || !{ here }.all(|engine| self.engines.queue(engine).is_idle()) {
            return TrainChoice::Schedule;
        }
        let Some(here) = self.cheapest_here(here, burst) else { return TrainChoice::Schedule };
        let mut elsewhere = among.and(elsewhere);
        if let (Input::More, Some((_, own))) = (input, here) {
            for engine in elsewhere {
                let handover = self.handover(engine, parts, packets);
                elsewhere.set(engine, is_worth_it(handover, own));
            }
        }
        let elsewhere = self.lowest_elsewhere(now, elsewhere, burst);
        self.of_both(here, elsewhere, packets, input)
    }

    /// The engine of these on the caller's core that does a burst in the least time, with that time. The outer `None`, if it takes no trains.
    fn cheapest_here(&self, here: EngineMask, burst: &Burst<'_>) -> Option<Option<(usize, u64)>> {
        let takers = here.and(self.engines.train_takers);
        let others = here.without(takers);
        let cheapest =
            takers.map(|engine| (engine, self.train_cost(engine, burst.parts))).min_by_key(|(_, cost)| *cost);
        if others.is_empty() || burst.are_trains_out {
            return Some(cheapest);
        }
        let (_, own) = cheapest?;
        let is_beaten = { others }.any(|engine| self.bundled_cost(engine, burst) < own);
        (!is_beaten).then_some(cheapest)
    }

    /// The better of an engine on the caller's core, with its time, and one elsewhere.
    fn of_both(
        &self,
        here: Option<(usize, u64)>,
        elsewhere: Option<Elsewhere>,
        packets: usize,
        input: Input,
    ) -> TrainChoice {
        let (own, own_processing, elsewhere) = match (here, elsewhere) {
            (None, None) => return TrainChoice::Wait,
            (Some((engine, processing)), None) => return TrainChoice::Here { engine, processing },
            (None, Some(Elsewhere { engine, wait, processing, .. })) => {
                return TrainChoice::Elsewhere { engine, wait, processing };
            }
            (Some((own, own_processing)), Some(elsewhere)) => (own, own_processing, elsewhere),
        };
        let Elsewhere { engine, wait, processing, handover } = elsewhere;
        let is_kept = match input {
            Input::More => {
                own_processing.saturating_add(self.own_cost().saturating_mul(packets as u64)) <= wait
            }
            // On a tie nobody need be woken.
            Input::Paused | Input::Ended => {
                own_processing <= wait.saturating_add(processing).saturating_add(handover)
            }
        };
        if is_kept {
            TrainChoice::Here { engine: own, processing: own_processing }
        } else {
            TrainChoice::Elsewhere { engine, wait, processing }
        }
    }

    /// What [`choice_among`](Self::choice_among) gives where the only engine is on the caller's core: a packet that comes alone is a train as well,
    /// and would pay for a choice between many.
    fn only_choice(&self, part: &TrainPart) -> TrainChoice {
        const ENGINE: usize = 0;
        let capable = self.costs.capable(part.algorithm);
        if !capable.and(self.engines.train_takers).contains(ENGINE)
            || self.costs.is_better_bundled(part.algorithm, capable)
        {
            return TrainChoice::Schedule;
        }
        match self.engines.available.contains(ENGINE) {
            true if self.engines.queue(ENGINE).is_idle() => TrainChoice::Here {
                engine: ENGINE,
                processing: self.part_cost(ENGINE, self.costs.models(part.algorithm)[ENGINE], part),
            },
            true => TrainChoice::Schedule,
            false => TrainChoice::Wait,
        }
    }

    /// The engine of these with room for which the caller's core and it are done first.
    fn lowest_elsewhere(&self, now: u64, among: EngineMask, burst: &Burst<'_>) -> Option<Elsewhere> {
        let Burst { parts, packets, .. } = *burst;
        let in_time = |engine: &usize| {
            self.late_margin.is_none_or(|margin| !self.engines.queue(*engine).is_late(now, margin))
        };
        let open = among.and(self.engines.open).filter(in_time);
        let with_times = open.map(|engine| Elsewhere {
            engine,
            wait: self.engines.queue(engine).wait(now),
            processing: self.train_cost(engine, parts),
            handover: self.handover(engine, parts, packets),
        });
        with_times.min_by_key(|Elsewhere { wait, processing, handover, .. }| {
            wait.saturating_add(*processing).saturating_add(*handover)
        })
    }

    /// Notes a train with the engine elsewhere that is given it, at `now` and behind what that takes `wait` ticks for; its ticket, which
    /// [`complete`](Self::complete) asks for.
    pub fn give_train(&mut self, now: u64, train: &GivenTrain, wait: u64) -> u64 {
        if self.keeps_measures {
            self.measures[train.engine].dispatched(train.packets, train.bytes);
        }
        let ticket = self.take_ticket(train.engine);
        let pending = Pending {
            ticket,
            algorithm: train.algorithm.unwrap_or(SEVERAL),
            cost: train.predicted,
            places: 1,
            dispatched: now,
            predicted_finish: now.saturating_add(wait).saturating_add(train.predicted),
        };
        self.engines.enqueue(now, train.engine, pending);
        ticket
    }

    /// Counts a train that was done at once, and lets the cost model follow how long that took, in ticks, where it was measured.
    pub fn note_done_here(&mut self, train: &GivenTrain, measured: Option<u64>) {
        if self.keeps_measures {
            self.measures[train.engine].done_at_once(train, measured);
        }
        if let (true, Some(measured), Some(algorithm)) = (self.corrects, measured, train.algorithm) {
            self.costs.correct(train.engine, algorithm, train.predicted, measured);
        }
    }
}

#[cfg(test)]
mod tests;
