//! charon's SAs, each at the worker that serves its tunnel, and its policies at all workers.

use std::sync::Arc;

use convoy_ike::protocol::EncapMode;
use convoy_ike::state::{Backend, ChildName, Ends, PolicyUpdate, Refusal, SaUsage};
use convoy_ipsec::{SaConfig, SaEnds, SaNumber};

use super::networks::Networks;
use crate::worker_handles::WorkerHandles;

/// Changes of policies that a worker applies between two rounds; more are applied part by part.
const PART: usize = 64;

/// The workers, as the backend of charon's state.
pub(crate) struct Workers {
    handles: WorkerHandles,
    pub(super) networks: Networks,
}

impl Workers {
    pub(crate) fn new(handles: WorkerHandles) -> Self {
        Self { handles, networks: Networks::default() }
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

    fn warn_of_mode(&mut self, child: &ChildName, configured: EncapMode, mode: EncapMode) {
        tracing::warn!(
            %child,
            "its SAs are in {mode} mode and not in {configured} mode as configured: the peer has not agreed to it"
        );
    }

    fn remove(&mut self, sa: SaNumber) {
        self.handles.send(sa.owner.into(), move |thread| thread.retire(sa));
    }

    fn change_policies(&mut self, update: PolicyUpdate) {
        let PolicyUpdate { names, steps } = update;
        steps.iter().for_each(|step| self.networks.note(step));
        for names in names.chunks(PART) {
            let names: Arc<[_]> = names.into();
            self.handles.tell(move |thread| {
                names.iter().for_each(|(tunnel, name)| thread.name_tunnel(*tunnel, name.as_ref()));
            });
        }
        for steps in steps.chunks(PART) {
            let changes: Arc<[_]> = steps.iter().map(|step| step.change.clone()).collect();
            self.handles.tell(move |thread| thread.change_policies(&changes));
        }
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
