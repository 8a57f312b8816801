//! Loss: the offered load is carried or dropped, and the loss ratio is that of queueing theory.

use convoy_sim::{
    Arrivals, NdrSearch, Pattern, Platform, ProcessorKind, Report, Setting, Simulation, SourceSpec,
    StageSpec, Synthetic, SyntheticSpec,
};
use proptest::prelude::*;

use crate::support::{easy, log, packets, paper, processor};

/// Service time of one server: 10 blocks of 1 us.
const SERVICE_US: f64 = 10.0;

/// M/D/1/K: a server without a queue, a window of one packet, and an ingress queue; `K` packets in
/// total.
fn one_server(k: usize) -> Platform {
    let mut cpu = processor("cpu", ProcessorKind::Cpu, None);
    cpu.depth = 0;
    let mut platform = easy(vec![cpu], 1);
    platform.source =
        SourceSpec { rate_mbps: 1e9, header_bytes: 0, queue_packets: Some(k - 2), ..SourceSpec::default() };
    platform.reference.t_init_us = 0.0;
    platform
}

/// The loss ratio of a queue M/D/1/K at a given load: Brun and Garcia, "Analytical solution of
/// finite capacity M/D/1 queues", J. Appl. Prob. 37 (2000).
fn loss_of_md1k(load: f64, k: usize) -> f64 {
    let b = |n: usize| -> f64 {
        (0..=n)
            .map(|at| {
                let rest = (n - at) as f64;
                let factorial: f64 = (1..=at).map(|it| it as f64).product();
                (-1f64).powi(at as i32) / factorial * (rest * load).powi(at as i32) * (rest * load).exp()
            })
            .sum()
    };
    let last = b(k - 1);
    (1.0 + (load - 1.0) * last) / (1.0 + load * last)
}

fn at_load(k: usize, load: f64, seed: u64) -> Report {
    let mut simulation = Simulation::new(one_server(k));
    simulation.seed = seed;
    simulation.arrivals = Arrivals::Poisson(load / (SERVICE_US * 1e-6));
    simulation.run_pattern(Pattern::Fixed(160), &SyntheticSpec::default(), 200_000).expect("in range")
}

#[test]
fn a_finite_queue_loses_what_md1k_says() {
    // For K = 1 the result is Erlang's formula.
    assert!((loss_of_md1k(0.5, 1) - 1.0 / 3.0).abs() < 1e-12);
    for (k, load) in [(2, 0.5), (2, 1.0), (5, 0.8), (5, 1.2), (10, 1.0), (10, 1.5)] {
        let (report, expected) = (at_load(k, load, 1), loss_of_md1k(load, k));
        let lost = report.dropped.packets as f64 / report.offered.packets as f64;
        assert!((lost / expected - 1.0).abs() < 0.04, "K {k}, load {load}: {lost} {expected}");
        assert!((report.success_ratio - (1.0 - lost)).abs() < 1e-12);
        // The busy time of the server equals the service time of the carried packets.
        let busy = load * (1.0 - expected);
        assert!((report.processors[0].utilisation / busy - 1.0).abs() < 0.01, "K {k}, load {load}");
    }
}

/// The load at which M/D/1/K has this loss ratio, by bisection.
fn load_that_loses(ratio: f64, k: usize) -> f64 {
    let (mut low, mut high) = (0.0, 10.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if loss_of_md1k(middle, k) > ratio { high = middle } else { low = middle }
    }
    low
}

#[test]
fn the_search_finds_the_rate_at_which_md1k_loses_so_much() {
    for (k, loss_ratio) in [(4, 0.01), (8, 0.01), (8, 0.1)] {
        let search = NdrSearch { loss_ratio, is_poisson: true, ..NdrSearch::default() };
        let setting = Setting { pattern: Some("160".into()), packets: Some(100_000), ..Setting::default() };
        let found = search.run(&one_server(k), &setting).expect("in range");
        let load = found.throughput.pps * SERVICE_US * 1e-6;
        let expected = load_that_loses(loss_ratio, k);
        assert!((load / expected - 1.0).abs() < 0.02, "K {k}, {loss_ratio}: {load} {expected}");
    }
}

#[test]
fn a_search_is_a_function_of_its_seed() {
    let search = NdrSearch { loss_ratio: 0.05, is_poisson: true, ..NdrSearch::default() };
    let found = |seed| {
        let setting = Setting { pattern: Some("160".into()), packets: Some(5_000), ..Setting::default() };
        search.run(&one_server(4), &Setting { seed: Some(seed), ..setting }).expect("in range")
    };
    assert_eq!(found(3), found(3));
    assert_ne!(found(3), found(4));
}

