//! Compares the scheduler, dispatch for dispatch, with a plain implementation of its rules.

mod plain;

use convoy_scheduler::{
    DepthUnit, FullQueue, Input, Item, Research, Scheduler, SchedulerConfig, SchedulingPolicy,
};
use proptest::prelude::*;

use plain::{Limits, Packet, Plain, models};

/// The scheduler and the plain implementation, run in parallel.
struct Pair {
    real: Scheduler<usize>,
    plain: Plain,
    tickets: Vec<Vec<u64>>,
    now: u64,
    pushed: usize,
    left: Vec<usize>,
}

impl Pair {
    fn new(limits: Limits) -> Self {
        let config = SchedulerConfig {
            policy: limits.policy,
            window: limits.window,
            byte_limit: limits.bytes,
            max_wait: limits.timeout,
            late_margin: limits.late_margin,
            research: Research {
                ageing: limits.ageing,
                window_bytes: limits.window_bytes,
                full_queue: limits.full_queue,
                depth_unit: limits.depth_unit,
                credits: limits.credits,
                class_credits: None,
                heuristic: None,
            },
            ..SchedulerConfig::default()
        };
        let mut real = Scheduler::new(config, models(limits.depth_unit)).expect("in range");
        real.set_worker_overhead(limits.worker_overhead);
        let tickets = vec![Vec::new(); models(limits.depth_unit).len()];
        Self { real, plain: Plain::new(limits), tickets, now: 0, pushed: 0, left: Vec::new() }
    }

    fn push(&mut self, sa: u32, bytes: u32) -> Result<(), TestCaseError> {
        let packet = Packet { place: self.pushed, sa, bytes, arrived: self.now, passed: 0 };
        let (blocks, algorithm) = (packet.blocks(), packet.algorithm());
        let item = Item { sa, algorithm, class: 0, blocks, bytes, payload: packet.place };
        let taken = self.real.push(self.now, item).is_ok();
        prop_assert_eq!(taken, !self.plain.is_full());
        if taken {
            self.plain.window.push(packet);
            self.pushed += 1;
        }
        Ok(())
    }

    /// Calls dispatch on both, and returns whether it yielded something.
    fn dispatch(&mut self, input: Input) -> Result<bool, TestCaseError> {
        let got = self.real.dispatch(self.now, input).map(|dispatch| {
            self.tickets[dispatch.engine].push(dispatch.ticket);
            self.left.extend(&dispatch.items);
            (dispatch.engine, dispatch.predicted_wait, dispatch.predicted_processing, dispatch.items)
        });
        let gave = got.is_some();
        prop_assert_eq!(got, self.plain.dispatch(self.now, input == Input::Ended));
        Ok(gave)
    }

    fn complete(&mut self, engine: usize) {
        if !self.tickets[engine].is_empty() {
            let ticket = self.tickets[engine].remove(0);
            self.real.complete(self.now, engine, ticket, None);
            self.plain.complete(self.now, engine);
        }
    }

    fn set_available(&mut self, engine: usize, is_available: bool) {
        self.real.set_available(engine, is_available);
        self.plain.engines[engine].is_available = is_available;
        if !is_available {
            self.tickets[engine].clear();
            self.plain.engines[engine].costs.clear();
        }
    }

    fn set_before_window(&mut self, packets: usize) {
        self.real.set_before_window(packets);
        self.plain.before_window = packets;
    }

