//! Compares the scheduler's policies in two real gateways, under loads below and above their
//! capacity. Prints the Markdown of docs/lab/results/policies.md.
//!
//! `-- --rounds N --ms N` sets the number and duration of the runs of each policy under each load;
//! `--rules PART` compares only rules whose names contain PART with the default, and `--saturating`
//! leaves out the loads at which packets do not always wait.

use std::time::Duration;

use convoy_assembly::assemble;
use convoy_dataplane::costs::Costs;
use convoy_workbench::{Bench, DemoEngine, Load, Measurement, Plan, Platform, Rule, imix};

/// The scheduler's window, in packets.
const WINDOW: usize = 32;
/// Offered loads relative to the capacity with the default rule.
const LOADS: [f64; 4] = [0.5, 0.8, 1.0, 1.5];
const SEED: u64 = 1;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u32| {
        let at = words.iter().position(|word| word == name);
        let given = at.and_then(|at| words.get(at + 1));
        given.map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{name} wants a whole number")))
    };
    let (rounds, ms) = (number("--rounds", 5) as usize, number("--ms", 500));
    let part = words.iter().position(|word| word == "--rules").and_then(|at| words.get(at + 1));
    let loads = if words.iter().any(|word| word == "--saturating") { &[] } else { &LOADS[..] };
    let rules = rules(part.map_or("", String::as_str));
    let length = Duration::from_millis(ms.into());
    let mut costs = assemble::costs();
    let platforms = [Some(Platform::accelerators(&mut costs)), Platform::own_core(&mut costs)];
    for platform in platforms.into_iter().flatten() {
        let plan = Plan { window: WINDOW, load: Load::Saturating, rounds, length };
        report(&platform, &mut costs, &rules, loads, plan);
    }
}

/// The default rule first, then all others whose names contain `part`.
fn rules(part: &str) -> Vec<Rule> {
    let mut rules = Rule::compared();
    rules.insert(2, Rule::WHOLE_WINDOW);
    rules.extend(convoy_rivals::from_literature().map(Rule::rival));
    rules.retain(|rule| *rule == Rule::DEFAULT || rule.to_string().contains(part));
    rules
}

fn report(platform: &Platform, costs: &mut Costs, rules: &[Rule], loads: &[f64], plan: Plan) {
    let traffic = imix(SEED);
    let mut bench = Bench { platform, traffic: &traffic, costs };
    println!("\n## {}\n\nWith {}: {}.", platform.about, platform.proposal, costs_of(&platform.engines));
    let mut measure = |load| bench.measure(rules, Plan { load, ..plan }).expect("memory does not fail");
    let saturated = measure(Load::Saturating);
    let capacity = saturated[0].packets_per_second;
    println!("Capacity, with {}: {capacity:.0} packets/s.", rules[0]);
    table("all that they take", platform, &saturated);
    for load in loads {
        let offered = measure(Load::Offered(load * capacity));
        table(&format!("{load:.1} of the capacity"), platform, &offered);
    }
}

fn costs_of(engines: &[DemoEngine]) -> String {
    let cost = |engine: &DemoEngine| {
        let DemoEngine { name, is_model, t_init_ns, t_block_ns, of_cpu } = engine;
        let kind = if *is_model { "modelled" } else { "measured" };
        format!(
            "{name} {t_init_ns:.0} ns and {t_block_ns:.1} ns a block ({kind}; a packet alone {of_cpu:.2} times software's)"
        )
    };
    engines.iter().map(cost).collect::<Vec<_>>().join(", ")
}

fn table(load: &str, platform: &Platform, measured: &[Measurement]) {
    // Of the packets, and of the time.
    let shares: Vec<String> =
        platform.engines.iter().map(|engine| format!("{}, %, busy, %", engine.name)).collect();
    let columns = ["packets/s", "lost, %", "p50, us", "p99, us", "p99.9, us", "per multi-packet"];
    println!(
        "\n| {load} | {} | {} |\n|{}",
        columns.join(" | "),
        shares.join(" | "),
        " --- |".repeat(7 + shares.len())
    );
    for Measurement {
        rule,
        packets_per_second,
        refused,
        latency,
        packets_per_multi_packet,
        shares,
        busy,
        is_perfect,
        ..
    } in measured
    {
        assert!(is_perfect, "{rule}: not every packet came out byte for byte and in order");
        let of_engine = |(share, busy): (&f64, &f64)| format!("{:.0}, {:.0}", share * 100.0, busy * 100.0);
        let shares: Vec<String> = shares.iter().zip(busy).map(of_engine).collect();
        println!(
            "| {rule} | {packets_per_second:.0} | {:.1} | {:.0} | {:.0} | {:.0} | {packets_per_multi_packet:.2} | {} |",
            refused * 100.0,
            latency.p50_us,
            latency.p99_us,
            latency.p999_us,
            shares.join(" | ")
        );
    }
}
