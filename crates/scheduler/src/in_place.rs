//! What needs no window: packets for which only engines on the caller's own core come into question.
//!
//! Such an engine is idle whenever it is asked, so that its finishing time is its processing time; nothing is gained by holding
//! packets back for it, and nothing can overtake. The whole burst goes to the one that is done with it first.

use crate::policy::Policy;
use crate::scheduler::Scheduler;

/// A burst that an engine on the caller's core did at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DoneInPlace {
    /// The engine, by its place in the list that the scheduler was made with.
    pub engine: usize,
    /// The algorithm of all packets.
    pub algorithm: u16,
    /// How many they are.
    pub packets: u32,
    /// Their size in bytes.
    pub bytes: u64,
    /// What was predicted, in ticks.
    pub predicted: u64,
    /// How long it took, in ticks, where it was measured.
    pub measured: Option<u64>,
}

impl<T> Scheduler<T> {
    /// The engine for packets of `algorithm`, `blocks` of 16 bytes in all, that are to be done at once, and how many ticks it is
    /// predicted to take.
    ///
    /// `None` where there is something to schedule: an engine elsewhere can do the algorithm as well, the policy is not the
    /// finishing time and there are several engines, the window bundles nothing, holds packets back or is not empty, or an
    /// engine has work.
    pub fn in_place_choice(&self, algorithm: u16, blocks: u64) -> Option<(usize, u64)> {
        if self.size == 1 || self.max_wait > 0 || self.window.len() > 0 {
            return None;
        }
        let (capable, costs) = self.costs.row(algorithm);
        let mut among = self.engines.available.and(capable);
        let mut others = among.without(self.engines.cpus);
        let is_free = |engine| self.engines.queue(engine).is_idle();
        if others.next().is_some() || !{ among }.all(is_free) {
            return None;
        }
        let cost = |engine: usize| (engine, costs[engine].cost(blocks));
        let first = cost(among.next()?);
        match (among.is_empty(), self.policy) {
            (true, _) => Some(first),
            (false, Policy::FinishingTime) => {
                Some(among.map(cost).fold(first, |best, other| if other.1 < best.1 { other } else { best }))
            }
            (false, _) => None,
        }
    }

    /// Counts what was done by [`in_place_choice`](Self::in_place_choice), and lets the cost model follow what was measured.
    pub fn note_in_place(&mut self, done: &DoneInPlace) {
        if self.keeps_measures {
            self.measures[done.engine].done_in_place(done);
        }
        if let (true, Some(measured)) = (self.corrects, done.measured) {
            self.costs.correct(done.engine, done.algorithm, done.predicted, measured);
        }
    }
}
