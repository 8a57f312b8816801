//! Peers that have moved, for the daemon and the owner.

use super::{Worker, WorkerEvent};

impl Worker {
    /// Tells the daemon and the owner of peers that have moved.
    pub(super) fn tell_moves(&mut self) {
        let Self { pipeline, daemon, events, .. } = self;
        let ipsec = pipeline.ipsec_mut();
        ipsec.inbound.mapping_changes(&mut ipsec.tables, &mut |change| {
            let is_reported = daemon.as_ref().is_none_or(|daemon| daemon.mapping(&change));
            if is_reported {
                events.push(WorkerEvent::Moved(change));
            }
            is_reported
        });
    }
}
