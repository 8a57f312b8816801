//! Reads a configuration file in TOML table by table, and keeps every problem with its place in the
//! file.
//!
//! A table is declared once with [`tables!`]: each key and what it holds. A table of which there
//! are several kinds (`[[engine]]`, `[[port]]`) has the keys that all of them have, and those of
//! its kind ([`Kinds`]). Each key is read by itself, so that one that is wrong hides nothing of the
//! others; serde's own tagged enums stop at the first error and lose its place. What values mean is
//! checked by whoever declared the table, with a [`Checker`].

mod checker;
mod environment;
mod kinds;
mod problem;
mod suggest;
mod table;

pub use checker::{Checker, parse_prefix};
pub use environment::{HostEnvironment, Interface, Nowhere};
pub use kinds::{Kinds, OfKind};
pub use problem::{ConfigErrors, Problem, Severity, Source, in_order, told};
pub use suggest::{nearest, unknown, unknown_value};
pub use table::{At, Entries, Reader, Table};
pub use toml::Spanned;

/// A text with its place in the file.
pub type Text = Spanned<String>;
