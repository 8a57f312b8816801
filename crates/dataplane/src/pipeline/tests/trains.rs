//! Trains: bursts that engines take as they came, here or elsewhere.

mod failing;

use convoy_engine::{Placement, Takes};

use super::*;
use crate::pipeline::stage::WINDOW_NS;

const COST: CostModel = CostModel { t_init: 1_000.0, t_block: 1.0 };

/// Gives a burst to a stage as a pipeline does; what comes out, with the SA of each packet.
fn give(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let burst = (0..count).map(|number| packet(pool, number % SAS, number)).collect();
    let mut released = Released::default();
    stage.give(burst, Input::Paused, pool, &mut released);
    stage.pump_with(Input::Ended, pool, &mut released);
    assert!(stage.is_empty());
    let packets = released.outbound.drain(..).map(|packet| {
        assert_eq!(packet.status, CryptoStatus::Done);
        let bytes = (packet.sa.0, packet.frame.to_vec());
        pool.give_back(packet.frame);
        bytes
    });
    packets.collect()
}

pub(super) fn of_sa(packets: &[(u32, Vec<u8>)], sa: u32) -> Vec<&[u8]> {
    packets.iter().filter(|packet| packet.0 == sa).map(|packet| &packet.1[..]).collect()
}

#[test]
fn a_burst_in_place_is_counted_with_the_time_that_it_took() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = stage(vec![Box::new(Software::new("good"))], SchedulingPolicy::FinishingTime);
    for bursts in 1..=20 {
        give(&mut stage, &mut pool, 8);
        let counters = stage.engines().counters(0);
        assert_eq!((counters.packets, counters.trains), (8 * bursts, bursts));
        // Nearly all of these are not measured, and count as predicted.
        assert!(counters.service_ns >= bursts * 1_000, "{counters:?}");
    }
    assert_eq!(stage.snapshot().engines[0].packets, 160);
}

#[test]
fn packets_are_scheduled_where_the_window_is_one_or_holds_back_or_an_engine_is_elsewhere() {
    let mut pool = FramePool::new(FRAMES, 0);
    // With more at hand what is sorted by SA waits for a full window.
    let is_done_at_once = |stage: &mut CryptoStage, pool: &mut FramePool| {
        let burst = vec![packet(pool, 0, 0), packet(pool, 1, 1)];
        let mut released = Released::default();
        stage.give(burst, Input::More, pool, &mut released);
        let is_done = released.outbound.len() == 2 && stage.engines().counters(0).trains == 1;
        stage.pump_with(Input::Ended, pool, &mut released);
        is_done
    };
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    assert!(is_done_at_once(&mut stage_by(vec![good()], in_turns()), &mut pool), "there is one engine");
    assert!(!is_done_at_once(&mut stage_by(vec![good(), good()], in_turns()), &mut pool));
    let one = SchedulerConfig { window: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], one), &mut pool));
    let holding = SchedulerConfig { max_wait: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], holding), &mut pool));
    let queued = Faulty::new(good(), FaultPlan::none());
    assert!(!is_done_at_once(&mut stage(vec![Box::new(queued)], SchedulingPolicy::FinishingTime), &mut pool));
}

/// A stage that waits for any engine, however slow the machine is.
fn patient(engines: Vec<Box<dyn Engine>>) -> CryptoStage {
    let scheduler = SchedulerConfig { correct: false, window: 8, ..SchedulerConfig::default() };
    let config = StageConfig { timeouts: Timeouts::both(3_600_000_000_000), ..StageConfig::new(scheduler) };
    // Trains that are elsewhere take long, so that the core keeps some for itself.
    with_keys(config, engines, |engine| CostModel {
        t_init: if engine.placement == Placement::Inline { 1_000.0 } else { 1e6 },
        t_block: 20.0,
    })
}

/// Sends packets of all SAs as trains of four through a stage; returns what comes out.
fn run_trains(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let (mut released, mut left, mut next, mut polls) = (Released::default(), Vec::new(), 0, 0);
    let mut train = Vec::new();
    while left.len() < count as usize {
        if train.is_empty() {
            train.extend((next..count.min(next + 4)).map(|number| packet(pool, number % SAS, number)));
            next += train.len() as u32;
        }
        if stage.in_line() == 0 {
            stage.give(std::mem::take(&mut train), Input::More, pool, &mut released);
        }
        stage.pump_with(Input::Paused, pool, &mut released);
        for done in released.outbound.drain(..) {
            assert_eq!(done.status, CryptoStatus::Done);
            left.push((done.sa.0, done.frame.to_vec()));
            pool.give_back(done.frame);
        }
        polls += 1;
        assert!(polls < 50_000_000, "{} of {count} packets came out", left.len());
    }
    left
}

