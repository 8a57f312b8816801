//! What needs no window: bursts that an engine takes as they came, whatever their SAs.
//!
//! Packets are bundled by SA where a change of SA costs an engine more than a multi-packet of its own. An engine that has all keys at hand gains
//! nothing by it: it takes a *train*, the packets of a burst in the order in which they came, for `t_init` once, `t_block` a block and
//! `t_key` a change of SA. One on the caller's core does it at once, where it lies; one elsewhere
//! while the caller goes on. One on the caller's core that takes packets of one SA at a time has to win by what the window costs.

use crate::config::Input;
use crate::cost::CostModel;
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

    /// What a burst takes the caller's core with an engine on it that gets it by the window, a multi-packet an SA.
    fn bundled_cost(&self, engine: usize, burst: &Burst<'_>) -> u64 {
        let of_part = |part: &TrainPart| {
            let CostModel { t_init, t_block } = self.costs.models(part.algorithm)[engine];
            CostModel { t_init: t_init * part.sas as i64 as f64, t_block }.cost(part.blocks)
        };
        let of_parts: u64 = burst.parts.iter().map(of_part).sum();
        of_parts.saturating_add(self.costs.window_cost(burst.packets))
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

    /// What it costs the core to hand a train to an engine elsewhere: whatever its packets' algorithms, they are handed over alike, so that the first
    /// part's stands for all.
    fn handover(&self, engine: usize, parts: &[TrainPart], packets: usize) -> u64 {
        let handovers = parts.first().map_or(&[][..], |part| self.costs.handovers(part.algorithm));
        let blocks = parts.iter().map(|part| part.blocks).sum();
        handovers.get(engine).map_or(0, |handover| handover.cost(packets as u64, blocks))
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

    /// A train's own time. It is begun once, however many its parts are.
    fn train_cost(&self, engine: usize, parts: &[TrainPart]) -> u64 {
        let Some((first, rest)) = parts.split_first() else { return 0 };
        let model = |part: &TrainPart| self.costs.models(part.algorithm)[engine];
        let mut cost = self.part_cost(engine, model(first), first);
        for part in rest {
            let begun = model(part).cost(0);
            cost += self.part_cost(engine, model(part), part).saturating_sub(begun);
        }
        cost
    }

    /// The time for a part of a train that has it alone.
    #[inline]
    fn part_cost(&self, engine: usize, model: CostModel, part: &TrainPart) -> u64 {
        let changes = self.costs.t_key(engine, part.algorithm) * part.changes as i64 as f64;
        CostModel { t_init: model.t_init + changes, ..model }.cost(part.blocks)
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
mod tests {
    use super::*;
    use crate::config::SchedulerConfig;
    use crate::cost::{EngineModel, Handover};

    const HERE: usize = 0;
    const THERE: usize = 1;

    /// One engine on the caller's core and one elsewhere, of `t_init` and `t_block` each.
    fn scheduler(costs: [(f64, f64); 2], config: SchedulerConfig) -> Scheduler<u32> {
        let engine = |(at, (t_init, t_block))| EngineModel {
            name: String::new(),
            is_cpu: at == HERE,
            depth: 1,
            costs: vec![
                Some(CostModel { t_init, t_block }),
                Some(CostModel { t_init, t_block: 2.0 * t_block }),
            ],
        };
        let engines = costs.into_iter().enumerate().map(engine).collect();
        let mut scheduler = Scheduler::new(config, engines).expect("in range");
        scheduler.set_takes_trains(HERE);
        scheduler.set_takes_trains(THERE);
        scheduler
    }

    fn part(algorithm: u16, blocks: u64) -> TrainPart {
        TrainPart { algorithm, blocks, changes: 0, sas: 1 }
    }

    fn burst(parts: &[TrainPart], input: Input) -> Burst<'_> {
        Burst { parts, packets: 32, input, are_trains_out: false }
    }

    fn give(scheduler: &mut Scheduler<u32>, now: u64, input: Input) -> TrainChoice {
        let choice = scheduler.train_choice(now, &burst(&[part(0, 100)], input));
        if let TrainChoice::Elsewhere { engine, wait, processing } = choice {
            let train =
                GivenTrain { engine, algorithm: Some(0), packets: 32, bytes: 1_600, predicted: processing };
            scheduler.give_train(now, &train, wait);
        }
        choice
    }

    #[test]
    fn with_more_at_hand_the_core_keeps_a_train_once_the_other_is_busy_for_longer_than_it_would_be() {
        let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
        scheduler.set_own_cost(1);
        let elsewhere = |wait| TrainChoice::Elsewhere { engine: THERE, wait, processing: 100 };
        assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere(0));
        // Its own 100 and 32 for the packets that come next are more than the 100 that the other has.
        assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere(100));
        assert_eq!(give(&mut scheduler, 0, Input::More), TrainChoice::Here { engine: HERE, processing: 100 });
    }

    #[test]
    fn with_nothing_else_at_hand_whoever_is_done_first_takes_it_and_nobody_is_woken_on_a_tie() {
        let mut equal = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
        assert_eq!(give(&mut equal, 0, Input::Paused), TrainChoice::Here { engine: HERE, processing: 100 });
        let mut faster = scheduler([(0.0, 1.0), (10.0, 0.5)], SchedulerConfig::default());
        for wait in [0, 60] {
            let choice = give(&mut faster, 0, Input::Paused);
            let expected = TrainChoice::Elsewhere { engine: THERE, wait, processing: 60 };
            assert_eq!(
                choice,
                if wait == 0 { expected } else { TrainChoice::Here { engine: HERE, processing: 100 } }
            );
        }
    }

    /// The choice for a train of 32 packets and 100 blocks that takes the core 100 ticks and an engine elsewhere `there`, where it costs the core
    /// `handover` a packet to give it away.
    fn with_handover(handover: f64, there: f64, input: Input) -> TrainChoice {
        let mut scheduler = scheduler([(0.0, 1.0), (there, 0.0)], SchedulerConfig::default());
        scheduler.set_handover(THERE, 0, Handover { t_packet: handover, ..Handover::default() });
        // The core's own engine costs no handover.
        scheduler.set_handover(HERE, 0, Handover { t_init: 1e9, ..Handover::default() });
        give(&mut scheduler, 0, input)
    }

    #[test]
    fn with_more_at_hand_a_train_is_given_away_only_where_that_costs_the_core_less_than_to_do_it() {
        let elsewhere = TrainChoice::Elsewhere { engine: THERE, wait: 0, processing: 1_000 };
        let choice = |handover| with_handover(handover, 1_000.0, Input::More);
        // Twice 49 ticks and twice 50, against 100.
        assert_eq!([0.0, 49.0 / 32.0].map(choice), [elsewhere; 2]);
        assert_eq!([50.0 / 32.0, 1e6].map(choice), [TrainChoice::Here { engine: HERE, processing: 100 }; 2]);
    }

    #[test]
    fn with_nothing_else_at_hand_the_handover_is_part_of_the_finishing_time() {
        let elsewhere = TrainChoice::Elsewhere { engine: THERE, wait: 0, processing: 36 };
        let choice = |handover| with_handover(handover, 36.0, Input::Paused);
        // 63 and 36 are less than 100, 64 and 36 are not.
        assert_eq!([0.0, 63.0 / 32.0].map(choice), [elsewhere; 2]);
        assert_eq!(choice(2.0), TrainChoice::Here { engine: HERE, processing: 100 });
    }

    #[test]
    fn the_only_engine_gets_what_a_choice_among_many_would_give_it() {
        let engine = EngineModel {
            name: String::new(),
            is_cpu: true,
            depth: 1,
            costs: vec![Some(CostModel { t_init: 10.0, t_block: 1.0 }), None],
        };
        let mut seen = Vec::new();
        for [takes, available, idle, bundled] in
            (0..16_u8).map(|bits| [0, 1, 2, 3].map(|bit| bits >> bit & 1 == 1))
        {
            let config = SchedulerConfig::default();
            let mut scheduler = Scheduler::<u32>::new(config, vec![engine.clone()]).expect("in range");
            if takes {
                scheduler.set_takes_trains(HERE);
            }
            scheduler.set_t_key(HERE, 0, if bundled { 1e9 } else { 2.0 });
            if !idle {
                let train =
                    GivenTrain { engine: HERE, algorithm: Some(0), packets: 1, bytes: 1, predicted: 1 };
                scheduler.give_train(0, &train, 0);
            }
            scheduler.set_available(HERE, available);
            for algorithm in [0, 1, 2] {
                let parts = [TrainPart { algorithm, blocks: 100, changes: 7, sas: 8 }];
                let burst = burst(&parts, Input::More);
                let choice = scheduler.train_choice(5, &burst);
                assert_eq!(choice, scheduler.choice_among(5, &burst));
                seen.push(choice);
            }
        }
        let here = TrainChoice::Here { engine: HERE, processing: 124 };
        assert!([here, TrainChoice::Wait, TrainChoice::Schedule].iter().all(|choice| seen.contains(choice)));
    }

    #[test]
    fn each_change_of_sa_inside_a_train_costs_t_key() {
        let mut scheduler = scheduler([(10.0, 1.0); 2], SchedulerConfig::default());
        scheduler.set_own_cost(1);
        for (engine, t_key) in [(HERE, 9.0), (THERE, 2.0)] {
            scheduler.set_t_key(engine, 0, t_key);
            scheduler.set_t_key(engine, 1, t_key);
        }
        let processing = |parts: &[TrainPart]| match scheduler.train_choice(0, &burst(parts, Input::More)) {
            TrainChoice::Elsewhere { engine: THERE, wait: 0, processing } => processing,
            other => panic!("{other:?}"),
        };
        let part = |algorithm, changes| TrainPart { algorithm, blocks: 100, changes, sas: 0 };
        assert_eq!([0, 1, 31].map(|changes| processing(&[part(0, changes)])), [110, 112, 172]);
        // The second algorithm takes twice as long a block.
        assert_eq!(processing(&[part(0, 3), part(1, 4)]), 110 + 3 * 2 + 200 + 4 * 2);
        scheduler.set_available(THERE, false);
        assert_eq!(
            scheduler.train_choice(0, &burst(&[part(0, 31)], Input::More)),
            TrainChoice::Here { engine: HERE, processing: 110 + 31 * 9 }
        );
    }

    #[test]
    fn packets_are_bundled_by_sa_where_a_change_costs_more_than_a_multi_packet_of_its_own() {
        let mut scheduler = scheduler([(10.0, 1.0); 2], SchedulerConfig::default());
        scheduler.set_window_cost(20.0);
        let mut is_bundled = |t_key| {
            scheduler.set_t_key(THERE, 1, t_key);
            let choice = |algorithm| scheduler.train_choice(0, &burst(&[part(algorithm, 100)], Input::More));
            assert_ne!(choice(0), TrainChoice::Schedule, "that is of the other algorithm");
            choice(1) == TrainChoice::Schedule
        };
        assert_eq!([0.0, 30.0, 31.0, 1e9, 30.0].map(&mut is_bundled), [false, false, true, true, false]);
    }

    /// A scheduler with an engine on the core that takes trains, for 10 ticks and one a block, and one of `is_cpu` that takes packets of one SA at a
    /// time, for 30 ticks and `t_block` a block; a packet costs the window a tick.
    fn beside_multi_packets(is_cpu: bool, t_block: f64) -> Scheduler<u32> {
        let engine = |is_cpu, t_init, t_block| EngineModel {
            name: String::new(),
            is_cpu,
            depth: 1,
            costs: vec![Some(CostModel { t_init, t_block })],
        };
        let engines = vec![engine(true, 10.0, 1.0), engine(is_cpu, 30.0, t_block)];
        let mut scheduler = Scheduler::new(SchedulerConfig::default(), engines).expect("in range");
        scheduler.set_takes_trains(0);
        scheduler.set_window_cost(1.0);
        scheduler
    }

    #[test]
    fn an_engine_on_the_core_that_takes_one_sa_at_a_time_gets_a_burst_if_it_gains_more_than_the_window_costs()
    {
        let choice = |t_block, sas, are_trains_out| {
            let parts = [TrainPart { algorithm: 0, blocks: 100, changes: 31, sas }];
            let burst = Burst { are_trains_out, ..burst(&parts, Input::Paused) };
            beside_multi_packets(true, t_block).train_choice(0, &burst)
        };
        let here = TrainChoice::Here { engine: 0, processing: 110 };
        // 30 for one SA and 32 for the window leave 48 of 110 for the blocks; 32 SAs take 960.
        assert_eq!([0.0, 0.47].map(|t_block| choice(t_block, 1, false)), [TrainChoice::Schedule; 2]);
        assert_eq!([0.48, 1.0].map(|t_block| choice(t_block, 1, false)), [here; 2]);
        assert_eq!(choice(0.0, 32, false), here);
        assert_eq!(choice(0.0, 1, true), here, "it would have to wait for trains that are out");
    }

    #[test]
    fn a_burst_goes_by_the_window_where_what_takes_no_trains_works_elsewhere_or_has_nobody_beside_it() {
        let parts = [TrainPart { algorithm: 0, blocks: 100, changes: 31, sas: 32 }];
        let choice = |scheduler: &Scheduler<u32>| scheduler.train_choice(0, &burst(&parts, Input::More));
        assert_eq!(choice(&beside_multi_packets(false, 9.0)), TrainChoice::Schedule);
        let mut alone = beside_multi_packets(true, 9.0);
        assert_eq!(choice(&alone), TrainChoice::Here { engine: 0, processing: 110 });
        alone.set_available(0, false);
        assert_eq!(choice(&alone), TrainChoice::Schedule);
    }

    #[test]
    fn a_dear_handover_changes_nothing_where_the_core_has_no_engine() {
        let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
        scheduler.set_handover(THERE, 0, Handover { t_init: 1e9, ..Handover::default() });
        scheduler.set_available(HERE, false);
        let elsewhere = TrainChoice::Elsewhere { engine: THERE, wait: 0, processing: 100 };
        assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere);
    }

    #[test]
    fn where_no_engine_has_room_it_waits() {
        let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
        scheduler.set_available(HERE, false);
        for _ in 0..2 {
            assert!(matches!(give(&mut scheduler, 0, Input::More), TrainChoice::Elsewhere { .. }));
        }
        assert_eq!(give(&mut scheduler, 0, Input::More), TrainChoice::Wait);
    }

    #[test]
    fn parts_of_several_algorithms_begin_once() {
        let scheduler = scheduler([(10.0, 1.0), (1_000.0, 1.0)], SchedulerConfig::default());
        let choice = scheduler.train_choice(0, &burst(&[part(0, 100), part(1, 5)], Input::Paused));
        assert_eq!(choice, TrainChoice::Here { engine: HERE, processing: 120 });
    }

    #[test]
    fn it_is_the_windows_where_bundles_or_classes_count() {
        let costs = [(0.0, 1.0); 2];
        let by = |config| give(&mut scheduler(costs, config), 0, Input::More);
        let usual = SchedulerConfig::default();
        for config in [
            SchedulerConfig { window: 1, ..usual.clone() },
            SchedulerConfig { max_wait: 1, ..usual.clone() },
            SchedulerConfig { classes: 2, ..usual.clone() },
            SchedulerConfig { policy: Policy::RoundRobin, ..usual.clone() },
        ] {
            assert_eq!(by(config), TrainChoice::Schedule);
        }
        let mut bundling = scheduler(costs, usual);
        bundling.engines.train_takers.set(THERE, false);
        assert_eq!(give(&mut bundling, 0, Input::More), TrainChoice::Schedule);
        // What an engine can do when it comes back decides, too.
        bundling.set_available(THERE, false);
        assert_eq!(give(&mut bundling, 0, Input::More), TrainChoice::Schedule);
    }
}
