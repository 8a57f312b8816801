//! `convoy replay`.

use std::io::IsTerminal;
use std::time::Duration;

use convoy_workbench::replay::{ReplayDirection, ReplayReport, replay};
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;
use crate::args::{CaptureDirection, ReplayArgs};
use crate::check::load_for_any_machine;
use crate::output::warn_of;

pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let mut config = load_for_any_machine(&args.config)?;
    let unresolved = convoy_gateway::names::resolve(&mut config);
    if !unresolved.is_empty() {
        return Err(Failure::Config(format!("{}: {}", args.config.display(), unresolved.join("\n"))));
    }
    let direction = match args.direction {
        CaptureDirection::Out => ReplayDirection::Out,
        CaptureDirection::In => ReplayDirection::In,
    };
    let bar =
        if std::io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    bar.enable_steady_tick(Duration::from_millis(200));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} packets read, {per_sec}") {
        bar.set_style(style);
    }
    let report = replay(&config, direction, &args.input, &args.output, &mut |read| bar.set_position(read));
    bar.finish_and_clear();
    let report = report.map_err(|error| Failure::Failed(error.to_string()))?;
    warn_of(report.damage.as_deref());
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&report).map_err(|error| Failure::Failed(error.to_string()))?
        );
    } else {
        print(&report);
    }
    Ok(())
}

fn print(report: &ReplayReport) {
    println!("read {}, written {}", report.read, report.written);
    for (reason, count) in report.unreadable.iter() {
        println!("  {count} left out: {reason}");
    }
    let lines = [
        ("without a policy that protects them", report.unprotected),
        ("ICMP errors", report.icmp),
        ("IKE messages", report.ike),
    ];
    for (what, count) in lines.into_iter().filter(|(_, count)| *count > 0) {
        println!("  {count} {what}");
    }
    for (reason, count) in &report.dropped {
        println!("  {count} dropped: {reason}");
    }
    for engine in &report.engines {
        println!("{}: {} packets in {} multi-packets", engine.engine, engine.packets, engine.multi_packets);
    }
}
