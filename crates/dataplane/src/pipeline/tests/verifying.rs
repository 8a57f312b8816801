//! Engines that compute wrongly, found because another one computes their packets again.

use convoy_engine::InPlace;

use super::trains::of_sa;
use super::*;

/// A stage in which one packet in `one_in` is computed again, and the engine of this name is the
/// cheapest.
fn verified(engines: Vec<Box<dyn Engine>>, one_in: u32, cheapest: &'static str) -> CryptoStage {
    let scheduler = SchedulerConfig { window: 8, ..SchedulerConfig::default() };
    let timeouts = Timeouts::both(3_600_000_000_000);
    let config = StageConfig { timeouts, verify_one_in: one_in, ..StageConfig::new(scheduler) };
    with_keys(config, engines, |engine| CostModel {
        t_init: if engine.name == cheapest { 100.0 } else { 10_000.0 },
        t_block: 20.0,
    })
}

fn good() -> Box<dyn Engine> {
    Box::new(Software::new("good"))
}

/// `software` that flips a bit of the last packet of each burst once it has processed so many.
fn wrong(good_bursts: usize) -> Box<dyn Engine> {
    let mut bursts = 0;
    Box::new(ScriptedEngine::new("wrong").never_recovering().processing(move |software, packets| {
        software.process(packets);
        bursts += 1;
        if bursts > good_bursts
            && let Some(last) = packets.last_mut()
        {
            let at = last.frame.len() / 2;
            last.frame[at] ^= 1;
        }
    }))
}

/// What comes out of ten bursts of eight packets.
fn ten_bursts(stage: &mut CryptoStage, pool: &mut FramePool) -> Vec<(u32, Vec<u8>)> {
    let (mut released, mut left) = (Released::default(), Vec::new());
    for burst in 1..=10 {
        let packets = (0..8).map(|number| packet(pool, number % SAS, number)).collect();
        stage.give(packets, Input::Paused, pool, &mut released);
        let mut polls = 0;
        while left.len() < 8 * burst {
            stage.pump_with(Input::Ended, pool, &mut released);
            for done in released.outbound.drain(..) {
                assert_eq!(done.status, CryptoStatus::Done);
                left.push((done.sa.0, done.frame.to_vec()));
                pool.give_back(done.frame);
            }
            polls += 1;
            assert!(polls < 1_000_000, "{} of {} packets came out", left.len(), 8 * burst);
        }
    }
    left
}

fn assert_right(packets: &[(u32, Vec<u8>)], pool: &mut FramePool) {
    let expected = ten_bursts(&mut verified(vec![good()], 0, "good"), pool);
    for sa in 0..SAS {
        assert!(of_sa(packets, sa) == of_sa(&expected, sa), "SA {sa}: a packet left that is wrong");
    }
}

/// This engine alone was quarantined, once.
fn assert_distrusted(stage: &mut CryptoStage, wrong: &str) {
    let events = stage.take_events();
    let [EngineEvent::Quarantined { engine, reason }] = &events[..] else { panic!("{events:?}") };
    assert!(engine == wrong && reason.contains("otherwise than engine good"), "{engine}: {reason}");
}

#[test]
fn engine_that_computes_wrongly_in_place_is_quarantined_before_its_packets_leave() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = verified(vec![wrong(3), good()], 1, "wrong");
    let packets = ten_bursts(&mut stage, &mut pool);
    assert_right(&packets, &mut pool);
    assert_distrusted(&mut stage, "wrong");
    let counters = [0, 1].map(|engine| stage.engines().counters(engine));
    assert_eq!((counters[0].verified, counters[0].failures, counters[1].failures), (32, 1, 0));
    assert_eq!(pool.available(FrameSize::Small), FRAMES, "a frame is missing");
}

#[test]
fn engine_that_verifies_wrongly_is_quarantined_and_the_other_goes_on() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = verified(vec![good(), wrong(0)], 1, "good");
    let packets = ten_bursts(&mut stage, &mut pool);
    assert_right(&packets, &mut pool);
    assert_distrusted(&mut stage, "wrong");
    assert_eq!(pool.available(FrameSize::Small), FRAMES, "a frame is missing");
}

#[test]
fn engine_that_computes_wrongly_in_its_queue_is_quarantined_before_its_packets_leave() {
    let mut pool = FramePool::new(FRAMES, 0);
    for after in 0..8 {
        let plan = FaultPlan { probes: None, ..FaultPlan::once(InjectedFault::Wrong, after) };
        let queued = Faulty::new(Box::new(Software::new("queued")), plan);
        let mut stage = verified(vec![Box::new(queued), good()], 1, "queued");
        let packets = ten_bursts(&mut stage, &mut pool);
        assert_right(&packets, &mut pool);
        assert_distrusted(&mut stage, "queued");
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "a frame is missing");
    }
}

#[test]
fn one_packet_in_so_many_is_computed_again() {
    let mut pool = FramePool::new(FRAMES, 0);
    for (one_in, expected) in [(0, 0), (1, 80), (5, 16)] {
        let engines = vec![Box::new(Software::new("first")) as Box<dyn Engine>, good()];
        let mut stage = verified(engines, one_in, "first");
        ten_bursts(&mut stage, &mut pool);
        assert_eq!(stage.engines().counters(0).verified, expected, "one in {one_in}");
    }
}
