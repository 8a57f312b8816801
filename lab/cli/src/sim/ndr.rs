//! `convoy-lab sim ndr`.

use convoy_sim::{Ndr, NdrSearch, Setting};
use serde::Serialize;

use super::args::NdrArgs;
use super::run::{print_processors, print_stages};
use super::{failure, platform};
use convoy_cli::Failure;
use convoy_cli::table::new_table;

/// The result as JSON, with its input.
#[derive(Serialize)]
struct NdrOutput<'a> {
    platform: &'a str,
    setting: &'a Setting,
    loss_ratio: f64,
    #[serde(flatten)]
    ndr: &'a Ndr,
}

pub(super) fn run(args: &NdrArgs) -> Result<(), Failure> {
    let base = platform(&args.platform)?;
    let setting = Setting {
        pattern: Some(args.pattern.to_string()),
        packets: Some(args.packets),
        seed: Some(args.seed),
        sas: args.sas,
        rate_mbps: args.rate_mbps,
        ..args.changes.setting()
    };
    let search =
        NdrSearch { loss_ratio: args.loss_ratio, resolution: args.resolution, is_poisson: args.poisson };
    let ndr = search.run(&base, &setting).map_err(failure)?;
    if args.json {
        let output =
            NdrOutput { platform: &base.name, setting: &setting, loss_ratio: args.loss_ratio, ndr: &ndr };
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&base.name, &setting, args, &ndr);
    }
    Ok(())
}

fn print(platform: &str, setting: &Setting, args: &NdrArgs, ndr: &Ndr) {
    let variant = setting.variant.as_ref().map(|names| format!(" ({names})")).unwrap_or_default();
    println!("{platform}{variant}, pattern {}, {} packets per trial", args.pattern, args.packets);
    println!();
    let mut trials = new_table(&["offered packets/s", "Mbit/s of payload", "dropped", ""]);
    for trial in &ndr.trials {
        trials.add_row([
            format!("{:.0}", trial.offered.pps),
            format!("{:.2}", trial.offered.mbps),
            trial.dropped_packets.to_string(),
            if trial.is_good { "passes" } else { "fails" }.to_owned(),
        ]);
    }
    println!("{trials}");
    println!();
    print_processors(&ndr.report);
    print_stages(&ndr.report);
    println!();
    let (best, line) = (&ndr.throughput, &ndr.line);
    let allowed = match args.loss_ratio {
        0.0 => "no loss".to_owned(),
        ratio => format!("at most {} % lost", ratio * 100.0),
    };
    if best.packets == 0 {
        println!("all rates tried lose more than allowed ({allowed})");
    } else {
        let part = best.pps / line.pps * 100.0;
        println!(
            "{allowed} up to {:.0} packets/s, {:.2} Mbit/s of payload, {part:.1} % of the line",
            best.pps, best.mbps
        );
    }
}
