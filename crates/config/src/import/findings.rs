//! Places in files that are imported, and what is to be said of them.

use std::fmt;
use std::rc::Rc;

/// A line of a file; 0 is the file as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileLine {
    file: Rc<str>,
    line: usize,
}

impl FileLine {
    pub(super) fn new(file: &Rc<str>, line: usize) -> Self {
        Self { file: Rc::clone(file), line }
    }

    /// What is to be said of a key in this line.
    pub(super) fn finding(&self, key: impl Into<String>, what: impl Into<String>) -> Finding {
        Finding { place: self.clone(), key: key.into(), what: what.into() }
    }
}

/// An error, or something that was not taken: what, why, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Finding {
    place: FileLine,
    key: String,
    what: String,
}

impl Finding {
    /// By which findings are sorted: those of `file` first, each file's by line, and what concerns
    /// the whole behind them.
    pub(super) fn order(&self, file: &str) -> (bool, Rc<str>, bool, usize) {
        (&*self.place.file != file, Rc::clone(&self.place.file), self.place.line == 0, self.place.line)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.place.file)?;
        if self.place.line > 0 {
            write!(f, ":{}", self.place.line)?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// `key = value` or `key: value` of any of the files.
#[derive(Clone, Debug)]
pub(super) struct ImportEntry {
    pub(super) place: FileLine,
    pub(super) key: String,
    pub(super) value: String,
}

impl ImportEntry {
    /// What is to be said of it.
    pub(super) fn finding(&self, what: impl Into<String>) -> Finding {
        self.place.finding(&*self.key, what)
    }

    /// The value's items between commas.
    pub(super) fn items(&self) -> impl Iterator<Item = &str> {
        self.value.split(',').map(str::trim).filter(|item| !item.is_empty())
    }

    /// Whether it says yes, in one of strongSwan's words.
    pub(super) fn is_yes(&self) -> bool {
        ["yes", "true", "enabled", "1"].contains(&&*self.value.to_lowercase())
    }
}
