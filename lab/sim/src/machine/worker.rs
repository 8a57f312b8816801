//! A scheduler that runs on a processor's core, as in a worker of the gateway.

use super::stage::Server;
use super::{Machine, Observer};
use crate::traffic::Traffic;

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Whether packets have arrived that the worker would put into the window next. The worker
    /// takes these in before it decides that there is no input.
    #[inline]
    pub(super) fn has_input_at_hand(&self) -> bool {
        self.worker.is_some() && self.inside_before() > 0
    }

    /// Lets the worker's core do all work that is possible now, starting with what has advanced
    /// furthest.
    #[inline(never)]
    pub(super) fn work(&mut self, worker: usize) {
        while let Some(waiting) = self.processors[worker].oldest_if_free() {
            if self.serve_last_of(worker, false) {
                return;
            }
            if waiting.is_some() {
                let Some((processing, _)) = self.processors[worker].start() else { return };
                return self.events.set(self.slots[worker].core, self.now + processing);
            }
            let input = self.input();
            if let Some(dispatch) = self.next_dispatch(input) {
                self.send(dispatch);
            } else if !self.pass_door() && !self.serve_last_of(worker, true) {
                return;
            }
        }
    }

    /// Gives the free core a packet of the last stage that has one waiting, and returns whether
    /// there was one.
    fn serve_last_of(&mut self, worker: usize, is_before: bool) -> bool {
        let side = if is_before { &self.before } else { &self.after };
        let has_packet = |at: &&usize| {
            let stage = &self.stages[**at];
            matches!(stage.server, Server::Processor(of) if of == worker) && !stage.queue.is_empty()
        };
        let Some(at) = side.iter().rev().find(has_packet).copied() else { return false };
        self.serve_stage(at, worker);
        true
    }
}
