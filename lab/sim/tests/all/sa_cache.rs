//! A device's cache of SAs: the cost of a miss, the SA that it replaces, and the scheduler's use of
//! it.

use std::collections::{BTreeSet, VecDeque};

use convoy_sim::{
    Pattern, Platform, ProcessorKind, ProcessorSpec, Report, SaCacheSpec, Simulation, SyntheticSpec,
};
use proptest::prelude::*;

use crate::support::{easy, log, packets, processor};

/// A card that needs 1 us for a packet and a block, and 5 us more for a miss.
fn card(sas: usize) -> ProcessorSpec {
    let cache = Some(SaCacheSpec { sas, miss_us: 5.0 });
    ProcessorSpec { cache, ..processor("card", ProcessorKind::Accelerator, None) }
}

fn core(us: f64) -> ProcessorSpec {
    ProcessorSpec { init_ratio: us, enc_ratio: 0.0, ..processor("core", ProcessorKind::Cpu, None) }
}

/// Without grouping, with packets always waiting.
fn saturated(processors: Vec<ProcessorSpec>) -> Platform {
    let mut platform = easy(processors, 1);
    platform.source.rate_mbps = 1e6;
    platform
}

fn run(platform: Platform, sas: &[u32]) -> Report {
    let of: Vec<(u32, u32)> = sas.iter().map(|sa| (*sa, 16)).collect();
    Simulation::new(platform).run(packets(&of)).expect("a good platform")
}

/// Number of misses of the only cache.
fn misses(report: &Report) -> u64 {
    report.processors.iter().find_map(|of| of.cache).expect("a cache").misses
}

#[test]
fn a_miss_delays_its_multi_packet_and_all_that_stand_behind() {
    let simulation = Simulation::new(saturated(vec![card(1)]));
    // SA 0 is in the cache. SA 7 is fetched and replaces it.
    let (report, lines) = log(&simulation, packets(&[(0, 16), (7, 16), (7, 16), (0, 16)]));
    let done: Vec<u64> = lines.iter().map(|line| line.3).collect();
    assert_eq!(done, [2, 9, 11, 18]);
    assert_eq!(misses(&report), 2);
}

#[test]
fn a_multi_packet_uses_its_sa_once() {
    let mut platform = saturated(vec![card(1)]);
    platform.scheduler.window = 3;
    let report = run(platform, &[4, 4, 4, 4, 4, 4]);
    let cache = report.processors[0].cache.expect("a cache");
    assert_eq!((report.multi_packets, cache.misses, cache.hits), (2, 1, 1));
}

#[test]
fn a_scheduler_that_knows_the_cache_gives_what_is_missing_to_a_core() {
    // A miss takes the card 7 us and the core 6.
    let platform = saturated(vec![card(1), core(6.0)]);
    let (_, lines) = log(&Simulation::new(platform.clone()), packets(&[(9, 16)]));
    assert_eq!(lines[0].0, 1, "the core is quicker than a miss");
    let mut ignorant = platform;
    ignorant.scheduler.knows_caches = false;
    let (_, lines) = log(&Simulation::new(ignorant), packets(&[(9, 16)]));
    assert_eq!(lines[0].0, 0, "without a miss the card would be");
}

#[test]
fn caches_that_make_no_sense_are_named_with_their_line_and_key() {
    let text = include_str!("../../../../platforms/connectx-7.toml");
    let line = text.lines().position(|line| line.starts_with("cache =")).expect("a cache") + 1;
    for (cache, what) in [
        ("cache = { sas = 0, miss_us = 1.0 }", "0 SAs; a cache must hold 1 to"),
        ("cache = { sas = 1048577, miss_us = 1.0 }", "1048577 SAs"),
        ("cache = { sas = 1, miss_us = -1.0 }", "miss_us = -1"),
        ("cache = { sas = 1, miss_us = nan }", "miss_us = NaN"),
    ] {
        let old = text.lines().nth(line - 1).expect("the cache");
        let error =
            Platform::from_toml("p.toml", &text.replacen(old, cache, 1)).expect_err("wrong").to_string();
        assert!(error.starts_with(&format!("p.toml:{line}:9: error: processor[0].cache: {what}")), "{error}");
    }
    let mut many = saturated(vec![ProcessorSpec { count: 9, ..card(1) }]);
    let error = |platform: &Platform| Simulation::new(platform.clone()).run(packets(&[])).map(|_| ());
    assert!(error(&many).expect_err("too many").to_string().contains("9 caches of SAs"));
    many.scheduler.knows_caches = false;
    assert!(error(&many).is_ok());
}

