//! A line of JSON that does not come from the log, such as the error that ends the program.

use std::fmt;

use serde::Serialize;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};

/// The log's words for the levels.
pub(crate) const ERROR: &str = "ERROR";
pub(crate) const WARN: &str = "WARN";

/// A line with the keys of the log's own, in the same order.
#[derive(Debug, Default, Serialize)]
pub(crate) struct LogLine<'a> {
    pub(crate) timestamp: String,
    pub(crate) level: &'static str,
    pub(crate) message: &'a str,
    /// Where it is: in a configuration, or in convoy's source code for a panic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<usize>,
    /// The configuration's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key: Option<&'a str>,
    /// The thread that panicked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) thread: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) backtrace: Option<String>,
    pub(crate) target: &'static str,
}

impl<'a> LogLine<'a> {
    pub(crate) fn new(level: &'static str, message: &'a str) -> Self {
        let mut timestamp = String::new();
        // If the time cannot be formatted, it is empty.
        let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
        Self { timestamp, level, message, target: "convoy", ..Self::default() }
    }
}

impl fmt::Display for LogLine<'_> {
    /// With the newline, so that it can be written at once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        writeln!(f, "{text}")
    }
}
