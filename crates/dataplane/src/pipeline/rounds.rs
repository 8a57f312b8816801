//! Whether more input is at hand than a worker has read.

use convoy_scheduler::Input;

/// After this many consecutive rounds with packets, more input is assumed to be at hand.
const BUSY_ROUNDS: u32 = 8;

/// Consecutive rounds that had packets; a worker without work has rounds without.
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
