//! Errors and warnings with their places.

use std::fmt;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It is valid, but probably a mistake.
    Warning,
}

/// A place in a file; both numbers start at 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The character in the line.
    pub column: usize,
}

/// A problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Its severity.
    pub severity: Severity,
    /// The file.
    pub file: String,
    /// Where it is in the file; `None` if it concerns the whole file.
    pub position: Option<Position>,
    /// The key, for example `tunnel.esp_proposal`; empty if it concerns the whole file.
    pub key: String,
    /// What is wrong, what was expected and what to do.
    pub what: String,
    /// The lines concerned, with the place marked and with everything that may be a secret key left
    /// out; empty if there are none.
    pub excerpt: String,
    /// Its offset in the file, in bytes, for sorting.
    start: usize,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}: {severity}: {}", self.place(), self.key_and_what())?;
        if !self.excerpt.is_empty() {
            write!(f, "\n{}", self.excerpt)?;
        }
        Ok(())
    }
}

impl Problem {
    /// Place, key and text, without excerpt and severity: for a log, which has levels of its own.
    pub fn in_one_line(&self) -> String {
        format!("{}: {}", self.place(), self.key_and_what())
    }

    /// File, line and column, as far as known.
    fn place(&self) -> String {
        match self.position {
            Some(Position { line, column }) => format!("{}:{line}:{column}", self.file),
            None => self.file.clone(),
        }
    }

    fn key_and_what(&self) -> String {
        if self.key.is_empty() { self.what.clone() } else { format!("{}: {}", self.key, self.what) }
    }

    /// An error about the file as a whole.
    fn whole_file(name: &str, what: &str) -> Self {
        Self {
            severity: Severity::Error,
            file: name.to_owned(),
            position: None,
            key: String::new(),
            what: what.to_owned(),
            excerpt: String::new(),
            start: 0,
        }
    }

    /// The same problem as a warning.
    pub(crate) fn into_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }
}

/// All problems of a configuration, in the order of the file; at least one is an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigErrors(pub Vec<Problem>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (reported, rest) = reported(&self.0);
        let lines: Vec<String> = reported.into_iter().map(ToString::to_string).chain(rest).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

impl ConfigErrors {
    /// One error about the file as a whole.
    pub fn whole_file(name: &str, what: &str) -> Self {
        Self(vec![Problem::whole_file(name, what)])
    }
}

/// The most problems of one severity that are reported individually.
const MOST_REPORTED: usize = 50;

/// The problems to report individually, and a line that counts the others: a generated file may
/// repeat a mistake in each of 10,000 tunnels.
pub fn reported(problems: &[Problem]) -> (Vec<&Problem>, Option<String>) {
    let (mut errors, mut warnings) = (0, 0);
    let is_reported = |problem: &&Problem| {
        let count = if problem.severity == Severity::Error { &mut errors } else { &mut warnings };
        *count += 1;
        *count <= MOST_REPORTED
    };
    let reported: Vec<&Problem> = problems.iter().filter(is_reported).collect();
    let more = |count: usize, what: &str| match count.saturating_sub(MOST_REPORTED) {
        0 => None,
        1 => Some(format!("1 more {what}")),
        more => Some(format!("{more} more {what}s")),
    };
    let rest: Vec<String> = more(errors, "error").into_iter().chain(more(warnings, "warning")).collect();
    (reported, (!rest.is_empty()).then(|| format!("{}, not listed here", rest.join(" and "))))
}

/// Sorts problems by their place in the file.
pub fn in_order(mut problems: Vec<Problem>) -> Vec<Problem> {
    problems.sort_by_key(|problem| problem.start);
    problems
}

/// The text that problems refer to.
pub struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// The text with everything that may be a secret key masked byte for byte, so that offsets stay
    /// valid.
    shown: String,
    /// Where each line starts, in bytes.
    lines: Vec<usize>,
}

