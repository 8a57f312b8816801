//! Gateways with several real engines, under convoy's policies and under DPDK's scheduler device in
//! each of its modes: throughput, latency and each engine's share. Prints Markdown and writes
//! target/bench/accelerators.json.
//!
//! `-- --rounds N --ms N` sets the number and duration of the measurements of each setup; `--quick`
//! measures each once for 10 ms, as a smoke test; `--alone` measures each engine on its own only,
//! which takes seconds; `--page` writes the tables of docs/results/accelerators.md, as `make
//! bench-accelerators` does.

mod alone;
mod grouping;
mod report;
mod setups;

use std::time::{Duration, Instant};

use convoy_dataplane::costs::Costs;
use convoy_workbench::{Bench, IMIX, Load, Measurement, Plan, Rule, TunnelSet, lengths};
use report::{Report, Row};
use setups::{Setup, setups};

/// An expensive algorithm, a cheap one, and one that some devices do not support.
const PROPOSALS: [&str; 3] = ["aes128-sha1", "aes128gcm16", "chacha20poly1305"];
/// Inner packet lengths, IP header included. The longest is the limit of the demo's link.
const SIZES: [(&str, &[(usize, u32)]); 3] = [("64 B", &[(64, 1)]), ("IMIX", &IMIX), ("1400 B", &[(1400, 1)])];
const SAS: [usize; 2] = [1, 100];
/// Load at which latency is measured, relative to the best throughput.
const LOAD: f64 = 0.7;
/// The scheduler's window, in packets.
const WINDOW: usize = 32;
const SEED: u64 = 1;
/// Number of rounds and duration of each in ms: about six minutes in total on two cores.
const USUAL: (u32, u32) = (3, 200);
const QUICK: (u32, u32) = (1, 10);

/// A traffic mix: its name, the number of SAs, and packet lengths with their weights.
type Mix = (&'static str, usize, &'static [(usize, u32)]);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let number = |name: &str, default: u32| {
        let at = words.iter().position(|word| word == name);
        let given = at.and_then(|at| words.get(at + 1));
        given.map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{name} wants a whole number")))
    };
    let usual = if has("--quick") { QUICK } else { USUAL };
    assert!(!(has("--quick") && has("--page")), "what --quick measures is not for a page");
    let (rounds, ms) = (number("--rounds", usual.0) as usize, number("--ms", usual.1));
    let plan =
        Plan { window: WINDOW, load: Load::Saturating, rounds, length: Duration::from_millis(ms.into()) };
    let report = measure_all(plan, has("--alone"));
    println!("\n{}\n{}\n{}\n{}", report.summary(), report.alone(), report.grouped(), report.csv());
    let json = report.write_json().expect("target/bench can be written");
    eprintln!("written: {}", json.display());
    let wrong = report.wrong();
    if !wrong.is_empty() {
        eprintln!("{}", wrong.join("\n"));
        std::process::exit(1);
    }
    if has("--page") {
        let page = report.write_page().expect("docs/results/accelerators.md can be written");
        eprintln!("written: {}", page.display());
    }
}

fn measure_all(plan: Plan, only_alone: bool) -> Report {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    setups::start_dpdk(cores);
    let about = format!(
        "{}: {cores} cores{}; rounds: {} of {} ms, whose medians are given; latency at {LOAD} of the best throughput of the case.",
        processor(),
        if setups::has_cores(cores) {
            ""
        } else {
            ", too few for DPDK's scheduler with cores of its own (multi-core)"
        },
        plan.rounds,
        plan.length.as_millis()
    );
    let (alone, grouped) = alone::measure();
    let mut report = Report { about, alone, grouped, rows: Vec::new() };
    if only_alone {
        return report;
    }
    let mut costs = Costs::without_cache();
    let (began, all) = (Instant::now(), PROPOSALS.len() * SAS.len() * SIZES.len());
    let mut cases = 0;
    for proposal in PROPOSALS {
        for sas in SAS {
            let setups = setups(TunnelSet { proposal, tunnels: sas }, cores, &mut costs);
            for (size, mix) in SIZES {
                report.rows.extend(measure(&setups, proposal, (size, sas, mix), plan, &mut costs));
                cases += 1;
                eprintln!("{cases} of {all} cases after {} s", began.elapsed().as_secs());
            }
        }
    }
    report
}

/// One case: each setup's throughput when saturated, then its latency under the same load for all
/// setups.
fn measure(
    setups: &[Setup],
    proposal: &'static str,
    (packets, sas, mix): Mix,
    plan: Plan,
    costs: &mut Costs,
) -> Vec<Row> {
    let traffic = lengths(mix, sas, SEED);
    let mut run = |setup: &Setup, load: Load| -> Vec<Measurement> {
        let mut bench = Bench { platform: &setup.platform, traffic: &traffic, costs: &mut *costs };
        bench.measure(&setup.rules, Plan { load, ..plan }).expect("memory does not fail")
    };
    let saturated: Vec<Vec<Measurement>> = setups.iter().map(|setup| run(setup, Load::Saturating)).collect();
    let rates = saturated.iter().flatten().map(|full| full.packets_per_second);
    let load = Load::Offered(rates.fold(0.0, f64::max) * LOAD);
    let mut rows = Vec::new();
    for (setup, saturated) in setups.iter().zip(saturated) {
        for (full, offered) in saturated.into_iter().zip(run(setup, load)) {
            rows.push(Row {
                proposal,
                sas,
                packets,
                engines: setup.engines,
                by: setup.by.clone().unwrap_or_else(|| full.rule.to_string()),
                is_finishing_time: setup.by.is_none() && full.rule == Rule::DEFAULT,
                full,
                offered,
                engine_names: setup.platform.engines.iter().map(|engine| engine.name.clone()).collect(),
            });
        }
    }
    rows
}

/// Name of the processor, as the kernel reports it.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    name.map_or_else(|| std::env::consts::ARCH.to_owned(), |(_, name)| name.to_owned())
}
