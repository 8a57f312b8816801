//! A worker's way to another configuration, and to none while it stands by in a cluster.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_engine::wipe_stack;
use convoy_ipsec::{SaIndex, TunnelId};
use convoy_port::{PortConfig, Prefix};

use super::WorkerThread;
use crate::assemble;
use crate::config::{Config, TunnelConfig};
use crate::state::{self, Beginnings, Limits, Report};
use crate::survey::Surveyed;

/// Time limit of the packets of SAs that a reload replaces.
const REPLACE: Duration = Duration::from_millis(200);

/// What a worker no longer serves after a reload.
#[derive(Debug, Default)]
pub(crate) struct LetGo {
    /// Tunnels.
    pub(crate) tunnels: usize,
    /// How far their SAs may have come at most, by the generations of their beginnings.
    pub(crate) spent: Vec<(u64, Limits)>,
}

/// What a reload changed at one worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reloaded {
    /// Tunnels that did not change.
    pub(crate) stayed: usize,
    /// New tunnels that this worker serves.
    pub(crate) came: usize,
    /// Tunnels of this worker that could not be installed: their names, and why.
    pub(crate) refused: Vec<(String, String)>,
}

/// Tunnels by name, of which there may be many thousands.
fn by_name<'a>(tunnels: impl IntoIterator<Item = &'a TunnelConfig>) -> HashMap<&'a str, &'a TunnelConfig> {
    tunnels.into_iter().map(|tunnel| (tunnel.name.as_str(), tunnel)).collect()
}

/// Whether this tunnel is among them, unchanged.
fn has(tunnels: &HashMap<&str, &TunnelConfig>, tunnel: &TunnelConfig) -> bool {
    tunnels.get(tunnel.name.as_str()).is_some_and(|other| *other == tunnel)
}

impl WorkerThread {
    /// The tunnels of a configuration that a reload would install, by name.
    pub(crate) fn missing(&self, config: &Config) -> Vec<String> {
        let old = by_name(self.installed.iter().map(|old| &old.config));
        let new = config.tunnels.iter().filter(|tunnel| !has(&old, tunnel));
        new.map(|tunnel| tunnel.name.clone()).collect()
    }

    /// The first step to another configuration: removes the tunnels that are gone or changed, so
    /// that their SPIs are free at all workers before the second, [`take_up`](Self::take_up).
    /// Unchanged ones keep their SAs, and with them their sequence numbers and replay windows.
    /// Returns how many were removed, and how far their SAs may have come.
    pub(crate) fn let_go(&mut self, config: &Arc<Config>) -> LetGo {
        self.update_totals();
        let has_other_bypass = self.config.bypass != config.bypass;
        self.config = Arc::clone(config);
        let wanted = by_name(&config.tunnels);
        let (kept, gone): (Vec<_>, Vec<_>) =
            self.installed.drain(..).partition(|tunnel| has(&wanted, &tunnel.config));
        self.installed = kept;
        if gone.is_empty() && !has_other_bypass {
            return LetGo::default();
        }
        // Policies first: no packet may be prepared for an SA that is being removed.
        self.decide();
        let spent = state::spent(&gone, self.tables());
        let pipeline = self.worker.pipeline_mut();
        for tunnel in &gone {
            tunnel.sas().for_each(|sa| pipeline.retire(sa));
        }
        self.let_retire();
        LetGo { tunnels: gone.len(), spent }
    }

    /// Stops protecting the tunnels of a group, lets their packets leave, and removes their SAs as
    /// well as charon's, whose tunnels are of the only group; returns how far these have come.
    pub(crate) fn stand_by(&mut self, group: &str) -> Report {
        self.update_totals();
        let (gone, others): (Vec<_>, Vec<_>) =
            self.installed.drain(..).partition(|tunnel| tunnel.config.group == group);
        self.installed = others;
        // Policies first: no packet may be prepared for an SA that is being removed.
        self.decide();
        let began = Instant::now();
        while !self.worker.is_drained() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(false).is_err() {
                break;
            }
        }
        let shared = std::mem::take(&mut self.shared);
        self.find_pairs();
        let pairs = gone.iter().flat_map(|tunnel| &tunnel.pairs).chain(shared.values());
        let report = state::report(pairs.clone(), self.tables());
        let sas: Vec<SaIndex> = pairs.flat_map(|pair| pair.sas.iter().copied()).collect();
        let pipeline = self.worker.pipeline_mut();
        // While their SAs are there, which count them.
        pipeline.give_up_held();
        sas.into_iter().for_each(|sa| pipeline.retire(sa));
        self.let_retire();
        report
    }

    /// The second step: installs new tunnels. One with static keys that has no beginning is left
    /// out.
    pub(crate) fn take_up(&mut self, config: &Arc<Config>, beginnings: &Beginnings) -> Reloaded {
        let done = self.install_new(config, beginnings);
        wipe_stack();
        done
    }

    /// Has the inside ports take packets to these networks; returns errors.
    pub(crate) fn take_networks(&mut self, networks: &[Prefix]) -> Vec<String> {
        self.worker.take_networks(networks)
    }

    /// Has the ports take over what a reload changes of their settings.
    pub(crate) fn take_port_settings(&mut self, ports: &[PortConfig]) {
        self.worker.take_port_settings(ports);
    }

    /// Never inlined: what it leaves on the stack, keys included, must be below its caller's frame.
    #[inline(never)]
    fn install_new(&mut self, config: &Arc<Config>, beginnings: &Beginnings) -> Reloaded {
        let mut done = Reloaded { stayed: self.installed.len(), ..Reloaded::default() };
        let old = by_name(self.installed.iter().map(|old| &old.config));
        let new: Vec<_> = config.tunnels.iter().filter(|tunnel| !has(&old, tunnel)).cloned().collect();
        if new.is_empty() {
            return done;
        }
        let pipeline = self.worker.pipeline_mut();
        for tunnel in new {
            let beginning = beginnings.of(&tunnel);
            if tunnel.has_static_keys() && beginning.is_none() {
                continue;
            }
            let id = TunnelId(self.next_tunnel);
            self.next_tunnel += 1;
            match assemble::install(pipeline, &tunnel, id, config, &self.costs, beginning) {
                Ok(installed) => {
                    self.installed.push(installed);
                    done.came += usize::from(pipeline.ipsec().tables.serves(id));
                }
                Err(error) => done.refused.push((tunnel.name, error.to_string())),
            }
        }
        self.decide();
        self.take_spis();
        done
    }

    /// Removes tunnels of which another worker could not install SAs: their traffic must not be
    /// handed to it.
    pub(crate) fn leave_out(&mut self, refused: &HashSet<String>) {
        let pipeline = self.worker.pipeline_mut();
        self.installed.retain(|tunnel| {
            let stays = !refused.contains(&tunnel.config.name);
            if !stays {
                tunnel.sas().for_each(|sa| pipeline.retire(sa));
            }
            stays
        });
        self.decide();
    }

    /// Lets the packets of removed SAs leave, so that their SPIs are free for new ones.
    fn let_retire(&mut self) {
        let began = Instant::now();
        while self.worker.pipeline().is_retiring() && began.elapsed() < REPLACE {
            // A port that fails reports it again in the next round of work.
            if self.worker.round(false).is_err() {
                break;
            }
        }
    }

    /// Sets the policies of the configuration; the key daemon's stay.
    fn decide(&mut self) {
        self.find_pairs();
        let policies = assemble::policies(&self.config, &self.installed);
        self.worker.pipeline_mut().ipsec_mut().set_policies(policies);
    }
}
