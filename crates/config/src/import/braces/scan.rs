//! Words and values of swanctl.conf.

use std::iter::Peekable;
use std::str::Chars;

use crate::import::findings::{FileLine, Finding, ImportEntry};
use crate::import::source::ImportSource;

/// What ends a word.
const MARKS: [char; 6] = ['{', '}', '=', ':', '#', ','];

/// A place in the text of a file.
pub(super) struct Scan<'a> {
    source: &'a ImportSource,
    rest: Peekable<Chars<'a>>,
    line: usize,
    /// The line of the last character that was no space.
    line_before: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(source: &'a ImportSource) -> Self {
        Self { source, rest: source.text.chars().peekable(), line: 1, line_before: 1 }
    }

    /// The present line.
    pub(super) fn place(&self) -> FileLine {
        self.source.place(self.line)
    }

    /// The line of what was read last.
    pub(super) const fn line_before(&self) -> usize {
        self.line_before
    }

    /// The next character that is neither space nor comment, which is not skipped.
    pub(super) fn next_of_interest(&mut self) -> Option<char> {
        loop {
            match *self.rest.peek()? {
                '#' => {
                    while self.rest.peek().is_some_and(|next| *next != '\n') {
                        self.skip();
                    }
                }
                space if space.is_whitespace() => {
                    self.skip();
                }
                other => return Some(other),
            }
        }
    }

    /// Takes a character.
    pub(super) fn skip(&mut self) -> Option<char> {
        let next = self.rest.next()?;
        if next == '\n' {
            self.line += 1;
        } else if !next.is_whitespace() {
            self.line_before = self.line;
        }
        Some(next)
    }

    /// A name; empty if there is none.
    pub(super) fn word(&mut self) -> String {
        let is_of_word = |next: &char| !next.is_whitespace() && !MARKS.contains(next) && *next != '"';
        let mut word = String::new();
        while self.rest.peek().is_some_and(is_of_word) {
            word.extend(self.skip());
        }
        word
    }

    /// The rest of the line, to a comment or a brace that closes; quoted parts as they are.
    pub(super) fn value(&mut self) -> Result<String, Finding> {
        let place = self.place();
        let mut value = String::new();
        // Up to here it is kept, spaces as well.
        let mut kept = 0;
        while let Some(next) = self.rest.peek().copied().filter(|next| !['\n', '#', '}'].contains(next)) {
            self.skip();
            match next {
                '"' => {
                    self.quoted(&place, &mut value)?;
                    kept = value.len();
                }
                '{' => {
                    let what = "a { in a value is expected in quotes; a section has no = before its {";
                    return Err(place.finding("", what));
                }
                space if space.is_whitespace() && value.is_empty() => {}
                other => value.push(other),
            }
        }
        let end = value.trim_end().len().max(kept);
        value.truncate(end);
        Ok(value)
    }

    /// What stands to the second quote.
    fn quoted(&mut self, place: &FileLine, value: &mut String) -> Result<(), Finding> {
        loop {
            match self.skip() {
                Some('"') => return Ok(()),
                Some('\\') => match self.skip() {
                    Some('n') => value.push('\n'),
                    Some('t') => value.push('\t'),
                    Some('r') => value.push('\r'),
                    Some('\n') => {}
                    escaped => value.extend(escaped),
                },
                Some(other) => value.push(other),
                None => return Err(place.finding("", "a second quote (\") is expected")),
            }
        }
    }

    /// The sections that a head refers to, up to and with its brace.
    pub(super) fn references(&mut self) -> Result<Vec<ImportEntry>, Finding> {
        let mut references = Vec::new();
        loop {
            let place = self.place();
            match self.next_of_interest() {
                Some('{') => {
                    self.skip();
                    return Ok(references);
                }
                Some(':' | ',') => {
                    self.skip();
                }
                _ => {
                    let value = self.word();
                    if value.is_empty() {
                        return Err(place.finding("", "the name of a section and a { are expected"));
                    }
                    references.push(ImportEntry { place, key: String::new(), value });
                }
            }
        }
    }
}
