//! Trains with engines that fail, or leave work undone.

use convoy_engine::InPlace;
use rand::RngExt;

use super::*;

/// `software`, except that it leaves every packet of a burst from the third on unprocessed.
fn lazy() -> ScriptedEngine {
    ScriptedEngine::new("lazy").never_recovering().processing(|software, packets| {
        let done = packets.len().min(2);
        software.process(&mut packets[..done]);
    })
}

#[test]
fn what_an_engine_leaves_undone_in_place_is_done_by_another_and_nothing_overtakes() {
    let mut pool = FramePool::new(FRAMES, 0);
    let expected = give(
        &mut stage(vec![Box::new(Software::new("good"))], SchedulingPolicy::FinishingTime),
        &mut pool,
        8,
    );
    // The same cost, so that the first is chosen.
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(lazy()), Box::new(Software::new("good"))];
    let mut stage = stage(engines, SchedulingPolicy::FinishingTime);
    let packets = give(&mut stage, &mut pool, 8);
    assert_eq!(packets.len(), 8);
    for sa in 0..SAS {
        assert_eq!(of_sa(&packets, sa), of_sa(&expected, sa), "SA {sa}");
    }
    let lazy = stage.engines().counters(0);
    assert_eq!((lazy.failures, lazy.retried_packets, lazy.packets), (1, 6, 0));
    assert!(matches!(stage.engines().health(0), Health::Down { .. }));
    assert_eq!(stage.engines().counters(1).packets, 6, "what was done is not done again");
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn two_thousand_runs_of_trains_with_engines_that_fail_lose_double_and_reorder_nothing() {
    const PACKETS: u32 = 60;
    let mut pool = FramePool::new(FRAMES, 0);
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let expected = run_trains(&mut stage(vec![good()], SchedulingPolicy::FinishingTime), &mut pool, PACKETS);
    let (mut failures, mut retried) = (0, 0);
    for seed in 0..2_000 {
        let plan = FaultPlan { after: 0..=3, ..FaultPlan::random(seed) };
        let faulty = Faulty::new(Box::new(elsewhere()), plan);
        let mut stage = stage(vec![good(), Box::new(faulty)], SchedulingPolicy::FinishingTime);
        let left = run_trains(&mut stage, &mut pool, PACKETS);
        assert!(left == expected, "seed {seed}: lost, doubled, changed or out of order");
        failures += stage.engines().counters(1).failures;
        retried += stage.engines().counters(1).retried_packets;
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "seed {seed}: a frame is missing");
    }
    println!("2000 runs: {failures} failures, {retried} packets done again");
    assert!(failures > 1_000 && retried > 1_000, "{failures} failures, {retried} packets retried");
}

#[test]
fn trains_that_failed_engines_left_go_by_the_window_where_none_that_takes_them_works_and_nothing_overtakes() {
    const PACKETS: u32 = 60;
    let mut pool = FramePool::new(FRAMES, 0);
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let expected = run_trains(&mut stage(vec![good()], SchedulingPolicy::FinishingTime), &mut pool, PACKETS);
    let mut left_to_window = 0;
    for seed in 0..500 {
        let plan = FaultPlan { after: 0..=6, probes: None, ..FaultPlan::random(seed) };
        let elsewhere = Box::new(Faulty::new(Box::new(elsewhere()), plan));
        let lazy = Box::new(lazy());
        let mut stage =
            stage(vec![lazy, by_multi_packets("by SA"), elsewhere], SchedulingPolicy::FinishingTime);
        let left = run_trains(&mut stage, &mut pool, PACKETS);
        for sa in 0..SAS {
            assert!(of_sa(&left, sa) == of_sa(&expected, sa), "seed {seed}: lost, doubled or out of order");
        }
        left_to_window += u64::from(stage.engines().counters(1).packets > 0);
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "seed {seed}: a frame is missing");
    }
    assert_eq!(left_to_window, 500, "both that take trains are gone in each run");
}

#[test]
fn packets_that_are_laid_out_elsewhere_are_those_of_the_core_though_the_engine_fails() {
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let failing = |fault| -> Vec<Box<dyn Engine>> {
        let plan = FaultPlan { after: 1..=1, times: 1, faults: vec![fault], ..FaultPlan::random(1) };
        vec![Box::new(Faulty::new(Box::new(elsewhere()), plan))]
    };
    let mut plain = vec![0x5c; 100];
    convoy_packet::IpHeader::new(253, [10, 1, 0, 1].into(), [10, 2, 0, 1].into()).write(&mut plain);
    let plain: Vec<Vec<Vec<u8>>> = vec![vec![plain; 40]; 3];
    let sealed = through(SaDirection::Outbound, vec![good()], &plain);
    assert_eq!(sealed.len(), 120);
    let sealed_bursts: Vec<Vec<Vec<u8>>> = sealed.chunks(40).map(<[_]>::to_vec).collect();
    let opened = through(SaDirection::Inbound, vec![good()], &sealed_bursts);
    assert_eq!(opened, plain.concat());
    for fault in [None, Some(InjectedFault::Error), Some(InjectedFault::Vanish)] {
        let engines = || fault.map_or_else(|| vec![Box::new(elsewhere()) as Box<dyn Engine>], failing);
        let again = through(SaDirection::Outbound, engines(), &plain);
        assert!(without_identifications(&again) == without_identifications(&sealed), "{fault:?}");
        assert!(through(SaDirection::Inbound, engines(), &sealed_bursts) == opened, "{fault:?}");
    }
}

