//! What engines elsewhere get while this core works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use convoy_engine::InPlace;

use super::*;

/// Time that each multi-packet takes on this core, in ns.
const HERE_NS: f64 = 3_000.0;
/// Time that each multi-packet takes elsewhere, in ns.
const ELSEWHERE_NS: f64 = 2_500.0;
const PACKETS: u32 = 48;

#[test]
fn an_engine_that_finished_while_this_core_worked_gets_more_within_the_same_pump() {
    let (time, given) = (VirtualTime::new(), [(); 2].map(|()| Arc::new(AtomicU32::new(0))));
    let (works, [here, elsewhere]) = (time.clone(), given.clone());
    let engines: Vec<Box<dyn Engine>> = vec![
        Box::new(ScriptedEngine::new("here").processing(move |software, packets| {
            here.fetch_add(1, Ordering::Relaxed);
            works.advance_to(works.now_ns() + HERE_NS as u64);
            software.process(packets);
        })),
        Box::new(
            ScriptedEngine::elsewhere("elsewhere", 3, |polls| polls == 1)
                .describe(|description| description.takes = Takes::MultiPackets)
                .on_submit(move |_| _ = elsewhere.fetch_add(1, Ordering::Relaxed)),
        ),
    ];
    let scheduler = SchedulerConfig { window: 8, correct: false, ..SchedulerConfig::default() };
    let mut stage = at_times_of(time.clock(), StageConfig::new(scheduler), engines, |engine| {
        let t_init = if engine.name == "here" { HERE_NS } else { ELSEWHERE_NS };
        CostModel { t_init, t_block: 0.0 }
    });
    let mut pool = FramePool::new(FRAMES, 0);
    let mut released = Released::default();
    let packets = (0..PACKETS).map(|number| packet(&mut pool, number % SAS, number)).collect();
    stage.give(packets, Input::Ended, &mut pool, &mut released);
    let [here, elsewhere] = given.map(|given| given.load(Ordering::Relaxed));
    assert!(here + elsewhere >= 12, "{here} and {elsewhere} multi-packets");
    // It needs a little less time, so that it should have about half of them.
    assert!(here.abs_diff(elsewhere) <= 2, "{here} here and {elsewhere} elsewhere");
}
