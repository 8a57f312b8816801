//! Errors that say where they are.

use std::fmt;
use std::ops::Range;

use zeroize::Zeroize;

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

    pub(super) fn text(&self) -> &'a str {
        self.text
    }

    /// A problem at `span`. The line is shown unless it holds a secret.
    pub(super) fn problem(&self, span: &Range<usize>, key: &str, what: &str) -> Problem {
        let (line_start, content) = self.line_at(span.start);
        let before = &self.text[..line_start];
        let into_line = self.text.get(line_start..span.start).unwrap_or("");
        let (line, column) = (before.matches('\n').count() + 1, into_line.chars().count() + 1);
        let has_key = content.contains("key_in") || content.contains("key_out");
        let excerpt = if has_key || content.trim().is_empty() || without_keys(content) != content {
            String::new()
        } else {
            let width = span.len().clamp(1, content.chars().count().saturating_sub(column - 1).max(1));
            format!("  | {content}\n  | {}{}", " ".repeat(column - 1), "^".repeat(width))
        };
        let place = format!("{}:{line}:{column}", self.name);
        Problem { place, key: without_keys(key), what: without_keys(what), excerpt }
    }

    /// What the TOML reader found. The key is the one of its line, under the header above it.
    pub(super) fn toml_problem(&self, error: &toml::de::Error) -> Problem {
        let what = error.message().trim();
        let Some(span) = error.span() else {
            return Problem {
                place: self.name.to_owned(),
                key: String::new(),
                what: without_keys(what),
                excerpt: String::new(),
            };
        };
        let (line_start, content) = self.line_at(span.start);
        let is_header = |line: &&str| line.trim_start().starts_with('[');
        let header = [content].into_iter().chain(self.text[..line_start].lines().rev()).find(is_header);
        let header =
            header.map(|line| line.trim_matches(|c: char| c == '[' || c == ']' || c.is_whitespace()));
        let key = content.split_once('=').map(|(key, _)| key.trim());
        let path: Vec<&str> = header.into_iter().chain(key).collect();
        self.problem(&span, &path.join("."), what)
    }

    /// The line that holds the byte `at`, and where it starts.
    fn line_at(&self, at: usize) -> (usize, &'a str) {
        let before = self.text.get(..at.min(self.text.len())).unwrap_or("");
        let start = before.rfind('\n').map_or(0, |newline| newline + 1);
        (start, self.text[start..].lines().next().unwrap_or(""))
    }
}

/// As many hexadecimal digits in a row may be a key.
const SECRET_DIGITS: usize = 16;

/// `text` with whatever may be a key left out.
fn without_keys(text: &str) -> String {
    let mut shown = String::new();
    let mut run = String::new();
    for character in text.chars().chain(['\0']) {
        if character.is_ascii_hexdigit() {
            run.push(character);
            continue;
        }
        shown.push_str(if run.len() < SECRET_DIGITS { &run } else { "..." });
        run.zeroize();
        if character != '\0' {
            shown.push(character);
        }
    }
    shown
}
