use convoy_sim::Platform;

use super::machine::Machine;
use super::{Drawn, Packet, bound, exact, online_bound};
use crate::referee::scenarios;

/// Packets of these SAs, with sizes that differ.
fn traffic(sas: &[u32], bytes: &[u32]) -> Vec<Packet> {
    sas.iter().zip(bytes.iter().cycle()).map(|(sa, bytes)| Packet { sa: *sa, bytes: *bytes }).collect()
}

fn two_engines(window: usize) -> Platform {
    let mut platform = scenarios::two_engines().expect("they come with the program");
    platform.scheduler.window = window;
    platform
}

/// A sequence of numbers below `below` (a linear congruential generator).
fn numbers(seed: u64, below: u64, count: usize) -> Vec<u32> {
    let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(seed | 1));
    let states = std::iter::successors(Some(seed), next).skip(1);
    states.map(|state: u64| ((state >> 33) % below) as u32).take(count).collect()
}

#[test]
fn no_small_case_has_an_optimum_below_the_bound() {
    let mut closest = 0.0f64;
    for (seed, window) in (0..24).zip([1, 2, 3, 4].into_iter().cycle()) {
        let sizes: Vec<u32> =
            numbers(seed + 100, 3, 8).iter().map(|at| [40, 576, 1400][*at as usize]).collect();
        let traffic = traffic(&numbers(seed, 3, 8), &sizes);
        let platform = two_engines(window);
        let exact = exact::least_time(&Machine::new(&platform, traffic.len(), 1), &traffic);
        let bound_s = traffic.len() as f64 / bound(&platform, &traffic, 1);
        assert!(bound_s <= exact * (1.0 + 1e-9), "{seed}: {bound_s} s, but {exact} s is enough");
        closest = closest.max(bound_s / exact);
    }
    // What is left is that a few packets cannot be divided among two engines at will.
    assert!(closest > 0.95, "{closest}");
}

#[test]
fn one_engine_whose_window_holds_all_packets_meets_the_bound() {
    let mut platform = two_engines(12);
    platform.processors.truncate(1);
    let traffic = traffic(&numbers(5, 3, 12), &[40, 1400]);
    let exact = exact::least_time(&Machine::new(&platform, traffic.len(), 1), &traffic);
    let bound_s = traffic.len() as f64 / bound(&platform, &traffic, 1);
    assert!((bound_s / exact - 1.0).abs() < 1e-3, "{bound_s} {exact}");
}

#[test]
fn a_larger_window_never_lowers_the_bound() {
    let traffic = traffic(&numbers(9, 20, 2_000), &[40, 576, 1400]);
    let bounds: Vec<f64> = [1, 4, 16, 64].map(|window| bound(&two_engines(window), &traffic, 1)).to_vec();
    assert!(bounds.windows(2).all(|pair| pair[1] >= pair[0] * 0.999), "{bounds:?}");
    assert!(bounds[3] > bounds[0] * 1.1, "{bounds:?}");
}

#[test]
fn foresight_raises_the_bound() {
    let traffic = traffic(&numbers(3, 50, 20_000), &[40, 576, 1400]);
    let sizes = [40, 576, 1400].map(|bytes| (bytes, 1.0 / 3.0)).to_vec();
    let drawn = Drawn { sizes, shares: vec![0.02; 50] };
    for window in [1, 8, 32] {
        let platform = two_engines(window);
        let (all, online) = (bound(&platform, &traffic, 1), online_bound(&platform, &drawn));
        assert!(online <= all * 1.01, "{window}: {online} {all}");
        // A window of one packet leaves nothing to know.
        assert!(window > 1 || online >= all * 0.99, "{online} {all}");
    }
}
