//! The demonstration: two gateways in one process protect real traffic ([`convoy_workbench`]), and
//! what they did is printed.
//!
//! `convoy-lab demo` and `convoy-demo`, which is what `make demo` builds, are both [`run`].

mod print;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use convoy_workbench::{DemoConfig, DemoError, DemoReport};

use print::{CLEAR, DemoPage, DemoView};

/// Fraction of the time for the first, live part.
const LIVE_SHARE: f64 = 0.15;
/// Fraction of the time for tunnel mode beside IP-TFS; the comparisons of policies share the rest.
const IPTFS_SHARE: f64 = 0.08;
/// Duration of each run with the verilated card, which handles a few thousand packets per second.
const CARD: Duration = Duration::from_secs(3);
/// The capture that comes with the source.
const CAPTURE: &str = "demo/traffic.pcap";

/// Options of the demo.
#[derive(Args)]
pub struct DemoArgs {
    /// Total duration in seconds, without the six seconds of the simulated card
    #[arg(long, default_value_t = 45.0)]
    seconds: f64,
    /// Make this engine of the first gateway fail under load and recover: multibuffer, software,
    /// model-a or model-b. It is an error if the engine does not fail
    #[arg(long, value_name = "ENGINE")]
    fail: Option<String>,
    /// The capture to send instead of demo/traffic.pcap
    #[arg(long, value_name = "FILE.pcap")]
    capture: Option<PathBuf>,
    /// Seed of the generated IMIX traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl DemoArgs {
    fn config(&self) -> DemoConfig {
        let seconds = self.seconds.max(1.0);
        let share = |share| Duration::from_secs_f64(seconds * share);
        let from_source = || Some(PathBuf::from(CAPTURE)).filter(|path| path.exists());
        DemoConfig {
            live: share(LIVE_SHARE),
            comparisons: share(1.0 - LIVE_SHARE - IPTFS_SHARE),
            iptfs: share(IPTFS_SHARE),
            card: CARD,
            capture: self.capture.clone().or_else(from_source),
            fail: self.fail.clone(),
            seed: self.seed,
        }
    }
}

/// Why the demo failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// It could not be run.
    #[error(transparent)]
    Demo(#[from] DemoError),
    /// Packets were lost or changed, or overtook others of their SA.
    #[error("not every packet arrived unchanged and in order")]
    Imperfect,
    /// The report could not be written.
    #[error("standard output: {0}")]
    Output(#[from] io::Error),
}

/// Runs the demo and prints its report to standard output; at a terminal, the first part is shown
/// while it runs.
///
/// # Errors
/// [`Failure`]; a reader of standard output that leaves early, such as `head`, is no failure.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let is_live = io::stdout().is_terminal() && !args.json;
    let config = args.config();
    let seconds = config.length().as_secs_f64();
    // A failure to announce or to warn is ignored.
    let _ = writeln!(io::stderr(), "The demonstration takes {seconds:.0} s; its results follow then.");
    let report = convoy_workbench::run(&config, &mut |view| {
        if is_live {
            // Failures are ignored, for example when the terminal was closed.
            let _ = write!(io::stdout(), "{}", DemoView(view)).and_then(|()| io::stdout().flush());
        }
    })?;
    if let Some(damage) = &report.capture_damage {
        let _ = writeln!(io::stderr(), "convoy: warning: {damage}");
    }
    match print(&report, args.json, is_live) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if report.is_perfect() { Ok(()) } else { Err(Failure::Imperfect) }
}

/// Prints the report, over what a live view left on the terminal.
fn print(report: &DemoReport, as_json: bool, is_live: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    let clear = if is_live { CLEAR } else { "" };
    write!(out, "{clear}{}", DemoPage(report))
}
