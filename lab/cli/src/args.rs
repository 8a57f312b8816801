//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use convoy_cli::args::{CheckArgs, CompleteArgs, EnginesArgs, HelperArgs, ReplayArgs, RunArgs, UnblockArgs};
use convoy_demo::DemoArgs;
use convoy_log::LogFormat;

use crate::bench::BenchArgs;
use crate::hdtv::HdtvArgs;
use crate::sim::{FiguresArgs, SimArgs};

/// The laboratory of convoy: demonstrations, simulations, measurements, and simulated devices.
#[derive(Parser)]
#[command(name = "convoy-lab", version, about, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Run two gateways in one process with real traffic over all engines, and in tunnel mode
    /// beside IP-TFS; exits with 0 only if every packet arrives intact
    Demo(DemoArgs),
    /// Simulate a platform with the gateway's scheduler: single runs, sweeps, and the figures of
    /// four papers
    Sim(SimArgs),
    /// Reproduce the figures of a paper and check its claims; also `sim figures`
    Figures(FiguresArgs),
    /// Measure gateways: the highest rates that they carry, latency, loss
    Bench(BenchArgs),
    /// Send or receive uncompressed video over RTP, as a load for the gateway
    Hdtv(HdtvArgs),
    /// Give the kernel a network interface whose card encrypts and decrypts, without a gateway;
    /// SIGTERM stops it
    Nic(NicArgs),
    /// Run a gateway as `convoy run` does, with simulated engines and ports as well
    Run(RunArgs),
    /// Check a configuration, which may have simulated engines and ports
    Check(CheckArgs),
    /// Send a capture through the pipeline of a gateway, which may have simulated engines
    Replay(ReplayArgs),
    /// List the engines of this machine and the simulated ones
    Engines(EnginesArgs),
    /// Remove the routes of a stopped gateway that still drop packets to its tunnels' networks
    Unblock(UnblockArgs),
    /// The process that a gateway starts to manage its routes and to open its configuration
    #[command(hide = true)]
    Helper(HelperArgs),
    /// Print what may follow an unfinished command line, for the shells' completion
    #[command(hide = true)]
    Complete(CompleteArgs),
    /// Print the command line of a program as a page of the book
    #[command(hide = true)]
    Reference(ReferenceArgs),
}

impl Command {
    /// How the log of a command is written.
    pub(crate) fn log_format(&self) -> LogFormat {
        match self {
            Self::Run(args) => args.log_format,
            Self::Helper(args) => args.log_format,
            _ => LogFormat::Text,
        }
    }
}

/// Arguments of `convoy-lab reference`.
#[derive(Args)]
pub(crate) struct ReferenceArgs {
    /// The program
    #[arg(long, value_enum, value_name = "PROGRAM", default_value_t = Program::Laboratory)]
    pub(crate) of: Program,
    /// Write man pages and the shells' completions into this folder instead
    #[arg(long, value_name = "FOLDER")]
    pub(crate) manuals: Option<PathBuf>,
}

/// A program with a command line.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Program {
    /// The gateway
    #[value(name = "convoy")]
    Gateway,
    /// The laboratory
    #[value(name = "convoy-lab")]
    Laboratory,
}

#[derive(Args)]
pub(crate) struct NicArgs {
    /// The interface's configuration file
    #[arg(short, long, value_name = "FILE", default_value = "/etc/convoy/nic.toml")]
    pub(crate) config: PathBuf,
}
