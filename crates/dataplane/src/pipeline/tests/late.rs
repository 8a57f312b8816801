//! Engines that hang or are slow, and are not quarantined for it: no packet waits for them longer
//! than the margin.

use convoy_scheduler::{FullQueue, Research};

use super::*;

const PACKETS: u32 = 60;
const MARGIN_NS: u64 = 20_000;
/// The engine that the scheduler wants, as it promises to be a million times faster.
const WANTED: usize = 0;
const OTHER: usize = 1;

/// A stage whose wanted engine fails by `plan`, unnoticed within the time of a test.
fn stage_beside(
    plan: FaultPlan,
    full_queue: FullQueue,
    late_margin: Option<u64>,
    ordered: bool,
) -> CryptoStage {
    let wanted = Faulty::new(Box::new(Software::new("wanted")), plan);
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(wanted), Box::new(Software::new("other"))];
    let research = Research { full_queue, ..Research::default() };
    let scheduler =
        SchedulerConfig { research, late_margin, window: 8, correct: false, ..SchedulerConfig::default() };
    let config =
        StageConfig { timeouts: Timeouts::both(3_600_000_000_000), ordered, ..StageConfig::new(scheduler) };
    with_keys(config, engines, |engine| CostModel {
        t_init: if engine.name == "wanted" { 1_000.0 } else { 1e9 },
        t_block: 1.0,
    })
}

/// Runs until no packet is left in the window; `Err` has the number left after too many rounds.
fn empty_the_window(
    stage: &mut CryptoStage,
    pool: &mut FramePool,
    rounds: u32,
) -> Result<Vec<(u32, Vec<u8>)>, u32> {
    let (mut released, mut left, mut next) = (Released::default(), Vec::new(), 0);
    for _ in 0..rounds {
        while next < PACKETS && stage.in_line() == 0 {
            let packets = vec![packet(pool, next % SAS, next)];
            stage.take_in(packets, pool, &mut released);
            next += 1;
        }
        stage.pump_with(if next < PACKETS { Input::More } else { Input::Ended }, pool, &mut released);
        for done in released.outbound.drain(..) {
            left.push((done.sa.0, done.frame.to_vec()));
            pool.give_back(done.frame);
        }
        if next == PACKETS && stage.in_line() + stage.scheduler.waiting() == 0 {
            return Ok(left);
        }
    }
    Err(PACKETS - next + (stage.in_line() + stage.scheduler.waiting()) as u32)
}

fn expected(pool: &mut FramePool) -> Vec<(u32, Vec<u8>)> {
    run(&mut stage(vec![Box::new(Software::new("good"))], SchedulingPolicy::FinishingTime), pool, PACKETS)
}

#[test]
fn an_engine_that_hangs_holds_up_no_packet_but_its_own() {
    let mut pool = FramePool::new(FRAMES, 0);
    let expected = expected(&mut pool);
    for seed in 0..500 {
        let hangs =
            FaultPlan { seed, faults: vec![InjectedFault::Hang], after: 0..=10, times: 1, probes: None };
        let mut stage = stage_beside(hangs, FullQueue::Wait, Some(MARGIN_NS), false);
        let left = empty_the_window(&mut stage, &mut pool, 50_000_000).expect("the margin ends the wait");
        let swallowed = stage.len() as usize;
        assert!((1..=8).contains(&swallowed), "seed {seed}: one multi-packet hangs, not {swallowed} packets");
        assert_eq!(left.len() + swallowed, PACKETS as usize, "seed {seed}");
        assert!(left.iter().all(|packet| expected.contains(packet)), "seed {seed}: a packet is wrong");
        assert!(stage.engines().counters(OTHER).packets > 0);
        assert_eq!(stage.engines().counters(WANTED).failures, 0, "it was not found out");
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "seed {seed}: a frame is missing");
    }
}

/// The reason for the margin: the paper's rule has none.
#[test]
fn without_a_margin_the_window_stands_still_behind_an_engine_that_hangs() {
    let mut pool = FramePool::new(FRAMES, 0);
    let by = |full_queue, pool: &mut FramePool| {
        let mut stage = stage_beside(FaultPlan::once(InjectedFault::Hang, 2), full_queue, None, false);
        empty_the_window(&mut stage, pool, 100_000).map(|left| left.len())
    };
    assert!(by(FullQueue::Wait, &mut pool).is_err_and(|waiting| waiting > PACKETS / 2));
    assert!(by(FullQueue::Skip, &mut pool).is_ok_and(|left| left > PACKETS as usize / 2));
}

#[test]
fn while_an_engine_is_slow_another_works_and_no_packet_is_lost_or_overtaken() {
    let mut pool = FramePool::new(FRAMES, 0);
    let expected = expected(&mut pool);
    for seed in 0..100 {
        let faults = vec![InjectedFault::Slow { polls: 3_000 }];
        let slow = FaultPlan { seed, faults, after: 0..=6, times: u32::MAX, probes: None };
        let mut stage = stage_beside(slow, FullQueue::Wait, Some(MARGIN_NS), true);
        check(&run(&mut stage, &mut pool, PACKETS), &expected);
        assert_eq!(stage.engines().counters(WANTED).failures, 0, "seed {seed}");
        assert!(stage.engines().counters(OTHER).packets > 0, "seed {seed}: all waited for the slow one");
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "seed {seed}: a frame is missing");
    }
}