#[test]
fn evenly_spaced_packets_pass_without_loss_up_to_the_servers_rate_and_no_further() {
    let setting = Setting { pattern: Some("160".into()), packets: Some(100_000), ..Setting::default() };
    let found = NdrSearch::default().run(&one_server(5), &setting).expect("in range");
    assert!((found.throughput.pps * SERVICE_US * 1e-6 - 1.0).abs() < 0.0015, "{}", found.throughput.pps);
    assert_eq!(found.report.dropped.packets, 0);
    assert!(found.trials.iter().all(|trial| trial.is_good == (trial.dropped_packets == 0)));
    // A line slower than the server is the bottleneck, which the first trial finds.
    let setting = Setting { rate_mbps: Some(100.0), ..setting };
    let found = NdrSearch::default().run(&one_server(5), &setting).expect("in range");
    assert_eq!((found.trials.len(), found.throughput), (1, found.line));
    assert!((found.line.mbps - 100.0).abs() < 1e-6);
}

#[test]
fn a_platform_that_loses_nothing_cannot_be_searched() {
    let error = NdrSearch::default().run(&paper(), &Setting::default()).expect_err("its source waits");
    assert!(error.to_string().contains("queue_packets"), "{error}");
    for search in [
        NdrSearch { loss_ratio: 1.0, ..NdrSearch::default() },
        NdrSearch { resolution: 0.0, ..NdrSearch::default() },
    ] {
        assert!(search.run(&one_server(3), &Setting::default()).is_err());
    }
}

#[test]
fn what_finds_the_queue_full_is_dropped_and_the_sources_clock_goes_on() {
    // 11 us each from 1 us on; one packet arrives each microsecond. One is in service, one in the
    // window, and one in the ingress queue.
    let mut slow = processor("cpu", ProcessorKind::Cpu, None);
    (slow.enc_ratio, slow.depth) = (10.0, 0);
    let mut platform = easy(vec![slow], 1);
    platform.source.queue_packets = Some(1);
    let of: Vec<(u32, u32)> = (0..14).map(|sa| (sa, 1)).collect();
    let (report, lines) = log(&Simulation::new(platform), packets(&of));
    // 1 is served until 12, 2 is in the window, 3 waits; 4 to 11 are lost. At 12 the second enters
    // service and the third the window. The packet that arrives at 12 comes after these events, and
    // waits; 13 and 14 are lost.
    assert_eq!(
        lines.iter().map(|line| (line.4[0], line.3)).collect::<Vec<_>>(),
        [(1, 12), (2, 23), (3, 34), (12, 45)]
    );
    assert_eq!((report.offered.packets, report.carried.packets, report.dropped.packets), (14, 4, 10));
    assert_eq!(report.source_waited_ms, 0.0);
    assert!((report.offered.pps - 1e6).abs() < 1e-6 && (report.offered.mbps - 8.0).abs() < 1e-9);
}

#[test]
fn a_queue_in_bytes_holds_as_many_packets_as_fit() {
    let with = |queue_bytes| {
        let mut platform = one_server(2);
        platform.source.queue_packets = None;
        platform.source.queue_bytes = Some(queue_bytes);
        let mut simulation = Simulation::new(platform);
        simulation.arrivals = Arrivals::Poisson(1e5);
        simulation.run_pattern(Pattern::Fixed(160), &SyntheticSpec::default(), 50_000).expect("in range")
    };
    // Three packets of 160 bytes fit, so the result is that of a queue of three packets.
    assert_eq!(with(480).dropped, with(639).dropped);
    assert!(with(479).dropped.packets > with(480).dropped.packets);
    let mut simulation = Simulation::new(one_server(5));
    simulation.arrivals = Arrivals::Poisson(1e5);
    let in_packets = simulation.run_pattern(Pattern::Fixed(160), &SyntheticSpec::default(), 50_000);
    assert_eq!(in_packets.expect("in range").dropped, with(480).dropped);
}

#[test]
fn a_run_with_loss_is_a_function_of_its_seed() {
    assert_eq!(at_load(5, 1.2, 7), at_load(5, 1.2, 7));
    assert_ne!(at_load(5, 1.2, 7), at_load(5, 1.2, 8));
}

