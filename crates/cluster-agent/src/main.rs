//! The program `convoy-cluster-agent`, which `convoy` starts.

use std::process::ExitCode;

use clap::Parser;
use convoy_log::{self as log, LogFormat};

/// The process beside a gateway of a cluster that reaches the cluster's store; convoy starts it.
#[derive(Parser)]
#[command(name = "convoy-cluster-agent", version, about)]
struct AgentCli {
    /// The format of the log, as the gateway's
    #[arg(long, value_enum, default_value_t)]
    log_format: LogFormat,
}

fn main() -> ExitCode {
    let cli = match AgentCli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return log::wrong_usage(&error),
    };
    log::init(cli.log_format);
    match convoy_cluster_agent::serve() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            log::fatal(cli.log_format, &format!("the cluster's agent: {error}"));
            ExitCode::FAILURE
        }
    }
}
