use convoy_scheduler::{
    Candidate, CostModel, Done, EngineModel, EngineState, FullQueue, Heuristic, Input, Item, Offer, Pick,
    Research, Scheduler, SchedulerConfig, View,
};

use super::*;

/// A window of multi-packets by their times on each engine, and engines by their waiting time and
/// what they hold; all have room unless they hold ten.
fn choose(heuristic: &mut dyn Heuristic, window: &[[u64; 2]], engines: [(u64, usize); 2]) -> Option<Pick> {
    let groups: Vec<Candidate> =
        window.iter().map(|_| Candidate { packets: 1, blocks: 4, bytes: 64 }).collect();
    let state = |(wait, queued)| EngineState { wait, queued, is_cpu: false };
    let states = engines.map(state);
    let offers: Vec<Option<Offer>> = window
        .iter()
        .flat_map(|times| times.iter().zip(engines))
        .map(|(processing, (_, queued))| Some(Offer { processing: *processing, has_room: queued < 10 }))
        .collect();
    let view = View::new(0, &groups, &states, &offers);
    let pick = heuristic.choose(&view)?;
    heuristic.assigned(&view, pick);
    Some(pick)
}

fn by(name: &str, window: &[[u64; 2]], engines: [(u64, usize); 2]) -> Option<(usize, usize)> {
    let rival = by_name(name).expect("a rival");
    choose(&mut *(rival.make)(), window, engines).map(|pick| (pick.group, pick.engine))
}

#[test]
fn names_are_unique_and_none_is_a_policy_of_the_gateway() {
    let mut names = ALL.map(|rival| rival.name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), ALL.len());
    assert!(names.iter().all(|name| name.parse::<convoy_scheduler::SchedulingPolicy>().is_err()));
}

#[test]
fn immediate_rules_look_at_times_waits_or_both() {
    let (window, engines) = ([[10, 30]], [(100, 3), (50, 1)]);
    assert_eq!(by("met", &window, engines), Some((0, 0)));
    assert_eq!(by("olb", &window, engines), Some((0, 1)));
    assert_eq!(by("kpb", &window, engines), Some((0, 1)));
    // An engine without room is waited for.
    assert_eq!(by("met", &window, [(100, 10), (50, 1)]), Some((0, 0)));
    assert_eq!(by("olb", &window, [(0, 10), (50, 1)]), Some((0, 0)));
}

#[test]
fn batch_rules_differ_in_which_multi_packet_goes_first() {
    // The second finishes first, and the third last.
    let window = [[20, 90], [10, 15], [50, 60]];
    let idle = [(0, 0), (0, 0)];
    assert_eq!(by("min-min", &window, idle), Some((1, 0)));
    assert_eq!(by("max-min", &window, idle), Some((2, 0)));
    // An engine without room is waited for.
    assert_eq!(by("min-min", &window, [(0, 10), (0, 0)]), Some((1, 0)));
}

#[test]
fn queue_rules_count_multi_packets() {
    let window = [[10, 30]];
    assert_eq!(by("jsq", &window, [(0, 2), (500, 1)]), Some((0, 1)));
    assert_eq!(by("jsq-2", &window, [(0, 2), (500, 1)]), Some((0, 1)));
    // 3 times 10 against 2 times 30.
    assert_eq!(by("sed", &window, [(0, 2), (0, 1)]), Some((0, 0)));
    assert_eq!(by("sed", &window, [(0, 6), (0, 1)]), Some((0, 1)));
}

#[test]
fn late_binding_holds_packets_back_until_an_engine_has_a_credit() {
    assert_eq!(by("late-binding", &[[10, 30]], [(20, 2), (60, 2)]), None);
    assert_eq!(by("late-binding", &[[10, 30]], [(20, 2), (60, 1)]), Some((0, 1)));
}

#[test]
fn prequal_prefers_the_engine_whose_measured_latency_is_lower() {
    let mut prequal = latency::Prequal::default();
    let finish = |engine: usize, latency: u64, prequal: &mut latency::Prequal| {
        prequal.completed(&Done { now: latency, engine, dispatched: 0, predicted: 1 });
    };
    // Without measurements the first is tried, then the other.
    for (expected, latency) in [(0, 500), (1, 100)] {
        let pick = choose(&mut prequal, &[[1, 1]], [(0, 0), (0, 0)]).expect("there is room");
        assert_eq!(pick.engine, expected);
        finish(expected, latency, &mut prequal);
    }
    assert_eq!(choose(&mut prequal, &[[1, 1]], [(0, 0), (0, 0)]).map(|pick| pick.engine), Some(1));
    // A hot engine is avoided however low its latency is.
    assert_eq!(choose(&mut prequal, &[[1, 1]], [(0, 1), (0, 9)]).map(|pick| pick.engine), Some(0));
}

