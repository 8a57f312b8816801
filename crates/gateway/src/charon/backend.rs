//! charon's SAs, each at the worker that serves its tunnel, and its policies at all workers.

use std::collections::HashMap;

use convoy_ike::state::{Backend, ChildName, Ends, Refusal, SaUsage};
use convoy_ipsec::{Action, Policy, SaConfig, SaEnds, SaNumber, TunnelId};

use crate::worker_handles::WorkerHandles;

/// The workers, as charon's state sees them.
pub(crate) struct Workers {
    handles: WorkerHandles,
    policies: Vec<Policy>,
    names: HashMap<TunnelId, ChildName>,
}

impl Workers {
    pub(crate) fn new(handles: WorkerHandles) -> Self {
        Self { handles, policies: Vec::new(), names: HashMap::new() }
    }

    /// Learns the names of tunnels, and tells the workers if they have changed.
    pub(super) fn name(&mut self, name_of: impl Fn(TunnelId) -> Option<ChildName>) {
        let tunnels = self.policies.iter().filter_map(|policy| match policy.action {
            Action::Protect(tunnel) => Some(tunnel),
            Action::Bypass | Action::Discard => None,
        });
        let is_known = |name: &ChildName| !name.child.is_empty() || !name.connection.is_empty();
        let names: HashMap<TunnelId, ChildName> =
            tunnels.filter_map(|tunnel| Some((tunnel, name_of(tunnel).filter(is_known)?))).collect();
        if names != self.names {
            self.names = names;
            self.tell_policies();
        }
    }

    fn tell_policies(&self) {
        let (policies, names) = (self.policies.clone(), self.names.clone());
        self.handles.tell(move |thread| thread.set_policies(policies.clone(), names.clone()));
    }
}

fn silent(worker: u16) -> Refusal {
    Refusal(format!("worker {worker} did not answer in time"))
}

impl Backend for Workers {
    fn install(&mut self, sa: SaConfig) -> Result<SaNumber, Refusal> {
        let owner = self.handles.owner_of(sa.tunnel);
        let answer = self.handles.ask_or_undo(
            owner,
            move |thread| thread.install(&sa).map_err(|error| Refusal(error.to_string())),
            |thread, done| done.into_iter().for_each(|sa| thread.retire(sa)),
        );
        answer.unwrap_or_else(|| Err(silent(owner)))
    }

    fn remove(&mut self, sa: SaNumber) {
        self.handles.send(sa.owner.into(), move |thread| thread.retire(sa));
    }

    fn set_policies(&mut self, policies: &[Policy]) {
        self.policies = policies.to_vec();
        self.tell_policies();
    }

    fn move_sa(&mut self, sa: SaNumber, ends: Ends) -> Result<(), Refusal> {
        let ends = SaEnds { local: ends.local, remote: ends.remote, encap: ends.encap };
        let old_ends = self.handles.ask_or_undo(
            sa.owner,
            move |thread| thread.move_sa(sa, &ends),
            move |thread, old| {
                old.and_then(|old| thread.move_sa(sa, &old));
            },
        );
        match old_ends {
            Some(Some(_)) => Ok(()),
            Some(None) => Err(Refusal("the SA cannot go there".to_owned())),
            None => Err(silent(sa.owner)),
        }
    }

    fn usage(&mut self, sa: SaNumber) -> Option<SaUsage> {
        let view = self.handles.ask_or_undo(sa.owner, move |thread| thread.view(sa), |_, _| ()).flatten()?;
        Some(SaUsage {
            bytes: view.usage.bytes(),
            packets: view.usage.packets(),
            idle_s: view.idle_ns.map(|idle_ns| u32::try_from(idle_ns / 1_000_000_000).unwrap_or(u32::MAX)),
        })
    }
}
