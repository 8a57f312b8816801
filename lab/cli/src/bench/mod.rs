//! `convoy-lab bench`: measures gateways.

mod args;
mod budget;
mod inside;
mod load;
mod page;
mod profile;
mod schemes;
mod shape;
mod spread;
mod throughput;

use convoy_measure::{Machine, MeasureError};

pub(crate) use args::BenchArgs;
use args::BenchCommand;

use convoy_cli::Failure;

pub(crate) fn run(args: &BenchArgs) -> Result<(), Failure> {
    match &args.command {
        BenchCommand::Throughput(args) => throughput::run(args),
        BenchCommand::Schemes(args) => schemes::run(args),
        BenchCommand::Inside(args) => inside::run(args),
    }
}

/// Invalid requests are usage errors; everything else is a failure.
fn failure(error: MeasureError) -> Failure {
    match error {
        MeasureError::Invalid(what) => Failure::Config(format!("convoy: {what}")),
        other => Failure::Failed(other.to_string()),
    }
}

/// Prints the machine at the top of a report.
fn print_machine(machine: &Machine) {
    let Machine { processor, cores, kernel, convoy, is_release } = machine;
    println!("{processor}, {cores} cores for this process, Linux {kernel}, convoy {convoy}");
    if !is_release {
        println!("This program was built without optimisation: the figures do not apply to a release build.");
    }
}
