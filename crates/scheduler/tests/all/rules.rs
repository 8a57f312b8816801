//! The guarantees of the window.

use convoy_scheduler::{
    ClassDiscipline, Completed, CostModel, DepthUnit, EngineModel, FullQueue, Input, Item, Research,
    Scheduler, SchedulerConfig, SchedulingPolicy,
};
use proptest::prelude::*;

fn engine(is_cpu: bool, depth: usize) -> EngineModel {
    let costs = vec![Some(CostModel { t_init: 100.0, t_block: 1.0 })];
    EngineModel { name: String::new(), is_cpu, depth, costs }
}

pub(crate) fn item<T>(sa: u32, class: u8, payload: T) -> Item<T> {
    Item { sa, algorithm: 0, class, blocks: 4, bytes: 64, payload }
}

pub(crate) fn scheduler<T>(config: SchedulerConfig, depth: usize) -> Scheduler<T> {
    Scheduler::new(config, vec![engine(true, depth), engine(false, depth)]).expect("in range")
}

/// A small seeded generator, so that the figure below is the same on every machine.
fn random(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as u32
}

#[test]
fn a_window_of_30_over_100_equiprobable_sas_gives_1_33_packets_per_multi_packet() {
    let config = SchedulerConfig { window: 30, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 10);
    let (mut state, mut packets, mut multi_packets) = (1, 0u32, 0u32);
    while packets < 500_000 {
        while scheduler.room() > 0 {
            scheduler.push(0, item(random(&mut state) % 100, 0, ())).expect("room");
        }
        let dispatch = scheduler.dispatch(0, Input::More).expect("a full window");
        packets += dispatch.items.len() as u32;
        multi_packets += 1;
        scheduler.complete(0, dispatch.engine, dispatch.ticket, None);
        scheduler.recycle(dispatch.items);
    }
    let mean = f64::from(packets) / f64::from(multi_packets);
    assert!((mean - 1.329).abs() <= 0.005, "{mean}");
}

/// The engine of a multi-packet of two packets out of four in the window. The accelerator is 100
/// ticks slower.
fn engine_with_worker_overhead(
    worker_overhead: u64,
    before_window: usize,
    input: Input,
) -> (usize, u64, u64) {
    let model = |is_cpu, t_init| EngineModel {
        costs: vec![Some(CostModel { t_init, t_block: 1.0 })],
        ..engine(is_cpu, 8)
    };
    let config = SchedulerConfig { window: 4, ..SchedulerConfig::default() };
    let engines = vec![model(true, 100.0), model(false, 200.0)];
    let mut scheduler = Scheduler::new(config, engines).expect("in range");
    scheduler.set_worker_overhead(worker_overhead);
    scheduler.set_before_window(before_window);
    for sa in [1, 1, 2, 3] {
        scheduler.push(0, item(sa, 0, ())).expect("room");
    }
    let dispatch = scheduler.dispatch(0, input).expect("a full window");
    (dispatch.engine, dispatch.predicted_wait, dispatch.predicted_processing)
}

#[test]
fn worker_overhead_is_its_cost_for_each_packet_in_the_window_and_before_it() {
    let engine = engine_with_worker_overhead;
    let (cpu, card) = ((0, 0, 108), (1, 0, 208));
    assert_eq!(engine(0, 1_000, Input::More), cpu);
    assert_eq!(engine(24, 0, Input::More), cpu);
    assert_eq!(engine(25, 0, Input::More), card);
    assert_eq!(engine(9, 7, Input::More), cpu);
    assert_eq!(engine(9, 8, Input::More), card);
    assert_eq!(engine(u64::MAX, usize::MAX - 4, Input::More), card);
    // Only the other two packets have to wait, and at the end of the traffic none has.
    assert_eq!(engine(49, 0, Input::Paused), cpu);
    assert_eq!(engine(50, 0, Input::Paused), card);
    assert_eq!(engine(1_000, 8, Input::Ended), cpu);
}

