//! Tests of `convoy-lab bench`.

use std::process::{Command, Output};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_convoy-lab")).arg("bench").args(args).output().expect("the program")
}

fn json(output: &Output) -> serde_json::Value {
    let error = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|what| panic!("{what}: {error}"))
}

#[test]
fn a_link_of_a_known_rate_is_found_by_the_command() {
    let link = "rate=2000,queue=64,delay_us=3000";
    // On a busy machine the search may exceed its default time limit.
    let search =
        ["--trial", "0.1", "--resolution", "0.02", "--least", "100", "--most", "8000", "--within", "600"];
    let arguments =
        [&["throughput", "--link", link, "--lengths", "64", "--quick", "--json"][..], &search].concat();
    let found = || json(&bench(&arguments))["rounds"][0][0]["ndr"]["packets_per_second"].as_f64();
    // The queue holds a third of a trial, and a busy machine finds lower rates; the tests of
    // convoy-measure are exact.
    let mut rates = (0..10).map(|_| found().expect("a rate"));
    assert!(rates.any(|rate| (1_000.0..2_800.0).contains(&rate)), "ten measurements are all wrong");
}

#[test]
fn what_cannot_be_is_wrong_usage_and_named() {
    for (args, said) in [
        (&["throughput", "--lengths", "20"][..], "52 to 9000"),
        (&["throughput", "--near", "udp:10.0.0.1"], "--far"),
        (&["throughput", "--near", "udp:127.0.0.1", "--far", "udp:::1"], "different families"),
        (&["throughput", "--near", "udp:::1:1", "--far", "udp:::1", "--inner", "ipv6"], "--inner"),
        (&["throughput", "--lengths", "64,imix", "--inner", "ipv6"], "72 bytes"),
        (&["throughput", "--outer", "ipv5"], "ipv6"),
        (&["throughput", "--link", "speed=1"], "unknown property"),
        (&["throughput", "--trial=-1"], "--trial"),
        (&["throughput", "--proposal", "rot13", "--lengths", "64"], "rot13"),
    ] {
        let output = bench(args);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
    }
}
