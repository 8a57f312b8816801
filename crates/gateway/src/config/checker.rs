//! Reads single values, and keeps every problem.

use std::collections::HashSet;
use std::fmt::Display;
use std::net::IpAddr;
use std::ops::Range;
use std::str::FromStr;

use toml::Spanned;

use super::error::{Problem, Source};
use super::file::Text;

/// Collects problems while values are read.
pub(super) struct Checker<'a> {
    source: &'a Source<'a>,
    pub(super) problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    pub(super) fn new(source: &'a Source<'a>, problems: Vec<Problem>) -> Self {
        Self { source, problems }
    }

    pub(super) fn add(&mut self, span: &Range<usize>, key: &str, what: impl Display) {
        self.problems.push(self.source.problem(span, key, &what.to_string()));
    }

    /// Reads a value from its text.
    pub(super) fn read<T: FromStr<Err: Display>>(&mut self, text: &Text, key: &str) -> Option<T> {
        match text.get_ref().parse() {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(&text.span(), key, error);
                None
            }
        }
    }

    pub(super) fn address(&mut self, text: &Text, key: &str) -> Option<IpAddr> {
        let address = text.get_ref().parse().ok();
        if address.is_none() {
            let what = format!("{:?} is no IP address, such as 192.0.2.1 or 2001:db8::1", text.get_ref());
            self.add(&text.span(), key, what);
        }
        address
    }

    /// One of a few words.
    pub(super) fn one_of<T: Copy>(&mut self, text: Option<&Text>, key: &str, words: &[(&str, T)]) -> T {
        let Some(text) = text else { return words[0].1 };
        if let Some((_, value)) = words.iter().find(|(word, _)| word == text.get_ref()) {
            return *value;
        }
        let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        self.add(&text.span(), key, format!("unknown {:?}; one of {}", text.get_ref(), known.join(", ")));
        words[0].1
    }

    pub(super) fn in_range<T: PartialOrd + Display + Copy>(
        &mut self,
        value: Option<&Spanned<T>>,
        key: &str,
        default: T,
        (least, most): (T, T),
    ) -> T {
        let Some(value) = value else { return default };
        let number = *value.get_ref();
        // Also catches a number that is none (NaN).
        if (least..=most).contains(&number) {
            return number;
        }
        self.add(&value.span(), key, format!("{number} is out of range; {least} to {most} are possible"));
        default
    }

    /// A setting that would be ignored is an error.
    pub(super) fn only<T>(&mut self, setting: Option<&Spanned<T>>, fits: bool, key: &str, what: &str) {
        if let Some(setting) = setting.filter(|_| !fits) {
            self.add(&setting.span(), key, what);
        }
    }

    pub(super) fn unique<'b>(&mut self, names: impl Iterator<Item = &'b Text>, key: &str) {
        let mut seen = HashSet::new();
        for name in names {
            if name.get_ref().trim().is_empty() {
                self.add(&name.span(), key, "a name is needed");
            } else if !seen.insert(name.get_ref()) {
                let what = format!("{:?} is there twice; names must differ", name.get_ref());
                self.add(&name.span(), key, what);
            }
        }
    }
}