#[test]
fn trains_are_shared_by_the_core_and_an_engine_elsewhere_and_leave_in_order() {
    const PACKETS: u32 = 400;
    let mut pool = FramePool::new(FRAMES, 0);
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let expected = run_trains(&mut stage(vec![good()], SchedulingPolicy::FinishingTime), &mut pool, PACKETS);
    let mut stage = patient(vec![good(), Box::new(elsewhere())]);
    let left = run_trains(&mut stage, &mut pool, PACKETS);
    assert!(left == expected, "whatever their SAs, they leave as they came");
    let taken = [0, 1].map(|engine| stage.engines().counters(engine).packets);
    assert_eq!(taken.iter().sum::<u64>(), u64::from(PACKETS));
    assert!(taken.iter().all(|packets| *packets >= 20), "both worked: {taken:?}");
    assert!(stage.is_empty());
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
}

/// How many of forty trains of four packets go to an engine elsewhere that takes as long as the
/// core's own, 1 ms, if giving it a train costs the core `handover` ns.
fn given_away(handover: f64) -> u64 {
    let mut pool = FramePool::new(FRAMES, 0);
    let scheduler = SchedulerConfig { correct: false, window: 8, ..SchedulerConfig::default() };
    let config = StageConfig { timeouts: Timeouts::both(3_600_000_000_000), ..StageConfig::new(scheduler) };
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good")), Box::new(elsewhere())];
    let model = CostModel { t_init: 1e6, t_block: 0.0 };
    let mut stage = with_costs(config, engines, |_| AlgorithmCost {
        handover: Handover { t_init: handover, ..Handover::default() },
        ..model.into()
    });
    run_trains(&mut stage, &mut pool, 160);
    stage.engines().counters(1).packets
}

#[test]
fn a_train_stays_on_the_core_where_the_handover_is_dear_and_goes_elsewhere_where_it_is_cheap() {
    let cheap = given_away(499_999.0);
    assert!(cheap >= 4, "{cheap} packets");
    assert_eq!(given_away(500_000.0), 0, "the core would gain next to nothing");
}

/// The largest multi-packet given to one engine on the core, of bursts whose packets have three SAs
/// in turns and with a change of SA that costs it `t_key` ns; none if it took the bursts as they
/// came.
fn bundled(t_key: f64) -> Option<u64> {
    let mut pool = FramePool::new(FRAMES, 0);
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good"))];
    let model = CostModel { t_init: 100.0, t_block: 1.0 };
    let config = StageConfig::new(SchedulerConfig { window: 32, ..SchedulerConfig::default() });
    let mut stage = with_costs(config, engines, |_| AlgorithmCost { t_key, ..model.into() });
    let burst = (0..30).map(|number| packet(&mut pool, number % SAS, number)).collect();
    let mut released = Released::default();
    stage.give(burst, Input::More, &mut pool, &mut released);
    let is_train = released.outbound.len() == 30;
    stage.pump_with(Input::Ended, &mut pool, &mut released);
    assert_eq!(released.outbound.len(), 30);
    let counters = stage.engines().counters(0);
    (!is_train).then(|| counters.packets / counters.trains)
}

#[test]
fn a_burst_is_bundled_by_sa_where_a_change_of_sa_costs_more_than_a_multi_packet() {
    assert_eq!(bundled(100.0 + WINDOW_NS), None);
    assert_eq!(bundled(101.0 + WINDOW_NS), Some(u64::from(30 / SAS)));
}

/// `software` on the core, which takes packets of one SA at a time.
fn by_multi_packets(name: &str) -> Box<dyn Engine> {
    // Its faults are none.
    Box::new(Faulty::new(Box::new(Software::new(name)), FaultPlan::none()))
}

#[test]
fn an_engine_on_the_core_that_takes_one_sa_at_a_time_does_not_keep_bursts_from_another() {
    let mut pool = FramePool::new(FRAMES, 0);
    let engines =
        || -> Vec<Box<dyn Engine>> { vec![Box::new(Software::new("good")), by_multi_packets("by SA")] };
    let taken = |t_init| {
        let scheduler = SchedulerConfig { correct: false, window: 8, ..SchedulerConfig::default() };
        let mut stage = with_keys(StageConfig::new(scheduler), engines(), |engine| CostModel {
            t_init: if engine.takes == Takes::Trains { 10_000.0 } else { t_init },
            t_block: 20.0,
        });
        give(&mut stage, &mut pool, 2 * SAS);
        [0, 1].map(|engine| stage.engines().counters(engine).packets)
    };
    let all = u64::from(2 * SAS);
    assert_eq!([10_000.0, 10_000.0 / f64::from(SAS)].map(taken), [[all, 0]; 2]);
}

#[test]
fn an_sa_goes_only_when_the_trains_that_may_have_its_packets_have_left() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = patient(vec![Box::new(elsewhere())]);
    let mut released = Released::default();
    let train = |pool: &mut FramePool, stage: &mut CryptoStage, released: &mut Released, sa| {
        let train = vec![packet(pool, sa, 1)];
        stage.give(train, Input::More, pool, released);
    };
    train(&mut pool, &mut stage, &mut released, 1);
    stage.retire(SaIndex(1));
    train(&mut pool, &mut stage, &mut released, 2);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    stage.pump_with(Input::Paused, &mut pool, &mut released);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    stage.pump_with(Input::Paused, &mut pool, &mut released);
    assert_eq!((released.outbound.len(), stage.take_retired()), (2, vec![SaIndex(1)]));
    assert!(!stage.is_retiring());
}