#[test]
fn a_split_gives_each_engine_its_fraction() {
    let mut split = split::HillClimbedSplit::default();
    let mut given = [0; 2];
    for _ in 0..1_000 {
        let pick = choose(&mut split, &[[10, 30]], [(0, 0), (0, 0)]).expect("there is room");
        given[pick.engine] += 1;
    }
    assert_eq!(given, [500, 500]);
}

/// The engines that get the multi-packets of a window of six while none completes. Engine 0 takes
/// 100 ticks for each, engine 1 takes 60, and two may wait for each.
fn given(name: &str, full_queue: FullQueue, credits: Option<usize>) -> Vec<usize> {
    let engine = |is_cpu, t_init| EngineModel {
        name: String::new(),
        is_cpu,
        depth: 2,
        costs: vec![Some(CostModel { t_init, t_block: 0.0 })],
    };
    let heuristic = by_name(name);
    let research = Research { heuristic, full_queue, credits, ..Research::default() };
    let config = SchedulerConfig { research, window: 6, ..SchedulerConfig::default() };
    let engines = vec![engine(true, 100.0), engine(false, 60.0)];
    let mut scheduler = Scheduler::new(config, engines).expect("in range");
    for sa in 0..6 {
        let item = Item { sa, algorithm: 0, class: 0, blocks: 1, bytes: 16, payload: () };
        scheduler.push(0, item).expect("the window has room");
    }
    std::iter::from_fn(|| scheduler.dispatch(0, Input::Ended).map(|dispatch| dispatch.engine)).collect()
}

#[test]
fn a_rival_waits_for_a_full_engine_or_takes_one_with_room() {
    assert_eq!(given("met", FullQueue::Wait, None), [1, 1, 1]);
    assert_eq!(given("met", FullQueue::Skip, None), [1, 1, 1, 0, 0, 0]);
    // The next would finish at 240 there, and at 200 elsewhere.
    assert_eq!(given("min-min", FullQueue::Wait, None), [1, 0, 1, 1, 0]);
}

#[test]
fn an_engine_without_credits_has_no_room_for_a_rival() {
    // An engine may exceed its credit while it has less to do than the slowest would have.
    assert_eq!(given("met", FullQueue::Wait, Some(1)), [1, 1]);
    assert_eq!(given("met", FullQueue::Skip, Some(1)), [1, 1, 0]);
}

#[test]
fn baselines_wait_for_the_engines_of_their_kind_whatever_full_queue_says() {
    for full_queue in FullQueue::ALL {
        assert_eq!(given("cpu-only", full_queue, None), [0, 0, 0]);
        assert_eq!(given("packet-size", full_queue, None), [0, 0, 0]);
        assert_eq!(given("first-capable", full_queue, None), [1, 1, 1]);
        assert_eq!(given("round-robin", full_queue, None), [0, 1, 0, 1, 0, 1]);
        // Both are idle: a tie, which the accelerator wins. Then its queue is the shorter one.
        assert_eq!(given("least-loaded", full_queue, None), [1, 0, 1, 0, 1, 0]);
    }
}

/// Engines by whether each is a CPU, its wait, what it holds and its processing time, or none if it
/// cannot take the multi-packet, which has this many bytes.
fn among(name: &str, bytes: u64, engines: &[(bool, u64, usize, Option<u64>)]) -> Option<usize> {
    let states: Vec<EngineState> = engines
        .iter()
        .map(|(is_cpu, wait, queued, _)| EngineState { wait: *wait, queued: *queued, is_cpu: *is_cpu })
        .collect();
    let offer = |(_, _, queued, processing): &(bool, u64, usize, Option<u64>)| {
        processing.map(|processing| Offer { processing, has_room: *queued < 10 })
    };
    let offers: Vec<Option<Offer>> = engines.iter().map(offer).collect();
    let groups = [Candidate { packets: 1, blocks: bytes / 16, bytes }];
    let view = View::new(0, &groups, &states, &offers);
    let rival = by_name(name).expect("a rival");
    (rival.make)().choose(&view).map(|pick| pick.engine)
}

