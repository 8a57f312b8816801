//! A worker's way to another configuration, and to none while it stands by in a cluster.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_assembly::assemble::{self, InstalledTunnel, bypasses, policies_of};
use convoy_assembly::change::{Change, NewTunnel};
use convoy_engine::wipe_stack;
use convoy_ipsec::{Policy, PolicyPlace, PolicyRank, SaIndex, TunnelId};
use convoy_kernel::Prefix;
use convoy_port::PortConfig;
use convoy_report::survey::Surveyed;
use convoy_state::{SaProgress, Starts, WorkerReport};

use super::WorkerThread;
use super::slices::Slices;

/// Time limit of the packets of SAs that a reload replaces.
const REPLACE: Duration = Duration::from_millis(200);
/// Tunnels looked at between two rounds.
pub(super) const LOOKS: u32 = 64;
/// Tunnels installed or removed between two rounds.
const CHANGES: u32 = 4;

/// What a worker no longer serves after a reload.
#[derive(Debug, Default)]
pub(crate) struct LetGo {
    /// Tunnels.
    pub(crate) tunnels: usize,
    /// The last numbers that their SAs may have used.
    pub(crate) spent: Vec<SaProgress>,
}

/// What a reload changed at one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Tunnels that did not change.
    pub(crate) stayed: usize,
    /// New tunnels that this worker serves.
    pub(crate) came: usize,
    /// Tunnels of this worker that could not be installed.
    pub(crate) refused: RefusedTunnels,
}

/// Tunnels by name, and why each could not be installed.
type RefusedTunnels = Vec<(String, String)>;

/// Where policies are.
fn places(policies: &[(PolicyRank, Policy)]) -> impl Iterator<Item = PolicyPlace> {
    policies.iter().map(|(rank, policy)| PolicyPlace { priority: policy.priority, rank: *rank })
}

impl WorkerThread {
    /// The tunnels that this change would install, by name.
    pub(crate) fn missing(&mut self, change: &Change) -> Vec<String> {
        let mut missing = Vec::new();
        let mut slices = Slices::of(LOOKS);
        for NewTunnel { config, .. } in &change.came {
            slices.step(&mut self.worker);
            if self.installed.named(&config.name).is_none_or(|old| old.config != *config) {
                missing.push(config.name.clone());
            }
        }
        missing
    }

    /// The first step to another configuration: removes the tunnels that are gone or changed, so
    /// that their SPIs are free at all workers before the second, [`take_up`](Self::take_up).
    /// Unchanged ones keep their SAs, and with them their sequence numbers and replay windows.
    /// Returns how many were removed, and the last numbers of their SAs.
    pub(crate) fn let_go(&mut self, change: &Change) -> LetGo {
        let gone = self.take_out(&change.gone);
        let spent = convoy_state::spent(gone.iter().flat_map(|tunnel| &tunnel.pairs), self.tables());
        self.retire_all(&gone);
        self.let_retire(true);
        LetGo { tunnels: gone.len(), spent }
    }