#[test]
fn worker_overhead_is_at_least_what_it_has_to_do_until_it_can_give_others_more() {
    let model = |is_cpu, t_init| EngineModel {
        costs: vec![Some(CostModel { t_init, t_block: 1.0 })],
        ..engine(is_cpu, 8)
    };
    let chosen = |worker_overhead, ahead, input| {
        let config = SchedulerConfig { window: 4, ..SchedulerConfig::default() };
        let mut scheduler =
            Scheduler::new(config, vec![model(true, 100.0), model(false, 200.0)]).expect("in range");
        scheduler.set_worker_overhead(worker_overhead);
        scheduler.set_overhead_ahead(ahead);
        for sa in [1, 1, 2, 3] {
            scheduler.push(0, item(sa, 0, ())).expect("room");
        }
        scheduler.dispatch(0, input).expect("a full window").engine
    };
    assert_eq!(chosen(1, 99, Input::More), 0);
    assert_eq!(chosen(1, 100, Input::More), 1);
    assert_eq!(chosen(0, 100, Input::More), 0, "nothing is known of its own work");
    assert_eq!(chosen(1, 1_000, Input::Paused), 0, "it soon has nothing else to do");
    assert_eq!(chosen(1, 1_000, Input::Ended), 0);
    assert_eq!(chosen(25, 99, Input::More), 1, "the packets at hand are more");
}

#[test]
fn worker_overhead_does_not_count_for_a_packet_alone() {
    let model = |is_cpu, t_init| EngineModel {
        costs: vec![Some(CostModel { t_init, t_block: 1.0 })],
        ..engine(is_cpu, 8)
    };
    let engines = vec![model(true, 100.0), model(false, 101.0)];
    let mut scheduler = Scheduler::new(SchedulerConfig::default(), engines).expect("in range");
    scheduler.set_worker_overhead(1_000_000);
    scheduler.push(0, item(1, 0, ())).expect("room");
    assert_eq!(scheduler.dispatch(0, Input::Paused).map(|dispatch| dispatch.engine), Some(0));
}

/// The SAs in the order in which policy `sufferage` sends them, of multi-packets of 30, 20 and 100
/// blocks. They take 400, 300 and 1,100 ticks here, and 430, 420 and 500 on the card.
fn by_sufferage(ageing: Option<usize>) -> Vec<u32> {
    let engine = |is_cpu, t_init, t_block| EngineModel {
        name: String::new(),
        is_cpu,
        depth: 8,
        costs: vec![Some(CostModel { t_init, t_block })],
    };
    let research = Research { ageing, ..Research::default() };
    let config = SchedulerConfig {
        policy: SchedulingPolicy::Sufferage,
        research,
        window: 3,
        ..SchedulerConfig::default()
    };
    let engines = vec![engine(true, 100.0, 10.0), engine(false, 400.0, 1.0)];
    let mut scheduler = Scheduler::new(config, engines).expect("in range");
    for (sa, blocks) in [(0, 30), (1, 20), (2, 100)] {
        let item = Item { sa, algorithm: 0, class: 0, blocks, bytes: 16 * blocks, payload: () };
        scheduler.push(0, item).expect("room");
    }
    std::iter::from_fn(|| scheduler.dispatch(0, Input::Ended).map(|dispatch| dispatch.sa)).collect()
}

#[test]
fn under_sufferage_the_multi_packet_goes_first_that_loses_most_without_its_engine() {
    assert_eq!(by_sufferage(None), [2, 1, 0]);
}

#[test]
fn under_sufferage_a_multi_packet_goes_next_when_enough_have_passed_it() {
    assert_eq!(by_sufferage(Some(1)), [2, 0, 1]);
    assert_eq!(by_sufferage(Some(0)), [0, 1, 2]);
}

