//! Properties that hold for any traffic: conservation, determinism, closed forms.

use convoy_sim::{Arrivals, Pattern, Platform, ProcessorKind, Report, Simulation, SyntheticSpec};
use proptest::prelude::*;

use crate::support::{easy, paper, processor};

/// One processor with an unbounded queue, fed by a Poisson process over an infinitely fast line,
/// one packet at a time.
fn queue(pattern: Pattern, t_block_us: f64, load: f64) -> (Report, f64) {
    let mut cpu = processor("cpu", ProcessorKind::Cpu, None);
    cpu.depth = 1_000_000;
    let mut platform = easy(vec![cpu], 1);
    platform.source.rate_mbps = 1e12;
    platform.reference.t_init_us = 0.0;
    platform.reference.block_mbps = 128.0 / t_block_us;
    let mut simulation = Simulation::new(platform);
    // The mean service time in us for the sizes of this seed.
    let service_us = |packets| {
        let report = simulation.run_pattern(pattern, &SyntheticSpec::default(), packets).expect("in range");
        report.processors[0].utilisation * report.end_ms * 1000.0 / packets as f64
    };
    let service_us = service_us(200_000);
    simulation.arrivals = Arrivals::Poisson(load / (service_us * 1e-6));
    let report = simulation.run_pattern(pattern, &SyntheticSpec::default(), 2_000_000).expect("in range");
    (report, service_us)
}

#[test]
fn an_md1_queue_has_the_mean_wait_of_pollaczek_and_khinchine() {
    for load in [0.3, 0.6, 0.8] {
        let (report, service_us) = queue(Pattern::Fixed(160), 1.0, load);
        let expected_us = service_us * (1.0 + load / (2.0 * (1.0 - load)));
        let sojourn_us = report.sojourn_ms * 1000.0;
        assert!((sojourn_us / expected_us - 1.0).abs() < 0.01, "{load}: {sojourn_us} {expected_us}");
        assert!((report.processors[0].utilisation / load - 1.0).abs() < 0.01);
    }
}

#[test]
fn an_mm1_queue_has_a_sojourn_that_is_exponential() {
    for load in [0.3, 0.6, 0.8] {
        // Sizes are at least 20 bytes and rounded up to blocks, which changes the result by up to 3
        // %.
        let (report, service_us) = queue(Pattern::Exponential, 1.0, load);
        let expected_us = service_us / (1.0 - load);
        let sojourn_us = report.sojourn_ms * 1000.0;
        assert!((sojourn_us / expected_us - 1.0).abs() < 0.03, "{load}: {sojourn_us} {expected_us}");
        let p90_us = report.sojourn_percentiles_ms.p90 * 1000.0;
        assert!((p90_us / (expected_us * 10f64.ln()) - 1.0).abs() < 0.04, "{load}: {p90_us}");
    }
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    let run = |seed| {
        let mut simulation = Simulation::new(paper());
        simulation.seed = seed;
        let report = simulation.run_pattern(Pattern::Trace, &SyntheticSpec::default(), 20_000);
        serde_json::to_string(&report.expect("in range")).expect("numbers")
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn the_report_has_the_fields_that_others_rely_on() {
    let report = Simulation::new(paper()).run_pattern(Pattern::Imix, &SyntheticSpec::default(), 1000);
    let json = serde_json::to_value(report.expect("in range")).expect("numbers");
    for field in [
        "packets",
        "share",
        "average_length",
        "average_length_scheduled",
        "packets_per_multipacket",
        "throughput_mbps",
        "latency_ms",
        "sojourn_ms",
        "bus_conflicts",
        "latency_percentiles_ms",
        "sojourn_percentiles_ms",
    ] {
        assert!(!json[field].is_null(), "{field}");
    }
    assert_eq!(json["share"].as_array().map(Vec::len), Some(2));
}

fn conserves(platform: Platform, spec: &SyntheticSpec, packets: u64) -> Result<(), TestCaseError> {
    let seen = std::cell::Cell::new((0, 0));
    let mut observer = |served: &convoy_sim::Served<'_>| {
        let bytes: u64 = served.packets.iter().map(|packet| u64::from(packet.bytes)).sum();
        seen.set((seen.get().0 + served.packets.len() as u64, seen.get().1 + bytes));
    };
    let traffic = convoy_sim::Synthetic::new(Pattern::Trace, spec, 3, packets).expect("in range");
    let report = Simulation::new(platform).run_observed(traffic, &mut observer).expect("in range");
    prop_assert_eq!((report.packets, report.packets_out), (packets, packets));
    prop_assert_eq!(seen.get(), (packets, report.bytes));
    prop_assert!((report.share.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    prop_assert_eq!(report.processors.iter().map(|of| of.packets).sum::<u64>(), packets);
    prop_assert_eq!(report.classes.iter().map(|of| of.packets).sum::<u64>(), packets);
    prop_assert!(report.processors.iter().all(|of| of.utilisation <= 1.0 + 1e-12));
    prop_assert!(report.buses.iter().all(|of| of.utilisation <= 1.0 + 1e-12 && of.conflicts <= of.requests));
    prop_assert!(report.latency_ms <= report.sojourn_ms + 1e-12);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(120) })]

    #[test]
    fn every_packet_that_arrives_is_served_once_and_leaves(
        (window, accelerators, depth) in (1usize..64, 0usize..5, 0usize..12),
        (prefetch, write_buffer, work_conserving) in any::<(bool, bool, bool)>(),
        policy in prop::sample::select(convoy_sim::policy::names().collect::<Vec<_>>()),
        (classes, is_weighted, timeout) in (1usize..5, any::<bool>(), prop_oneof![Just(0.0), 0.1f64..50.0]),
        class_credits in prop::option::of(1usize..5),
    ) {
        let mut platform = paper();
        platform.set_accelerators(accelerators);
        platform.set_depth(depth);
        (platform.processors[1].prefetch, platform.processors[1].write_buffer) = (prefetch, write_buffer);
        let scheduler = &mut platform.scheduler;
        (scheduler.window, scheduler.work_conserving, scheduler.max_wait_us) = (window, work_conserving, timeout);
        scheduler.policy = policy.to_owned();
        scheduler.classes = classes;
        scheduler.weights = is_weighted.then(|| (1..=classes as u32).collect());
        scheduler.class_credits = class_credits;
        let spec = SyntheticSpec { class_shares: vec![1.0; classes], ..SyntheticSpec::default() };
        conserves(platform, &spec, 2_000)?;
    }

    #[test]
    fn stages_lose_nothing_either(
        (frames, servers, packet_us) in (30usize..80, 1usize..4, 0.0f64..20.0),
        (on_cpu, on_bus, after) in any::<(bool, bool, bool)>(),
    ) {
        let mut platform = paper();
        platform.source.frames = frames;
        let stage = |name: &str, place| convoy_sim::StageSpec {
            name: name.to_owned(), place, servers, packet_us, byte_ns: 1.0, ..convoy_sim::StageSpec::default()
        };
        let mut first = stage("receive", convoy_sim::StagePosition::Before);
        if on_bus {
            (first.bus, first.packet_us, first.byte_ns) = (Some("pci".to_owned()), 0.0, 0.0);
        }
        let mut second = stage("lookup", convoy_sim::StagePosition::Before);
        second.on = on_cpu.then(|| "cpu".to_owned());
        platform.stages = vec![first, second];
        if after {
            platform.stages.push(stage("send", convoy_sim::StagePosition::After));
        }
        conserves(platform, &SyntheticSpec::default(), 1_000)?;
    }
}
