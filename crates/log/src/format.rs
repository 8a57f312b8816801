//! The option that selects the log's form.

use clap::ValueEnum;

/// How the log is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Plain text, with colours on a terminal unless NO_COLOR is set
    #[default]
    Text,
    /// One JSON object per line
    Json,
}

impl LogFormat {
    /// Name on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}
