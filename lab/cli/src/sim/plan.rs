//! `convoy-lab sim plan`.

use std::cell::OnceCell;

use convoy_capture::Unread;
use convoy_plan::{Machine, Measured, Plan, PlanError, PlanOutcome, Trace, measure, plan};
use convoy_sim::SaCacheSpec;
use serde::Serialize;

use super::args::PlanArgs;
use crate::progress::LabProgress;
use convoy_cli::Failure;
use convoy_cli::check::load_for_any_machine;
use convoy_cli::output::warn_of;
use convoy_cli::table::new_table;

/// The result as JSON.
#[derive(Serialize)]
struct PlanOutput {
    #[serde(flatten)]
    plan: Plan,
    /// Unusable packets of the capture, by reason.
    unreadable: Unread,
    /// Where the capture is truncated or damaged, if it is; the rest was not read.
    damage: Option<String>,
    /// Measurement of the gateway as configured, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

pub(super) fn run(args: &PlanArgs) -> Result<(), Failure> {
    let failed = |error: PlanError| Failure::Failed(error.to_string());
    let config = load_for_any_machine(&args.config, &convoy_devices::KINDS)?;
    if args.rate_mbps.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        return Err(Failure::Config("--rate-mbps must be a number above 0".to_owned()));
    }
    let cards = args.cards.iter().map(|card| super::platform(card)).collect::<Result<Vec<_>, _>>()?;
    let trace = Trace::read(&config, &args.trace, args.packets).map_err(failed)?;
    let mut machine = Machine::new(&config, &trace).map_err(failed)?;
    for card in &cards {
        machine.try_card(card).map_err(|error| Failure::Config(error.to_string()))?;
    }
    let progress = OnceCell::new();
    let plan = plan(&machine, &trace, args.rate_mbps, &mut |done, total| {
        progress.get_or_init(|| LabProgress::new(Some(total as u64), "simulations")).set(done as u64);
    })
    .map_err(failed)?;
    drop(progress);
    let rounds = args.measure.map(|rounds| rounds.max(1));
    let measured = rounds.map(|rounds| measure(&config, &args.trace, args.packets, rounds)).transpose();
    let output = PlanOutput {
        plan,
        unreadable: trace.unreadable,
        damage: trace.damage,
        measured: measured.map_err(failed)?,
    };
    warn_of(output.damage.as_deref());
    if args.json {
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&output);
    }
    Ok(())
}

fn print(output: &PlanOutput) {
    let plan = &output.plan;
    for (reason, count) in output.unreadable.iter() {
        println!("{count} packets of the capture were left out: {reason}");
    }
    let (protected, others) = plan.packets;
    println!(
        "{protected} packets of the capture are protected, {others} are not. A worker spends {:.0} ns on each, without",
        plan.worker_ns.0 + plan.worker_ns.1
    );
    println!("its cipher. These engines are calibrated for the capture's algorithms:");
    let mut engines = new_table(&["engine", "works", "per multi-packet, ns", "per 16 bytes, ns"]);
    for engine in plan.engines.iter().chain(&plan.card_engines) {
        let place = if engine.is_inline { "on the worker's core" } else { "on its own" };
        let kind = if engine.is_model { " (modelled timing)" } else { "" };
        engines.add_row([
            format!("{}{kind}", engine.name),
            place.to_owned(),
            format!("{:.0}", engine.t_init_ns),
            format!("{:.1}", engine.t_block_ns),
        ]);
    }
    println!("{engines}");
    for engine in &plan.card_engines {
        if let Some(SaCacheSpec { sas, miss_us }) = engine.cache {
            println!(
                "{} caches {sas} SAs; a multi-packet of another SA costs {miss_us} us more.",
                engine.name
            );
        }
    }
    if !plan.card_engines.is_empty() {
        println!(
            "The cards' costs are from their platform files, which say what is published, fitted and unknown."
        );
    }
    println!("\nBy simulation:");
    let mut table = new_table(&[
        "setting",
        "packets/s",
        "Mbit/s",
        "gain",
        "packets per multi-packet",
        "latency us",
        "shares",
    ]);
    let rows = std::iter::once(&plan.as_configured).chain(&plan.windows).chain(&plan.changes);
    for outcome in rows {
        table.add_row(row(outcome));
    }
    println!("{table}");
    println!(
        "The best window is {} packets; it is also used for the settings with other engines.",
        plan.best_window
    );
    if let Some(measured) = &output.measured {
        let predicted = plan.as_configured.packets_per_second;
        let error = (predicted / measured.undisturbed_packets_per_second - 1.0) * 100.0;
        let shares: Vec<String> = measured.share.iter().map(|(engine, part)| share(engine, *part)).collect();
        println!(
            "The gateway itself, as configured: {:.0} packets/s undisturbed ({:.0} with the load of other programs), {:.2} packets per \
             multi-packet, {}. The prediction is off by {error:+.0} % from the undisturbed rate.",
            measured.undisturbed_packets_per_second,
            measured.packets_per_second,
            measured.packets_per_multipacket,
            shares.join(", ")
        );
    }
}

fn share(engine: &str, part: f64) -> String {
    format!("{engine} {:.0} %", part * 100.0)
}

fn row(outcome: &PlanOutcome) -> [String; 7] {
    let shares: Vec<String> = outcome.share.iter().map(|(engine, part)| share(engine, *part)).collect();
    [
        outcome.change.clone(),
        format!("{:.0}", outcome.packets_per_second),
        format!("{:.0}", outcome.throughput_mbps),
        format!("{:.2}", outcome.gain),
        format!("{:.2}", outcome.packets_per_multipacket),
        format!("{:.1}", outcome.latency_ms * 1000.0),
        shares.join(", "),
    ]
}