#[test]
fn a_window_of_one_never_bundles() {
    let config = SchedulerConfig { window: 1, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 100);
    for place in 0..50 {
        scheduler.push(0, item(1, 0, place)).expect("an empty window has room");
        assert!(scheduler.push(0, item(1, 0, place)).is_err());
        let dispatch = scheduler.dispatch(0, Input::More).expect("a full window");
        assert_eq!(dispatch.items, [place]);
    }
}

#[test]
fn idle_engine_does_not_wait_for_packets_that_do_not_come() {
    let mut scheduler = scheduler(SchedulerConfig::default(), 0);
    scheduler.push(0, item(1, 0, 'a')).expect("room");
    assert!(scheduler.dispatch(0, Input::More).is_none());
    assert!(scheduler.dispatch(0, Input::Paused).is_some());
    scheduler.push(0, item(1, 0, 'b')).expect("room");
    assert!(scheduler.dispatch(0, Input::Paused).is_some());
    scheduler.push(0, item(1, 0, 'c')).expect("room");
    // Both engines are busy, so waiting costs nothing and the window can grow.
    assert!(scheduler.dispatch(0, Input::Paused).is_none());
    scheduler.complete(5, 0, 1, None);
    scheduler.complete(5, 1, 0, None);
    assert!(scheduler.dispatch(5, Input::Paused).is_some());
}

#[test]
fn an_engine_that_gathers_is_idle_until_it_has_enough() {
    let mut scheduler = scheduler(SchedulerConfig::default(), 8);
    scheduler.set_gathers(0, 3);
    scheduler.set_available(1, false);
    for sa in 0..4 {
        scheduler.push(0, item(sa, 0, sa)).expect("room");
    }
    let mut dispatched = || std::iter::from_fn(|| scheduler.dispatch(0, Input::Paused)).count();
    assert_eq!((dispatched(), dispatched()), (3, 0));
    scheduler.complete(5, 0, 0, None);
    assert!(scheduler.dispatch(5, Input::Paused).is_some());
}

#[test]
fn packets_are_held_back_no_longer_than_the_wait_limit() {
    let config = SchedulerConfig { max_wait: 1_000, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 4);
    scheduler.push(50, item(1, 0, ())).expect("room");
    assert!(scheduler.dispatch(1_049, Input::Paused).is_none());
    assert_eq!(scheduler.next_deadline(1_049), Some(1_050));
    assert!(scheduler.dispatch(1_050, Input::More).is_some());
    assert_eq!(scheduler.next_deadline(1_050), None);
}

#[test]
fn without_room_the_window_fills_and_pushes_back() {
    let config = SchedulerConfig { window: 4, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 0);
    for sa in 0..6 {
        scheduler.push(0, item(sa, 0, sa)).expect("room");
        if scheduler.room() == 0 {
            scheduler.dispatch(0, Input::More);
        }
    }
    assert_eq!(scheduler.room(), 0);
    assert!(scheduler.dispatch(0, Input::More).is_none());
    assert!(scheduler.push(0, item(9, 0, 9)).is_err());
}

#[test]
fn an_engine_that_is_out_is_never_chosen_and_its_completions_are_unknown() {
    for policy in SchedulingPolicy::ALL {
        let config = SchedulerConfig { policy, ..SchedulerConfig::default() };
        let mut scheduler = scheduler(config, 100);
        scheduler.push(0, item(1, 0, ())).expect("room");
        let first = scheduler.dispatch(0, Input::Ended).expect("both are free");
        scheduler.set_available(1, false);
        if first.engine == 1 {
            assert_eq!(scheduler.complete(9, 1, first.ticket, None), Completed::Unknown);
        }
        for _ in 0..20 {
            scheduler.push(0, item(1, 0, ())).expect("room");
            let dispatch = scheduler.dispatch(0, Input::Ended).expect("engine 0 has room");
            assert_eq!(dispatch.engine, 0, "{policy}");
        }
    }
}