#[test]
fn without_order_too_an_sa_stays_until_its_last_packet_has_left() {
    let mut pool = FramePool::new(FRAMES, 0);
    let config = StageConfig {
        ordered: false,
        timeouts: Timeouts::both(3_600_000_000_000),
        ..StageConfig::new(SchedulerConfig { correct: false, ..SchedulerConfig::default() })
    };
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good")), Box::new(elsewhere())];
    let mut stage = with_keys(config, engines, |engine| CostModel {
        t_init: if engine.placement == Placement::Inline { 1.9e9 } else { 1e9 },
        t_block: 0.0,
    });
    let mut released = Released::default();
    for sa in [1, 2] {
        let train = vec![packet(&mut pool, sa, 1)];
        // The first goes elsewhere; the second would overtake it.
        stage.give(train, Input::Paused, &mut pool, &mut released);
        if sa == 1 {
            assert!(released.outbound.is_empty());
            stage.retire(SaIndex(1));
        }
    }
    assert_eq!(released.outbound.len(), 1);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    for _ in 0..2 {
        stage.pump_with(Input::Paused, &mut pool, &mut released);
    }
    assert_eq!((released.outbound.len(), stage.take_retired()), (2, vec![SaIndex(1)]));
}

#[test]
fn multi_packets_wait_for_trains_that_are_out_and_trains_for_multi_packets() {
    let mut pool = FramePool::new(FRAMES, 0);
    let scheduler = SchedulerConfig { correct: false, window: 8, ..SchedulerConfig::default() };
    let config = StageConfig { timeouts: Timeouts::both(3_600_000_000_000), ..StageConfig::new(scheduler) };
    let mut stage = with_keys(config, vec![Box::new(elsewhere())], |_| COST);
    let mut released = Released::default();
    let numbers = |released: &mut Released, pool: &mut FramePool| -> Vec<u8> {
        let left = released.outbound.drain(..).map(|packet| {
            let number = packet.frame[3];
            pool.give_back(packet.frame);
            number
        });
        left.collect()
    };
    let burst = |pool: &mut FramePool, numbers: std::ops::Range<u32>| -> Vec<CryptoPacket> {
        numbers.map(|number| packet(pool, number % SAS, number)).collect()
    };
    let train = burst(&mut pool, 0..3);
    stage.give(train, Input::More, &mut pool, &mut released);
    assert_eq!(stage.in_flight(), 1);
    // From now on a change of SA is dear.
    let dear = |_: &EngineDescription| Some(AlgorithmCost { t_key: 1e9, ..COST.into() });
    stage.set_costs(TRANSFORM, &dear);
    let sorted = burst(&mut pool, 3..9);
    stage.give(sorted, Input::Ended, &mut pool, &mut released);
    assert_eq!((stage.in_line(), stage.in_flight()), (6, 1), "they wait for the train");
    for _ in 0..2 {
        stage.pump_with(Input::Ended, &mut pool, &mut released);
    }
    assert_eq!(numbers(&mut released, &mut pool), [0, 1, 2]);
    assert_eq!((stage.in_line(), stage.in_flight()), (0, 3), "one for each SA");
    stage.set_costs(TRANSFORM, &|_| Some(COST.into()));
    let late = burst(&mut pool, 9..12);
    stage.give(late, Input::More, &mut pool, &mut released);
    assert_eq!(stage.in_flight(), 3, "what comes is sorted, too");
    for _ in 0..8 {
        stage.pump_with(Input::Ended, &mut pool, &mut released);
    }
    let left = numbers(&mut released, &mut pool);
    assert_eq!(left.len(), 9);
    for sa in 0..SAS as u8 {
        let of_sa = left.iter().filter(|number| **number % SAS as u8 == sa);
        assert!(of_sa.is_sorted(), "{left:?}");
    }
    assert!(stage.is_empty());
}

/// The packets that a pipeline with these engines makes of consecutive bursts, while more is at
/// hand.
pub(super) fn through(
    direction: SaDirection,
    engines: Vec<Box<dyn Engine>>,
    bursts: &[Vec<Vec<u8>>],
) -> Vec<Vec<u8>> {
    let end = if direction == SaDirection::Outbound { 1 } else { 2 };
    let (mut pipeline, _) = leaving::end_with(end, direction, engines, 8);
    for burst in bursts {
        let filled = |bytes: &Vec<u8>| pipeline.pool_mut().take_filled(bytes, 64).expect("enough frames");
        let mut frames = burst.iter().map(filled).collect();
        match direction {
            SaDirection::Outbound => pipeline.outbound(&mut frames),
            SaDirection::Inbound => pipeline.inbound(&mut frames),
        }
    }
    while !pipeline.is_empty() {
        pipeline.pump(Input::Paused);
    }
    assert_eq!(pipeline.ipsec().tables.drops().total(), 0);
    let Departures { to_outside, to_inside, .. } = &pipeline.departures;
    to_outside.iter().chain(to_inside).map(|frame| frame.to_vec()).collect()
}
