//! Errors that say where they are.

use std::fmt;
use std::ops::Range;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// File, line and column, as far as they are known.
    pub place: String,
    /// The key, for example `tunnel.esp_proposal`; empty where the whole file is meant.
    pub key: String,
    /// What is wrong, what was expected, what to do.
    pub what: String,
    /// The line with a mark under it; empty where there is none, or where it would show a key.
    pub excerpt: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.what)?;
        if !self.excerpt.is_empty() {
            write!(f, "\n{}", self.excerpt)?;
        }
        Ok(())
    }
}

/// All that is wrong with a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.0.iter().enumerate() {
            if at > 0 {
                writeln!(f)?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

impl ConfigErrors {
    pub(super) fn whole_file(name: &str, what: &str) -> Self {
        let (place, what) = (name.to_owned(), what.to_owned());
        Self(vec![Problem { place, key: String::new(), what, excerpt: String::new() }])
    }

    pub(super) fn from_toml(source: &Source<'_>, error: &toml::de::Error) -> Self {
        let what = error.message().trim().to_owned();
        let problem = match error.span() {
            Some(span) => source.problem(&span, "", &what, true),
            None => {
                Problem { place: source.name.to_owned(), key: String::new(), what, excerpt: String::new() }
            }
        };
        Self(vec![problem])
    }
}

/// The text that errors point into.
pub(super) struct Source<'a> {
    name: &'a str,
    text: &'a str,
}

impl<'a> Source<'a> {
    pub(super) fn new(name: &'a str, text: &'a str) -> Self {
        Self { name, text }
    }

    /// A problem at `span`. The line is shown unless it holds a secret.
    pub(super) fn problem(&self, span: &Range<usize>, key: &str, what: &str, show: bool) -> Problem {
        let start = span.start.min(self.text.len());
        let before = self.text.get(..start).unwrap_or("");
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let (line, column) = (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1);
        let content = self.text[line_start..].lines().next().unwrap_or("");
        let is_secret = content.trim_start().starts_with("key_");
        let excerpt = if show && !is_secret && !content.trim().is_empty() {
            let width = span.len().clamp(1, content.chars().count().saturating_sub(column - 1).max(1));
            format!("  | {content}\n  | {}{}", " ".repeat(column - 1), "^".repeat(width))
        } else {
            String::new()
        };
        Problem {
            place: format!("{}:{line}:{column}", self.name),
            key: key.to_owned(),
            what: what.to_owned(),
            excerpt,
        }
    }
}
