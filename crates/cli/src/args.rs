//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// An IPsec gateway in userspace that spreads packet cryptography over every engine of a machine.
#[derive(Parser)]
#[command(version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run the gateway in the foreground; SIGTERM drains and stops, SIGHUP reloads
    Run(RunArgs),
    /// Ask a running gateway
    Show(ShowArgs),
    /// Check a configuration: errors with file, line and key
    Check(CheckArgs),
    /// Send a capture through the gateway's pipeline and write what leaves
    Replay(ReplayArgs),
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

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The configuration
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
}

/// What can be shown.
#[derive(Clone, Copy, ValueEnum)]
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
pub(crate) struct ShowArgs {
    /// What to show
    pub(crate) what: Shown,
    /// The gateway's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/convoy/control.sock")]
    pub(crate) control: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
