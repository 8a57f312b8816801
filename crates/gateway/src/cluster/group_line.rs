//! How SAs that come and go while a group is led reach the agent.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_cluster::{GroupEvent, SaFingerprint};
use convoy_state::StartId;

use super::led::LedSas;
use super::line::AgentLine;

/// The line to the agent, for one group.
#[derive(Clone)]
pub(crate) struct GroupLine {
    pub(super) group: String,
    pub(super) led: Arc<LedSas>,
    pub(super) line: Arc<AgentLine>,
}

impl GroupLine {
    /// Reports to the agent what has happened in the present term.
    pub(crate) fn report(&self, event: GroupEvent) {
        self.line.report(self.led.report(&self.group, event));
    }

    /// Passes reports of these SAs' numbers on from now on, and grants to them.
    pub(crate) fn add(&self, starts: HashMap<StartId, SaFingerprint>) {
        self.led.add(&self.group, starts);
    }

    /// An SA is used no longer.
    pub(crate) fn remove(&self, start: StartId) {
        self.led.remove(&self.group, start);
    }
}

#[cfg(test)]
impl GroupLine {
    /// A line with the agent's end of it.
    pub(crate) fn without_reader() -> (Self, std::os::unix::net::UnixStream) {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
        let line = Arc::new(AgentLine::new(ours));
        (Self { group: "g".to_owned(), led: Arc::default(), line }, theirs)
    }
}