#[test]
fn a_window_in_bytes_is_full_before_it_is_full_in_packets() {
    let config = SchedulerConfig { byte_limit: 192, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 4);
    for sa in [1, 2] {
        scheduler.push(0, item(sa, 0, sa)).expect("room");
        assert!(scheduler.dispatch(0, Input::More).is_none());
    }
    scheduler.push(0, item(1, 0, 3)).expect("room");
    assert_eq!(scheduler.dispatch(0, Input::More).map(|dispatch| dispatch.items), Some(vec![1, 3]));
}

#[test]
fn a_window_that_is_full_in_bytes_takes_no_packet_and_yields_whole_multi_packets() {
    let research = Research { window_bytes: 192, ..Research::default() };
    let config = SchedulerConfig { research, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 4);
    for place in [1, 2] {
        scheduler.push(0, item(1, 0, place)).expect("room");
        assert!(scheduler.dispatch(0, Input::More).is_none());
    }
    scheduler.push(0, item(1, 0, 3)).expect("room");
    assert!(scheduler.push(0, item(1, 0, 4)).is_err());
    assert_eq!(scheduler.room(), 0);
    assert_eq!(scheduler.dispatch(0, Input::More).map(|dispatch| dispatch.items), Some(vec![1, 2, 3]));
    assert_eq!(scheduler.room(), SchedulerConfig::default().window);
}

#[test]
fn an_adaptive_window_starts_within_its_bounds() {
    for (window, adaptive, expected) in [(64, (2, 32), 32), (1, (8, 32), 8), (16, (2, 32), 16)] {
        let config = SchedulerConfig { window, adaptive: Some(adaptive), ..SchedulerConfig::default() };
        let mut scheduler = scheduler(config, 4);
        while scheduler.push(0, item(1, 0, ())).is_ok() {}
        assert_eq!(scheduler.waiting(), expected);
    }
}

/// The window after 10,000 packets of 10 SAs, one every `gap` ticks, where each engine takes 104
/// ticks for one packet.
fn adapted(gap: u64) -> usize {
    let config = SchedulerConfig { window: 8, adaptive: Some((1, 64)), ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 4);
    let mut working: Vec<(u64, usize, u64)> = Vec::new();
    let (mut now, mut state) = (0, 7);
    for _ in 0..10_000 {
        now += gap;
        while scheduler.push(now, item(random(&mut state) % 10, 0, ())).is_err() {
            now += 1;
            working.retain(|(done, engine, ticket)| {
                let is_done = *done <= now;
                if is_done {
                    scheduler.complete(now, *engine, *ticket, None);
                }
                !is_done
            });
            while let Some(dispatch) = scheduler.dispatch(now, Input::More) {
                let done = now + dispatch.predicted_wait + dispatch.predicted_processing;
                working.push((done, dispatch.engine, dispatch.ticket));
                scheduler.recycle(dispatch.items);
            }
        }
    }
    scheduler.snapshot().window
}

#[test]
fn under_load_an_adaptive_window_bundles_all_it_may_and_else_it_delays_nothing() {
    assert_eq!(adapted(1), 64);
    assert_eq!(adapted(2_000), 1);
}

#[test]
fn a_snapshot_says_who_did_what_and_how_well_it_was_predicted() {
    let config = SchedulerConfig { window: 2, ..SchedulerConfig::default() };
    let mut scheduler = scheduler(config, 4);
    for _ in 0..2 {
        scheduler.push(10, item(1, 0, ())).expect("room");
    }
    // The prediction is 100 + 8 ticks, but it takes 150.
    let dispatch = scheduler.dispatch(20, Input::More).expect("a full window");
    assert_eq!(scheduler.snapshot().engines[dispatch.engine].queued, 1);
    assert_eq!(
        scheduler.complete(170, dispatch.engine, dispatch.ticket, Some(150)),
        Completed::Known { dispatched: 20 }
    );
    assert_eq!(scheduler.complete(170, dispatch.engine, dispatch.ticket, Some(150)), Completed::Unknown);
    assert_eq!(scheduler.complete(170, 99, 0, None), Completed::Unknown);
    let snapshot = scheduler.snapshot();
    let engine = &snapshot.engines[1];
    assert_eq!((engine.queued, engine.packets, engine.multi_packets, engine.bytes), (0, 2, 1, 128));
    assert_eq!((engine.share, snapshot.engines[0].share), (1.0, 0.0));
    assert_eq!((engine.predicted_ticks, engine.measured_ticks), (108.0, 150.0));
    assert_eq!((engine.error_ticks, engine.bias_ticks), (42.0, 42.0));
    assert!(engine.corrections[0].is_some_and(|ratio| ratio > 1.0));
    assert_eq!((snapshot.wait.count(), snapshot.wait.sum()), (2, 20));
}

