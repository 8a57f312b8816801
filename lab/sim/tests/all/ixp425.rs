//! The numbers of the IXP425 paper that the platforms reproduce: those that were fitted, and those
//! that follow; docs/lab/papers/ixp425.md says which is which.

use convoy_sim::{Arrivals, Ndr, NdrSearch, Platform, Report, Setting};

fn setting(variant: &str, length: u32, packets: u64) -> Setting {
    Setting {
        variant: (!variant.is_empty()).then(|| variant.to_owned()),
        pattern: Some(length.to_string()),
        packets: Some(packets),
        ..Setting::default()
    }
}

fn search(platform: &str, variant: &str, length: u32) -> Ndr {
    let platform = Platform::open(platform).expect("it comes with the program");
    NdrSearch::default().run(&platform, &setting(variant, length, 5_000)).expect("in range")
}

/// The throughput without loss, in Mbit/s of frames.
fn mbps(variant: &str, length: u32) -> f64 {
    search("ixp425", variant, length).throughput.mbps
}

/// A run with one packet at a time.
fn idle(platform: &str, variant: &str, length: u32) -> Report {
    let platform = Platform::open(platform).expect("it comes with the program");
    let setting = setting(variant, length, 10);
    let mut simulation = setting.simulation(&platform).expect("in range");
    simulation.arrivals = Arrivals::Paced(100.0);
    simulation.run(setting.traffic().expect("in range")).expect("in range")
}

/// Round-trip time of a request to the coprocessor, in us. Its length is that of the packet plus 28
/// bytes.
fn turnaround_us(variant: &str, length: u32) -> f64 {
    let report = idle("ixp425", variant, length);
    let parts = ["queue-manager", "crypto-in", "crypto-out"];
    let parts = report.stages.iter().filter(|stage| parts.contains(&stage.name.as_str()));
    parts.map(|stage| stage.sojourn_us).sum::<f64>() + report.latency_ms * 1e3
}

fn near(measured: f64, expected: f64, part: f64) -> bool {
    (measured / expected - 1.0).abs() <= part
}

#[test]
fn triple_des_reaches_45_mbit_s_350_percent_above_software() {
    let (off, software) = (mbps("", 1450), mbps("software-crypto", 1450));
    assert!(near(off, 45.0, 0.01) && near(software, 10.0, 0.01), "{off} {software}");
    assert!(near(off / software - 1.0, 3.5, 0.03), "{}", off / software);
}

#[test]
fn des_has_the_throughput_of_triple_des_since_the_xscale_is_the_bottleneck() {
    for length in [64, 512, 1024, 1450, 1518] {
        let [single, triple] = ["des", ""].map(|variant| search("ixp425", variant, length));
        assert!(near(single.throughput.mbps, triple.throughput.mbps, 0.005), "{length}");
        for found in [single, triple] {
            let [xscale, npe_b] = &found.report.processors[..] else { panic!("two processors") };
            assert!(xscale.utilisation > 0.97 && npe_b.utilisation < 0.65, "{length}");
        }
    }
}

#[test]
fn the_most_is_reached_at_1450_bytes() {
    let most = mbps("", 1450);
    for length in [64, 1024, 1280, 1518] {
        assert!(mbps("", length) < most, "{length}");
    }
    let fragments =
        search("ixp425", "", 1518).report.stages.into_iter().find(|stage| stage.name == "fragment");
    assert_eq!(fragments.map(|stage| stage.packets), Some(5_000));
}

#[test]
fn the_coprocessors_turnarounds_and_the_rates_of_their_slopes_are_the_papers() {
    let slope = |variant| 406.0 * 8.0 / (turnaround_us(variant, 1430) - turnaround_us(variant, 1024));
    assert!(near(turnaround_us("des", 1430), 117.0, 0.002), "{}", turnaround_us("des", 1430));
    assert!((turnaround_us("des", 1024) - 97.0).abs() < 1.5, "{}", turnaround_us("des", 1024));
    assert!(near(slope("des"), 153.6, 0.003), "{}", slope("des"));
    assert!(near(slope(""), 101.0, 0.003), "{}", slope(""));
}

#[test]
fn forwarding_is_at_wire_speed_from_512_bytes_on_and_npes_bring_60_percent() {
    for (length, is_wire) in [(64, false), (256, false), (512, true), (1518, true)] {
        for platform in ["ixp425", "pentium3"] {
            let found = search(platform, "forwarding", length);
            assert_eq!(found.throughput == found.line, is_wire, "{platform}, {length}");
        }
    }
    let gain = mbps("forwarding", 64) / mbps("forwarding+software-io", 64);
    assert!(near(gain, 1.6, 0.01), "{gain}");
    let one = mbps("forwarding+one-npe", 64) / mbps("forwarding+software-io", 64);
    assert!((1.2..1.35).contains(&one), "{one}");
}

#[test]
fn which_npe_receives_does_not_matter() {
    for length in [64, 1450] {
        assert!(near(mbps("npe-b-receives", length), mbps("", length), 0.01), "{length}");
    }
}

#[test]
fn each_of_the_four_schemes_is_the_better_the_more_is_off_loaded() {
    let none = mbps("software-io+software-crypto", 1450);
    let (io, cryptography, both) = (mbps("software-crypto", 1450), mbps("software-io", 1450), mbps("", 1450));
    assert!(none < io && io < cryptography && cryptography < both, "{none} {io} {cryptography} {both}");
}

#[test]
fn packets_get_through_until_the_xscale_is_busy_all_the_time() {
    let platform = Platform::open("ixp425").expect("it comes with the program");
    let at = |pps| {
        let setting = setting("", 1450, 5_000);
        let mut simulation = setting.simulation(&platform).expect("in range");
        simulation.arrivals = Arrivals::Paced(pps);
        simulation.run(setting.traffic().expect("in range")).expect("in range")
    };
    // Each takes 257.8 us.
    let (below, above) = (at(3_600.0), at(8_400.0));
    assert!(near(below.processors[0].utilisation, 3_600.0 * 257.8e-6, 0.01));
    assert_eq!(below.dropped.packets, 0);
    assert!(above.processors[0].utilisation > 0.99 && near(above.success_ratio, 3_879.0 / 8_400.0, 0.02));
}

#[test]
fn cryptography_takes_the_longest_in_software_and_no_time_of_the_xscale_off_loaded() {
    let us = |report: &Report| report.latency_ms * 1e3;
    let (triple, single) =
        (idle("ixp425", "software-crypto", 1450), idle("ixp425", "software-crypto+des", 1450));
    assert!(near(us(&triple), 955.0, 0.005) && near(us(&triple) / us(&single), 3.0, 0.001));
    let on_xscale = |variant| {
        let report = idle("ixp425", variant, 1450);
        report.processors[0].utilisation * report.end_ms * 1e3 / 10.0
    };
    assert!(near(on_xscale(""), 257.8, 0.001) && near(on_xscale(""), on_xscale("des"), 0.0005));
}

#[test]
fn the_look_up_by_an_npe_brings_a_quarter() {
    let gain = |variant| mbps(variant, 1450) / mbps("", 1450);
    assert!(near(gain("npe-lookup-fast"), 1.256, 0.01), "{}", gain("npe-lookup-fast"));
    // At the ratio of the clocks NPE A is the bottleneck: 5 us to receive and 210.8 us to look up.
    assert!(near(gain("npe-lookup"), 257.8 / 215.8, 0.01), "{}", gain("npe-lookup"));
}