/// SAs ordered from the most recently used.
fn misses_of_a_list(sas: &[u32], size: usize) -> u64 {
    let mut list: VecDeque<u32> = (0..size as u32).rev().collect();
    let miss = |sa: &u32| {
        let place = list.iter().position(|of| of == sa);
        list.remove(place.unwrap_or(size - 1));
        list.push_front(*sa);
        u64::from(place.is_none())
    };
    sas.iter().map(miss).sum()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_cache_misses_each_sa_once_as_long_as_all_fit(
        sas in prop::collection::vec(100_u32..1_000_000, 1..20),
        order in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
        spare in 0_usize..3,
    ) {
        let order: Vec<u32> = order.iter().map(|index| *index.get(&sas)).collect();
        // None of them is in the cache at the start, since those have the lowest numbers.
        let twice = [&sas[..], &order].concat();
        let different: BTreeSet<u32> = sas.iter().copied().collect();
        prop_assert_eq!(misses(&run(saturated(vec![card(sas.len() + spare)]), &twice)), different.len() as u64);
    }

    #[test]
    fn misses_are_those_of_a_list_by_use(
        sas in prop::collection::vec(0_u32..24, 1..300),
        size in 1_usize..26,
    ) {
        let report = run(saturated(vec![card(size)]), &sas);
        prop_assert_eq!(misses(&report), misses_of_a_list(&sas, size));
        let cache = report.processors[0].cache.expect("a cache");
        prop_assert_eq!(cache.hits + cache.misses, sas.len() as u64);
        // 2 us each, and 5 us for a miss; the first packet arrives after 128 ps.
        let us = 2 * sas.len() as u64 + 5 * cache.misses;
        prop_assert!((report.end_ms * 1e3 - us as f64).abs() < 0.01, "{} ms", report.end_ms);
    }
}

#[test]
fn of_sas_that_are_equally_likely_the_part_is_hit_that_fits() {
    for (sas, size) in [(100, 50), (400, 100), (1000, 900)] {
        let spec = SyntheticSpec { sas, ..SyntheticSpec::default() };
        let simulation = Simulation::new(saturated(vec![card(size)]));
        let report = simulation.run_pattern(Pattern::Fixed(16), &spec, 200_000).expect("in range");
        let cache = report.processors[0].cache.expect("a cache");
        let hit = cache.hits as f64 / (cache.hits + cache.misses) as f64;
        let expected = size as f64 / f64::from(sas);
        assert!((hit - expected).abs() < 0.005, "{sas} SAs, {size} of them: {hit}");
    }
}

/// Time for 20,000 packets, in ms.
fn duration(processors: Vec<ProcessorSpec>, sas: u32, knows: bool) -> f64 {
    let mut platform = saturated(processors);
    platform.scheduler.knows_caches = knows;
    let spec = SyntheticSpec { sas, ..SyntheticSpec::default() };
    Simulation::new(platform).run_pattern(Pattern::Fixed(16), &spec, 20_000).expect("in range").end_ms
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]
    /// At the end the others wait for one processor: for one packet if misses are predicted,
    /// otherwise for a core's queue, which was filled while the card's was full.
    #[test]
    fn a_hybrid_by_finishing_time_is_not_below_the_better_one_alone(
        size in 50_usize..500,
        sas in 50_u32..1000,
        miss_us in 0.5_f64..20.0,
        core_us in 0.5_f64..40.0,
        cores in 1_usize..6,
        depth in 16_usize..200,
        knows in any::<bool>(),
    ) {
        let cache = Some(SaCacheSpec { sas: size, miss_us });
        let card = ProcessorSpec { cache, depth, ..processor("card", ProcessorKind::Accelerator, None) };
        let core = ProcessorSpec { count: cores, depth, ..core(core_us) };
        let better = duration(vec![card.clone()], sas, knows).min(duration(vec![core.clone()], sas, knows));
        let both = duration(vec![card, core], sas, knows);
        let left = if knows { 1 } else { depth + 1 } as f64 * core_us * 1e-3;
        prop_assert!(both <= better * 1.01 + left, "{both:.3} ms against {better:.3} and {left:.3} at the end");
    }
}
