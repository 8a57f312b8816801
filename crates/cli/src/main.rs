//! The `convoy` binary: parses the command line, calls the libraries and prints results.

#[macro_use]
mod output;

mod args;
mod bench;
mod check;
mod cluster;
mod control;
mod demo;
mod drain;
mod engines;
mod explain;
mod hdtv;
mod helper;
mod init;
mod log;
mod manuals;
mod nic;
mod progress;
mod rates;
mod reference;
mod replay;
mod run;
mod secret;
mod show;
mod sim;
mod summary;
mod table;
mod top;
mod trace;
mod unblock;

use std::fmt;
use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command, LogFormat};
use convoy_gateway::config::ConfigErrors;
use convoy_gateway::genkey::GenkeyError;

/// Exit status for wrong usage or configuration, like clap's.
const USAGE: u8 = 2;

/// Why a command failed.
pub(crate) enum Failure {
    /// The usage is wrong, or what a configuration is used for.
    Config(String),
    /// The configuration has errors.
    Problems(ConfigErrors),
    /// The command failed.
    Failed(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) | Self::Failed(text) => f.write_str(text),
            Self::Problems(errors) => errors.fmt(f),
        }
    }
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) if error.use_stderr() && log::is_json_asked_for(std::env::args_os()) => {
            log::usage(LogFormat::Json, &error.to_string());
            return ExitCode::from(USAGE);
        }
        Err(error) => error.exit(),
    };
    let log_format = match &cli.command {
        Command::Run(args) => args.log_format,
        Command::Helper(args) => args.log_format,
        Command::ClusterAgent(args) => args.log_format,
        _ => LogFormat::Text,
    };
    log::init(log_format);
    let result = match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Cluster(args) => cluster::run(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Drain(args) => drain::run(&args),
        Command::Engines(args) => engines::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Hdtv(args) => hdtv::run(args),
        Command::Genkey(args) => genkey(&args),
        Command::Helper(args) => helper::run(&args),
        Command::ClusterAgent(_) => helper::run_agent(),
        Command::Init(args) => init::run(&args),
        Command::Nic(args) => nic::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Reload(args) => control::reload(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Unblock(args) => unblock::run(&args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Config(text)) => {
            log::usage(log_format, &text);
            ExitCode::from(USAGE)
        }
        Err(Failure::Problems(errors)) => {
            log::problems(log_format, &errors);
            ExitCode::from(USAGE)
        }
        Err(Failure::Failed(text)) => {
            log::fatal(log_format, &text);
            ExitCode::FAILURE
        }
    }
}

/// `convoy genkey`.
fn genkey(args: &args::GenkeyArgs) -> Result<(), Failure> {
    let key = convoy_gateway::genkey::genkey(&args.proposal).map_err(|error| match error {
        GenkeyError::Proposal(_) => Failure::Config(error.to_string()),
        GenkeyError::Random(_) => Failure::Failed(error.to_string()),
    })?;
    println!("{}", *key);
    Ok(())
}
