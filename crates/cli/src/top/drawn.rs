//! What a drawing reports back.

/// What the last drawing had room for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Drawn {
    /// Lines of a page of tunnels or details.
    pub(super) lines: usize,
    /// The last line of the details from which they can be shown.
    pub(super) last_line: usize,
}
