//! Reads a configuration file in TOML table by table, and keeps every problem with its place in the
//! file.
//!
//! - [`Table`] is a table, declared once with [`tables!`]: each key and its type. A table of which
//!   there are several kinds (`[[engine]]`, `[[port]]`) has the keys common to all, and those of
//!   its kind ([`Kind`], of which each program has a [`KindTable`]).
//! - [`Reader`] reads the file into tables, each key by itself, so that an invalid one hides no
//!   other; serde's own tagged enums stop at the first error and lose its place.
//! - [`Checker`] checks values and their combinations, for the crate that declared the table, and
//!   against a [`HostEnvironment`]: the machine's interfaces, addresses, cores and users.
//! - [`Problem`] is an error or a warning at its place in the [`Source`], with an excerpt that
//!   shows no key, and a suggestion where a word is misspelt. [`ConfigErrors`] are all of them.
//!
//! The reader parses each value and notes its span, the declaring crate checks it and builds its
//! configuration; the rest of the program sees neither keys nor text.
//!
//! This crate does not know what a key means.

mod checker;
mod environment;
mod kinds;
mod problem;
mod suggest;
mod table;

pub use checker::{Checker, is_link_local, parse_prefix};
pub use environment::{HostEnvironment, Interface, Nowhere};
pub use kinds::{Kind, KindTable, OfKind};
pub use problem::{ConfigErrors, Position, Problem, Severity, Source, in_order, reported};
pub use suggest::{nearest, unknown, unknown_value};
pub use table::{At, Entries, Reader, Table};
pub use toml::Spanned;

/// A text with its place in the file.
pub type Text = Spanned<String>;
