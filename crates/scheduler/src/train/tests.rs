//! The choice of engines for trains.

use super::*;
use crate::config::{Research, SchedulerConfig};
use crate::cost::{CostModel, EngineModel, Handover, TrainModel};
use crate::heuristic::{Heuristic, HeuristicFactory, Pick, View};

const HERE: usize = 0;
const THERE: usize = 1;

/// An engine on the caller's core and one elsewhere, each with `t_init` and `t_block`.
fn scheduler(costs: [(f64, f64); 2], config: SchedulerConfig) -> Scheduler<u32> {
    let engine = |(at, (t_init, t_block))| EngineModel {
        name: String::new(),
        is_cpu: at == HERE,
        depth: 1,
        costs: vec![Some(CostModel { t_init, t_block }), Some(CostModel { t_init, t_block: 2.0 * t_block })],
    };
    let engines = costs.into_iter().enumerate().map(engine).collect();
    let mut scheduler = Scheduler::new(config, engines).expect("in range");
    scheduler.set_takes_trains(HERE);
    scheduler.set_takes_trains(THERE);
    scheduler
}

fn part(algorithm: u16, blocks: u32) -> TrainPart {
    TrainPart { algorithm, blocks, sas: 1, ..TrainPart::default() }
}

fn parts_of(parts: &[TrainPart]) -> Parts {
    let mut all = Parts::default();
    parts.iter().for_each(|part| *all.of(part.algorithm).expect("few enough") = *part);
    all
}

/// A burst of 32 packets of these parts, with nothing before it.
fn burst(parts: &[TrainPart]) -> Burst {
    Burst { packets: 32, bytes: 1_600, ..Burst::new(Some(parts_of(parts))) }
}

fn choice(scheduler: &Scheduler<u32>, parts: &[TrainPart], input: Input) -> Option<TrainChoice> {
    scheduler.train_choice(0, input, &parts_of(parts), 32)
}

fn to(engine: usize, wait: u64, processing: u64) -> Option<TrainChoice> {
    Some(TrainChoice { engine, wait, processing })
}

/// Dispatches a burst of 100 blocks and returns the choice. What stays on the core completes at
/// once.
fn give(scheduler: &mut Scheduler<u32>, now: u64, input: Input) -> Option<TrainChoice> {
    let burst = burst(&[part(0, 100)]);
    assert_eq!(scheduler.admission(&burst), Admission::Whole);
    let mut packets = (0..32).collect();
    scheduler.push_burst(&mut packets, &burst);
    let Some(dispatch) = scheduler.dispatch(now, input) else {
        assert!(scheduler.window.take_burst().is_some(), "it stays in the window");
        return None;
    };
    assert!(dispatch.is_of_many && dispatch.items.iter().copied().eq(0..32));
    if dispatch.engine == HERE {
        scheduler.complete_at_once(now, &dispatch.train_dispatch(), None);
    }
    to(dispatch.engine, dispatch.predicted_wait, dispatch.predicted_processing)
}

#[test]
fn with_more_at_hand_the_core_keeps_a_train_once_the_other_is_busy_for_longer_than_it_would_be() {
    let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
    scheduler.set_worker_overhead(1);
    let elsewhere = |wait| to(THERE, wait, 100);
    assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere(0));
    // The core's own 100, plus an overhead of 32 for the next packets, exceed the 100 of the other
    // engine.
    assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere(100));
    assert_eq!(give(&mut scheduler, 0, Input::More), to(HERE, 0, 100));
}

#[test]
fn first_engine_that_is_done_takes_the_train_and_none_is_woken_on_a_tie() {
    let mut equal = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
    assert_eq!(give(&mut equal, 0, Input::Paused), to(HERE, 0, 100));
    let mut faster = scheduler([(0.0, 1.0), (10.0, 0.5)], SchedulerConfig::default());
    for wait in [0, 60] {
        let choice = give(&mut faster, 0, Input::Paused);
        let expected = to(THERE, wait, 60);
        assert_eq!(choice, if wait == 0 { expected } else { to(HERE, 0, 100) });
    }
}

/// The choice for a train of 32 packets and 100 blocks that takes 100 ticks on the core and `there`
/// ticks on an engine elsewhere, if the handover costs the core `handover` ticks per packet.
fn with_handover(handover: f64, there: f64, input: Input) -> Option<TrainChoice> {
    let mut scheduler = scheduler([(0.0, 1.0), (there, 0.0)], SchedulerConfig::default());
    scheduler.set_handover(THERE, 0, Handover { t_packet: handover, ..Handover::default() });
    // The core's own engine has no handover, so its costs do not matter.
    scheduler.set_handover(HERE, 0, Handover { t_init: 1e9, ..Handover::default() });
    give(&mut scheduler, 0, input)
}