    /// Removes tunnels and their policies. Their SAs are still there, but no packet gets them.
    fn take_out<'a>(&mut self, names: impl IntoIterator<Item = &'a String> + Clone) -> Vec<InstalledTunnel> {
        self.close_departed();
        let mut slices = Slices::of(CHANGES);
        for name in names.clone() {
            slices.step(&mut self.worker);
            let id = self.installed.named(name).map(|tunnel| tunnel.id);
            id.into_iter().for_each(|id| self.update_totals_of(id));
        }
        let (mut tunnels, mut policies) = (Vec::new(), Vec::new());
        for name in names {
            let Some(tunnel) = self.installed.remove(name) else { continue };
            policies.extend(places(&policies_of(&self.config, &tunnel)));
            self.places.remove_tunnel(&tunnel);
            tunnels.push(tunnel);
        }
        self.worker.pipeline_mut().ipsec_mut().change_own_policies(&policies, Vec::new());
        tunnels
    }

    fn retire_all(&mut self, tunnels: &[InstalledTunnel]) {
        let mut slices = Slices::of(CHANGES);
        for tunnel in tunnels {
            slices.step(&mut self.worker);
            tunnel.sas().for_each(|sa| self.worker.pipeline_mut().retire(sa));
        }
    }

    /// Stops protecting the tunnels of a group, lets their packets leave, and removes their SAs as
    /// well as charon's, whose tunnels are of the only group; returns their last numbers.
    pub(crate) fn stand_by(&mut self, group: &str) -> WorkerReport {
        self.update_totals();
        let of_group = self.installed.iter().filter(|tunnel| tunnel.config.group == group);
        let names: Vec<String> = of_group.map(|tunnel| tunnel.config.name.clone()).collect();
        let gone = self.take_out(&names);
        let began = Instant::now();
        while !self.worker.is_drained() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(false).is_err() {
                break;
            }
        }
        let shared = self.unshare_all();
        let pairs = gone.iter().flat_map(|tunnel| &tunnel.pairs).chain(&shared);
        let report = convoy_state::report(pairs.clone(), self.tables());
        let sas: Vec<SaIndex> = pairs.flat_map(|pair| pair.sas.iter().copied()).collect();
        let pipeline = self.worker.pipeline_mut();
        // While their SAs are there, which count them.
        pipeline.give_up_held();
        sas.into_iter().for_each(|sa| pipeline.retire(sa));
        self.let_retire(false);
        report
    }

    /// The second step: installs new tunnels. One with static keys that has no start is left out.
    pub(crate) fn take_up(&mut self, change: &Change, starts: &Starts) -> Reloaded {
        let done = self.install_new(change, starts);
        wipe_stack();
        done
    }

    /// Has the inside ports take packets to these networks; returns errors.
    pub(crate) fn take_networks(&mut self, networks: &BTreeSet<Prefix>) -> Vec<String> {
        self.worker.take_networks(networks)
    }

    /// Has the ports take over what a reload changes of their settings.
    pub(crate) fn take_port_settings(&mut self, ports: &[PortConfig]) {
        self.worker.take_port_settings(ports);
    }

    /// Never inlined: what it leaves on the stack, keys included, must be below its caller's frame.
    #[inline(never)]
    fn install_new(&mut self, change: &Change, starts: &Starts) -> Reloaded {
        let stayed = self.installed.len();
        let (new, refused) = self.install_sas(change, starts);
        let tables = &self.worker.pipeline().ipsec().tables;
        let came = new.iter().filter(|tunnel| tables.serves(tunnel.id)).count();
        self.decide(change, new);
        Reloaded { stayed, came, refused }
    }

    /// Installs the SAs of new tunnels; returns these tunnels, and those that were refused.
    fn install_sas(&mut self, change: &Change, starts: &Starts) -> (Vec<InstalledTunnel>, RefusedTunnels) {
        let (mut came, mut refused) = (Vec::new(), Vec::new());
        let (mut looks, mut installs) = (Slices::of(LOOKS), Slices::of(CHANGES));
        for tunnel in &change.came {
            let config = &tunnel.config;
            looks.step(&mut self.worker);
            if self.installed.named(&config.name).is_some() {
                continue;
            }
            let started = starts.of(config);
            if config.has_static_keys() && started.is_none() {
                continue;
            }
            installs.step(&mut self.worker);
            let id = TunnelId(self.next_tunnel);
            self.next_tunnel += 1;
            let pipeline = self.worker.pipeline_mut();
            match assemble::install(pipeline, tunnel, id, &change.config, &self.costs, started) {
                Ok(installed) => came.push(installed),
                Err(error) => refused.push((config.name.clone(), error.to_string())),
            }
        }
        (came, refused)
    }

    /// Adds the policies of new tunnels, gives the others the order of the configuration, and takes
    /// over its bypasses, all of it for the same packet first.
    fn decide(&mut self, change: &Change, new: Vec<InstalledTunnel>) {
        let (mut gone, mut came) = (Vec::new(), Vec::new());
        if self.config.bypass != change.config.bypass {
            gone.extend(places(&bypasses(&self.config)));
            came.extend(bypasses(&change.config));
        }
        self.config = Arc::clone(&change.config);
        for (name, rank) in &change.moved {
            let Some(tunnel) = self.installed.named_mut(name) else { continue };
            gone.extend(places(&policies_of(&self.config, tunnel)));
            tunnel.rank = *rank;
            came.extend(policies_of(&self.config, tunnel));
        }
        for tunnel in new {
            came.extend(policies_of(&self.config, &tunnel));
            self.take_sas(&tunnel);
            self.installed.add(tunnel);
        }
        self.worker.pipeline_mut().ipsec_mut().change_own_policies(&gone, came);
    }

    /// Removes tunnels of which another worker could not install SAs: their traffic must not be
    /// handed to it.
    pub(crate) fn leave_out(&mut self, refused: &HashSet<String>) {
        let gone = self.take_out(refused);
        self.retire_all(&gone);
    }

    /// Lets the packets of removed SAs leave, so that their SPIs are free for new ones. `reads`
    /// says whether others are read meanwhile.
    fn let_retire(&mut self, reads: bool) {
        let began = Instant::now();
        while self.worker.pipeline().is_retiring() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(reads).is_err() {
                break;
            }
        }
    }
}
