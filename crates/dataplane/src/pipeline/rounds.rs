//! Whether more input is at hand than a worker has read.

use convoy_scheduler::Input;

/// After so many rounds with packets in each, more is at hand than the worker has read.
const BUSY_ROUNDS: u32 = 8;

/// Rounds in a row that had packets: a worker with nothing to do makes some without.
#[derive(Default)]
pub(super) struct BusyRounds {
    in_a_row: u32,
    has_packets: bool,
}

impl BusyRounds {
    pub(super) fn begin(&mut self) {
        self.in_a_row = if self.has_packets { self.in_a_row.saturating_add(1) } else { 0 };
        self.has_packets = false;
    }

    pub(super) fn took_in(&mut self) {
        self.has_packets = true;
    }

    pub(super) fn input(&self) -> Input {
        if self.in_a_row >= BUSY_ROUNDS { Input::More } else { Input::Paused }
    }
}