#[test]
fn cores_share_their_stages_and_a_stage_may_concern_large_packets_alone() {
    let on_cores = |name: &str, packet_us| StageSpec {
        name: name.to_owned(),
        on: Some("host".to_owned()),
        packet_us,
        ..StageSpec::default()
    };
    let mut cpu = processor("cpu", ProcessorKind::Cpu, None);
    (cpu.init_ratio, cpu.enc_ratio) = (0.0, 0.0);
    let mut platform = easy(vec![cpu], 1);
    platform.cores = vec![convoy_sim::CoresSpec { name: "host".to_owned(), count: 2 }];
    let cut = StageSpec { above_bytes: 1, ..on_cores("cut", 10.0) };
    platform.stages = vec![on_cores("read", 4.0), cut];
    // Arrivals at 1, 3, 4. Received until 5, 7, 9 (at 4 both cores are busy). The second is
    // fragmented from 7 to 17.
    let (report, lines) = log(&Simulation::new(platform), packets(&[(0, 1), (1, 2), (2, 1)]));
    assert_eq!(lines.iter().map(|line| (line.1, line.3)).collect::<Vec<_>>(), [(0, 5), (2, 9), (1, 17)]);
    let [read, cut] = &report.stages[..] else { panic!("two stages") };
    assert_eq!((read.packets, cut.packets), (3, 1));
    assert!((read.service_us - 4.0).abs() < 1e-9 && (read.sojourn_us - 13.0 / 3.0).abs() < 1e-9);
    assert!((report.cores[0].utilisation - 22.0 / 34.0).abs() < 1e-9);
}

/// The offered load equals carried plus dropped load, in packets and in bytes, and no resource is
/// busy for more than the whole time.
fn conserves(simulation: &Simulation, spec: &SyntheticSpec, packets: u64) -> Result<(), TestCaseError> {
    let traffic = Synthetic::new(Pattern::Trace, spec, simulation.seed, packets).expect("in range");
    let report = simulation.run(traffic).expect("in range");
    let (offered, carried, dropped) = (report.offered, report.carried, report.dropped);
    prop_assert_eq!(offered.packets, packets);
    prop_assert_eq!(offered.packets, carried.packets + dropped.packets);
    prop_assert_eq!(offered.payload_bytes, carried.payload_bytes + dropped.payload_bytes);
    prop_assert_eq!((report.packets, report.packets_out), (carried.packets, carried.packets));
    prop_assert_eq!(report.source_waited_ms, 0.0);
    let busy =
        report.processors.iter().map(|of| of.utilisation).chain(report.buses.iter().map(|of| of.utilisation));
    let busy = busy
        .chain(report.stages.iter().map(|of| of.utilisation))
        .chain(report.cores.iter().map(|of| of.utilisation));
    prop_assert!(busy.clone().all(|part| part <= 1.0 + 1e-12), "{:?}", busy.collect::<Vec<_>>());
    prop_assert!(report.stages.iter().all(|of| of.sojourn_us >= of.service_us - 1e-9));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn what_is_offered_is_carried_or_dropped(
        (window, accelerators, depth) in (1usize..40, 0usize..4, 0usize..12),
        (queue_packets, queue_bytes) in (prop::option::of(0usize..40), prop::option::of(1u64..20_000)),
        (timeout, work_conserving, classes) in (prop_oneof![Just(0.0), 0.1f64..50.0], any::<bool>(), 1usize..4),
        (has_stages, frames, cores, rate) in (any::<bool>(), 40usize..80, 1usize..4, 1e4f64..3e6),
        (seed, is_poisson) in (1u64..1000, any::<bool>()),
    ) {
        let mut platform = paper();
        platform.set_accelerators(accelerators);
        platform.set_depth(depth);
        let source = &mut platform.source;
        (source.queue_packets, source.queue_bytes, source.frames) = (queue_packets.or(Some(9)), queue_bytes, frames);
        let scheduler = &mut platform.scheduler;
        (scheduler.window, scheduler.max_wait_us, scheduler.work_conserving) = (window, timeout, work_conserving);
        scheduler.classes = classes;
        if has_stages {
            platform.cores = vec![convoy_sim::CoresSpec { name: "host".to_owned(), count: cores }];
            let stage = |name: &str, place, on: Option<&str>, packet_us| StageSpec {
                name: name.to_owned(), place, on: on.map(str::to_owned), packet_us, byte_ns: 1.0, ..StageSpec::default()
            };
            let bus = StageSpec { bus: Some("pci".to_owned()), packet_us: 0.0, byte_ns: 0.0, ..stage("dma", convoy_sim::StagePosition::Before, None, 0.0) };
            platform.stages = vec![
                bus,
                stage("read", convoy_sim::StagePosition::Before, Some("host"), 3.0),
                StageSpec { above_bytes: 500, ..stage("cut", convoy_sim::StagePosition::After, Some("host"), 2.0) },
                stage("send", convoy_sim::StagePosition::After, None, 1.0),
            ];
        }
        let mut simulation = Simulation::new(platform);
        simulation.seed = seed;
        simulation.arrivals = if is_poisson { Arrivals::Poisson(rate) } else { Arrivals::Paced(rate) };
        let spec = SyntheticSpec { class_shares: vec![1.0; classes], ..SyntheticSpec::default() };
        conserves(&simulation, &spec, 1_500)?;
    }
}
