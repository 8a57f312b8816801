//! What is wrong with a configuration.

use convoy_settings::{ConfigErrors, Severity, reported};

use crate::LogFormat;
use crate::line::{ERROR, LogLine, WARN};
use crate::{write, write_text};

/// Writes what is wrong with a configuration: as text with excerpts of the file, or as one line of
/// JSON for each problem.
pub fn problems(format: LogFormat, errors: &ConfigErrors) {
    if format == LogFormat::Text {
        write_text(errors);
        return;
    }
    let (reported, rest) = reported(&errors.0);
    for problem in reported {
        let level = if problem.severity == Severity::Error { ERROR } else { WARN };
        let message = problem.in_one_line();
        write(&LogLine {
            file: Some(&problem.file),
            line: problem.position.map(|position| position.line),
            column: problem.position.map(|position| position.column),
            key: Some(problem.key.as_str()).filter(|key| !key.is_empty()),
            ..LogLine::new(level, &message)
        });
    }
    rest.iter().for_each(|rest| write(&LogLine::new(ERROR, rest)));
}
