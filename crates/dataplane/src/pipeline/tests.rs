//! Engines that fail, in every way and at any time, under the real stage.

use std::cell::RefCell;
use std::time::Duration;

use convoy_engine::testing::ScriptedEngine;
use convoy_engine::{
    AlgorithmCost, Binding, Engine, EngineDescription, FaultPlan, Faulty, InPlace as _, InjectedFault,
    Software, Takes,
};
use convoy_ipsec::{
    Aead, CryptoJob, CryptoPacket, CryptoStatus, Direction, DropReason, FinishContext, IpsecConfig, KeyBits,
    KeyMaterial, SaIndex, Transform,
};
use convoy_packet::{FramePool, FrameSize};
use convoy_scheduler::{
    CostModel, DepthUnit, FullQueue, Handover, Heuristic, HeuristicFactory, Input, Pick, Research,
    SchedulerConfig, SchedulingPolicy, View,
};

use super::*;
use crate::clock::VirtualTime;

mod classes;
mod elsewhere;
mod gathering;
mod installing;
mod late;
mod leaving;
mod stalled;
mod trains;
mod verifying;

const TRANSFORM: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B128, icv: 16 });
const SAS: u32 = 3;
const FRAMES: usize = 256;

fn keys(sa: u32) -> KeyMaterial {
    KeyMaterial::new(TRANSFORM, vec![sa as u8; 20]).expect("16 bytes of key, 4 of salt")
}

fn stage(engines: Vec<Box<dyn Engine>>, policy: SchedulingPolicy) -> CryptoStage {
    stage_by(engines, SchedulerConfig { policy, window: 8, ..SchedulerConfig::default() })
}

fn stage_by(engines: Vec<Box<dyn Engine>>, scheduler: SchedulerConfig) -> CryptoStage {
    let config = StageConfig { timeouts: Timeouts::both(0), ..StageConfig::new(scheduler) };
    with_keys(config, engines, |_| CostModel { t_init: 2_000.0, t_block: 20.0 })
}

fn with_keys(
    config: StageConfig,
    engines: Vec<Box<dyn Engine>>,
    cost: impl Fn(&EngineDescription) -> CostModel,
) -> CryptoStage {
    at_times_of(Clock::start(), config, engines, cost)
}

fn at_times_of(
    clock: Clock,
    config: StageConfig,
    engines: Vec<Box<dyn Engine>>,
    cost: impl Fn(&EngineDescription) -> CostModel,
) -> CryptoStage {
    with_sas(clock, config, engines, |engine| cost(engine).into())
}

fn with_costs(
    config: StageConfig,
    engines: Vec<Box<dyn Engine>>,
    cost: impl Fn(&EngineDescription) -> AlgorithmCost,
) -> CryptoStage {
    with_sas(Clock::start(), config, engines, cost)
}

fn with_sas(
    clock: Clock,
    config: StageConfig,
    engines: Vec<Box<dyn Engine>>,
    cost: impl Fn(&EngineDescription) -> AlgorithmCost,
) -> CryptoStage {
    let mut stage = CryptoStage::new(config, EngineSet::new(engines), clock).expect("in range");
    for sa in 0..SAS {
        stage
            .install(SaIndex(sa), Direction::Seal, &keys(sa), &|engine, _| cost(engine))
            .expect("software can do it");
    }
    stage
}

thread_local! {
    /// It has no SAs: the packets of these tests are laid out.
    static IPSEC: RefCell<Ipsec> =
        RefCell::new(Ipsec::new(IpsecConfig { flow_cache: 1, ..IpsecConfig::default() }));
}

/// A stage as a pipeline drives it.
impl CryptoStage {
    /// Takes a burst in.
    fn take_in(&mut self, packets: Vec<CryptoPacket>, pool: &mut FramePool, released: &mut Released) {
        let (mut packets, now_ns) = (packets, self.clock.now_ns());
        IPSEC.with_borrow_mut(|ipsec| {
            let context = &mut StageContext { tables: &mut ipsec.tables, pool, released };
            self.enter(now_ns, Input::Paused, &mut packets, context);
        });
    }

    /// Takes a burst in, and has engines begin with what can go at once.
    fn give(
        &mut self,
        packets: Vec<CryptoPacket>,
        input: Input,
        pool: &mut FramePool,
        released: &mut Released,
    ) {
        let (mut packets, now_ns) = (packets, self.clock.now_ns());
        IPSEC.with_borrow_mut(|ipsec| {
            let context = &mut StageContext { tables: &mut ipsec.tables, pool, released };
            self.enter(now_ns, input, &mut packets, context);
            self.advance(now_ns, input, context);
        });
    }

