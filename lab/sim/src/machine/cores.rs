//! Cores that serve only stages.

use super::stage::{Server, Single};
use super::{Machine, Observer};
use crate::traffic::Traffic;

/// A group of identical cores.
pub(crate) struct Cores {
    /// Slot of the first core; the slots of the others follow it.
    pub(crate) slot: usize,
    /// The packet that each core serves, and the stage it is at.
    pub(crate) at: Vec<Option<(usize, Single)>>,
    pub(crate) busy_ticks: u64,
}

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Gives each free core the packet that has waited longest at any of the group's stages; on a
    /// tie, that of the first stage.
    pub(super) fn start_cores(&mut self, of: usize) {
        while let Some(free) = self.cores[of].at.iter().position(Option::is_none) {
            let is_here = |server: &Server| matches!(server, Server::Cores(cores) if *cores == of);
            let waiting = self.stages.iter().enumerate().filter(|(_, stage)| is_here(&stage.server));
            let first = waiting.filter_map(|(at, stage)| Some((stage.queue.front()?.0, at))).min();
            let Some((_, at)) = first else { return };
            let Some((single, ticks)) = self.stages[at].take(self.now) else { return };
            let cores = &mut self.cores[of];
            cores.at[free] = Some((at, single));
            cores.busy_ticks += ticks;
            self.events.set(cores.slot + free, self.now + ticks);
        }
    }

    /// Handles a core that has finished its packet.
    #[inline(never)]
    pub(super) fn core_done(&mut self, of: usize, core: usize) {
        if let Some((at, single)) = self.cores[of].at[core].take() {
            self.leave_stage(at, single);
        }
        self.start_cores(of);
    }
}
