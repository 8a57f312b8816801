//! The commands of `convoy`: they call the libraries and print results. `convoy-lab` has some of
//! them as well, with its own kinds of engine and port.

#[macro_use]
pub mod output;

pub mod args;
pub mod check;
mod cluster;
pub mod complete;
mod control;
mod drain;
pub mod engines;
mod explain;
mod failure;
pub mod helper;
mod import;
mod init;
mod laboratory;
#[cfg(feature = "reference")]
mod manuals;
mod rates;
#[cfg(feature = "reference")]
pub mod reference;
pub mod replay;
pub mod run;
mod secret;
mod show;
mod summary;
pub mod table;
mod top;
mod trace;
pub mod unblock;

pub use failure::{Failure, exit_status};

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use convoy_config::PRODUCT;
use convoy_config::genkey::GenkeyError;

use convoy_log::{self as log, LogFormat};

use args::{Cli, Command, GenkeyArgs};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    if let Some(failure) = laboratory::run_if_named(std::env::args_os()) {
        return exit_status(LogFormat::Text, Err(failure));
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return log::wrong_usage(&error),
    };
    let log_format = cli.command.log_format();
    log::init(log_format);
    exit_status(log_format, run_command(cli.command))
}

/// The command line of `convoy`, as clap has it.
pub fn command_line() -> clap::Command {
    Cli::command()
}

fn run_command(command: Command) -> Result<(), Failure> {
    match command {
        Command::Check(args) => check::run(&args, &PRODUCT),
        Command::Cluster(args) => cluster::run(&args),
        Command::Complete(args) => complete::run(&args, command_line()),
        Command::Drain(args) => drain::run(&args),
        Command::Engines(args) => engines::run(&args, &PRODUCT),
        Command::Explain(args) => explain::run(&args),
        Command::Genkey(args) => genkey(&args),
        Command::Helper(args) => helper::run(&args),
        Command::Import(args) => import::run(&args),
        Command::Init(args) => init::run(&args),
        Command::Reload(args) => control::reload(&args),
        Command::Replay(args) => replay::run(&args, &PRODUCT),
        Command::Run(args) => run::run(&args, &PRODUCT),
        Command::Show(args) => show::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Unblock(args) => unblock::run(&args, &PRODUCT),
    }
}

/// `convoy genkey`.
fn genkey(args: &GenkeyArgs) -> Result<(), Failure> {
    let key = convoy_config::genkey::genkey(&args.proposal).map_err(|error| match error {
        GenkeyError::Proposal(_) => Failure::Config(error.to_string()),
        GenkeyError::Random(_) => Failure::Failed(error.to_string()),
    })?;
    println!("{}", *key);
    Ok(())
}
