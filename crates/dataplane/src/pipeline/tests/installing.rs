//! SAs that are installed while engines are at work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::*;
use crate::costs::Costs;

const OTHER: Transform = Transform::Aead(Aead::AesGcm { key: KeyBits::B256, icv: 16 });
const COST: CostModel = CostModel { t_init: 2_000.0, t_block: 20.0 };
/// Packets that are at the engine when the SA comes.
const PACKETS: u32 = 12;

#[test]
fn an_sa_of_another_transform_leaves_a_working_engine_alone() {
    let mut pool = FramePool::new(FRAMES, 0);
    let taken = Arc::new(AtomicUsize::new(0));
    let (given, has_keys) = (Arc::clone(&taken), Arc::new(AtomicBool::new(false)));
    let is_done = Arc::clone(&has_keys);
    // It completes what it has when the keys of the other transform arrive.
    let engine = ScriptedEngine::elsewhere("elsewhere", 64, move |_| is_done.load(Ordering::Relaxed))
        .describe(|description| description.takes = Takes::MultiPackets)
        .on_submit(move |submission| {
            given.fetch_add(submission.packets.len(), Ordering::Relaxed);
        })
        .on_keys(move |keys| {
            let is_other = keys.is_some_and(|keys| keys.transform() == OTHER);
            has_keys.fetch_or(is_other, Ordering::Relaxed);
        });
    let scheduler = SchedulerConfig { window: 8, late_margin: None, ..SchedulerConfig::default() };
    let mut stage = with_keys(StageConfig::new(scheduler), vec![Box::new(engine)], |_| COST);
    let mut released = Released::default();
    for number in 0..PACKETS {
        let packets = vec![packet(&mut pool, number % SAS, number)];
        stage.take_in(packets, &mut pool, &mut released);
        stage.pump_with(Input::Ended, &mut pool, &mut released);
    }
    assert_eq!(
        (released.outbound.len(), taken.load(Ordering::Relaxed)),
        (0, PACKETS as usize),
        "all are at the engine"
    );

    let costs = Costs::without_cache().models();
    let keys = KeyMaterial::new(OTHER, vec![7; 36]).expect("32 bytes of key, 4 of salt");
    stage
        .install(SaIndex(SAS), Direction::Seal, &keys, &|engine, transform| costs.of(engine, transform))
        .expect("software can do it");
    assert_eq!(taken.load(Ordering::Relaxed), PACKETS as usize, "it was measured while it worked");

    stage.pump_with(Input::Ended, &mut pool, &mut released);
    assert_eq!(released.outbound.len(), PACKETS as usize, "all packets leave at the next look");
    assert!(released.outbound.iter().all(|packet| packet.status == CryptoStatus::Done));
    assert_eq!((stage.take_events(), stage.engines().counters(0).failures), (Vec::new(), 0));
}

#[test]
fn a_cost_that_was_measured_takes_the_place_of_the_estimate() {
    let mut pool = FramePool::new(FRAMES, 0);
    let engines: Vec<Box<dyn Engine>> =
        vec![Box::new(Software::new("one")), Box::new(Software::new("other"))];
    let scheduler = SchedulerConfig { window: 8, correct: false, ..SchedulerConfig::default() };
    let by = |engine: &EngineDescription, cheap: &str| CostModel {
        t_init: if engine.name == cheap { 1_000.0 } else { 1e6 },
        t_block: 1.0,
    };
    let mut stage = with_keys(StageConfig::new(scheduler), engines, |engine| by(engine, "one"));
    run(&mut stage, &mut pool, PACKETS);
    let taken = |stage: &CryptoStage| [0, 1].map(|engine| stage.engines().counters(engine).packets);
    assert_eq!(taken(&stage), [u64::from(PACKETS), 0]);
    stage.set_costs(OTHER, &|_| panic!("no SA has had it"));
    stage.set_costs(TRANSFORM, &|engine| Some(by(engine, "other").into()));
    run(&mut stage, &mut pool, PACKETS);
    assert_eq!(taken(&stage), [u64::from(PACKETS); 2]);
}
