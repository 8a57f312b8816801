//! A gateway of a cluster that begins to lead, or ends it.

use std::collections::HashMap;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use convoy_assembly::change::{Change, Ranked};
use convoy_config::{SharedConfig, TunnelConfig};
use convoy_dataplane::fence::FenceHold;
use convoy_ike::protocol::SaRecord;
use convoy_process::wall_ns;
use convoy_report::events::{Events, What};
use convoy_state::{SaProgress, Starts};

use super::{Gateway, Load, Order, RunError, reload};
use crate::charon::{Charon, Door};
use crate::cluster::{Agent, Led, LedTerm, MemberGateway, Pairs, Place, StartedTunnels, Stopped, StoredSas};

/// Interval between looks for SAs of a former leader's charon that newer ones have replaced.
const RETIRE: Duration = Duration::from_secs(5);

/// What joining a cluster needs, beside the configuration.
pub struct Joining {
    /// The agent.
    pub agent: Agent,
    /// Its orders to the gateway, and how the configuration is read.
    pub orders: MemberOrders,
}

/// How the orders of a cluster's agent reach the gateway.
pub struct MemberOrders {
    /// Where they go.
    pub orders: Sender<Order>,
    /// Reads the configuration, with the part that the cluster shares.
    pub load: Load,
    /// That part.
    pub shared: SharedConfig,
}

/// The gateway as its cluster's agent sees it.
struct ByOrders {
    orders: Sender<Order>,
    load: Load,
    events: Events,
    /// Opened when a term has begun.
    charon: Option<Door>,
}

impl MemberGateway for ByOrders {
    fn lead(&self, group: &str, sas: StoredSas) -> Option<Led> {
        let (answer, led) = channel();
        let reply = Box::new(move |led| drop(answer.send(led)));
        self.orders.send(Order::Lead(group.to_owned(), sas, reply)).ok()?;
        led.recv().ok()
    }

    fn term_has_begun(&self) {
        if let Some(charon) = &self.charon {
            charon.open();
        }
    }

    fn stand_by(&self, group: &str) -> Option<Stopped> {
        let (answer, stopped) = channel();
        let reply = Box::new(move |stopped| drop(answer.send(stopped)));
        self.orders.send(Order::StandBy(group.to_owned(), reply)).ok()?;
        stopped.recv().ok()
    }

    fn beat(&self, works: Box<dyn FnOnce(()) + Send>) {
        let _ = self.orders.send(Order::Beat(works));
    }

    fn reload(&self) {
        // What is wrong is reported as an event.
        let _ = reload(&self.load, &self.orders, &self.events, Box::new(drop));
    }
}

impl Gateway {
    /// Begins to follow the orders of its cluster's agent.
    ///
    /// # Errors
    /// That the system refused a thread.
    pub(super) fn join_cluster(
        &mut self,
        MemberOrders { orders, load, shared }: MemberOrders,
    ) -> Result<(), RunError> {
        let Some(cluster) = &mut self.cluster else { return Ok(()) };
        let charon = self.charon.as_ref().map(Charon::door);
        let place = Place {
            handles: self.handles.clone(),
            clock: self.clock.clone(),
            helper: self.helper.clone(),
            events: self.events.clone(),
            shared,
            gateway: Arc::new(ByOrders { orders, load, events: self.events.clone(), charon }),
            faults: self.faults.sender(),
        };
        Ok(cluster.join(place)?)
    }

    /// Installs a group's tunnels behind what their SAs have used at other gateways.
    pub(super) fn lead(&mut self, group: &str, StoredSas { sas, unreadable }: &StoredSas) -> Led {
        let (of_charon, pairs): (Vec<_>, Vec<_>) =
            sas.iter().cloned().partition(|stored| SaRecord::is_one(&stored.record));
        self.led.insert(group.to_owned(), Pairs::new(&pairs, unreadable));
        let of_group = |tunnel: &&TunnelConfig| tunnel.group == group;
        let started = self.start_pairs(group, of_group, false);
        if !unreadable.is_empty() {
            self.events.warn(format!(
                "cluster: group {group}: the store has SAs that cannot be read ({}): they are damaged, or another version of convoy wrote them",
                unreadable.len()
            ));
        }
        let starts = Arc::new(Starts::Kept(started.by_tunnel));
        let all = Ranked { tunnels: &self.config.tunnels, ranks: &self.ranks };
        let change = Arc::new(Change::to_all(all, &self.config));
        let taken_up = Arc::clone(&change);
        let answers = self.handles.tell(move |thread| thread.take_up(&taken_up, &starts));
        self.has_all_tunnels &= started.unreadable.is_empty() && started.in_use.is_empty();
        for (tunnel, why) in answers.into_iter().flatten().flat_map(|done| done.refused) {
            self.has_all_tunnels = false;
            self.events.warn(format!("cluster: tunnel {tunnel}: {why}"));
        }
        self.name_peers().into_iter().for_each(|warning| self.events.warn(warning));
        let tunnels = self.config.tunnels.iter().filter(of_group).count();
        let new = started.new;
        self.warn_of_unreadable(&started.unreadable);
        let (mut starts, mut reported) = (started.starts, started.reported);
        let mut of_charons = String::new();
        if let Some(charon) = &self.charon {
            let restored = charon.lead(&of_charon);
            of_charons = format!(", SAs of charon's: {}", restored.count);
            restored.warnings.into_iter().for_each(|warning| self.events.warn(warning));
            starts.extend(restored.starts);
            reported.extend(restored.reported);
        }
        let message = format!(
            "this gateway leads group {group} of the cluster: tunnels: {tunnels}, SA pairs new to it: {new}{of_charons}"
        );
        self.events.tell(What::Leads { group: group.to_owned(), tunnels, new }, message);
        Led { starts, reported }
    }

