//! `convoy replay`.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use convoy_assembly::replay::{ReplayDirection, ReplayReport, replay};
use convoy_config::{Kinds, counted};

use crate::Failure;
use crate::args::{CaptureDirection, ReplayArgs};
use crate::check::load_for_any_machine;
use crate::output::warn_of;

/// `convoy replay`, in a program with these kinds of engine.
///
/// # Errors
/// The configuration's, or those of the captures.
pub fn run(args: &ReplayArgs, kinds: &'static Kinds) -> Result<(), Failure> {
    let mut config = load_for_any_machine(&args.config, kinds)?;
    let unresolved = convoy_names::resolve(&mut config);
    if !unresolved.is_empty() {
        return Err(Failure::Config(format!("{}: {}", args.config.display(), unresolved.join("\n"))));
    }
    let direction = match args.direction {
        CaptureDirection::Out => ReplayDirection::Out,
        CaptureDirection::In => ReplayDirection::In,
    };
    let mut shown = ReplayProgress::default();
    let report = replay(&config, direction, &args.input, &args.output, &mut |read| shown.set(read));
    shown.end();
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

/// The packets read so far, on a terminal.
#[derive(Default)]
struct ReplayProgress {
    shown: Option<Instant>,
}

impl ReplayProgress {
    const INTERVAL: Duration = Duration::from_millis(200);

    fn set(&mut self, read: u64) {
        let is_due = self.shown.is_none_or(|shown| shown.elapsed() > Self::INTERVAL);
        if is_due && std::io::stderr().is_terminal() {
            eprint!("\r{read} packets read");
            self.shown = Some(Instant::now());
        }
    }

    fn end(&self) {
        if self.shown.is_some() {
            eprint!("\r\x1b[K");
        }
    }
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
        let packets = counted(engine.packets, "packet");
        println!("{}: {packets} in {}", engine.engine, counted(engine.multi_packets, "multi-packet"));
    }
}
