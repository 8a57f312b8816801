//! The `convoy-demo` binary: the demonstration alone, which is built in less time than the whole
//! laboratory.

use std::process::ExitCode;

use clap::Parser;
use convoy_demo::DemoArgs;
use convoy_log::{self as log, LogFormat};

/// Run two gateways in one process with real traffic over all engines, and in tunnel mode beside
/// IP-TFS; exits with 0 only if every packet arrives intact
#[derive(Parser)]
#[command(name = "convoy-demo", version, about)]
struct DemoCli {
    #[command(flatten)]
    demo: DemoArgs,
}

fn main() -> ExitCode {
    let cli = match DemoCli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return log::wrong_usage(&error),
    };
    log::init(LogFormat::Text);
    match convoy_demo::run(&cli.demo) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            log::fatal(LogFormat::Text, &failure.to_string());
            ExitCode::FAILURE
        }
    }
}
