//! charon's SAs and policies in all workers.

use std::collections::HashMap;

use convoy_ike::state::{Backend, ChildName, Ends, Refusal, SaUsage};
use convoy_ipsec::{Action, Policy, SaConfig, SaEnds, SaIndex, TunnelId};

use crate::worker_handles::WorkerHandles;
use crate::worker_thread::WorkerThread;

/// The workers, as charon's state sees them. Its numbers for SAs are this one's own; each worker has a place for each.
pub(crate) struct Workers {
    handles: WorkerHandles,
    /// By number: the SA's place in each worker.
    places: HashMap<SaIndex, Vec<SaIndex>>,
    numbers: HashMap<(u16, SaIndex), SaIndex>,
    next: u32,
    policies: Vec<Policy>,
    names: HashMap<TunnelId, ChildName>,
}

impl Workers {
    pub(crate) fn new(handles: WorkerHandles) -> Self {
        Self {
            handles,
            places: HashMap::new(),
            numbers: HashMap::new(),
            next: 0,
            policies: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// The number of what stands in a place of a worker.
    pub(super) fn handle(&self, worker: u16, place: SaIndex) -> Option<SaIndex> {
        self.numbers.get(&(worker, place)).copied()
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

impl Backend for Workers {
    fn install(&mut self, sa: SaConfig) -> Result<SaIndex, Refusal> {
        let install = move |thread: &mut WorkerThread| thread.install(&sa).map_err(|error| error.to_string());
        let answers = self
            .handles
            .ask_or_undo(install, |thread, done| done.into_iter().for_each(|sa| thread.retire(sa)));
        let mut places = Vec::new();
        let mut refused = None;
        for (worker, answer) in answers.into_iter().enumerate() {
            match answer {
                Some(Ok(place)) => places.push((worker, place)),
                Some(Err(reason)) => refused = Some(reason),
                None => refused = Some(format!("worker {worker} did not answer in time")),
            }
        }
        if let Some(reason) = refused {
            for (worker, place) in places {
                self.handles.send(worker, move |thread| thread.retire(place));
            }
            return Err(Refusal(reason));
        }
        let number = SaIndex(self.next);
        self.next = self.next.wrapping_add(1);
        self.numbers.extend(places.iter().map(|(worker, place)| ((*worker as u16, *place), number)));
        self.places.insert(number, places.into_iter().map(|(_, place)| place).collect());
        Ok(number)
    }

    fn remove(&mut self, sa: SaIndex) {
        let Some(places) = self.places.remove(&sa) else { return };
        for (worker, place) in places.into_iter().enumerate() {
            self.numbers.remove(&(worker as u16, place));
            self.handles.send(worker, move |thread| thread.retire(place));
        }
    }

    fn set_policies(&mut self, policies: &[Policy]) {
        self.policies = policies.to_vec();
        self.tell_policies();
    }

    fn move_sa(&mut self, sa: SaIndex, ends: Ends) -> Result<(), Refusal> {
        let Some(places) = self.places.get(&sa).cloned() else {
            return Err(Refusal("no such SA".to_owned()));
        };
        let ends = SaEnds { local: ends.local, remote: ends.remote, encap: ends.encap };
        let there = places.clone();
        let move_it = move |thread: &mut WorkerThread| thread.move_sa(there[thread.number()], &ends);
        let there = places.clone();
        let back = move |thread: &mut WorkerThread, old: Option<SaEnds>| {
            if let Some(old) = old {
                thread.move_sa(there[thread.number()], &old);
            }
        };
        let answers = self.handles.ask_or_undo(move_it, back.clone());
        if answers.iter().all(|answer| matches!(answer, Some(Some(_)))) {
            return Ok(());
        }
        let silent = answers.iter().position(Option::is_none);
        for (worker, old) in answers.into_iter().enumerate() {
            let back = back.clone();
            self.handles.send(worker, move |thread| back(thread, old.flatten()));
        }
        Err(Refusal(match silent {
            Some(worker) => format!("worker {worker} did not answer in time"),
            None => "the SA cannot go there".to_owned(),
        }))
    }

    fn usage(&mut self, sa: SaIndex) -> Option<SaUsage> {
        let places = self.places.get(&sa)?.clone();
        let views = self.handles.ask(move |thread| {
            let worker = thread.number();
            let ipsec = thread.worker_mut().pipeline().ipsec();
            ipsec.sa(places[worker]).filter(|view| usize::from(view.owner) == worker)
        });
        // The workers that do not own it have counted nothing.
        let view = views.into_iter().flatten().flatten().next()?;
        Some(SaUsage {
            bytes: view.usage.bytes(),
            packets: view.usage.packets(),
            idle_s: view.idle_ns.map(|idle_ns| u32::try_from(idle_ns / 1_000_000_000).unwrap_or(u32::MAX)),
        })
    }
}
