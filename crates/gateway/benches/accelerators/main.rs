//! Several real engines at once in a gateway, by convoy's policies and by DPDK's own scheduler device in its modes: throughput, latency, and which
//! engine took what. Prints Markdown; docs/accelerators.md has it as measured.
//!
//! `-- --rounds N --ms N` sets how often and how long each way is measured.

mod alone;
mod ways;

use std::time::Duration;

use convoy_gateway::costs::Costs;
use convoy_gateway::demo::{Bench, IMIX, Load, Measurement, Plan, lengths};
use ways::{Way, ways};

/// Dear, cheap, and one that some devices lack.
const PROPOSALS: [&str; 3] = ["aes128-sha1", "aes128gcm16", "chacha20poly1305"];
/// Inner packets, IP header included. The longest is as long as the demo's link carries.
const SIZES: [(&str, &[(usize, u32)]); 3] = [("64 B", &[(64, 1)]), ("IMIX", &IMIX), ("1400 B", &[(1400, 1)])];
const SAS: [usize; 2] = [1, 100];
/// Of the best throughput, what is offered where latency is measured.
const LOAD: f64 = 0.7;
/// The window, in packets.
const WINDOW: usize = 32;
const SEED: u64 = 1;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u32| {
        let at = words.iter().position(|word| word == name);
        let given = at.and_then(|at| words.get(at + 1));
        given.map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{name} wants a whole number")))
    };
    let (rounds, ms) = (number("--rounds", 3) as usize, number("--ms", 250));
    let plan =
        Plan { window: WINDOW, load: Load::Saturating, rounds, length: Duration::from_millis(ms.into()) };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    ways::start_dpdk(cores);
    println!(
        "\n{cores} cores; medians of {rounds} rounds of {ms} ms; latency at {LOAD} of the best throughput in the same case."
    );
    alone::report();
    let mut costs = Costs::without_cache();
    for proposal in PROPOSALS {
        let mut lines = Vec::new();
        for sas in SAS {
            let ways = ways((proposal, sas), cores, &mut costs);
            for (size, mix) in SIZES {
                lines.extend(measure(&ways, (sas, size, mix), plan, &mut costs));
            }
        }
        println!(
            "\n## {proposal}\n\n| SAs | packets | engines | by | packets/s | p50, us | p99, us | taken by |"
        );
        println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
        lines.iter().for_each(|line| println!("{line}"));
    }
}

/// One case: each way's throughput with all that it takes, then latencies under one load for all.
fn measure(
    ways: &[Way],
    (sas, size, mix): (usize, &str, &[(usize, u32)]),
    plan: Plan,
    costs: &mut Costs,
) -> Vec<String> {
    let traffic = lengths(mix, sas, SEED);
    let mut run = |way: &Way, load: Load| -> Vec<Measurement> {
        let mut bench = Bench { platform: &way.platform, traffic: &traffic, costs: &mut *costs };
        bench.measure(&way.rules, Plan { load, ..plan }).expect("memory does not fail")
    };
    let saturated: Vec<Vec<Measurement>> = ways.iter().map(|way| run(way, Load::Saturating)).collect();
    let rate = |of: &Measurement| of.packets_per_second;
    let best = saturated.iter().flatten().map(rate).fold(0.0, f64::max);
    let mut lines = Vec::new();
    for (way, saturated) in ways.iter().zip(&saturated) {
        for (full, part) in saturated.iter().zip(run(way, Load::Offered(best * LOAD))) {
            assert!(
                full.is_perfect && part.is_perfect,
                "{}: not every packet came out byte for byte",
                way.engines
            );
            let by = way.by.clone().unwrap_or_else(|| full.rule.to_string());
            let Measurement { latency, refused, .. } = &part;
            // A way that loses packets at this load has the latency of full rings.
            let late = |us: f64| if *refused > 0.01 { format!("({us:.0})") } else { format!("{us:.0}") };
            lines.push(format!(
                "| {sas} | {size} | {} | {by} | {:.0} | {} | {} | {} |",
                way.engines,
                rate(full),
                late(latency.p50_us),
                late(latency.p99_us),
                taken(way, full)
            ));
        }
    }
    lines
}

fn taken(way: &Way, measured: &Measurement) -> String {
    let parts = way.platform.engines.iter().zip(&measured.shares);
    let parts: Vec<String> =
        parts.map(|(engine, share)| format!("{} {:.0} %", engine.name, share * 100.0)).collect();
    parts.join(", ")
}
