//! ipsec.conf's form: sections with indented `key=value`, `also`, `%default` and `include`.

use crate::import::findings::{FileLine, Finding, ImportEntry};
use crate::import::source::ImportSource;

/// The deepest chain of `also`.
const DEEPEST: usize = 16;
/// Characters of the name of a setting without a value, at most.
const LONGEST: usize = 20;

/// A `conn`.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    pub(super) name: String,
    pub(super) place: FileLine,
    entries: Vec<ImportEntry>,
}

impl Conn {
    /// A key's entry, unless it is empty.
    pub(super) fn entry(&self, key: &str) -> Option<&ImportEntry> {
        self.entries.iter().rev().find(|entry| entry.key == key).filter(|entry| !entry.value.is_empty())
    }

    /// The value of the first of these keys that there is; libreswan renamed some.
    pub(super) fn value(&self, keys: &[&str]) -> Option<&str> {
        keys.iter().find_map(|key| self.entry(key)).map(|entry| &*entry.value)
    }

    /// All that it says, each key as it holds.
    pub(super) fn entries(&self) -> impl Iterator<Item = &ImportEntry> {
        self.entries.iter().enumerate().filter_map(|(at, entry)| {
            let is_last = !self.entries[at + 1..].iter().any(|later| later.key == entry.key);
            Some(entry).filter(|_| is_last)
        })
    }
}

/// The connections of a file and of those that it includes, with what `also` and `%default` add.
/// Templates that only others name are left out.
///
/// # Errors
/// What is not in this form, with its line.
pub(super) fn read(source: &ImportSource, left: &mut Vec<Finding>) -> Result<Vec<Conn>, Finding> {
    let mut sections = Vec::new();
    parse(source, &mut sections)?;
    let mut conns: Vec<Conn> = Vec::new();
    for (kind, conn) in sections {
        match (kind, conns.iter_mut().find(|known| known.name == conn.name)) {
            (ConnKind::Conn, Some(known)) => known.entries.extend(conn.entries),
            (ConnKind::Conn, None) => conns.push(conn),
            (ConnKind::Ca, _) => left.push(conn.place.finding(
                format!("ca {}", conn.name),
                "it is not read; put the CA's certificate into /etc/swanctl/x509ca",
            )),
            (ConnKind::Setup, _) => left.extend(conn.entries().map(|entry| {
                entry.finding("it is a setting of the daemon; charon has its own in /etc/strongswan.d")
            })),
        }
    }
    let named: Vec<String> = conns
        .iter()
        .flat_map(|conn| &conn.entries)
        .filter(|entry| entry.key == "also")
        .map(|entry| entry.value.clone())
        .collect();
    let is_template = |conn: &&Conn| conn.name == "%default" || named.contains(&conn.name);
    let whole = conns.iter().map(|conn| whole(conn, &conns)).collect::<Result<Vec<_>, _>>()?;
    let is_loaded = |conn: &&Conn| !matches!(conn.value(&["auto"]), None | Some("ignore"));
    for conn in whole.iter().filter(|conn| !is_loaded(conn) && !is_template(conn)) {
        let what =
            "it is not loaded (auto=ignore, the default), so it was left out; write auto=add to have it";
        left.push(conn.place.finding(format!("conn {}", conn.name), what));
    }
    // A template's `auto` is for those that take it, and its own end is seldom complete.
    let is_taken = |conn: &Conn| is_loaded(&conn) && conn.name != "%default";
    Ok(whole.into_iter().filter(is_taken).collect())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ConnKind {
    Setup,
    Conn,
    Ca,
}

fn parse(source: &ImportSource, sections: &mut Vec<(ConnKind, Conn)>) -> Result<(), Finding> {
    for (at, line) in source.text.lines().enumerate() {
        let place = source.place(at + 1);
        let is_indented = line.starts_with([' ', '\t']);
        let text = without_comment(line).trim();
        if text.is_empty() {
            continue;
        }
        if is_indented && !text.starts_with("include ") {
            let (_, conn) = sections.last_mut().ok_or_else(|| {
                place.finding(
                    "",
                    "a line that begins with a space is part of a section; write `conn NAME` above",
                )
            })?;
            conn.entries.push(setting(&place, text)?);
            continue;
        }
        let (word, name) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let kind = match word {
            "include" => {
                for included in source.included(name.trim().trim_matches('"'), at + 1)? {
                    parse(&included, sections)?;
                }
                continue;
            }
            "version" => continue,
            "config" => ConnKind::Setup,
            "conn" => ConnKind::Conn,
            "ca" => ConnKind::Ca,
            _ => {
                let what = "`config setup`, `conn NAME`, `ca NAME` or `include FILE` is expected at the beginning of a \
                            line, and spaces before any other";
                return Err(place.finding(word, what));
            }
        };
        if name.trim().is_empty() {
            return Err(place.finding(word, "a name is expected after it"));
        }
        sections.push((kind, Conn { name: name.trim().to_owned(), place, entries: Vec::new() }));
    }
    Ok(())
}

fn setting(place: &FileLine, text: &str) -> Result<ImportEntry, Finding> {
    // The line is not repeated: it may be a key without its name, as in base64, which ends in =.
    let is_name = |key: &str| key.trim().chars().all(|one| one.is_ascii_alphanumeric() || "-_".contains(one));
    let is_value = |value: &str| value.chars().any(|one| one != '=' && !one.is_whitespace());
    let is_setting = |key: &str, value: &str| {
        is_name(key) && (is_value(value) || (value.trim().is_empty() && key.trim().len() <= LONGEST))
    };
    let (key, value) = text
        .split_once('=')
        .filter(|(key, value)| is_setting(key, value))
        .ok_or_else(|| place.finding("", "`key=value` is expected; correct the line"))?;
    let value = value.trim();
    let unquoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
    let key = key.trim().to_lowercase();
    Ok(ImportEntry { place: place.clone(), key, value: unquoted.to_owned() })
}

/// A line up to a `#` that is at its beginning or behind a space, and in no quotes.
fn without_comment(line: &str) -> &str {
    let (mut is_quoted, mut before) = (false, ' ');
    for (at, one) in line.char_indices() {
        if one == '#' && !is_quoted && before.is_whitespace() {
            return &line[..at];
        }
        is_quoted ^= one == '"';
        before = one;
    }
    line
}

/// A connection's settings behind those of `%default` and of what it names by `also`.
fn whole(conn: &Conn, all: &[Conn]) -> Result<Conn, Finding> {
    let default = all.iter().find(|other| other.name == "%default");
    let mut entries: Vec<ImportEntry> = default.map(|default| default.entries.clone()).unwrap_or_default();
    entries.extend(with_also(conn, all, 0)?);
    entries.retain(|entry| entry.key != "also");
    Ok(Conn { entries, ..conn.clone() })
}

fn with_also(conn: &Conn, all: &[Conn], depth: usize) -> Result<Vec<ImportEntry>, Finding> {
    let mut entries = Vec::new();
    for also in conn.entries.iter().filter(|entry| entry.key == "also") {
        if depth == DEEPEST || entries.len() > 10_000 {
            return Err(also.finding("connections name each other in a circle; remove one"));
        }
        let found = all.iter().find(|other| other.name == also.value).ok_or_else(|| {
            also.finding(format!("there is no conn {:?}; write one, or remove the line", also.value))
        })?;
        entries.extend(with_also(found, all, depth + 1)?);
    }
    entries.extend(conn.entries.iter().cloned());
    Ok(entries)
}
