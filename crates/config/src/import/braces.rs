//! swanctl.conf's form: sections in braces, `key = value`, comments, quotes, references to other
//! sections and included files.

mod scan;

use self::scan::Scan;
use super::findings::{FileLine, Finding, ImportEntry};
use super::source::ImportSource;

/// The deepest section, and the most references that lead to each other.
const DEEPEST: usize = 32;
/// The most sections once references are followed, so that a small file cannot become a huge one.
const MOST_SECTIONS: usize = 10_000;

/// A section, with what it refers to until that is [`resolved`].
#[derive(Clone, Debug)]
pub(super) struct BraceSection {
    pub(super) name: String,
    pub(super) place: FileLine,
    bases: Vec<ImportEntry>,
    keys: Vec<ImportEntry>,
    pub(super) sections: Vec<BraceSection>,
}

impl BraceSection {
    fn new(name: String, place: FileLine) -> Self {
        Self { name, place, bases: Vec::new(), keys: Vec::new(), sections: Vec::new() }
    }

    /// A key's entry, unless it is empty.
    pub(super) fn entry(&self, key: &str) -> Option<&ImportEntry> {
        self.keys.iter().find(|entry| entry.key == key && !entry.value.is_empty())
    }

    /// The section of this name in it.
    pub(super) fn section(&self, name: &str) -> Option<&Self> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The last value of a key holds.
    fn set(&mut self, entry: ImportEntry) {
        match self.keys.iter_mut().find(|known| known.key == entry.key) {
            Some(known) => *known = entry,
            None => self.keys.push(entry),
        }
    }

    /// A section that occurs again adds to the first.
    fn add(&mut self, section: Self) {
        match self.sections.iter_mut().find(|known| known.name == section.name) {
            Some(known) => known.merge(section),
            None => self.sections.push(section),
        }
    }

    fn merge(&mut self, other: Self) {
        self.bases.extend(other.bases);
        other.keys.into_iter().for_each(|entry| self.set(entry));
        other.sections.into_iter().for_each(|section| self.add(section));
    }

    /// The section at a path such as `connections.site`.
    fn at(&self, path: &str) -> Option<&Self> {
        path.split('.').try_fold(self, |section, name| section.section(name))
    }
}

/// All of a file, with the files that it includes, and with its references followed.
///
/// # Errors
/// What is not in this form, with its place.
pub(super) fn read(source: &ImportSource) -> Result<BraceSection, Finding> {
    let whole = parse(source, BraceSection::new(String::new(), source.place(0)))?;
    let mut left = MOST_SECTIONS;
    resolved(&whole, &whole, &mut left, 0)
}

/// Adds what a file says to a section.
fn parse(source: &ImportSource, target: BraceSection) -> Result<BraceSection, Finding> {
    let mut scan = Scan::new(source);
    let mut open = vec![target];
    while let Some(next) = scan.next_of_interest() {
        if next != '}' {
            statement(source, &mut scan, &mut open)?;
            continue;
        }
        scan.skip();
        let closed = open.pop();
        match (closed, open.last_mut()) {
            (Some(closed), Some(parent)) => parent.add(closed),
            _ => return Err(scan.place().finding("}", "it closes no section; remove it")),
        }
    }
    match (open.pop(), open.is_empty()) {
        (Some(whole), true) => Ok(whole),
        (Some(unclosed), _) => {
            let what = "the section is not closed; a } is expected before the end of the file";
            Err(unclosed.place.finding(unclosed.name, what))
        }
        // Sections are only closed while another one is open.
        (None, _) => Err(source.place(0).finding("", "there are no sections")),
    }
}

/// A key with its value, the head of a section, or an `include`.
fn statement(
    source: &ImportSource,
    scan: &mut Scan<'_>,
    open: &mut Vec<BraceSection>,
) -> Result<(), Finding> {
    let place = scan.place();
    let name = scan.word();
    if name.is_empty() {
        return Err(
            place.finding("", "a key or the name of a section is expected; is a quote or a { missing?")
        );
    }
    let is_deepest = open.len() > DEEPEST;
    let Some(current) = open.last_mut() else { return Ok(()) };
    match scan.next_of_interest() {
        Some('=') => {
            scan.skip();
            let value = scan.value()?;
            current.set(ImportEntry { place, key: name, value });
        }
        Some('{' | ':') if is_deepest => {
            return Err(place.finding(name, format!("sections are at most {DEEPEST} deep")));
        }
        Some('{' | ':') => {
            let mut section = BraceSection::new(name, place);
            section.bases = scan.references()?;
            open.push(section);
        }
        _ if name == "include" => {
            let pattern = scan.value()?;
            let mut section = current.clone();
            for included in source.included(&pattern, scan.line_before())? {
                section = parse(&included, section)?;
            }
            *current = section;
        }
        _ => return Err(place.finding(name, "`= value` or `{` is expected after it")),
    }
    Ok(())
}

/// A section with what those have to which it refers.
fn resolved(
    whole: &BraceSection,
    section: &BraceSection,
    left: &mut usize,
    depth: usize,
) -> Result<BraceSection, Finding> {
    if *left == 0 || depth > DEEPEST {
        let what = "its references lead to too many sections or in a circle; remove one";
        return Err(section.place.finding(&*section.name, what));
    }
    *left -= 1;
    let mut result = BraceSection::new(section.name.clone(), section.place.clone());
    for base in &section.bases {
        let found = whole.at(&base.value).ok_or_else(|| {
            let what = format!(
                "there is no section {:?}; write its whole path, such as connections.base",
                base.value
            );
            base.place.finding(&*section.name, what)
        })?;
        let found = resolved(whole, found, left, depth + 1)?;
        result.merge(BraceSection { name: section.name.clone(), ..found });
    }
    section.keys.iter().cloned().for_each(|entry| result.set(entry));
    for below in &section.sections {
        result.add(resolved(whole, below, left, depth + 1)?);
    }
    Ok(result)
}

#[cfg(test)]
mod tests;