/// Packets with their outer headers' identification and checksum set to 0: one that was done again
/// may have used up another's.
fn without_identifications(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut packets = packets.to_vec();
    for packet in &mut packets {
        [4, 5, 10, 11].into_iter().for_each(|at| packet[at] = 0);
    }
    packets
}

#[test]
fn a_packet_for_which_no_number_was_left_stays_refused_when_the_engine_of_its_train_fails() {
    const NUMBERS_LEFT: u32 = 5;
    for fault in [InjectedFault::Error, InjectedFault::Vanish] {
        let plan = FaultPlan { after: 1..=1, times: 1, faults: vec![fault], ..FaultPlan::random(1) };
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(Faulty::new(Box::new(elsewhere()), plan))];
        let (mut pipeline, sa) = leaving::end_with(1, SaDirection::Outbound, engines, 8);
        let sa = sa.outbound().expect("an outbound SA");
        for packets in [1, 2 * NUMBERS_LEFT] {
            let mut burst = leaving::packets(&mut pipeline, packets);
            pipeline.outbound(&mut burst);
            while !pipeline.is_empty() {
                pipeline.pump(Input::Paused);
            }
            pipeline.ipsec_mut().tables.set_sequence(sa, u64::from(u32::MAX - NUMBERS_LEFT));
        }
        assert_eq!(pipeline.stage().engines().counters(0).failures, 1, "{fault:?}");
        let number = |frame: &Frame| convoy_packet::Esp::parse(&frame[20..]).expect("ESP").sequence_number();
        let numbers: Vec<u32> = pipeline.departures.to_outside.iter().map(number).collect();
        let expected: Vec<u32> = [1].into_iter().chain(u32::MAX - NUMBERS_LEFT + 1..=u32::MAX).collect();
        assert_eq!(numbers, expected, "{fault:?}");
        assert_eq!(pipeline.ipsec().tables.drops().total(), u64::from(NUMBERS_LEFT), "{fault:?}");
    }
}

/// An engine elsewhere that completes at a random poll.
fn dawdling(name: &str, seed: u64) -> Box<dyn Engine> {
    let mut random = StdRng::seed_from_u64(seed);
    Box::new(ScriptedEngine::elsewhere(name, 1, move |_| random.random_ratio(1, 4)))
}

#[test]
fn where_frames_run_short_packets_leave_in_the_order_of_their_numbers() {
    const FEW_FRAMES: std::ops::RangeInclusive<usize> = 9..=24;
    const PACKETS: u32 = 120;
    // The part that was cut off for lack of frames waits for the fast one, and what follows it does
    // not.
    let cost = |engine: &EngineDescription| CostModel {
        t_init: if engine.name == "fast" { 1_000.0 } else { 20_000.0 },
        t_block: 1.0,
    };
    for seed in 0..500 {
        let (mut random, time) = (StdRng::seed_from_u64(seed), VirtualTime::new());
        let engines = vec![dawdling("fast", seed), dawdling("slow", seed + 500)];
        let (mut pipeline, _) = leaving::end_at(time.clock(), 1, SaDirection::Outbound, engines, 8);
        pipeline.set_costs(keys(0).transform(), &|engine| Some(cost(engine).into()));
        *pipeline.pool_mut() = FramePool::new(random.random_range(FEW_FRAMES), 0);
        let (mut given, mut numbers) = (0, Vec::new());
        while numbers.len() < PACKETS as usize {
            time.advance_to(time.now_ns() + 1_000);
            let free = pipeline.pool_mut().available(FrameSize::Small) as u32;
            let count = random.random_range(1..=8).min(PACKETS - given).min(free);
            if count > 0 && pipeline.has_room() {
                let mut burst = leaving::packets(&mut pipeline, count);
                given += count;
                pipeline.outbound(&mut burst);
            }
            pipeline.pump(if random.random() { Input::More } else { Input::Paused });
            let number =
                |frame: &Frame| convoy_packet::Esp::parse(&frame[20..]).expect("ESP").sequence_number();
            numbers.extend(pipeline.departures.to_outside.iter().map(number));
            let (pool, departures) = pipeline.pool_and_departures();
            pool.give_back_burst(&mut departures.to_outside);
        }
        assert!(numbers.iter().copied().eq(1..=PACKETS), "seed {seed}: {numbers:?}");
    }
}
