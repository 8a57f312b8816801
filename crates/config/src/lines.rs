//! The text of a file that is made, which may contain keys.

use std::fmt::Display;

use zeroize::Zeroizing;

/// Room for a file's text, in bytes, so that it does not grow and leave keys behind.
const ROOM_BYTES: usize = 16_384;

/// A text that grows by lines.
pub(crate) struct Lines(pub(crate) Zeroizing<String>);

impl Lines {
    pub(crate) fn new() -> Self {
        Self(Zeroizing::new(String::with_capacity(ROOM_BYTES)))
    }

    pub(crate) fn add(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// `key = "value"` of TOML.
    pub(crate) fn word(&mut self, key: &str, value: impl Display) {
        self.add(&Zeroizing::new(format!("{key} = \"{value}\"")));
    }

    /// `key = ["one", "other"]` of TOML.
    pub(crate) fn list(&mut self, key: &str, values: &[impl Display]) {
        let values: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
        self.add(&format!("{key} = [{}]", values.join(", ")));
    }
}
