//! Problems of a configuration in the log.

use convoy_settings::{Problem, Severity};

/// What wrote it, in the log.
const TARGET: &str = "convoy_config";

/// Logs a problem at its place. The fields are for a log in JSON; in text, the message says the
/// same.
pub fn log(problem: &Problem) {
    log_for("", problem);
}

/// Like [`log`], with what the problem was found at before it.
pub fn log_for(context: &str, problem: &Problem) {
    let file = problem.file.as_str();
    let line = problem.position.map(|position| position.line);
    let column = problem.position.map(|position| position.column);
    let key = (!problem.key.is_empty()).then_some(problem.key.as_str());
    let message = problem.in_one_line();
    match problem.severity {
        Severity::Error => tracing::error!(target: TARGET, file, line, column, key, "{context}{message}"),
        Severity::Warning => tracing::warn!(target: TARGET, file, line, column, key, "{context}{message}"),
    }
}
