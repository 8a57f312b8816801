//! Trains: bursts that engines take as they came, here or elsewhere.

use convoy_engine::{InPlace, Placement, Takes, lay_out, open_up};

use super::*;
use crate::pipeline::trains::WINDOW_NS;

/// `software`, but of each burst it leaves every packet from the third on.
struct Lazy(Software);

impl InPlace for Lazy {
    fn process(&mut self, packets: &mut [Prepared]) {
        let done = packets.len().min(2);
        self.0.in_place().expect("software works in place").process(&mut packets[..done]);
    }
}

impl EngineControl for Lazy {
    fn description(&self) -> &EngineDescription {
        self.0.description()
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.0.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.0.remove_key(sa);
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        let reason = "it is as lazy as before".to_owned();
        Err(EngineError::Device { engine: self.description().name.clone(), reason })
    }
}

impl EngineQueue for Lazy {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.0.submit(multi_packet)
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.0.poll(completions);
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }
}

/// `software` as if it were elsewhere: what it is given comes back at the second poll.
struct Elsewhere {
    engine: Software,
    description: EngineDescription,
    /// What it has, and how often it was polled since.
    has: Vec<(u32, MultiPacket)>,
}

impl Elsewhere {
    fn new() -> Self {
        let engine = Software::new("elsewhere");
        let like = engine.description().clone();
        let description = EngineDescription {
            placement: Placement::Lookaside,
            takes: Takes::Trains,
            needs_input_kept: true,
            depth: 3,
            ..like
        };
        Self { engine, description, has: Vec::new() }
    }
}

impl EngineControl for Elsewhere {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.engine.install_key(sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.engine.remove_key(sa);
    }
}

impl EngineQueue for Elsewhere {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        self.has.push((0, multi_packet));
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        self.has.iter_mut().for_each(|(polls, _)| *polls += 1);
        for (_, mut multi_packet) in self.has.extract_if(.., |(polls, _)| *polls == 2) {
            let MultiPacket { packets, templates, .. } = &mut multi_packet;
            lay_out(templates, packets, &mut |iv| iv.fill(0x77));
            self.engine.in_place().expect("software works in place").process(packets);
            open_up(templates, packets);
            completions.push(Completion { multi_packet, outcome: Outcome::Done, service_ns: Some(1_000) });
        }
    }

    fn in_flight(&self) -> usize {
        self.has.len()
    }
}

/// Gives a burst to a stage as a pipeline does; what comes out, with the SA of each packet.
fn give(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let mut burst = (0..count).map(|number| packet(pool, number % SAS, number)).collect();
    let mut released = Released::default();
    stage.take_train(0, &mut burst, &mut Vec::new(), Input::Paused, pool, &mut released);
    for packet in burst.drain(..) {
        assert!(stage.push(0, packet).is_ok(), "the window has room for all");
    }
    stage.pump(Input::Ended, pool, &mut released);
    assert!(stage.is_empty());
    let packets = released.outbound.drain(..).map(|packet| {
        assert_eq!(packet.status, CryptoStatus::Done);
        let bytes = (packet.sa.0, packet.frame.to_vec());
        pool.give_back(packet.frame);
        bytes
    });
    packets.collect()
}

fn of_sa(packets: &[(u32, Vec<u8>)], sa: u32) -> Vec<&[u8]> {
    packets.iter().filter(|packet| packet.0 == sa).map(|packet| &packet.1[..]).collect()
}

#[test]
fn what_an_engine_leaves_undone_in_place_is_done_by_another_and_nothing_overtakes() {
    let mut pool = FramePool::new(FRAMES, 0);
    let expected =
        give(&mut stage(vec![Box::new(Software::new("good"))], Policy::FinishingTime), &mut pool, 8);
    // The same cost, so that the first is chosen.
    let engines: Vec<Box<dyn Engine>> =
        vec![Box::new(Lazy(Software::new("lazy"))), Box::new(Software::new("good"))];
    let mut stage = stage(engines, Policy::FinishingTime);
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
fn a_burst_in_place_is_counted_with_the_time_that_it_took() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = stage(vec![Box::new(Software::new("good"))], Policy::FinishingTime);
    for bursts in 1..=20 {
        give(&mut stage, &mut pool, 8);
        let counters = stage.engines().counters(0);
        assert_eq!((counters.packets, counters.multi_packets), (8 * bursts, bursts));
        // Nearly all of these are not measured, and count as predicted.
        assert!(counters.service_ns >= bursts * 1_000, "{counters:?}");
    }
    assert_eq!(stage.scheduler().snapshot().engines[0].packets, 160);
}

