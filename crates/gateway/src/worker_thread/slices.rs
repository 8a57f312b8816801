//! Work of a worker that is not for packets, in slices, so that no packet waits for all of it.

use convoy_dataplane::worker::Worker;

/// Counts the steps of such work. A step is not timed: the same work has the same slices.
pub(super) struct Slices {
    /// Steps between two rounds.
    steps: u32,
    left: u32,
}

impl Slices {
    /// Slices of this many steps.
    pub(super) fn of(steps: u32) -> Self {
        Self { steps, left: steps }
    }

    /// To be called before each step: the worker has a round after the last of a slice.
    pub(super) fn step(&mut self, worker: &mut Worker) {
        if self.left == 0 {
            // A port that fails reports it again in the next round of work.
            let _ = worker.round(true);
            self.left = self.steps;
        }
        self.left -= 1;
    }
}
