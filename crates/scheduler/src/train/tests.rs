//! Where trains go.

use super::*;
use crate::config::SchedulerConfig;
use crate::cost::{CostModel, EngineModel, Handover};

const HERE: usize = 0;
const THERE: usize = 1;

/// One engine on the caller's core and one elsewhere, of `t_init` and `t_block` each.
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
            let train = GivenTrain { engine: HERE, algorithm: Some(0), packets: 1, bytes: 1, predicted: 1 };
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
fn an_engine_on_the_core_that_takes_one_sa_at_a_time_gets_a_burst_if_it_gains_more_than_the_window_costs() {
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
