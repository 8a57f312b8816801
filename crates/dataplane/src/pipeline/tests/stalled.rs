//! Engines whose thread loses its core, or hangs: others soon process their work, and nothing
//! leaves twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use convoy_engine::Placement;

use super::*;
use crate::clock::VirtualTime;

const MS: u64 = 1_000_000;
const HERE: usize = 0;
const ELSEWHERE: usize = 1;
const TRAINS: u32 = 6;
const PACKETS_OF_A_TRAIN: u32 = 4;

/// `software` as if on a core of its own, which it does not always have.
fn on_core(is_stalled: &Arc<AtomicBool>) -> ScriptedEngine {
    let is_stalled = Arc::clone(is_stalled);
    ScriptedEngine::elsewhere("on core", 16, move |_| !is_stalled.load(Ordering::Relaxed))
}

/// A stage with an engine on its core and one elsewhere that is wanted for everything, in virtual
/// time.
struct StalledBench {
    time: VirtualTime,
    is_stalled: Arc<AtomicBool>,
    stage: CryptoStage,
    pool: FramePool,
    released: Released,
    next: u32,
}

impl StalledBench {
    fn new(has_here: bool) -> Self {
        let (time, is_stalled) = (VirtualTime::new(), Arc::new(AtomicBool::new(false)));
        let mut engines: Vec<Box<dyn Engine>> = vec![Box::new(on_core(&is_stalled))];
        if has_here {
            engines.insert(HERE, Box::new(Software::new("here")));
        }
        let scheduler = SchedulerConfig { correct: false, ..SchedulerConfig::default() };
        let stage = at_times_of(time.clock(), StageConfig::new(scheduler), engines, |engine| CostModel {
            t_init: if engine.placement == Placement::Inline { 1e6 } else { 1_000.0 },
            t_block: 1.0,
        });
        let (pool, released) = (FramePool::new(FRAMES, 0), Released::default());
        Self { time, is_stalled, stage, pool, released, next: 0 }
    }

    fn stall(&self, is_stalled: bool) {
        self.is_stalled.store(is_stalled, Ordering::Relaxed);
    }

    /// Begins `trains` trains, a microsecond apart.
    fn begin(&mut self, trains: u32) {
        for _ in 0..trains {
            let numbers = self.next..self.next + PACKETS_OF_A_TRAIN;
            self.next = numbers.end;
            let train = numbers.map(|number| packet(&mut self.pool, number % SAS, number)).collect();
            let now_ns = self.time.now_ns() + 1_000;
            self.time.advance_to(now_ns);
            let (pool, released) = (&mut self.pool, &mut self.released);
            self.stage.give(train, Input::Paused, pool, released);
            assert_eq!(self.stage.in_line(), 0);
        }
    }

    /// The packets that have left after `ms`.
    fn after(&mut self, ms: u64) -> Vec<(u32, Vec<u8>)> {
        self.time.advance_to(self.time.now_ns() + ms * MS);
        for _ in 0..3 {
            self.stage.pump_with(Input::Paused, &mut self.pool, &mut self.released);
        }
        let mut left = Vec::new();
        for done in self.released.outbound.drain(..) {
            assert_eq!(done.status, CryptoStatus::Done);
            left.push((done.sa.0, done.frame.to_vec()));
            self.pool.give_back(done.frame);
        }
        left
    }

    fn counters(&self) -> SlotCounters {
        self.stage.engines().counters(ELSEWHERE)
    }
}

/// The expected packets of trains that nothing holds up.
fn expected(trains: u32) -> Vec<(u32, Vec<u8>)> {
    let mut bench = StalledBench::new(true);
    bench.begin(trains);
    bench.after(0)
}

