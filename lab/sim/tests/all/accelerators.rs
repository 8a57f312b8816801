//! The platforms of commercial accelerators compared with published numbers. The figures' claims
//! cover the same; here the numbers are repeated from the sources that the platform files name.

use convoy_sim::{Platform, Report, Setting};

const PACKETS: u64 = 100_000;

fn run(name: &str, variant: &str, bytes: u32, sas: u32) -> Report {
    let platform = Platform::open(name).expect("it comes with the program");
    let setting = Setting {
        variant: (!variant.is_empty()).then(|| variant.to_owned()),
        pattern: Some(bytes.to_string()),
        packets: Some(PACKETS),
        sas: Some(sas),
        ..Setting::default()
    };
    setting.run(&platform).expect("in range")
}

/// Throughput in Gbit/s until the last packet has left.
fn gbps(report: &Report) -> f64 {
    report.bytes as f64 * 8.0 / (report.end_ms * 1e-3) / 1e9
}

fn connectx(variant: &str, tunnels: u32) -> f64 {
    gbps(&run("connectx-7", variant, 1058, 2 * tunnels))
}

/// Checks that each point is within this many percent.
fn hold(points: &[(u32, f64)], percent: f64, of: impl Fn(u32) -> f64) {
    for (tunnels, published) in points {
        let ours = of(*tunnels);
        let error = (ours / published - 1.0) * 100.0;
        println!("{tunnels} tunnels: {ours:.1} simulated, {published} published, {error:+.1} %");
        assert!(
            error.abs() <= percent,
            "{tunnels} tunnels: {ours:.1} and {published} are {error:+.1} % apart"
        );
    }
}

#[test]
fn connectx_7_with_flow_steering_falls_as_published() {
    hold(&[(1000, 184.3), (1200, 127.4), (1500, 88.8)], 1.0, |tunnels| connectx("", tunnels));
    let held_out = [(1100, 153.8), (1300, 110.4), (1400, 99.1), (1600, 80.4), (1700, 78.7)];
    hold(&held_out, 7.0, |tunnels| connectx("", tunnels));
}

#[test]
fn connectx_7_with_xdp_falls_as_published() {
    hold(&[(1000, 190.5), (1200, 153.3), (1500, 110.3)], 1.0, |tunnels| connectx("xdp", tunnels));
    let held_out = [(1100, 176.2), (1300, 139.4), (1400, 124.2), (1600, 100.4)];
    hold(&held_out, 7.0, |tunnels| connectx("xdp", tunnels));
}

#[test]
fn connectx_7_leaves_its_host_idle_with_flow_steering_and_not_with_xdp() {
    let host = |variant, tunnels: u32| run("connectx-7", variant, 1058, 2 * tunnels).cores[0].utilisation;
    assert_eq!(host("", 1000), 0.0);
    assert!((host("xdp", 1000) - 0.49).abs() < 0.01, "fitted");
    assert!((host("xdp", 1600) - 0.295).abs() < 0.05, "read from a picture, not fitted");
}

#[test]
fn bluefield_3_falls_as_published() {
    let of = |tunnels| gbps(&run("bluefield-3", "", 862, 2 * tunnels));
    hold(&[(500, 137.84), (2000, 126.04), (4000, 110.64)], 1.0, of);
    hold(&[(8000, 97.86)], 7.0, of);
}

#[test]
fn qat_is_quick_in_batches_and_slow_for_a_caller_that_waits() {
    let gbs = |variant| gbps(&run("qat-gen4", variant, 4096, 1)) / 8.0;
    for (variant, published) in
        [("", 12.0), ("synchronous", 0.0625), ("synchronous-emerald-rapids", 0.289), ("core-alone", 16.171)]
    {
        let ours = gbs(variant);
        assert!((ours / published - 1.0).abs() < 0.01, "{variant}: {ours} and {published} GB/s");
    }
}

#[test]
fn eight_cores_and_the_card_carry_more_than_the_sum_where_the_scheduler_knows_the_cache() {
    let [card, cores, both, unknown] =
        ["", "cores-8-alone", "cores-8", "cores-8+cache-unknown"].map(|variant| connectx(variant, 1600));
    println!("card {card:.1}, cores {cores:.1}, both {both:.1}, cache unknown {unknown:.1}");
    assert!(both > card + cores, "{both:.1} against {card:.1} and {cores:.1}");
    assert!(unknown < both && unknown > card.max(cores), "{unknown:.1}");
}