    fn pump_with(&mut self, input: Input, pool: &mut FramePool, released: &mut Released) -> bool {
        IPSEC.with_borrow_mut(|ipsec| {
            self.pump(input, &mut StageContext { tables: &mut ipsec.tables, pool, released })
        })
    }
}

/// An engine off the core, from which what it is given comes back at the second poll.
fn elsewhere() -> ScriptedEngine {
    ScriptedEngine::elsewhere("elsewhere", 3, |polls| polls == 2)
}

/// Packet `number` of an SA, to be sealed; its nonce and content are its own.
fn packet(pool: &mut FramePool, sa: u32, number: u32) -> CryptoPacket {
    let len = 20 + (number as usize * 37) % 300;
    let mut bytes = vec![number as u8; 8 + len + 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    let mut job = CryptoJob {
        cipher_start: 8,
        cipher_len: len as u16,
        icv_start: (8 + len) as u16,
        aad_len: 8,
        nonce_len: 12,
        ..CryptoJob::default()
    };
    job.nonce[8..12].copy_from_slice(&number.to_be_bytes());
    CryptoPacket {
        frame: pool.take_filled(&bytes, 64).expect("enough frames"),
        job,
        status: CryptoStatus::Pending,
        sa: SaIndex(sa),
        direction: Direction::Seal,
        class: 0,
        context: FinishContext::default(),
    }
}

fn run(stage: &mut CryptoStage, pool: &mut FramePool, count: u32) -> Vec<(u32, Vec<u8>)> {
    let mut released = Released::default();
    let mut next = 0;
    let mut left = Vec::new();
    let mut rounds = 0u64;
    while left.len() < count as usize {
        while next < count && stage.in_line() == 0 {
            let prepared = packet(pool, next % SAS, next);
            stage.take_in(vec![prepared], pool, &mut released);
            next += 1;
        }
        stage.pump_with(if next < count { Input::More } else { Input::Ended }, pool, &mut released);
        for done in released.outbound.drain(..) {
            assert_eq!(done.status, CryptoStatus::Done);
            left.push((done.sa.0, done.frame.to_vec()));
            pool.give_back(done.frame);
        }
        rounds += 1;
        assert!(rounds < 50_000_000, "{} of {count} packets came out", left.len());
    }
    left
}

/// Gives the engines with room their multi-packets in turns.
struct InTurns {
    next: usize,
}

const IN_TURNS: HeuristicFactory =
    HeuristicFactory { name: "in turns", make: || Box::new(InTurns { next: 0 }) };

impl Heuristic for InTurns {
    fn choose(&mut self, view: &View<'_>) -> Option<Pick> {
        let engines = view.engines.len();
        let mut turns = (self.next..self.next + engines).map(|engine| engine % engines);
        let engine = turns.find(|engine| view.offer(0, *engine).is_some_and(|offer| offer.has_room))?;
        self.next = engine + 1;
        Some(Pick { group: 0, engine })
    }
}

fn in_turns() -> SchedulerConfig {
    let research = Research { heuristic: Some(IN_TURNS), ..Research::default() };
    SchedulerConfig { research, window: 8, ..SchedulerConfig::default() }
}

/// Every policy and a heuristic, and with it every rule for full queues.
fn by_seed(seed: u64) -> SchedulerConfig {
    let bit = |bit: u32| (((seed / 3) >> bit) & 1) as usize;
    SchedulerConfig {
        policy: SchedulingPolicy::ALL[bit(0)],
        late_margin: (bit(1) == 1).then_some(2_000),
        window: 8,
        research: Research {
            heuristic: (!seed.is_multiple_of(3)).then_some(IN_TURNS),
            full_queue: FullQueue::ALL[bit(2)],
            depth_unit: DepthUnit::ALL[bit(3)],
            credits: (bit(4) == 1).then_some(2),
            ..Research::default()
        },
        ..SchedulerConfig::default()
    }
}

fn check(left: &[(u32, Vec<u8>)], expected: &[(u32, Vec<u8>)]) {
    assert_eq!(left.len(), expected.len());
    for sa in 0..SAS {
        let of = |packets: &[(u32, Vec<u8>)]| -> Vec<Vec<u8>> {
            packets.iter().filter(|(of, _)| *of == sa).map(|(_, bytes)| bytes.clone()).collect()
        };
        assert!(of(left) == of(expected), "SA {sa}: lost, doubled, changed or out of order");
    }
}

#[test]
fn ten_thousand_runs_with_engines_that_fail_at_random_lose_and_double_nothing() {
    const PACKETS: u32 = 40;
    let mut pool = FramePool::new(FRAMES, 0);
    let good: Vec<Box<dyn Engine>> = vec![Box::new(Software::new("good"))];
    let expected = run(&mut stage(good, SchedulingPolicy::FinishingTime), &mut pool, PACKETS);
    let (mut failures, mut retried) = (0, 0);
    for seed in 0..10_000 {
        let faulty = |name: &str, seed| -> Box<dyn Engine> {
            let plan = FaultPlan { after: 0..=3, ..FaultPlan::random(seed) };
            Box::new(Faulty::new(Box::new(Software::new(name)), plan))
        };
        let engines = vec![faulty("a", seed), faulty("b", !seed), Box::new(Software::new("good")) as _];
        let mut stage = stage_by(engines, by_seed(seed));
        check(&run(&mut stage, &mut pool, PACKETS), &expected);
        for engine in 0..3 {
            failures += stage.engines().counters(engine).failures;
            retried += stage.engines().counters(engine).retried_packets;
        }
        drop(stage);
        assert_eq!(pool.available(FrameSize::Small), FRAMES, "seed {seed}: a frame is missing");
    }
    println!("10000 runs: {failures} failures of engines, {retried} packets done again");
    assert!(failures > 5_000 && retried > 5_000, "{failures} failures, {retried} packets retried");
}

#[test]
fn an_engine_that_vanished_comes_back_with_its_keys() {
    let mut pool = FramePool::new(FRAMES, 0);
    let flaky = Faulty::new(Box::new(Software::new("flaky")), FaultPlan::once(InjectedFault::Vanish, 2));
    let mut stage = stage(vec![Box::new(flaky)], SchedulingPolicy::FinishingTime);
    // It is the only engine: packets wait until it is probed, 100 ms later, and none is lost.
    let left = run(&mut stage, &mut pool, 30);
    assert_eq!(left.len(), 30);
    assert_eq!(stage.engines().counters(0).recoveries, 1);
    let events = stage.take_events();
    assert!(
        matches!(&events[..], [EngineEvent::Quarantined { .. }, EngineEvent::CameBack { .. }]),
        "{events:?}"
    );
}

#[test]
fn engine_that_computes_wrongly_does_not_come_back() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut bursts = 0;
    let flaky = ScriptedEngine::new("flaky").processing(move |software, packets| {
        bursts += 1;
        if bursts == 1 {
            return; // it leaves them undone, and fails
        }
        software.process(packets);
        packets.iter_mut().for_each(|packet| packet.frame[20] ^= 1);
    });
    let engines: Vec<Box<dyn Engine>> = vec![Box::new(flaky), Box::new(Software::new("good"))];
    let config = StageConfig { timeouts: Timeouts::both(0), ..StageConfig::new(SchedulerConfig::default()) };
    let dear = |engine: &EngineDescription| if engine.name == "flaky" { 1.0 } else { 1_000.0 };
    let mut stage =
        with_keys(config, engines, |engine| CostModel { t_init: dear(engine), t_block: dear(engine) });
    assert_eq!(run(&mut stage, &mut pool, 30).len(), 30);
    assert_eq!(stage.engines().counters(0).failures, 1);
    std::thread::sleep(Duration::from_millis(150));
    for _ in 0..5 {
        stage.pump_with(Input::Ended, &mut pool, &mut Released::default());
    }
    let Health::Down { reason, .. } = stage.engines().health(0) else { panic!("it is used again") };
    assert!(reason.contains("known answer of"), "{reason}");
    assert_eq!(stage.engines().counters(0).packets, 0);
}