#[test]
fn packets_are_scheduled_where_the_window_is_one_or_holds_back_or_an_engine_is_elsewhere() {
    let mut pool = FramePool::new(FRAMES, 0);
    let is_done_at_once = |stage: &mut CryptoStage, pool: &mut FramePool| {
        let mut burst = vec![packet(pool, 0, 0)];
        let mut released = Released::default();
        stage.take_train(0, &mut burst, &mut Vec::new(), Input::Paused, pool, &mut released);
        !released.is_empty()
    };
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    assert!(is_done_at_once(&mut stage(vec![good()], Policy::RoundRobin), &mut pool), "there is one engine");
    assert!(!is_done_at_once(&mut stage(vec![good(), good()], Policy::RoundRobin), &mut pool));
    let one = SchedulerConfig { window: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], one), &mut pool));
    let holding = SchedulerConfig { max_wait: 1, ..SchedulerConfig::default() };
    assert!(!is_done_at_once(&mut stage_by(vec![good()], holding), &mut pool));
    let queued = Faulty::new(good(), FaultPlan::none());
    assert!(!is_done_at_once(&mut stage(vec![Box::new(queued)], Policy::FinishingTime), &mut pool));
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

/// Sends so many packets of all SAs as trains of four through a stage; what comes out.
fn run_trains(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let (mut released, mut left, mut next, mut polls) = (Released::default(), Vec::new(), 0, 0);
    let mut train = Vec::new();
    while left.len() < count as usize {
        if train.is_empty() {
            train.extend((next..count.min(next + 4)).map(|number| packet(pool, number % SAS, number)));
            next += train.len() as u32;
        }
        stage.take_train(stage.clock.now_ns(), &mut train, &mut Vec::new(), Input::More, pool, &mut released);
        while !train.is_empty() && stage.room() > 0 {
            assert!(stage.push(0, train.remove(0)).is_ok(), "it has room");
        }
        stage.pump(Input::Paused, pool, &mut released);
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
    let expected = run_trains(&mut stage(vec![good()], Policy::FinishingTime), &mut pool, PACKETS);
    let mut stage = patient(vec![good(), Box::new(Elsewhere::new())]);
    let left = run_trains(&mut stage, &mut pool, PACKETS);
    assert!(left == expected, "whatever their SAs, they leave as they came");
    let taken = [0, 1].map(|engine| stage.engines().counters(engine).packets);
    assert_eq!(taken.iter().sum::<u64>(), u64::from(PACKETS));
    assert!(taken.iter().all(|packets| *packets >= 20), "both worked: {taken:?}");
    assert!(stage.is_empty());
    assert_eq!(pool.available(FrameSize::Small), FRAMES);
}

/// How many of forty trains of four packets an engine elsewhere is given that takes as long as the core's own, 1 ms, where it costs the
/// core `handover` ns to give it a train.
fn given_away(handover: f64) -> u64 {
    let mut pool = FramePool::new(FRAMES, 0);
    let scheduler = SchedulerConfig { correct: false, window: 8, ..SchedulerConfig::default() };
    let config = StageConfig { timeouts: Timeouts::both(3_600_000_000_000), ..StageConfig::new(scheduler) };
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good")), Box::new(Elsewhere::new())];
    let model = CostModel { t_init: 1e6, t_block: 0.0 };
    let mut stage = with_costs(config, engines, |_| AlgorithmCost {
        model,
        handover: Handover { t_init: handover, ..Handover::default() },
        t_key: 0.0,
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

/// The largest multi-packet that one engine on the core was given of bursts whose packets have three SAs in turns, where a change of SA costs it `t_key` ns;
/// none where it took the bursts as they came.
fn bundled(t_key: f64) -> Option<u64> {
    let mut pool = FramePool::new(FRAMES, 0);
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good"))];
    let model = CostModel { t_init: 100.0, t_block: 1.0 };
    let config = StageConfig::new(SchedulerConfig { window: 32, ..SchedulerConfig::default() });
    let mut stage =
        with_costs(config, engines, |_| AlgorithmCost { model, handover: Handover::default(), t_key });
    let mut burst: Vec<Prepared> = (0..30).map(|number| packet(&mut pool, number % SAS, number)).collect();
    let mut released = Released::default();
    let is_train = stage.take_train(0, &mut burst, &mut Vec::new(), Input::Paused, &mut pool, &mut released);
    assert_eq!(burst.len(), if is_train { 0 } else { 30 });
    for packet in burst.drain(..) {
        assert!(stage.push(0, packet).is_ok(), "the window has room for all");
    }
    stage.pump(Input::Ended, &mut pool, &mut released);
    assert_eq!(released.outbound.len(), 30);
    let counters = stage.engines().counters(0);
    (!is_train).then(|| counters.packets / counters.multi_packets)
}

#[test]
fn a_burst_is_bundled_by_sa_where_a_change_of_sa_costs_more_than_a_multi_packet() {
    assert_eq!(bundled(100.0 + WINDOW_NS), None);
    assert_eq!(bundled(101.0 + WINDOW_NS), Some(u64::from(30 / SAS)));
}

#[test]
fn two_thousand_runs_of_trains_with_engines_that_fail_lose_double_and_reorder_nothing() {
    const PACKETS: u32 = 60;
    let mut pool = FramePool::new(FRAMES, 0);
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let expected = run_trains(&mut stage(vec![good()], Policy::FinishingTime), &mut pool, PACKETS);
    let (mut failures, mut retried) = (0, 0);
    for seed in 0..2_000 {
        let plan = FaultPlan { after: 0..=3, ..FaultPlan::random(seed) };
        let faulty = Faulty::new(Box::new(Elsewhere::new()), plan);
        let mut stage = stage(vec![good(), Box::new(faulty)], Policy::FinishingTime);
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
fn trains_that_failed_engines_left_go_by_the_window_where_none_that_takes_them_works_and_nothing_overtakes() {
    const PACKETS: u32 = 60;
    let mut pool = FramePool::new(FRAMES, 0);
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let expected = run_trains(&mut stage(vec![good()], Policy::FinishingTime), &mut pool, PACKETS);
    let mut left_to_window = 0;
    for seed in 0..500 {
        let plan = FaultPlan { after: 0..=6, probes: None, ..FaultPlan::random(seed) };
        let elsewhere = Box::new(Faulty::new(Box::new(Elsewhere::new()), plan));
        let lazy = Box::new(Lazy(Software::new("lazy")));
        let mut stage = stage(vec![lazy, by_multi_packets("by SA"), elsewhere], Policy::FinishingTime);
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
fn an_sa_goes_only_when_the_trains_that_may_have_its_packets_have_left() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = patient(vec![Box::new(Elsewhere::new())]);
    let mut released = Released::default();
    let train = |pool: &mut FramePool, stage: &mut CryptoStage, released: &mut Released, sa| {
        let mut train = vec![packet(pool, sa, 1)];
        assert!(stage.take_train(0, &mut train, &mut Vec::new(), Input::More, pool, released));
    };
    train(&mut pool, &mut stage, &mut released, 1);
    stage.retire(SaIndex(1));
    train(&mut pool, &mut stage, &mut released, 2);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    stage.pump(Input::Paused, &mut pool, &mut released);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    stage.pump(Input::Paused, &mut pool, &mut released);
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
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good")), Box::new(Elsewhere::new())];
    let mut stage = with_keys(config, engines, |engine| CostModel {
        t_init: if engine.placement == Placement::Inline { 2.0 } else { 1.0 },
        t_block: 0.0,
    });
    let mut released = Released::default();
    for sa in [1, 2] {
        let mut train = vec![packet(&mut pool, sa, 1)];
        // The first goes elsewhere; the second would overtake it.
        assert!(stage.take_train(0, &mut train, &mut Vec::new(), Input::Paused, &mut pool, &mut released));
        if sa == 1 {
            assert!(released.outbound.is_empty());
            stage.retire(SaIndex(1));
        }
    }
    assert_eq!(released.outbound.len(), 1);
    assert!(stage.take_retired().is_empty() && stage.is_retiring());
    for _ in 0..2 {
        stage.pump(Input::Paused, &mut pool, &mut released);
    }
    assert_eq!((released.outbound.len(), stage.take_retired()), (2, vec![SaIndex(1)]));
}

#[test]
fn a_train_of_an_sa_that_the_window_holds_packets_of_is_left_to_the_window() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = patient(vec![Box::new(Elsewhere::new())]);
    let mut released = Released::default();
    stage.push(0, packet(&mut pool, 0, 0)).expect("room");
    let mut burst = vec![packet(&mut pool, 0, 1)];
    assert!(!stage.take_train(0, &mut burst, &mut Vec::new(), Input::More, &mut pool, &mut released));
    for _ in 0..4 {
        stage.pump(Input::Paused, &mut pool, &mut released);
    }
    assert!(stage.take_train(0, &mut burst, &mut Vec::new(), Input::More, &mut pool, &mut released));
    assert_eq!(stage.room(), 0, "and what is on a train holds up what is for the window");
    assert!(stage.push(0, packet(&mut pool, 0, 2)).is_err());
}

/// What a pipeline with these engines makes of bursts that come one behind the other, while more is at hand.
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
    assert_eq!(pipeline.ipsec().drops().total(), 0);
    let Departures { to_outside, to_inside, .. } = &pipeline.departures;
    to_outside.iter().chain(to_inside).map(|frame| frame.to_vec()).collect()
}

#[test]
fn packets_that_are_laid_out_elsewhere_are_those_of_the_core_though_the_engine_fails() {
    let good = || -> Box<dyn Engine> { Box::new(Software::new("good")) };
    let failing = |fault| -> Vec<Box<dyn Engine>> {
        let plan = FaultPlan { after: 1..=1, times: 1, faults: vec![fault], ..FaultPlan::random(1) };
        vec![Box::new(Faulty::new(Box::new(Elsewhere::new()), plan))]
    };
    let mut plain = vec![0x5c; 100];
    convoy_packet::IpHeader::new(253, [10, 1, 0, 1].into(), [10, 2, 0, 1].into()).write(&mut plain);
    let plain: Vec<Vec<Vec<u8>>> = vec![vec![plain; 40]; 3];
    let sealed = through(SaDirection::Outbound, vec![good()], &plain);
    assert_eq!(sealed.len(), 120);
    let sealed_bursts: Vec<Vec<Vec<u8>>> = sealed.chunks(40).map(<[_]>::to_vec).collect();
    let opened = through(SaDirection::Inbound, vec![good()], &sealed_bursts);
    assert_eq!(opened, plain.concat());
    for fault in [None, Some(Fault::Error), Some(Fault::Vanish)] {
        let engines = || fault.map_or_else(|| vec![Box::new(Elsewhere::new()) as Box<dyn Engine>], failing);
        assert!(through(SaDirection::Outbound, engines(), &plain) == sealed, "{fault:?}");
        assert!(through(SaDirection::Inbound, engines(), &sealed_bursts) == opened, "{fault:?}");
    }
}

#[test]
fn a_packet_for_which_no_number_was_left_stays_refused_when_the_engine_of_its_train_fails() {
    const NUMBERS_LEFT: u32 = 5;
    for fault in [Fault::Error, Fault::Vanish] {
        let plan = FaultPlan { after: 1..=1, times: 1, faults: vec![fault], ..FaultPlan::random(1) };
        let engines: Vec<Box<dyn Engine>> = vec![Box::new(Faulty::new(Box::new(Elsewhere::new()), plan))];
        let (mut pipeline, sa) = leaving::end_with(1, SaDirection::Outbound, engines, 8);
        let sa = sa.outbound().expect("an outbound SA");
        for packets in [1, 2 * NUMBERS_LEFT] {
            let mut burst = leaving::packets(&mut pipeline, packets);
            pipeline.outbound(&mut burst);
            while !pipeline.is_empty() {
                pipeline.pump(Input::Paused);
            }
            pipeline.ipsec_mut().set_sequence(sa, u64::from(u32::MAX - NUMBERS_LEFT));
        }
        assert_eq!(pipeline.stage().engines().counters(0).failures, 1, "{fault:?}");
        let number = |frame: &Frame| convoy_packet::Esp::parse(&frame[20..]).expect("ESP").sequence_number();
        let numbers: Vec<u32> = pipeline.departures.to_outside.iter().map(number).collect();
        let expected: Vec<u32> = [1].into_iter().chain(u32::MAX - NUMBERS_LEFT + 1..=u32::MAX).collect();
        assert_eq!(numbers, expected, "{fault:?}");
        assert_eq!(pipeline.ipsec().drops().total(), u64::from(NUMBERS_LEFT), "{fault:?}");
    }
}
