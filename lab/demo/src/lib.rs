//! The demonstration: two gateways in one process protect real traffic ([`convoy_workbench`]), and
//! what they did is printed.
//!
//! `convoy-lab demo` and `convoy-demo`, which is what `make demo` builds, are both [`run`].

mod page;
mod progress;
mod text;

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use convoy_workbench::{DemoCapture, DemoConfig, DemoError, DemoReport};

use page::DemoPage;
use progress::ProgressLine;

/// Fraction of the time for the first part, with all engines.
const LIVE_SHARE: f64 = 0.06;
/// Fraction of the time for tunnel mode beside IP-TFS.
const IPTFS_SHARE: f64 = 0.12;
/// Fraction of the time for the verilated card; the comparisons of policies share the rest.
const CARD_SHARE: f64 = 0.1;
/// Rounds of the comparisons. If two policies did not differ, one of them would lead in all seven
/// rounds once in 64 runs.
const ROUNDS: usize = 7;
/// Shorter demonstrations, in seconds, have [`QUICK_ROUNDS`].
const QUICK_SECONDS: f64 = 15.0;
/// Rounds of a short demonstration.
const QUICK_ROUNDS: usize = 3;
/// The capture of demo/make-traffic.sh.
static CAPTURE: &[u8] = include_bytes!("../../../demo/traffic.pcap");

/// Options of the demo.
#[derive(Args)]
pub struct DemoArgs {
    /// Total duration in seconds; below 15 there are three rounds instead of seven
    #[arg(long, default_value_t = 45.0)]
    seconds: f64,
    /// Make this engine of the first gateway fail under load and recover: multibuffer, software,
    /// model-a or model-b. It is an error if the engine does not fail
    #[arg(long, value_name = "ENGINE")]
    fail: Option<String>,
    /// The capture to send instead of the built-in one, demo/traffic.pcap
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
        let card_share = if cfg!(feature = "card") { CARD_SHARE } else { 0.0 };
        DemoConfig {
            live: share(LIVE_SHARE),
            comparisons: share(1.0 - LIVE_SHARE - IPTFS_SHARE - card_share),
            rounds: if seconds < QUICK_SECONDS { QUICK_ROUNDS } else { ROUNDS },
            iptfs: share(IPTFS_SHARE),
            card: share(card_share),
            capture: self.capture.clone().map_or(DemoCapture::Bytes(CAPTURE), DemoCapture::File),
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

/// Runs the demo and prints its report to standard output, and what it does meanwhile to standard
/// error.
///
/// # Errors
/// [`Failure`]; a reader of standard output that leaves early, such as `head`, is no failure.
pub fn run(args: &DemoArgs) -> Result<(), Failure> {
    let config = args.config();
    let mut line = ProgressLine::new(io::stderr(), io::stderr().is_terminal(), config.length());
    let report = convoy_workbench::run(&config, &mut |progress| line.show(progress));
    line.end();
    let report = report?;
    if let Some(damage) = &report.capture_damage {
        // A failure to warn is ignored.
        let _ = writeln!(io::stderr(), "convoy: warning: {damage}");
    }
    match print(&report, args.json) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => return Err(error.into()),
        _ => {}
    }
    if report.is_perfect() { Ok(()) } else { Err(Failure::Imperfect) }
}

fn print(report: &DemoReport, as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        serde_json::to_writer_pretty(&mut out, report)?;
        return writeln!(out);
    }
    write!(out, "{}", DemoPage(report))
}
