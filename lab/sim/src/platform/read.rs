//! Reads a platform from TOML with every error at its place. A value that cannot be read is removed
//! and the rest read again, so that it hides no other error.

use std::ops::Range;

use convoy_settings::{Checker, Nowhere, Reader, Source, in_order, unknown, unknown_value};
use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue, Deserializer};

use super::{Platform, PlatformError};

/// Reads and checks a platform; `name` is the file's name in errors.
pub(super) fn read(name: &str, text: &str) -> Result<Platform, PlatformError> {
    let source = Source::new(name, text);
    let (_, document) = Reader::new(&source).map_err(PlatformError)?;
    let mut checker = Checker::new(&source, &Nowhere, Vec::new());
    let mut rest = Rest { document: document.clone(), end: text.len(), removed: Vec::new() };
    let platform = rest.platform(&mut checker);
    // What refers to a table that was removed is no error.
    if let Some(platform) = platform.as_ref().filter(|_| !rest.lacks_tables()) {
        for problem in platform.problems() {
            checker.add(&problem.span(&document), &problem.key(), &problem.what);
        }
        for (variant, what) in platform.wrong_variants() {
            let span = span_of(&document, &["variant", &variant]);
            checker.add(&span, &format!("variant.{variant}"), what);
        }
    }
    let problems = in_order(checker.into_problems());
    platform.filter(|_| problems.is_empty()).ok_or(PlatformError(problems))
}

/// The place of the innermost of these nested keys that is there.
fn span_of(document: &DeTable<'_>, path: &[&str]) -> Range<usize> {
    let mut span = 0..0;
    let mut table = Some(document);
    for key in path {
        let Some(value) = table.and_then(|table| table.get(*key)) else { break };
        span = value.span();
        table = value.get_ref().as_table();
    }
    span
}

/// A document without what cannot be read.
struct Rest<'t> {
    document: DeTable<'t>,
    end: usize,
    removed: Vec<Removed>,
}

/// A value that was removed.
struct Removed {
    /// The table that it was in, for example `processor[1]`.
    table: String,
    key: String,
    is_table: bool,
}

impl Rest<'_> {
    /// The platform, after the report of what cannot be read; `None` if that leaves none.
    fn platform(&mut self, checker: &mut Checker<'_>) -> Option<Platform> {
        loop {
            let document = Spanned::new(0..self.end, self.document.clone());
            let error = match Platform::deserialize(Deserializer::from(document)) {
                Ok(platform) => return Some(platform),
                Err(error) => error,
            };
            let is_missing = error.message().starts_with("missing field");
            let span = error.span().filter(|span| !is_missing || span.end < self.end);
            let Some(removed) = span.as_ref().and_then(|span| remove(&mut self.document, "", span.start))
            else {
                // It concerns the whole file. A table that was removed is not missing.
                if !self.lacks_tables() {
                    checker.add(&(0..0), "", explained(error.message()));
                }
                return None;
            };
            let path = removed.path();
            // A value that was removed is not missing.
            if !is_missing || !self.removed.iter().any(|earlier| earlier.table == path) {
                checker.add(&span.unwrap_or_default(), &path, explained(error.message()));
            }
            self.removed.push(removed);
        }
    }

    fn lacks_tables(&self) -> bool {
        self.removed.iter().any(|removed| removed.is_table)
    }
}

impl Removed {
    fn path(&self) -> String {
        if self.table.is_empty() { self.key.clone() } else { format!("{}.{}", self.table, self.key) }
    }
}

/// Removes the innermost value whose text, or whose key, is at `place`.
fn remove(table: &mut DeTable<'_>, path: &str, place: usize) -> Option<Removed> {
    for (key, value) in table.iter_mut() {
        let inner =
            if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
        if let Some(removed) = remove_inside(value, &inner, place) {
            return Some(removed);
        }
    }
    let is_at = |key: &Spanned<_>, value: &Spanned<DeValue<'_>>| {
        key.span().contains(&place) || value.span().contains(&place)
    };
    let found = table.iter().find(|(key, value)| is_at(key, value));
    let (key, is_table) =
        found.map(|(key, value)| (key.get_ref().to_string(), value.get_ref().is_table()))?;
    table.remove(key.as_str());
    Some(Removed { table: path.to_owned(), key, is_table })
}

fn remove_inside(value: &mut Spanned<DeValue<'_>>, path: &str, place: usize) -> Option<Removed> {
    match value.get_mut() {
        DeValue::Table(table) => remove(table, path, place),
        DeValue::Array(items) => {
            let at = |at: usize| format!("{path}[{at}]");
            let inside = |(index, item): (usize, &mut Spanned<_>)| remove_inside(item, &at(index), place);
            if let Some(removed) = items.iter_mut().enumerate().find_map(inside) {
                return Some(removed);
            }
            let found =
                items.iter().position(|item| item.get_ref().is_table() && item.span().contains(&place))?;
            let others = std::mem::replace(items, DeArray::new()).into_iter().enumerate();
            *items = others.filter(|(index, _)| *index != found).map(|(_, item)| item).collect();
            Some(Removed { table: String::new(), key: at(found), is_table: true })
        }
        _ => None,
    }
}