impl<'a> Source<'a> {
    /// The text of a file; `name` is its name in reports.
    pub fn new(name: &'a str, text: &'a str) -> Self {
        let later = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { name, text, shown: without_keys(text), lines: std::iter::once(0).chain(later).collect() }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    /// An error at `span`.
    pub(crate) fn problem(&self, span: &Range<usize>, key: &str, what: &str) -> Problem {
        let start = span.start.min(self.text.len());
        let line_start = self.line_start(start);
        let line = self.line(start) + 1;
        let column = self.text.get(line_start..start).unwrap_or("").chars().count() + 1;
        let hide = |text| without_digits(text, |_| "...".to_owned());
        Problem {
            severity: Severity::Error,
            file: self.name.to_owned(),
            position: Some(Position { line, column }),
            key: hide(key),
            what: hide(what),
            excerpt: self.excerpt(span),
            start,
        }
    }

    /// An error about the file as a whole.
    pub(crate) fn whole_problem(&self, what: &str) -> Problem {
        Problem::whole_file(self.name, what)
    }

    /// An error of the TOML parser. Its key is that of the error's line, below the last table
    /// header.
    pub(crate) fn toml_problem(&self, error: &toml::de::Error) -> Problem {
        let what = error.message().trim();
        let Some(span) = error.span() else {
            return Problem::whole_file(self.name, &without_digits(what, |_| "...".to_owned()));
        };
        let (before, rest) = self.text.split_at(self.line_start(span.start));
        let content = rest.lines().next().unwrap_or("");
        let is_header = |line: &&str| line.trim_start().starts_with('[');
        let header = [content].into_iter().chain(before.lines().rev()).find(is_header);
        let header =
            header.map(|line| line.trim_matches(|c: char| c == '[' || c == ']' || c.is_whitespace()));
        let key = content.split_once('=').map(|(key, _)| key.trim());
        let path: Vec<&str> = header.into_iter().chain(key).collect();
        self.problem(&span, &path.join("."), what)
    }

    /// The first line of `span`, with the span marked.
    fn excerpt(&self, span: &Range<usize>) -> String {
        let start = span.start.min(self.shown.len());
        let line_start = self.line_start(start);
        let line = self.shown[line_start..].lines().next().unwrap_or("");
        if line.trim().is_empty() {
            return String::new();
        }
        let marked = start - line_start..(span.end.saturating_sub(line_start)).min(line.len());
        let snippet = Snippet::source(line)
            .line_start(self.line(start) + 1)
            .annotation(AnnotationKind::Primary.span(marked));
        Renderer::plain().render(&[Group::with_level(Level::ERROR).element(snippet)])
    }

    /// The line of the byte `at`, from 0.
    fn line(&self, at: usize) -> usize {
        self.lines.partition_point(|start| *start <= at).saturating_sub(1)
    }

    /// Where the line of the byte `at` starts.
    fn line_start(&self, at: usize) -> usize {
        self.lines[self.line(at)]
    }
}

/// Minimum number of consecutive hexadecimal digits that may be a secret key.
const SECRET_DIGITS: usize = 16;
/// What follows these keys on their line is secret, in any notation.
const SECRET_KEYS: [&str; 2] = ["key_in", "key_out"];

/// The text of a file with a star in place of each byte that may belong to a secret key.
fn without_keys(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let secret = SECRET_KEYS.iter().filter_map(|key| line.find(key).map(|at| at + key.len())).min();
        let (open, hidden) = line.split_at(secret.unwrap_or(line.len()));
        shown += &without_digits(open, |digits| "*".repeat(digits));
        for character in hidden.chars() {
            match character {
                ' ' | '\t' | '\r' | '\n' | '=' | '"' => shown.push(character),
                _ => shown += &"*".repeat(character.len_utf8()),
            }
        }
    }
    shown
}

/// `text` with sequences of hexadecimal digits that may be a key replaced.
fn without_digits(text: &str, instead: impl Fn(usize) -> String) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let is_digit = |character: char| character.is_ascii_hexdigit();
        let digits = rest.find(|character| !is_digit(character)).unwrap_or(rest.len());
        let (run, others) = rest.split_at(digits);
        if digits < SECRET_DIGITS {
            shown += run;
        } else {
            shown += &instead(digits);
        }
        let (others, next) = others.split_at(others.find(is_digit).unwrap_or(others.len()));
        shown += others;
        rest = next;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warnings(source: &Source<'_>, count: usize) -> Vec<Problem> {
        (0..count).map(|_| source.problem(&(4..5), "a", "odd").into_warning()).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri takes minutes for so many problems")]
    fn of_many_problems_the_first_of_each_severity_are_reported_and_the_rest_is_counted() {
        let source = Source::new("a.toml", "a = 1\nb = 2\n");
        let mut problems = warnings(&source, 20_000);
        assert_eq!(reported(&problems[..50]), (problems[..50].iter().collect(), None));
        assert_eq!(reported(&problems[..51]).1.as_deref(), Some("1 more warning, not listed here"));
        problems.push(source.problem(&(10..11), "b", "wrong"));
        let text = ConfigErrors(problems).to_string();
        assert!(text.contains("a.toml:2:5: error: b: wrong"), "an error after many warnings is reported");
        assert!(text.ends_with("\n19950 more warnings, not listed here"), "{text}");
    }

    #[test]
    fn a_problem_has_the_line_and_column_of_its_bytes_wherever_it_is() {
        let text = "a = 1\n\nkey = \"\u{e9}\" # c\nlast = 2";
        let source = Source::new("a.toml", text);
        for (what, place) in [("a", "1:1"), ("1", "1:5"), ("key", "3:1"), ("# c", "3:11"), ("last", "4:1")] {
            let at = text.find(what).expect(what);
            let problem = source.problem(&(at..at + what.len()), "key", "odd");
            assert_eq!(problem.place(), format!("a.toml:{place}"), "{what}");
        }
        let end = source.problem(&(text.len() + 9..text.len() + 9), "", "odd");
        assert_eq!(end.place(), "a.toml:4:9");
        assert_eq!(Source::new("a.toml", "").problem(&(0..0), "", "odd").place(), "a.toml:1:1");
    }
}
