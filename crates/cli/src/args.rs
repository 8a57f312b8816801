//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::sim::SimArgs;

/// An IPsec gateway in userspace that spreads packet cryptography over every engine of a machine.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Two gateways in one process protect real traffic over all engines; exit 0 only if every packet came out
    Demo(DemoArgs),
    /// The engines of this machine: what they can do, why others are not there, what they cost
    Engines(EnginesArgs),
    /// Run the gateway in the foreground; SIGTERM drains and stops, SIGHUP reloads
    Run(RunArgs),
    /// Have a running gateway read its configuration anew; fails, and changes nothing, if that has errors
    Reload(ReloadArgs),
    /// Ask a running gateway
    Show(ShowArgs),
    /// Check a configuration: errors with file, line and key
    Check(CheckArgs),
    /// Send a capture through the gateway's pipeline and write what leaves
    Replay(ReplayArgs),
    /// What a gateway starts beside itself, to keep its routes and open its configuration
    #[command(hide = true)]
    Helper(HelperArgs),
    /// Simulate a platform under this gateway's scheduler: one run, a sweep, the small-packets paper's figures
    Sim(SimArgs),
}

#[derive(Args)]
pub(crate) struct CheckArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// Which way a capture goes.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Way {
    /// Plain packets in, protected ones out
    Out,
    /// Protected packets in, plain ones out
    In,
}

#[derive(Args)]
pub(crate) struct ReplayArgs {
    /// The configuration; its ports are not used
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// Which way the capture goes
    #[arg(long)]
    pub(crate) direction: Way,
    /// The capture that is read: pcap or pcapng, Ethernet or raw IP
    #[arg(long = "in", value_name = "A.pcap")]
    pub(crate) input: PathBuf,
    /// The capture that is written: raw IP
    #[arg(long = "out", value_name = "B.pcap")]
    pub(crate) output: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Lines for people, with colours on a terminal unless NO_COLOR is set
    #[default]
    Text,
    /// An object of JSON in each line
    Json,
}

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// How the log is written
    #[arg(long, value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
}

#[derive(Args)]
pub(crate) struct HelperArgs {
    /// The configuration that a reload reads
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// A socket whose file goes when the gateway stops
    #[arg(long, value_name = "FILE")]
    pub(crate) socket: Vec<PathBuf>,
}

/// What can be shown.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Shown {
    /// Security associations
    Sa,
    /// Policies, first to last
    Policy,
    /// Engines: health, share, predictions
    Engine,
    /// The window
    Scheduler,
    /// Ports
    Port,
    /// Totals and drops; with --json everything
    Stats,
}

#[derive(Args)]
pub(crate) struct ReloadArgs {
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
}

#[derive(Args)]
pub(crate) struct ShowArgs {
    /// What to show
    pub(crate) what: Shown,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
    /// Show everything in one line each; else tables fit 80 columns
    #[arg(long)]
    pub(crate) wide: bool,
    /// Show it again every so many seconds, with rates per second
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", value_parser = seconds)]
    pub(crate) watch: Option<f64>,
    /// Print JSON
    #[arg(long, conflicts_with_all = ["wide", "watch"])]
    pub(crate) json: bool,
}

/// Seconds between two looks at a gateway.
fn seconds(text: &str) -> Result<f64, String> {
    let expected = "a number of seconds from 0.1 to 3600 is expected";
    let seconds: f64 = text.parse().map_err(|_| expected.to_owned())?;
    if (0.1..=3600.0).contains(&seconds) { Ok(seconds) } else { Err(expected.to_owned()) }
}

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Seconds that it takes in all, the simulated card's six not counted
    #[arg(long, default_value_t = 75.0)]
    pub(crate) seconds: f64,
    /// An engine of the first gateway that vanishes under load and comes back: multibuffer, software, model-a, model-b
    #[arg(long, value_name = "ENGINE")]
    pub(crate) fail: Option<String>,
    /// A capture to send instead of demo/traffic.pcap
    #[arg(long, value_name = "FILE.pcap")]
    pub(crate) capture: Option<PathBuf>,
    /// Seed of the generated IMIX
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args)]
pub(crate) struct EnginesArgs {
    /// Measure every engine and algorithm anew
    #[arg(long)]
    pub(crate) calibrate: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
