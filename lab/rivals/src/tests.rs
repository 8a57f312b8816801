use convoy_scheduler::{Candidate, Done, EngineState, Heuristic, Offer, Pick, View};

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
    heuristic.choose(&View::new(0, &groups, &states, &offers))
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
    assert!(names.iter().all(|name| name.parse::<convoy_scheduler::Policy>().is_err()));
}

#[test]
fn immediate_rules_look_at_times_waits_or_both() {
    let (window, engines) = ([[10, 30]], [(100, 3), (50, 1)]);
    assert_eq!(by("met", &window, engines), Some((0, 0)));
    assert_eq!(by("olb", &window, engines), Some((0, 1)));
    assert_eq!(by("kpb", &window, engines), Some((0, 1)));
    // MET waits for its engine; OLB takes any with room.
    assert_eq!(by("met", &window, [(100, 10), (50, 1)]), None);
    assert_eq!(by("olb", &window, [(0, 10), (50, 1)]), Some((0, 1)));
}

#[test]
fn batch_rules_differ_in_which_multi_packet_goes_first() {
    // The second finishes first, the third last, and the first loses most by the other engine.
    let window = [[20, 90], [10, 15], [50, 60]];
    let idle = [(0, 0), (0, 0)];
    assert_eq!(by("min-min", &window, idle), Some((1, 0)));
    assert_eq!(by("max-min", &window, idle), Some((2, 0)));
    assert_eq!(by("sufferage", &window, idle), Some((0, 0)));
    // An engine without room does not count.
    assert_eq!(by("min-min", &window, [(0, 10), (0, 0)]), Some((1, 1)));
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
