//! The events of a run: the last ones in words, and a hash over all of them.

use std::collections::VecDeque;
use std::fmt::Write as _;

/// Events that a failure prints.
const KEPT: usize = 60;
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// FNV-1a, from `hash` on.
pub(super) fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FNV_PRIME))
}

/// A hash of bytes by themselves.
pub(super) fn hash_of(bytes: &[u8]) -> u64 {
    fnv(FNV_OFFSET, bytes)
}

/// The events of one run.
pub(super) struct Journal {
    pub(super) tick: u64,
    pub(super) now_ns: u64,
    hash: u64,
    last: VecDeque<String>,
}

impl Journal {
    pub(super) fn new() -> Self {
        Self { tick: 0, now_ns: 0, hash: FNV_OFFSET, last: VecDeque::new() }
    }

    /// Notes an event in words, which are part of the trace.
    pub(super) fn note(&mut self, event: std::fmt::Arguments<'_>) {
        let mut line =
            if self.last.len() == KEPT { self.last.pop_front().unwrap_or_default() } else { String::new() };
        line.clear();
        let _ = write!(line, "{:>6} {:>12.6} s  {event}", self.tick, self.now_ns as f64 * 1e-9);
        self.hash = fnv(self.hash, line.as_bytes());
        self.last.push_back(line);
    }

    /// Notes bytes that crossed a port, as part of the trace alone.
    pub(super) fn trace(&mut self, at: u8, bytes: &[u8]) {
        self.hash = fnv(fnv(fnv(self.hash, &self.now_ns.to_be_bytes()), &[at]), bytes);
    }

    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    pub(super) fn last(&self) -> String {
        self.last.iter().map(|line| format!("  {line}\n")).collect()
    }
}
