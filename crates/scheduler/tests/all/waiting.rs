//! The cost of waiting for a full queue: engines that hang, or are slower or faster than their cost
//! models, delay the window by at most the margin, and starve no SA.

use std::collections::VecDeque;

use convoy_scheduler::{
    CostModel, EngineModel, FullQueue, Input, Item, Research, Scheduler, SchedulerConfig, SchedulingPolicy,
};
use proptest::prelude::*;

/// Ticks between two checks of the engines.
const STEP: u64 = 50;
const PACKETS: u32 = 100;

#[derive(Clone, Debug)]
struct Engine {
    model: EngineModel,
    /// Ratio of true time to predicted time; `None` hangs.
    truth: Option<f64>,
}

/// A multi-packet in flight, with its predicted time.
struct Flying {
    ticket: u64,
    predicted: u64,
    packets: u32,
}

struct Run {
    scheduler: Scheduler<u32>,
    engines: Vec<Engine>,
    flying: Vec<VecDeque<Flying>>,
    /// True completion times, the one in service first.
    ends: Vec<u64>,
    now: u64,
    pushed: u32,
    done: u32,
    longest: u64,
}

impl Run {
    fn new(config: SchedulerConfig, engines: Vec<Engine>) -> Self {
        let models = engines.iter().map(|engine| engine.model.clone()).collect();
        let scheduler = Scheduler::new(config, models).expect("in range");
        let flying = engines.iter().map(|_| VecDeque::new()).collect();
        let ends = vec![u64::MAX; engines.len()];
        Self { scheduler, engines, flying, ends, now: 0, pushed: 0, done: 0, longest: 0 }
    }

    fn begin(&mut self, engine: usize) {
        let truth = self.engines[engine].truth;
        let time =
            self.flying[engine].front().zip(truth).map(|(first, truth)| first.predicted as f64 * truth);
        self.ends[engine] = time.map_or(u64::MAX, |time| self.now + time as u64);
    }

    fn complete(&mut self) {
        for engine in 0..self.engines.len() {
            while self.ends[engine] <= self.now {
                let done = self.flying[engine].pop_front().expect("in service");
                self.scheduler.complete(self.now, engine, done.ticket, None);
                self.done += done.packets;
                self.begin(engine);
            }
        }
    }

    fn fill(&mut self) {
        while self.pushed < PACKETS && self.scheduler.room() > 0 {
            let sa = self.pushed.wrapping_mul(2_654_435_761) >> 29;
            let blocks = 1 + self.pushed % 90;
            let item = Item { sa, algorithm: 0, class: 0, blocks, bytes: blocks * 16, payload: self.pushed };
            self.scheduler.push(self.now, item).expect("room");
            self.pushed += 1;
        }
    }

    /// Dispatches once, and returns whether there was anything to dispatch.
    fn dispatch(&mut self) -> bool {
        let mut any = false;
        let input = if self.pushed < PACKETS { Input::More } else { Input::Ended };
        while let Some(dispatch) = self.scheduler.dispatch(self.now, input) {
            let (engine, predicted) = (dispatch.engine, dispatch.predicted_processing);
            self.longest = self.longest.max(predicted);
            let packets = dispatch.items.len() as u32;
            self.flying[engine].push_back(Flying { ticket: dispatch.ticket, predicted, packets });
            if self.flying[engine].len() == 1 {
                self.begin(engine);
            }
            self.fill();
            any = true;
        }
        any
    }

    /// One step. Returns whether nothing left the window although packets wait there and an engine
    /// is idle.
    fn step(&mut self) -> bool {
        self.now += STEP;
        self.complete();
        self.fill();
        !self.dispatch() && self.scheduler.waiting() > 0 && self.flying.iter().any(VecDeque::is_empty)
    }
}