    /// Ends the source, so that everything is dispatched.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        loop {
            for engine in 0..self.tickets.len() {
                while !self.tickets[engine].is_empty() {
                    self.complete(engine);
                }
            }
            if !self.dispatch(Input::Ended)? {
                return Ok(());
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Push(u32, u32),
    Dispatch,
    Complete(usize),
    Advance(u64),
    /// For engine 1 only; the others ensure that every algorithm has an engine.
    SetAvailable(bool),
    BeforeWindow(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Half of the cases use round numbers, so that limits are often met exactly.
    let bytes = prop_oneof![(1u32..16).prop_map(|hundreds| hundreds * 100), 1u32..1600];
    let ticks = prop_oneof![(0u64..6).prop_map(|thousands| thousands * 1000), 0u64..5_000];
    let step = prop_oneof![
        10 => (0u32..6, bytes).prop_map(|(sa, bytes)| Step::Push(sa, bytes)),
        6 => Just(Step::Dispatch),
        4 => (0usize..3).prop_map(Step::Complete),
        3 => ticks.prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::SetAvailable),
        1 => (0usize..12).prop_map(Step::BeforeWindow),
    ];
    proptest::collection::vec(step, 1..300)
}

fn limits() -> impl Strategy<Value = Limits> {
    let bytes = prop_oneof![Just(65_536u32), (1u32..6).prop_map(|thousands| thousands * 1000)];
    let window_bytes = prop_oneof![Just(u64::MAX), (1u64..40).prop_map(|hundreds| hundreds * 100)];
    let timeout = prop_oneof![Just(0u64), (1u64..8).prop_map(|thousands| thousands * 1000)];
    let late_margin = prop_oneof![Just(None), (0u64..4_000).prop_map(Some)];
    let rules = (
        prop::sample::select(FullQueue::ALL.to_vec()),
        prop::sample::select(DepthUnit::ALL.to_vec()),
        late_margin,
        prop_oneof![Just(None), (1usize..5).prop_map(Some)],
        prop_oneof![Just(0u64), (1u64..5).prop_map(|hundreds| hundreds * 100), 1u64..1_000],
        prop::sample::select(vec![SchedulingPolicy::FinishingTime, SchedulingPolicy::Sufferage]),
        prop_oneof![Just(None), (0usize..12).prop_map(Some)],
    );
    (1usize..12, bytes, window_bytes, timeout, rules).prop_map(
        |(
            window,
            bytes,
            window_bytes,
            timeout,
            (full_queue, depth_unit, late_margin, credits, worker_overhead, policy, ageing),
        )| Limits {
            policy,
            ageing,
            window,
            bytes,
            window_bytes,
            timeout,
            full_queue,
            depth_unit,
            late_margin,
            credits,
            worker_overhead,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn dispatch_for_dispatch_as_the_rules_say(limits in limits(), steps in steps()) {
        let mut pair = Pair::new(limits);
        for step in steps {
            match step {
                Step::Push(sa, bytes) => pair.push(sa, bytes)?,
                Step::Dispatch => { pair.dispatch(Input::More)?; }
                Step::Complete(engine) => pair.complete(engine),
                Step::Advance(ticks) => pair.now += ticks,
                Step::SetAvailable(is_available) => pair.set_available(1, is_available),
                Step::BeforeWindow(packets) => pair.set_before_window(packets),
            }
        }
        pair.drain()?;
        prop_assert_eq!(pair.real.waiting(), 0);
        // Nothing was lost or duplicated.
        let mut left = pair.left;
        left.sort_unstable();
        prop_assert_eq!(left, (0..pair.pushed).collect::<Vec<_>>());
    }

    #[test]
    fn a_window_of_one_schedules_each_packet_by_itself_in_order(
        packets in proptest::collection::vec((0u32..6, 1u32..1600), 1..100),
    ) {
        let mut pair = Pair::new(Limits {
            policy: SchedulingPolicy::FinishingTime,
            ageing: None,
            window: 1,
            bytes: 65_536,
            window_bytes: u64::MAX,
            timeout: 0,
            full_queue: FullQueue::Wait,
            depth_unit: DepthUnit::MultiPackets,
            late_margin: None,
            credits: None,
            worker_overhead: 0,
        });
        for (sa, bytes) in packets {
            pair.push(sa, bytes)?;
            while !pair.dispatch(Input::More)? {
                for engine in 0..3 {
                    pair.complete(engine);
                }
                pair.now += 100;
            }
            prop_assert_eq!(pair.real.waiting(), 0);
        }
        prop_assert!(pair.left.into_iter().eq(0..pair.pushed));
    }
}