#[test]
fn an_sa_goes_only_when_its_last_packet_has_left() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut released = Released::default();
    // Packets go by SA, and each comes alone.
    let config = SchedulerConfig { window: 1, ..SchedulerConfig::default() };
    let mut stage = stage_by(vec![Box::new(Software::new("good"))], config);
    let first = packet(&mut pool, 1, 7);
    stage.take_in(vec![first], &mut pool, &mut released);
    stage.retire(SaIndex(1));
    assert!(stage.take_retired().is_empty());
    stage.pump_with(Input::Ended, &mut pool, &mut released);
    assert_eq!((released.outbound.len(), stage.take_retired()), (1, vec![SaIndex(1)]));
    let late = packet(&mut pool, 1, 8);
    stage.take_in(vec![late], &mut pool, &mut released);
    let status = released.outbound.last().map(|packet| packet.status);
    assert_eq!(status, Some(CryptoStatus::Refused(DropReason::UnknownSpi)), "it is not known any more");
    assert!(stage.is_empty());
}

#[test]
fn a_bound_sa_is_sealed_by_its_device_and_others_never() {
    const PACKETS: u32 = 60;
    for policy in SchedulingPolicy::ALL {
        let mut pool = FramePool::new(FRAMES, 0);
        let mut stage =
            stage(vec![Box::new(Software::new("good")), Box::new(ScriptedEngine::device("port"))], policy);
        let binding = Binding { direction: Direction::Seal, spi: 0x1001, is_tunnel: true };
        stage.bind(SaIndex(1), binding, &keys(1), &|_, _| CostModel { t_init: 1.0, t_block: 1.0 }.into());
        assert_eq!([0, 1, 2].map(|sa| stage.bound_to(SaIndex(sa))), [None, Some(1), None]);
        let plain: Vec<Vec<u8>> =
            (0..PACKETS).filter(|n| n % SAS == 1).map(|n| packet(&mut pool, 1, n).frame.to_vec()).collect();
        let left = run(&mut stage, &mut pool, PACKETS);
        let of_bound = left.iter().filter(|(sa, _)| *sa == 1).map(|(_, bytes)| bytes.clone());
        assert_eq!(of_bound.collect::<Vec<_>>(), plain, "{policy}: as they were, in order");
        let taken = [0, 1].map(|engine| stage.engines().counters(engine).packets);
        assert_eq!(taken, [u64::from(PACKETS) * 2 / 3, u64::from(PACKETS) / 3], "{policy}");
    }
}

