//! `convoy-lab sim`: the simulator.

mod args;
mod figures;
mod ndr;
mod plan;
mod policies;
mod run;
mod sweep;
mod traffic;

use convoy_sim::{Platform, SimulationError};

use args::SimCommand;
pub(crate) use args::{FiguresArgs, SimArgs};

use convoy_cli::Failure;

/// `convoy-lab figures`.
pub(crate) fn run_figures(args: &FiguresArgs) -> Result<(), Failure> {
    figures::run(args)
}

pub(crate) fn run(args: &SimArgs) -> Result<(), Failure> {
    match &args.command {
        SimCommand::Run(args) => run::run(args),
        SimCommand::Ndr(args) => ndr::run(args),
        SimCommand::Sweep(args) => sweep::run(args),
        SimCommand::Figures(args) => figures::run(args),
        SimCommand::Plan(args) => plan::run(args),
    }
}

/// Loads a platform by file or name.
fn platform(name: &str) -> Result<Platform, Failure> {
    Platform::open(name).map_err(|error| Failure::Config(error.to_string()))
}

/// Unreadable files are failures; values out of range are usage errors.
fn failure(error: SimulationError) -> Failure {
    match error {
        SimulationError::Traffic(error) if !error.place.starts_with("pattern ") => {
            Failure::Failed(error.to_string())
        }
        other => Failure::Config(other.to_string()),
    }
}