#[test]
fn with_more_at_hand_a_train_is_given_away_only_where_that_costs_the_core_less_than_to_do_it() {
    let elsewhere = to(THERE, 0, 1_000);
    let choice = |handover| with_handover(handover, 1_000.0, Input::More);
    // Twice 49 ticks and twice 50, compared with 100.
    assert_eq!([0.0, 49.0 / 32.0].map(choice), [elsewhere; 2]);
    assert_eq!([50.0 / 32.0, 1e6].map(choice), [to(HERE, 0, 100); 2]);
}

#[test]
fn with_nothing_else_at_hand_the_handover_is_part_of_the_finishing_time() {
    let elsewhere = to(THERE, 0, 36);
    let choice = |handover| with_handover(handover, 36.0, Input::Paused);
    // 63 + 36 are less than 100, 64 + 36 are not.
    assert_eq!([0.0, 63.0 / 32.0].map(choice), [elsewhere; 2]);
    assert_eq!(choice(2.0), to(HERE, 0, 100));
}

#[test]
fn the_only_engine_gets_what_a_choice_among_many_would_give_it() {
    let engine = EngineModel {
        name: String::new(),
        is_cpu: true,
        depth: 1,
        costs: vec![Some(CostModel { t_init: 10.0, t_block: 1.0 }), None],
    };
    let mut passed = 0;
    for [takes, available, idle, bundled] in
        (0..16_u8).map(|bits| [0, 1, 2, 3].map(|bit| bits >> bit & 1 == 1))
    {
        // An engine that processes at once needs fewer steps of dispatch.
        let given = [false, true].map(|at_once| {
            let config = SchedulerConfig::default();
            let mut scheduler = Scheduler::<u32>::new(config, vec![engine.clone()]).expect("in range");
            if takes {
                scheduler.set_takes_trains(HERE);
            }
            scheduler.set_t_key(HERE, 0, if bundled { 1e9 } else { 2.0 });
            let of = |algorithm| {
                burst(&[TrainPart { algorithm, blocks: 100, changes: 7, sas: 8, ..TrainPart::default() }])
            };
            let is_train = if takes && !bundled { Admission::Whole } else { Admission::BySa };
            let admissions = [0, 1, 2].map(|algorithm| scheduler.admission(&of(algorithm)));
            assert_eq!(admissions, [is_train, Admission::BySa, Admission::BySa]);
            if !idle {
                scheduler.give_train(
                    0,
                    &parts_of(&[part(0, 1)]),
                    1,
                    1,
                    TrainChoice { engine: HERE, wait: 0, processing: 1 },
                );
            }
            if at_once {
                scheduler.set_at_once(HERE);
            }
            scheduler.set_available(HERE, available);
            [0, 1, 2].map(|algorithm| scheduler.pass(0, Input::More, &of(algorithm)))
        });
        assert_eq!(given[0], given[1], "{takes} {available} {idle} {bundled}");
        let [first, others @ ..] = given[1];
        passed += u32::from(first.is_some_and(|given| given.predicted_processing == 124));
        assert_eq!(others, [None; 2]);
    }
    assert_eq!(passed, 1, "only a burst for it, while it is there and idle");
}

#[test]
fn each_change_of_sa_inside_a_train_costs_t_key() {
    let mut scheduler = scheduler([(10.0, 1.0); 2], SchedulerConfig::default());
    scheduler.set_worker_overhead(1);
    for (engine, t_key) in [(HERE, 9.0), (THERE, 2.0)] {
        scheduler.set_t_key(engine, 0, t_key);
        scheduler.set_t_key(engine, 1, t_key);
    }
    let processing = |parts: &[TrainPart]| match choice(&scheduler, parts, Input::More) {
        Some(TrainChoice { engine: THERE, wait: 0, processing }) => processing,
        other => panic!("{other:?}"),
    };
    let part = |algorithm, changes| TrainPart { algorithm, blocks: 100, changes, ..TrainPart::default() };
    assert_eq!([0, 1, 31].map(|changes| processing(&[part(0, changes)])), [110, 112, 172]);
    // The second algorithm takes twice the time per block.
    assert_eq!(processing(&[part(0, 3), part(1, 4)]), 110 + 3 * 2 + 200 + 4 * 2);
    scheduler.set_available(THERE, false);
    assert_eq!(choice(&scheduler, &[part(0, 31)], Input::More), to(HERE, 0, 110 + 31 * 9));
}

