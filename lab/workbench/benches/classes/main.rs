//! Two traffic classes in a gateway: how much sooner urgent packets leave, how many are lost, and
//! what that costs. One of eight tunnels has urgent packets. Prints the tables of
//! docs/lab/results/classes.md.
//!
//! `-- --rounds N --ms N` sets the number and duration of the runs of each rule.

use std::sync::Arc;
use std::time::Duration;

use convoy_assembly::assemble;
use convoy_dataplane::costs::Costs;
use convoy_workbench::{ClassFigures, ClassTrial, Platform, Rule, Spread, Traffic, urgent_imix};

/// The scheduler's window, in packets.
const WINDOW: usize = 32;
/// Offered loads relative to the capacity with one class.
const LOADS: [f64; 4] = [0.5, 0.8, 1.2, 2.0];

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |name: &str, default: u32| {
        let at = words.iter().position(|word| word == name);
        let given = at.and_then(|at| words.get(at + 1));
        given.map_or(default, |word| word.parse().unwrap_or_else(|_| panic!("{name} wants a whole number")))
    };
    let (rounds, ms) = (number("--rounds", 7) as usize, number("--ms", 400));
    let [traffic, _] = urgent_imix(1);
    let mut costs = assemble::costs();
    let platforms = [Some(Platform::accelerators(&mut costs)), Platform::own_core(&mut costs)];
    for platform in platforms.into_iter().flatten() {
        println!("\n## {}", platform.about);
        let length = Duration::from_millis(ms.into());
        let trial = ClassTrial {
            platform: &platform,
            rule: Rule::DEFAULT,
            window: WINDOW,
            packets_per_second: None,
            length,
        };
        let mut bench = Classes { trial, traffic: &traffic, costs: &mut costs, rounds };
        let saturated = bench.measure("always more", None);
        for load in LOADS {
            bench.measure(&format!("{load:.1} of the capacity"), Some(load * saturated));
        }
    }
}

struct Classes<'a> {
    trial: ClassTrial<'a>,
    traffic: &'a Arc<Traffic>,
    costs: &'a mut Costs,
    rounds: usize,
}

impl Classes<'_> {
    /// Prints the table of a load; returns the packets per second with one class.
    fn measure(&mut self, load: &str, packets_per_second: Option<f64>) -> f64 {
        let mut rules = vec![Rule::DEFAULT, Rule::with_classes(None)];
        rules.extend([8, 4, 2, 1].map(|credits| Rule::with_classes(Some(credits))));
        let mut reports: Vec<Vec<ClassFigures>> = rules.iter().map(|_| Vec::new()).collect();
        for round in 0..self.rounds {
            for step in 0..rules.len() {
                let at = (round + step) % rules.len();
                let trial = ClassTrial { rule: rules[at], packets_per_second, ..self.trial };
                reports[at].push(trial.run(self.traffic, self.costs).expect("memory does not fail"));
            }
        }
        println!(
            "\n| {load} | 1000 packets/s | urgent p50, us | urgent p99, us | urgent lost, % | others lost, % |"
        );
        println!("| --- | --: | --: | --: | --: | --: |");
        for (rule, reports) in rules.iter().zip(&reports) {
            let of = |figure: fn(&ClassFigures) -> f64| Spread::of(reports.iter().map(figure));
            println!(
                "| {rule} | {:.0} | {:.0} | {:.0} | {:.1} | {:.1} |",
                of(|report| report.packets_per_second * 1e-3),
                of(|report| report.urgent_p50_us),
                of(|report| report.urgent_p99_us),
                of(|report| report.urgent_lost * 100.0),
                of(|report| report.others_lost * 100.0),
            );
        }
        Spread::of(reports[0].iter().map(|report| report.packets_per_second)).median
    }
}
