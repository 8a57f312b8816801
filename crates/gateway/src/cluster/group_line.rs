//! How SAs that come and go while a group is led reach the agent.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_cluster::{Event, SaId};

use super::led::Generations;
use super::line::Line;

/// The line to the agent, for one group.
#[derive(Clone)]
pub(crate) struct GroupLine {
    pub(super) group: String,
    pub(super) generations: Arc<Generations>,
    pub(super) line: Arc<Line>,
}

impl GroupLine {
    /// Tells the agent what has happened in the present term.
    pub(crate) fn tell(&self, event: Event) {
        self.line.report(self.generations.report(&self.group, event));
    }

    /// Passes reports of these SAs' numbers on from now on, and grants to them.
    pub(crate) fn add(&self, generations: HashMap<u64, SaId>) {
        self.generations.add(&self.group, generations);
    }

    /// An SA is used no longer.
    pub(crate) fn remove(&self, generation: u64) {
        self.generations.remove(&self.group, generation);
    }
}

#[cfg(test)]
impl GroupLine {
    /// A line with the agent's end of it.
    pub(crate) fn without_reader() -> (Self, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let line = Arc::new(Line::new(ours));
        (Self { group: "g".to_owned(), generations: Arc::default(), line }, theirs)
    }
}