fn engines() -> impl Strategy<Value = Vec<Engine>> {
    let truth = prop_oneof![3 => Just(Some(1.0)), 2 => (0.2f64..12.0).prop_map(Some), 1 => Just(None)];
    let engine = (any::<bool>(), 0usize..5, 0.0f64..3_000.0, 1.0f64..80.0, truth);
    let engine = engine.prop_map(|(is_cpu, depth, t_init, t_block, truth)| Engine {
        model: EngineModel {
            name: String::new(),
            is_cpu,
            depth,
            costs: vec![Some(CostModel { t_init, t_block })],
        },
        truth,
    });
    proptest::collection::vec(engine, 2..5).prop_map(|mut engines| {
        // At least one engine works.
        engines[0].truth = engines[0].truth.or(Some(1.0));
        engines
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn the_window_stands_still_beside_an_idle_engine_no_longer_than_the_longest_prediction_and_the_margin(
        engines in engines(),
        window in 1usize..20,
        margin in 0u64..5_000,
        policy in prop::sample::select(vec![SchedulingPolicy::FinishingTime, SchedulingPolicy::Sufferage]),
    ) {
        let config = SchedulerConfig {
            window, policy, late_margin: Some(margin), correct: false, ..SchedulerConfig::default()
        };
        let mut run = Run::new(config, engines);
        let mut still_since = None;
        for _ in 0..400_000 {
            if !run.step() {
                still_since = None;
            }
            else {
                let since = *still_since.get_or_insert(run.now);
                let bound = run.longest + margin + STEP;
                prop_assert!(run.now - since <= bound, "still since {since} at {}: {bound}", run.now);
            }
            let hung: u32 = run.engines.iter().zip(&run.flying)
                .filter(|(engine, _)| engine.truth.is_none())
                .map(|(_, flying)| flying.iter().map(|of| of.packets).sum::<u32>())
                .sum();
            if run.done + hung == PACKETS {
                return Ok(());
            }
        }
        prop_assert!(false, "{} of {PACKETS} packets done, {} wait", run.done, run.scheduler.waiting());
    }
}

fn by(full_queue: FullQueue) -> Research {
    Research { full_queue, ..Research::default() }
}

/// The paper's rule has no margin, so a hanging engine stops everything.
#[test]
fn without_a_margin_an_engine_that_hangs_holds_the_window_up() {
    let engine = |t_init, truth| Engine {
        model: EngineModel {
            name: String::new(),
            is_cpu: false,
            depth: 0,
            costs: vec![Some(CostModel { t_init, t_block: 1.0 })],
        },
        truth,
    };
    let run = |full_queue, late_margin| {
        let config = SchedulerConfig {
            research: by(full_queue),
            late_margin,
            window: 4,
            ..SchedulerConfig::default()
        };
        let mut run = Run::new(config, vec![engine(5_000.0, Some(1.0)), engine(10.0, None)]);
        (0..200_000).for_each(|_| _ = run.step());
        PACKETS - run.done - run.flying[1].iter().map(|of| of.packets).sum::<u32>()
    };
    assert!(run(FullQueue::Wait, None) > PACKETS / 2);
    assert_eq!(run(FullQueue::Wait, Some(1_000)), 0);
    assert_eq!(run(FullQueue::Skip, None), 0);
}

/// A caller that sleeps until [`Scheduler::next_deadline`] misses nothing.
#[test]
fn the_next_deadline_is_when_a_waited_for_engine_turns_late() {
    let engine = |is_cpu, t_init| EngineModel {
        name: String::new(),
        is_cpu,
        depth: 0,
        costs: vec![Some(CostModel { t_init, t_block: 0.0 })],
    };
    let run = |full_queue, late_margin| {
        let config = SchedulerConfig {
            research: by(full_queue),
            late_margin,
            window: 1,
            ..SchedulerConfig::default()
        };
        let engines = vec![engine(true, 5_000.0), engine(false, 10.0)];
        let mut scheduler = Scheduler::new(config, engines).expect("in range");
        let item = Item { sa: 0, algorithm: 0, class: 0, blocks: 1, bytes: 16, payload: () };
        scheduler.push(100, item).expect("room");
        assert_eq!(scheduler.dispatch(100, Input::More).map(|dispatch| dispatch.engine), Some(1));
        assert_eq!(scheduler.next_deadline(100), None, "nothing waits");
        scheduler.push(100, item).expect("room");
        let next = scheduler.next_deadline(100);
        if let Some(next) = next {
            assert!(scheduler.dispatch(next - 1, Input::More).is_none());
            assert_eq!(scheduler.dispatch(next, Input::More).map(|dispatch| dispatch.engine), Some(0));
            assert_eq!(scheduler.next_deadline(next), None, "nothing waits any more");
        }
        next
    };
    // It should have completed at 110.
    assert_eq!(run(FullQueue::Wait, Some(200)), Some(311));
    assert_eq!(run(FullQueue::Wait, None), None);
    assert_eq!(run(FullQueue::Skip, Some(200)), None);
}