#[test]
fn each_baseline_chooses_by_its_rule() {
    let engines = [(true, 0, 0, Some(2)), (false, 0, 0, Some(501)), (false, 0, 0, Some(3))];
    assert_eq!(among("cpu-only", 16, &engines), Some(0));
    assert_eq!(among("packet-size", 127, &engines), Some(0));
    assert_eq!(among("packet-size", 128, &engines), Some(2));
    assert_eq!(among("first-capable", 16, &engines), Some(1));
    assert_eq!(among("least-loaded", 16, &engines), Some(2));
    // The wait alone counts, and not what a multi-packet costs there.
    let busy = [(false, 3, 1, Some(1)), (false, 0, 0, Some(500))];
    assert_eq!(among("least-loaded", 16, &busy), Some(1));
    // The first capable one is waited for.
    let full = [engines[0], (false, 9, 10, Some(1)), engines[2]];
    assert_eq!((among("first-capable", 16, &full), among("packet-size", 600, &full)), (None, Some(2)));
    let threshold = |threshold| {
        let states = engines.map(|(is_cpu, wait, queued, _)| EngineState { wait, queued, is_cpu });
        let offers = engines.map(|of| of.3.map(|processing| Offer { processing, has_room: true }));
        let groups = [Candidate { packets: 1, blocks: 20, bytes: 320 }];
        packet_size(threshold).choose(&View::new(0, &groups, &states, &offers)).map(|pick| pick.engine)
    };
    assert_eq!([320, 321].map(threshold), [Some(2), Some(0)]);
}

#[test]
fn where_one_kind_is_missing_the_other_takes_its_packets() {
    let no_cpu = [(true, 0, 0, None), (false, 0, 0, Some(2))];
    let no_accelerator = [(true, 0, 0, Some(1)), (false, 0, 0, None)];
    for rival in baselines() {
        assert_eq!(among(rival.name, 16, &no_cpu), Some(1), "{}", rival.name);
        assert_eq!(among(rival.name, 600, &no_accelerator), Some(0), "{}", rival.name);
        assert_eq!(among(rival.name, 16, &[(true, 9, 10, Some(1))]), None, "{}", rival.name);
        assert_eq!(among(rival.name, 16, &[(true, 0, 0, None)]), None, "{}", rival.name);
    }
}

#[test]
fn under_every_rival_nothing_is_lost_or_doubled_and_order_is_kept() {
    for rival in ALL {
        let costs = vec![Some(CostModel { t_init: 100.0, t_block: 1.0 })];
        let engine = |is_cpu| EngineModel { name: String::new(), is_cpu, depth: 2, costs: costs.clone() };
        let research = Research { heuristic: Some(rival), ..Research::default() };
        let config = SchedulerConfig { research, window: 24, ..SchedulerConfig::default() };
        let mut scheduler = Scheduler::new(config, vec![engine(true), engine(false)]).expect("in range");
        let mut left: Vec<(u32, u64)> = Vec::new();
        let mut flying = Vec::new();
        let mut place = 0;
        for now in 0..2_000 {
            while place < 5_000 && scheduler.room() > 0 {
                let sa = (place * place % 7) as u32;
                let item = Item { sa, algorithm: 0, class: 0, blocks: 4, bytes: 64, payload: (sa, place) };
                scheduler.push(now, item).expect("the window has room");
                place += 1;
            }
            let input = if place < 5_000 { Input::More } else { Input::Ended };
            while let Some(dispatch) = scheduler.dispatch(now, input) {
                assert!(dispatch.items.iter().all(|(sa, _)| *sa == dispatch.sa));
                left.extend(&dispatch.items);
                flying.push((dispatch.engine, dispatch.ticket));
            }
            flying.drain(..).for_each(|(engine, ticket)| _ = scheduler.complete(now, engine, ticket, None));
        }
        assert_eq!((left.len(), scheduler.waiting()), (5_000, 0), "{}", rival.name);
        for sa in 0..7 {
            let of_sa = left.iter().filter(|(of, _)| *of == sa).map(|(_, place)| *place);
            assert!(of_sa.is_sorted(), "{}", rival.name);
        }
        left.sort_unstable_by_key(|(_, place)| *place);
        assert!(left.iter().map(|(_, place)| *place).eq(0..5_000), "{}", rival.name);
    }
}
