//! The `convoy-lab` binary: parses the command line, calls the libraries and prints results.

#[macro_use(eprintln, print, println)]
extern crate convoy_cli;

mod args;
mod bench;
mod hdtv;
mod nic;
mod progress;
mod sim;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use convoy_cli::{Failure, exit_status};
use convoy_devices::KINDS;
use convoy_log as log;

use args::{Cli, Command, Program, ReferenceArgs};

/// The title of this program's page in the book.
const TITLE: &str = "The laboratory's commands";

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return log::wrong_usage(&error),
    };
    let log_format = cli.command.log_format();
    log::init(log_format);
    exit_status(log_format, run(cli.command))
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => convoy_cli::check::run(&args, &KINDS),
        Command::Complete(args) => convoy_cli::complete::run(&args, Cli::command()),
        Command::Demo(args) => {
            convoy_demo::run(&args).map_err(|failure| Failure::Failed(failure.to_string()))
        }
        Command::Engines(args) => convoy_cli::engines::run(&args, &KINDS),
        Command::Figures(args) => sim::run_figures(&args),
        Command::Hdtv(args) => hdtv::run(args),
        Command::Helper(args) => convoy_cli::helper::run(&args),
        Command::Nic(args) => nic::run(&args),
        Command::Reference(args) => reference(&args),
        Command::Replay(args) => convoy_cli::replay::run(&args, &KINDS),
        Command::Run(args) => convoy_cli::run::run(&args, &KINDS),
        Command::Sim(args) => sim::run(&args),
        Command::Unblock(args) => convoy_cli::unblock::run(&args, &KINDS),
    }
}

/// `convoy-lab reference`.
fn reference(args: &ReferenceArgs) -> Result<(), Failure> {
    let (title, program) = match args.of {
        Program::Gateway => ("Command line", convoy_cli::command_line()),
        Program::Laboratory => (TITLE, Cli::command()),
    };
    match &args.manuals {
        Some(folder) => convoy_cli::reference::write_manuals(program, folder)?,
        None => print!("{}", convoy_cli::reference::page(title, program)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_of_the_book_is_what_the_program_prints() {
        let page = include_str!("../../../docs/lab/command-line.md");
        let made = convoy_cli::reference::page(TITLE, Cli::command());
        assert!(page == made, "renew it: convoy-lab reference >docs/lab/command-line.md");
    }
}
