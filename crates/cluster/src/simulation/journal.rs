//! The events of a run: the last ones in words, and a hash over all of them.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Events that a failure prints.
const KEPT: usize = 80;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// The events of one run.
pub(super) struct Journal {
    pub(super) now_ns: u64,
    hash: u64,
    last: VecDeque<String>,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self { now_ns: 0, hash: FNV_OFFSET, last: VecDeque::new() }
    }

    pub(super) fn note(&mut self, event: std::fmt::Arguments<'_>) {
        let mut line =
            if self.last.len() == KEPT { self.last.pop_front().unwrap_or_default() } else { String::new() };
        line.clear();
        let _ = write!(line, "{:>12.6} s  {event}", self.now_ns as f64 * 1e-9);
        self.trace(line.as_bytes());
        self.last.push_back(line);
    }

    /// Adds what is too frequent for words to the hash.
    pub(super) fn trace(&mut self, bytes: &[u8]) {
        self.hash =
            bytes.iter().fold(self.hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME));
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn last(&self) -> String {
        self.last.iter().map(|line| format!("  {line}\n")).collect()
    }
}