#[test]
fn trains_of_an_engine_that_stalls_are_done_on_the_worker_within_milliseconds_and_leave_once() {
    let mut bench = StalledBench::new(true);
    let expected = expected(TRAINS + 2);
    let (first, rest) = expected.split_at((TRAINS * PACKETS_OF_A_TRAIN) as usize);
    let (second, third) = rest.split_at(PACKETS_OF_A_TRAIN as usize);
    bench.stall(true);
    bench.begin(TRAINS);
    assert!(bench.after(5).is_empty(), "the system may take a core from a thread for so long");
    assert!(bench.after(6) == first, "all of them, in order");
    assert_eq!((bench.counters().failures, bench.counters().retried_packets), (0, first.len() as u64));
    bench.begin(1);
    assert!(bench.after(0) == second, "it gets nothing new until it has brought what it has");
    bench.stall(false);
    assert!(bench.after(1).is_empty(), "what it brings now has left before");
    assert_eq!((bench.counters().late, bench.counters().packets), (u64::from(TRAINS), 0));
    bench.begin(1);
    assert!(bench.after(1) == third);
    assert_eq!(bench.counters().packets, u64::from(PACKETS_OF_A_TRAIN), "it is used again");
    assert!(bench.stage.take_events().is_empty() && bench.stage.is_empty());
    assert_eq!(bench.pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn a_train_that_comes_while_others_are_done_again_leaves_from_the_engine_itself() {
    let mut bench = StalledBench::new(true);
    bench.stall(true);
    bench.begin(1);
    bench.after(8);
    bench.begin(1);
    assert_eq!(bench.after(4).len(), PACKETS_OF_A_TRAIN as usize, "the second is not late yet");
    bench.stall(false);
    assert_eq!(bench.after(0).len(), PACKETS_OF_A_TRAIN as usize);
    let counters = bench.counters();
    assert_eq!((counters.late, counters.retried_packets, counters.packets), (1, 4, 4));
}

#[test]
fn what_no_other_engine_can_do_is_waited_for() {
    let mut bench = StalledBench { next: 0, ..StalledBench::new(false) };
    bench.stall(true);
    bench.begin(TRAINS);
    assert!(bench.after(400).is_empty());
    bench.stall(false);
    assert!(bench.after(0) == expected(TRAINS));
    let counters = bench.stage.engines().counters(0);
    assert_eq!((counters.late, counters.retried_packets, counters.failures), (0, 0, 0));
}

#[test]
fn an_engine_that_hangs_is_quarantined_after_half_a_second_though_nothing_waits_for_it() {
    let mut bench = StalledBench::new(true);
    bench.stall(true);
    bench.begin(1);
    assert_eq!(bench.after(11).len(), PACKETS_OF_A_TRAIN as usize);
    assert!(bench.after(480).is_empty() && bench.counters().failures == 0);
    assert!(bench.after(20).is_empty() && bench.counters().failures == 1);
    bench.stall(false);
    assert!(bench.after(200).is_empty(), "what it had is of no use");
    assert!((0..4).all(|_| bench.after(1).is_empty()), "it gives its known answers, and comes back");
    let events = bench.stage.take_events();
    assert!(matches!(&events[..], [EngineEvent::Quarantined { .. }, EngineEvent::CameBack { .. }]));
    assert_eq!(bench.pool.available(FrameSize::Small), FRAMES);
}

#[test]
fn an_engine_that_is_late_again_and_again_is_quarantined() {
    let mut bench = StalledBench::new(true);
    for time in 1..=10 {
        assert_eq!(bench.counters().failures, 0, "late {time} times");
        bench.stall(true);
        bench.begin(1);
        assert_eq!(bench.after(11).len(), PACKETS_OF_A_TRAIN as usize);
        bench.stall(false);
        assert!(bench.after(1).is_empty());
    }
    assert_eq!(bench.counters().failures, 1);
    let events = bench.stage.take_events();
    let [EngineEvent::Quarantined { reason, .. }] = &events[..] else { panic!("{events:?}") };
    assert!(reason.contains("late"), "{reason}");
}

/// The packets that leave a pipeline whose only engine elsewhere stalls over all bursts, once it is
/// late and once it has its core again.
fn through_a_stall(direction: SaDirection, bursts: &[Vec<Vec<u8>>]) -> [Vec<Vec<u8>>; 2] {
    let (time, is_stalled) = (VirtualTime::new(), Arc::new(AtomicBool::new(true)));
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("here")), Box::new(on_core(&is_stalled))];
    let end = if direction == SaDirection::Outbound { 1 } else { 2 };
    let (mut pipeline, _) = leaving::end_at(time.clock(), end, direction, engines, 8);
    for burst in bursts {
        let filled = |bytes: &Vec<u8>| pipeline.pool_mut().take_filled(bytes, 64).expect("enough frames");
        let mut frames = burst.iter().map(filled).collect();
        match direction {
            SaDirection::Outbound => pipeline.outbound(&mut frames),
            SaDirection::Inbound => pipeline.inbound(&mut frames),
        }
    }
    let left = [11 * MS, 12 * MS].map(|now_ns| {
        time.advance_to(now_ns);
        for _ in 0..4 {
            pipeline.pump(Input::Paused);
        }
        is_stalled.store(false, Ordering::Relaxed);
        let Departures { to_outside, to_inside, .. } = &mut pipeline.departures;
        to_outside.drain(..).chain(to_inside.drain(..)).map(|frame| frame.to_vec()).collect()
    });
    assert!(pipeline.stage().engines().counters(ELSEWHERE).late > 0, "nothing was late");
    assert!(pipeline.is_empty() && pipeline.ipsec().tables.drops().total() == 0);
    left
}

#[test]
fn raw_packets_that_are_done_again_have_the_numbers_that_they_had() {
    let mut plain = vec![0x5c; 100];
    convoy_packet::IpHeader::new(253, [10, 1, 0, 1].into(), [10, 2, 0, 1].into()).write(&mut plain);
    let plain: Vec<Vec<Vec<u8>>> = vec![vec![plain; 40]; 3];
    let good = || -> Vec<Box<dyn Engine>> { vec![Box::new(Software::new("good"))] };
    let sealed = trains::through(SaDirection::Outbound, good(), &plain);
    let [left, late] = through_a_stall(SaDirection::Outbound, &plain);
    assert!(left == sealed && late.is_empty(), "the same numbers, IVs and bytes, once");
    let sealed: Vec<Vec<Vec<u8>>> = sealed.chunks(40).map(<[_]>::to_vec).collect();
    let [left, late] = through_a_stall(SaDirection::Inbound, &sealed);
    assert!(left == plain.concat() && late.is_empty());
}