    fn warn_of_unreadable(&self, tunnels: &[String]) {
        for tunnel in tunnels {
            self.events.warn(format!(
                "cluster: tunnel {tunnel} stays down: its last sequence numbers cannot be read from the store; give it new keys at both ends"
            ));
        }
    }

    /// Starts tunnels of a group that is led; `has_begun` says whether it has begun before.
    fn start_pairs(
        &mut self,
        group: &str,
        is_wanted: impl Fn(&&TunnelConfig) -> bool,
        has_begun: bool,
    ) -> StartedTunnels {
        let Some(cluster) = &self.cluster else { return StartedTunnels::default() };
        let rules = cluster.rules();
        let tunnels = self.config.tunnels.iter().filter(is_wanted);
        let pairs = self.led.entry(group.to_owned()).or_default();
        let term = LedTerm { rules, has_begun, clock_ns: wall_ns() };
        pairs.start(tunnels, &term, &mut self.last_start)
    }

    /// Starts the tunnels that a reload adds to groups that are led. SAs that ended with it may
    /// have used the numbers in `spent`.
    pub(super) fn begin_in_cluster(&mut self, change: &Arc<Change>, spent: &[SaProgress]) -> Starts {
        self.led.values_mut().for_each(|pairs| pairs.end(spent));
        let missing = self.missing(change);
        let mut all = HashMap::new();
        let groups: Vec<String> = self.led.keys().cloned().collect();
        for group in groups {
            let is_new = |tunnel: &&TunnelConfig| tunnel.group == group && missing.contains(&tunnel.name);
            let StartedTunnels { by_tunnel, starts, reported, in_use, unreadable, .. } =
                self.start_pairs(&group, is_new, true);
            self.has_all_tunnels &= unreadable.is_empty() && in_use.is_empty();
            self.warn_of_unreadable(&unreadable);
            for tunnel in in_use {
                self.events.warn(format!(
                    "cluster: tunnel {tunnel} is not installed: a worker may still use its keys; reload again"
                ));
            }
            all.extend(by_tunnel);
            if let Some(cluster) = &self.cluster {
                cluster.add(&group, starts, reported);
            }
        }
        Starts::Kept(all)
    }

    /// Removes a group's SAs, and returns their last numbers. A worker that does not answer in
    /// time keeps them until it does: until then nothing of any group leaves, since another gateway
    /// may lead this one.
    pub(super) fn stand_by(&mut self, group: &str) -> Stopped {
        if self.led.remove(group).is_none() {
            return Stopped::new();
        }
        if let Some(charon) = &self.charon {
            charon.stand_by();
        }
        let late: Arc<Mutex<Option<FenceHold>>> = Arc::default();
        let (name, until_done) = (group.to_owned(), Arc::clone(&late));
        let reports = self.handles.tell(move |thread| {
            let report = thread.stand_by(&name);
            // The hold ends with the last worker's copy of this.
            drop(Arc::clone(&until_done));
            report
        });
        if let Some(cluster) = self.cluster.as_ref().filter(|_| reports.iter().any(Option::is_none)) {
            *late.lock().unwrap_or_else(PoisonError::into_inner) = Some(cluster.fence().hold());
            self.events.warn(format!(
                "cluster: a worker did not give up group {group} in time; nothing is sent until it has"
            ));
        }
        let message = format!("this gateway no longer leads group {group} of the cluster");
        self.events.tell(What::StandsBy { group: group.to_owned() }, message);
        reports.into_iter().flatten().flat_map(|report| report.progress().to_vec()).collect()
    }

    /// Removes SAs of a former leader's charon whose traffic newer ones carry, if it is time to
    /// look.
    pub(super) fn retire_succeeded(&self, looked: &mut Instant) {
        let Some(charon) = self.charon.as_ref().filter(|_| looked.elapsed() >= RETIRE) else { return };
        *looked = Instant::now();
        let removed = charon.retire_succeeded();
        if removed > 0 {
            tracing::info!(
                "cluster: SAs of the former leader's charon that newer ones have replaced: {removed}"
            );
        }
    }

    /// Gives what it leads to other gateways, before it ends.
    pub(super) fn hand_over(&mut self) {
        if self.cluster.is_none() {
            return;
        }
        let groups: Vec<String> = self.led.keys().cloned().collect();
        let stopped = groups.iter().flat_map(|group| self.stand_by(group)).collect();
        if let Some(cluster) = &mut self.cluster {
            cluster.end(stopped);
        }
    }

    /// Has it give its groups away and lead none, or lead groups again.
    ///
    /// # Errors
    /// That it is in no cluster.
    pub(super) fn drain(&self, is_draining: bool) -> Result<(), String> {
        let cluster = self.cluster.as_ref().ok_or("this gateway is in no cluster: it has no [cluster]")?;
        cluster.drain(is_draining);
        Ok(())
    }
}