#[test]
fn a_packet_alone_is_left_to_the_engine_without_lanes_and_a_burst_goes_to_the_one_with_lanes() {
    let engine = |t_block| EngineModel {
        name: String::new(),
        is_cpu: true,
        depth: 1,
        costs: vec![Some(CostModel { t_init: 100.0, t_block })],
    };
    let config = SchedulerConfig { correct: true, ..SchedulerConfig::default() };
    let mut scheduler = Scheduler::<u32>::new(config, vec![engine(10.0), engine(50.0)]).expect("in range");
    (0..2).for_each(|engine| scheduler.set_takes_trains(engine));
    let lanes = TrainModel { t_init: 100.0, t_packet: 20.0, t_block: 10.0, t_longest: 50.0 };
    scheduler.set_train(0, 0, Some(lanes));
    let part = |packets, longest: u16| TrainPart {
        packets,
        longest,
        blocks: packets * u32::from(longest),
        sas: 1,
        ..TrainPart::default()
    };
    let (alone, burst) = (part(1, 91), part(32, 91));
    assert_eq!(choice(&scheduler, &[alone], Input::Paused), to(1, 0, 100 + 50 * 91));
    let of_burst = 100 + 20 * 32 + 10 * 32 * 91 + 50 * 91;
    assert_eq!(choice(&scheduler, &[burst], Input::Paused), to(0, 0, of_burst));
    // A correction is one of the whole time.
    for _ in 0..500 {
        let predicted = scheduler.train_cost(0, &[burst]);
        scheduler.costs.correct(0, 0, predicted, 2 * of_burst);
    }
    assert_eq!(scheduler.train_cost(0, &[burst]), 2 * of_burst);
    scheduler.set_train(0, 0, None);
    assert_eq!(scheduler.train_cost(0, &[burst]), 2 * (100 + 10 * 32 * 91), "that of a multi-packet");
}

#[test]
fn packets_are_bundled_by_sa_where_a_change_costs_more_than_a_multi_packet_of_its_own() {
    let mut scheduler = scheduler([(10.0, 1.0); 2], SchedulerConfig::default());
    scheduler.set_window_cost(20.0);
    let mut is_bundled = |t_key| {
        scheduler.set_t_key(THERE, 1, t_key);
        let admission = |algorithm| scheduler.admission(&burst(&[part(algorithm, 100)]));
        assert_eq!(admission(0), Admission::Whole, "that is of the other algorithm");
        admission(1) == Admission::BySa
    };
    assert_eq!([0.0, 30.0, 31.0, 1e9, 30.0].map(&mut is_bundled), [false, false, true, true, false]);
}

/// A scheduler with two engines: one on the core that takes trains, for 10 ticks and one per block,
/// and one with `is_cpu` that takes multi-packets of one SA, for 30 ticks and `t_block` per block.
/// The window costs one tick per packet.
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
fn an_engine_on_the_core_that_takes_one_sa_at_a_time_gets_a_burst_if_it_gains_more_than_the_window_costs() {
    let admission = |t_block, sas, outstanding| {
        let parts = [TrainPart { blocks: 100, changes: 31, sas, ..TrainPart::default() }];
        let scheduler = beside_multi_packets(true, t_block);
        assert_eq!(choice(&scheduler, &parts, Input::Paused), to(0, 0, 110));
        scheduler.admission(&Burst { outstanding, ..burst(&parts) })
    };
    let nothing = Outstanding::Nothing;
    // 30 for one SA and 32 for the window leave 48 of 110 for the blocks; 32 SAs take 960.
    assert_eq!([0.0, 0.47].map(|t_block| admission(t_block, 1, nothing)), [Admission::BySa; 2]);
    assert_eq!([0.48, 1.0].map(|t_block| admission(t_block, 1, nothing)), [Admission::Whole; 2]);
    assert_eq!(admission(0.0, 32, nothing), Admission::Whole);
    let out = admission(0.0, 1, Outstanding::Trains);
    assert_eq!(out, Admission::Whole, "it would have to wait for trains that are out");
    assert_eq!(admission(1.0, 1, Outstanding::MultiPackets), Admission::BySa, "what is sorted goes first");
}

#[test]
fn burst_goes_by_sa_where_an_engine_without_trains_is_elsewhere_or_alone() {
    let burst = burst(&[TrainPart { blocks: 100, changes: 31, sas: 32, ..TrainPart::default() }]);
    assert_eq!(beside_multi_packets(false, 9.0).admission(&burst), Admission::BySa);
    let mut alone = beside_multi_packets(true, 9.0);
    assert_eq!(alone.admission(&burst), Admission::Whole);
    let mut packets = vec![1, 2, 3];
    alone.push_burst(&mut packets, &burst);
    assert!(alone.take_back().is_empty(), "the engine is there");
    alone.set_available(0, false);
    assert_eq!(alone.dispatch(0, Input::Ended), None);
    assert_eq!(alone.take_back(), [1, 2, 3]);
    assert_eq!(alone.admission(&burst), Admission::BySa);
    let after_trains = Burst { outstanding: Outstanding::Trains, ..burst };
    assert_eq!(alone.admission(&after_trains), Admission::Later);
}

