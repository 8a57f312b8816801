//! The kind of an engine, and what holds for all of one kind.

use std::fmt;

/// The kind of an engine, as the configuration names it.
#[derive(Clone, Copy, Debug)]
pub struct EngineKind {
    word: &'static str,
    traits: &'static EngineTraits,
}

impl EngineKind {
    pub(crate) const fn new(word: &'static str, traits: &'static EngineTraits) -> Self {
        Self { word, traits }
    }

    /// Its word in the configuration.
    pub const fn word(self) -> &'static str {
        self.word
    }

    /// The properties of its kind.
    pub const fn traits(self) -> &'static EngineTraits {
        self.traits
    }
}

impl PartialEq for EngineKind {
    fn eq(&self, other: &Self) -> bool {
        self.word == other.word
    }
}

impl Eq for EngineKind {}

impl fmt::Display for EngineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)
    }
}

/// Properties that all engines of a kind share.
#[derive(Clone, Copy, Debug)]
pub struct EngineTraits {
    /// A description in one line.
    pub summary: &'static str,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether a gateway whose configuration names no engines uses it.
    pub auto_select: AutoSelect,
    /// Its system calls beside those that every gateway makes, once privileges are given up.
    pub system_calls: &'static [i64],
}

/// Whether a gateway uses an engine that its configuration does not name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AutoSelect {
    /// Always.
    Always,
    /// If it is available and faster than the others for a transform that the tunnels need.
    IfFaster,
    /// Only if the configuration names it.
    Never,
}
