//! Why a command failed, and the exit status that says so.

use std::fmt;
use std::process::ExitCode;

use convoy_config::ConfigErrors;
use convoy_log::{self as log, LogFormat, USAGE};

/// Why a command failed.
pub enum Failure {
    /// The usage is wrong, or what a configuration is used for.
    Config(String),
    /// The configuration has errors.
    Problems(ConfigErrors),
    /// The command failed.
    Failed(String),
    /// The answer that was printed is a failure, and says why.
    Answered,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(text) | Self::Failed(text) => f.write_str(text),
            Self::Problems(errors) => errors.fmt(f),
            Self::Answered => Ok(()),
        }
    }
}

/// Writes the reason of a failure to standard error; returns the program's exit status.
pub fn exit_status(log_format: LogFormat, result: Result<(), Failure>) -> ExitCode {
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
        Err(Failure::Answered) => ExitCode::FAILURE,
        Err(Failure::Failed(text)) => {
            log::fatal(log_format, &text);
            ExitCode::FAILURE
        }
    }
}