#[test]
fn what_is_done_again_goes_by_the_policy_or_to_an_engine_that_takes_trains() {
    let mut scheduler = beside_multi_packets(true, 0.1);
    let burst = burst(&[part(0, 100)]);
    let by_sa = scheduler.give_again(0, Some(7), &burst).expect("both are idle");
    assert_eq!((by_sa.engine, by_sa.predicted_processing), (1, 40));
    let train = scheduler.give_again(0, None, &burst).expect("the other is idle");
    assert_eq!((train.engine, train.predicted_processing), (0, 110));
    assert_eq!(scheduler.give_again(0, None, &burst), None, "it has something");
    scheduler.complete(40, by_sa.engine, by_sa.ticket, Some(40));
    assert_eq!(scheduler.snapshot().engines[1].completed, 1);
}

#[test]
fn a_dear_handover_changes_nothing_where_the_core_has_no_engine() {
    let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
    scheduler.set_handover(THERE, 0, Handover { t_init: 1e9, ..Handover::default() });
    scheduler.set_available(HERE, false);
    let elsewhere = to(THERE, 0, 100);
    assert_eq!(give(&mut scheduler, 0, Input::More), elsewhere);
}

#[test]
fn where_no_engine_has_room_it_waits() {
    let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
    scheduler.set_available(HERE, false);
    for wait in [0, 100] {
        assert_eq!(give(&mut scheduler, 0, Input::More), to(THERE, wait, 100));
    }
    assert_eq!(give(&mut scheduler, 0, Input::More), None);
}

#[test]
fn parts_of_several_algorithms_begin_once() {
    let scheduler = scheduler([(10.0, 1.0), (1_000.0, 1.0)], SchedulerConfig::default());
    let choice = choice(&scheduler, &[part(0, 100), part(1, 5)], Input::Paused);
    assert_eq!(choice, to(HERE, 0, 120));
}

struct Never;

impl Heuristic for Never {
    fn choose(&mut self, _: &View<'_>) -> Option<Pick> {
        None
    }
}

fn by_a_heuristic() -> Research {
    let heuristic = HeuristicFactory { name: "never", make: || Box::new(Never) };
    Research { heuristic: Some(heuristic), ..Research::default() }
}

#[test]
fn it_is_sorted_where_bundles_or_classes_count() {
    let costs = [(0.0, 1.0); 2];
    let burst = burst(&[part(0, 100)]);
    let by = |config| scheduler(costs, config).admission(&burst);
    let usual = SchedulerConfig::default();
    assert_eq!(by(usual.clone()), Admission::Whole);
    for config in [
        SchedulerConfig { window: 1, ..usual.clone() },
        SchedulerConfig { max_wait: 1, ..usual.clone() },
        SchedulerConfig { classes: 2, ..usual.clone() },
        SchedulerConfig { research: by_a_heuristic(), ..usual.clone() },
    ] {
        assert_eq!(by(config), Admission::BySa);
    }
    let mut bundling = scheduler(costs, usual);
    bundling.engines.train_takers.set(THERE, false);
    assert_eq!(bundling.admission(&burst), Admission::BySa);
    // The transforms of an unavailable engine count as well.
    bundling.set_available(THERE, false);
    assert_eq!(bundling.admission(&burst), Admission::BySa);
    let many = Burst { parts: None, ..burst };
    assert_eq!(scheduler(costs, SchedulerConfig::default()).admission(&many), Admission::BySa);
}

#[test]
fn a_window_that_is_full_takes_no_more_bursts_and_is_never_in_two_orders() {
    let mut scheduler = scheduler([(0.0, 1.0); 2], SchedulerConfig::default());
    let burst = burst(&[part(0, 100)]);
    scheduler.push_burst(&mut (0..31).collect(), &burst);
    assert_eq!((scheduler.room(), scheduler.admission(&burst)), (1, Admission::Whole));
    let sorted = Burst { parts: None, ..burst };
    assert_eq!(scheduler.admission(&sorted), Admission::Later);
    let outstanding = [Outstanding::Nothing, Outstanding::Trains, Outstanding::MultiPackets];
    assert_eq!(outstanding.map(|outstanding| scheduler.sorts_all(outstanding)), [false, false, true]);
    scheduler.push_burst(&mut (31..60).collect(), &burst);
    assert_eq!(
        (scheduler.room(), scheduler.waiting(), scheduler.admission(&burst)),
        (0, 60, Admission::Later)
    );
    assert!(scheduler.holds(59, |packet| *packet) && !scheduler.holds(60, |packet| *packet));
}
