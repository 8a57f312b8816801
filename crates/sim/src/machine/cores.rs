//! Cores that do stages alone.

use super::stage::{Server, Single};
use super::{Machine, Observer};
use crate::traffic::Traffic;

/// Cores of one kind.
pub(crate) struct Cores {
    /// Where the event of the first is; the others' follow.
    pub(crate) slot: usize,
    /// What each has: the stage, and its packet.
    pub(crate) at: Vec<Option<(usize, Single)>>,
    pub(crate) busy_ticks: u64,
}

impl<T: Traffic, O: Observer> Machine<'_, T, O> {
    /// Gives each free core the packet that has waited longest at any of their stages; on a tie
    /// that of the first stage.
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

    /// A core is done.
    #[inline(never)]
    pub(super) fn core_done(&mut self, of: usize, core: usize) {
        if let Some((at, single)) = self.cores[of].at[core].take() {
            self.leave_stage(at, single);
        }
        self.start_cores(of);
    }
}