proptest! {
    #[test]
    fn under_every_policy_nothing_is_lost_or_doubled_and_order_is_kept(
        policy in prop::sample::select(SchedulingPolicy::ALL.to_vec()),
        full_queue in prop::sample::select(FullQueue::ALL.to_vec()),
        depth_unit in prop::sample::select(DepthUnit::ALL.to_vec()),
        class_credits in prop::option::of(1usize..4),
        credits in prop::sample::select(vec![None, Some(1), Some(4)]),
        window in 1usize..200,
        classes in 1usize..4,
        discipline in prop::sample::select(vec![
            ClassDiscipline::Strict,
            ClassDiscipline::Weighted([5, 2, 1, 1, 1, 1, 1, 1]),
        ]),
        adaptive: bool,
        measure: bool,
        arrivals in proptest::collection::vec((0u32..6, 0u8..3), 1..300),
    ) {
        let adaptive = adaptive.then_some((1, 64));
        let config = SchedulerConfig {
            policy, window, classes, discipline, adaptive, measure,
            research: Research { full_queue, depth_unit, credits, class_credits, ..Research::default() },
            ..SchedulerConfig::default()
        };
        let mut scheduler = scheduler(config, 2);
        let mut left: Vec<(u32, usize)> = Vec::new();
        let mut flying: Vec<(usize, u64)> = Vec::new();
        let mut arrivals = arrivals.into_iter().enumerate().peekable();
        let mut idle = 0;
        // A refused packet is always followed by a dispatch, so nothing gets stuck.
        while idle < 2 {
            idle += 1;
            while let Some((place, (sa, class))) = arrivals.peek().copied() {
                // The class of an SA does not change here, so the order within the SA is the only
                // order to keep.
                let class = if sa % 2 == 0 { 0 } else { class / 3 + 1 };
                if scheduler.push(0, item(sa, class, (sa, place))).is_err() { break; }
                arrivals.next();
                idle = 0;
            }
            let input = if arrivals.peek().is_some() { Input::More } else { Input::Ended };
            while let Some(dispatch) = scheduler.dispatch(0, input) {
                prop_assert!(dispatch.items.iter().all(|(sa, _)| *sa == dispatch.sa));
                left.extend(&dispatch.items);
                flying.push((dispatch.engine, dispatch.ticket));
                idle = 0;
            }
            for (engine, ticket) in flying.drain(..) {
                let known = scheduler.complete(1, engine, ticket, None);
                prop_assert_eq!(known, Completed::Known { dispatched: 0 });
            }
        }
        prop_assert_eq!(scheduler.waiting(), 0);
        prop_assert!(arrivals.peek().is_none());
        for sa in 0..6 {
            let of_sa: Vec<usize> = left.iter().filter(|(of, _)| *of == sa).map(|(_, place)| *place).collect();
            prop_assert!(of_sa.is_sorted());
        }
        let mut places: Vec<usize> = left.into_iter().map(|(_, place)| place).collect();
        let count = places.len();
        places.sort_unstable();
        prop_assert_eq!(places, (0..count).collect::<Vec<_>>());
    }
}