#[test]
fn what_comes_opened_needs_no_engine_and_keeps_its_place() {
    let mut pool = FramePool::new(FRAMES, 0);
    let mut stage = stage(vec![Box::new(Software::new("good"))], SchedulingPolicy::FinishingTime);
    let mut released = Released::default();
    for number in 0..6 {
        let mut packet = packet(&mut pool, 1, number);
        packet.status = if number % 2 == 0 { CryptoStatus::Pending } else { CryptoStatus::Done };
        stage.take_in(vec![packet], &mut pool, &mut released);
    }
    stage.pump_with(Input::Ended, &mut pool, &mut released);
    let numbers: Vec<u8> = released.outbound.iter().map(|packet| packet.frame[3]).collect();
    assert_eq!((numbers, stage.len()), (vec![0, 1, 2, 3, 4, 5], 0));
    assert_eq!(stage.engines().counters(0).packets, 3);
}

/// Ten frames, of which one multi-packet takes seven, so that three are left for copies of it.
#[test]
fn a_multi_packet_with_more_packets_than_frames_for_their_copies_goes_in_parts() {
    let mut pool = FramePool::new(10, 0);
    let faulty = Faulty::new(Box::new(Software::new("needs copies")), FaultPlan::none());
    let mut stage = stage(vec![Box::new(faulty)], SchedulingPolicy::FinishingTime);
    let mut released = Released::default();
    let packets = (0..7).map(|number| packet(&mut pool, 0, number)).collect();
    stage.take_in(packets, &mut pool, &mut released);
    for _ in 0..100 {
        stage.pump_with(Input::Ended, &mut pool, &mut released);
    }
    let numbers: Vec<u8> = released.outbound.iter().map(|packet| packet.frame[3]).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    assert!(stage.is_empty());
    released.outbound.drain(..).for_each(|packet| pool.give_back(packet.frame));
    assert_eq!(pool.available(FrameSize::Small), 10);
}

/// All frames are those of packets in the window, so that there is none for a copy, and no thread
/// will give one back.
#[test]
fn where_packets_that_wait_have_all_frames_the_first_is_given_up_and_the_others_go_on() {
    let mut pool = FramePool::new(7, 0);
    let faulty = Faulty::new(Box::new(Software::new("needs copies")), FaultPlan::none());
    let time = VirtualTime::new();
    let config = StageConfig { timeouts: Timeouts::both(0), ..StageConfig::new(SchedulerConfig::default()) };
    let mut stage = at_times_of(time.clock(), config, vec![Box::new(faulty)], |_| CostModel {
        t_init: 1.0,
        t_block: 1.0,
    });
    let mut released = Released::default();
    let packets = (0..7).map(|number| packet(&mut pool, 0, number)).collect();
    stage.take_in(packets, &mut pool, &mut released);
    let mut left = Vec::new();
    for ms in 0..100 {
        stage.pump_with(Input::Ended, &mut pool, &mut released);
        for packet in released.outbound.drain(..) {
            left.push((packet.frame[3], packet.status));
            pool.give_back(packet.frame);
        }
        assert!(ms > 5 || left.is_empty(), "frames may come back for some time");
        time.advance_to(ms * 1_000_000);
    }
    let mut expected: Vec<_> = (0..7).map(|number| (number, CryptoStatus::Done)).collect();
    expected[0].1 = CryptoStatus::Refused(DropReason::NoFrame);
    assert_eq!((left, stage.len()), (expected, 0));
    assert_eq!(pool.available(FrameSize::Small), 7);
}