/// The message of serde about an unknown key or word with a suggestion; others as they are.
fn explained(message: &str) -> String {
    let message = message.trim();
    let mut words = message.split('`').skip(1).step_by(2);
    let word = words.next().unwrap_or_default();
    let known: Vec<&str> = words.collect();
    if message.starts_with("unknown field") && !known.is_empty() {
        unknown("key", word, &known)
    } else if message.starts_with("unknown variant") {
        unknown_value(word, &known)
    } else {
        message.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"name = "two"

[source]
rate_mbps = 1000.0

[scheduler]
window = 30

[reference]
t_init_us = 1.0
block_mbps = 100.0

[[bus]]
name = "pci"
clock_mhz = 66.0
width_bytes = 4

[[processor]]
name = "cpu"
kind = "cpu"

[[processor]]
name = "engine"
bus = "pci"

[variant.software]
processor.engine.count = 0
"#;

    /// The errors of the file with these changes, each in one line without the file's name.
    fn errors(changes: &[(&str, &str)]) -> Vec<String> {
        let text = changes.iter().fold(GOOD.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        let error = read("two.toml", &text).expect_err("wrong");
        error.0.iter().map(|problem| problem.in_one_line().replace("two.toml:", "")).collect()
    }

    #[test]
    fn all_errors_of_a_file_come_at_once_in_its_order_with_suggestions() {
        assert!(read("two.toml", GOOD).is_ok());
        let found = errors(&[
            ("rate_mbps = 1000.0", "rate_mbps = -1.0"),
            ("window = 30", "windw = 30\npolicy = \"fastest\"\npool = 0"),
            ("block_mbps = 100.0", "block_mbps = \"fast\""),
            ("width_bytes = 4", "width_bytes = 0"),
            ("kind = \"cpu\"", "kind = \"cpuu\""),
            ("bus = \"pci\"", "bus = \"pcii\""),
        ]);
        let expected = [
            "7:1: scheduler.windw: unknown key; did you mean \"window\"?",
            "13:14: reference.block_mbps: invalid type: string \"fast\", expected f64",
            "22:8: processor[0].kind: unknown \"cpuu\"; did you mean \"cpu\"? Possible values: cpu, accelerator",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn all_values_out_of_range_come_at_once() {
        let found = errors(&[
            ("rate_mbps = 1000.0", "rate_mbps = -1.0\nqueue_bytes = 0"),
            ("window = 30", "window = 30\npolicy = \"fastest\"\npool = 0"),
            ("width_bytes = 4", "width_bytes = 0"),
            ("bus = \"pci\"", "bus = \"pcii\"\nenc_ratio = -1.0"),
            ("processor.engine", "processor.motor"),
        ]);
        let starts = [
            "4:13: source.rate_mbps: -1; it must be a number above 0",
            "5:15: source.queue_bytes: 0; a queue holds at least 1 byte",
            "9:10: scheduler.policy: unknown policy \"fastest\"",
            "10:8: scheduler.pool: 0; at least 1 packet",
            "19:15: bus[0].width_bytes: 0; a cycle",
            "27:7: processor[1].bus: there is no [[bus]] with the name \"pcii\"; did you mean \"pci\"?",
            "28:13: processor[1].enc_ratio: -1; it must be",
            "30:1: variant.software: processor.motor: there is no [[processor]]",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(found.starts_with(start), "{found}");
        }
    }

    #[test]
    fn a_table_that_lacks_a_key_is_named_and_others_are_read_on() {
        let found = errors(&[("t_init_us = 1.0\n", ""), ("kind = \"cpu\"", "depth = 1.5")]);
        let expected = [
            "9:1: reference: missing field `t_init_us`",
            "19:9: processor[0].depth: invalid type: floating point `1.5`, expected usize",
        ];
        assert_eq!(found, expected);
        assert_eq!(errors(&[("name = \"two\"\n", "")]), ["1:1: missing field `name`"]);
    }

    #[test]
    fn an_error_shows_its_line_with_the_place() {
        let error = read("two.toml", &GOOD.replace("width_bytes = 4", "width_bytes = 0")).expect_err("wrong");
        let text = error.to_string();
        assert!(text.starts_with("two.toml:16:15: error: bus[0].width_bytes: 0; a cycle"), "{text}");
        assert!(text.contains("16 | width_bytes = 0\n"), "{text}");
        assert!(text.contains("               ^"), "{text}");
    }
}
