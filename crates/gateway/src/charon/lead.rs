//! charon's SAs at a gateway of a cluster that begins to lead, or ends it.

use std::collections::HashMap;
use std::sync::Arc;

use convoy_cluster::{GroupEvent, SaFingerprint, StoredSa};
use convoy_ike::server::{Outlet, Server};
use convoy_ike::state::{Refusal, RestoreError, TakenSa};
use convoy_state::StartId;

use super::{Charon, CharonHandler, Installed, Workers, lock};

/// What a term begins with.
#[derive(Default)]
pub(crate) struct Restored {
    /// The SA of each start.
    pub(crate) starts: HashMap<StartId, SaFingerprint>,
    /// What is written to the store.
    pub(crate) reported: Vec<GroupEvent>,
    /// How many SAs go on.
    pub(crate) count: usize,
    /// For the operator.
    pub(crate) warnings: Vec<String>,
}

/// The entrance for charon, which is closed while the gateway stands by.
pub(crate) struct Door {
    handler: Arc<CharonHandler>,
    outlet: Option<Outlet>,
}

impl Door {
    /// Lets a charon in, since a term has begun; not if it has ended meanwhile.
    pub(crate) fn open(&self) {
        let mut installed = lock(&self.handler.installed);
        let share = installed.as_mut().and_then(|installed| installed.workers.share.as_mut());
        if let (Some(share), Some(outlet)) = (share, &self.outlet)
            && share.lead()
        {
            outlet.lead();
        }
    }
}

impl Charon {
    /// Its entrance.
    pub(crate) fn door(&self) -> Door {
        let outlet = self.server.as_ref().map(Server::outlet);
        Door { handler: Arc::clone(&self.handler), outlet }
    }

    /// Goes on with these SAs, which may use nothing until they are granted something. No charon is
    /// served until the [`Door`] is opened.
    pub(crate) fn lead(&self, stored: &[StoredSa]) -> Restored {
        let mut restored = Restored::default();
        let mut installed = lock(&self.handler.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else { return restored };
        workers.share.iter_mut().for_each(|share| share.restore());
        let sas: Vec<_> = stored
            .iter()
            .map(|StoredSa { record, used, iv_start, .. }| TakenSa {
                record,
                sent: used.sent,
                accepted: used.received,
                iv_start: *iv_start,
            })
            .collect();
        let results = state.restore(&sas, workers);
        let Some(share) = &mut workers.share else { return restored };
        for (stored, result) in stored.iter().zip(results) {
            match result {
                Ok(_) => restored.count += 1,
                Err(RestoreError::Expired) => share.drop_stored(stored.sa),
                Err(RestoreError::Unreadable(error)) => restored.warn(stored, &error.to_string()),
                Err(RestoreError::Refused(Refusal(reason))) => restored.warn(stored, &reason),
            }
        }
        (restored.starts, restored.reported) = share.take_restored();
        restored
    }

    /// Removes SAs of a former leader's charon whose traffic newer ones carry; returns how many.
    pub(crate) fn retire_succeeded(&self) -> usize {
        let mut installed = lock(&self.handler.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else { return 0 };
        if workers.share.is_none() || !workers.may_serve() {
            return 0;
        }
        let removed = state.retire_succeeded(workers);
        workers.tell_store();
        removed
    }

    /// Disconnects charon and forgets what it has installed. Its policies are removed from the
    /// workers; its SAs are removed by the workers' own
    /// [`stand_by`](crate::worker_thread::WorkerThread::stand_by), which returns their
    /// last numbers.
    pub(crate) fn stand_by(&self) {
        if let Some(server) = &self.server {
            server.outlet().stand_by();
        }
        let mut installed = lock(&self.handler.installed);
        let Some(Installed { state, workers }) = installed.as_mut() else { return };
        workers.share.iter_mut().for_each(|share| share.stand_by());
        state.abandon(workers);
    }
}

impl Restored {
    fn warn(&mut self, stored: &StoredSa, why: &str) {
        self.warnings.push(format!("cluster: an SA of charon's, {}, is not taken over: {why}", stored.sa));
    }
}

impl Workers {
    /// Whether charon is served: in a cluster, only while the gateway leads.
    pub(super) fn may_serve(&self) -> bool {
        self.share.as_ref().is_none_or(|share| share.leads())
    }

    /// Tells the cluster's store what has changed.
    pub(super) fn tell_store(&mut self) {
        if let Some(share) = &mut self.share {
            share.flush();
        }
    }
}
