//! The tasks of a running gateway's helper for the tunnels' networks: routes into the tunnels,
//! blackhole routes, and the guard.

use std::collections::BTreeSet;
use std::time::Instant;

use convoy_config::{OnStop, ThisMachine};
use convoy_host::guard::{self, GuardWatch};
use convoy_host::helper::Helper;
use convoy_host::{networks, ports};
use convoy_ipsec::AddressRange;
use convoy_kernel::guard::{GuardPlan, guard_table};
use convoy_kernel::{Prefix, RoutePlan};
use convoy_report::snapshot::GuardRow;

use super::{Gateway, RunError};
use crate::charon::{Behind, Charon, may_be_ours};

impl Gateway {
    /// Guards the networks behind the tunnels and routes them into the tunnels. Call it last, so
    /// that a start that fails changes neither.
    ///
    /// # Errors
    /// [`RunError::Guard`], [`RunError::Routes`].
    pub fn route(&self) -> Result<(), RunError> {
        self.set_guard()?;
        self.set_routes()
    }

    /// Guards and routes new networks of a running gateway: guard and routes are each set even if
    /// the other cannot be, as either keeps packets from leaving unencrypted.
    ///
    /// # Errors
    /// [`RunError::Guard`], [`RunError::Routes`].
    pub(super) fn route_again(&self) -> Result<(), RunError> {
        let (guarded, routed) = (self.set_guard(), self.set_routes());
        guarded.and(routed)
    }

    fn set_guard(&self) -> Result<(), RunError> {
        let helper = self.helper.as_ref().filter(|_| guard::has_inside_interface(&self.config));
        let Some(helper) = helper else { return Ok(()) };
        let plan = guard::plan(&self.config, &self.blocked_networks());
        let plan = plan.map(|plan| GuardPlan { peers: self.peers(), ..plan });
        helper.guard(self.config.routing.table, plan).map_err(RunError::Guard)
    }

    fn set_routes(&self) -> Result<(), RunError> {
        let plan = self.helper.as_ref().zip(self.plan());
        plan.map_or(Ok(()), |(helper, plan)| helper.route(plan)).map_err(RunError::Routes)
    }

    fn plan(&self) -> Option<RoutePlan> {
        let (blocked, peers) = (self.blocked_networks(), self.peers());
        let taken = self.blocked.routed().iter();
        let taken = taken.map(|(network, local)| networks::route(&self.config, *network, local));
        let mut plan = ports::route_plan(&self.config)?;
        plan.routes.extend(taken);
        let taken = || peers.iter().chain(&plan.outer).copied();
        let virtual_ips = self.virtual_ips.iter().copied().filter(|it| may_be_ours(*it, taken())).collect();
        Some(RoutePlan { blocked, peers, virtual_ips, ..plan })
    }

    fn blocked_networks(&self) -> Vec<Prefix> {
        self.blocked.networks().iter().copied().collect()
    }

    /// Routes or blocks the networks behind charon's tunnels that the configuration does not cover,
    /// and warns the operator. `all` also considers tunnels that were there before.
    pub(super) fn cover(&mut self, all: bool) {
        let Some(charon) = &self.charon else { return };
        let is_kept = ports::inside_device(&self.config).is_some() || self.is_guarded();
        let behind = charon.behind(all);
        let has_helper = self.helper.is_some();
        let can_route = has_helper && ports::inside_device(&self.config).is_some();
        let mut warnings = self.blocked.block(&behind, has_helper && is_kept, can_route);
        warnings.extend(self.unforwarded(&behind));
        warnings.into_iter().for_each(|warning| self.events.warn(warning));
    }

    /// What keeps packets of hosts behind this gateway from charon's tunnels, as far as that was
    /// not said before.
    fn unforwarded(&mut self, behind: &[Behind]) -> Vec<String> {
        let device = ports::inside_device(&self.config).filter(|_| self.helper.is_some());
        let Some(device) = device.filter(|_| !behind.is_empty()) else { return Vec::new() };
        let here: Vec<AddressRange> = behind.iter().map(|behind| behind.selector.local.addresses).collect();
        let all = convoy_config::hosts_behind::unforwarded(&ThisMachine, device, &here);
        all.into_iter()
            .map(|what| format!("local_ts of charon's children: {what}"))
            .filter(|warning| self.blocked.is_new(warning))
            .collect()
    }

    /// Has the helper block everything new at once: it reads all routes each time.
    pub(super) fn block(&mut self) {
        self.cover(false);
        if self.blocked.is_due() {
            let routed = self.route_again();
            self.blocked.asked(routed.is_ok());
            if let Err(error) = routed {
                self.events.warn(format!("networks outside every [[tunnel]] are not blocked: {error}"));
            }
        }
    }

    /// Has the helper set the addresses of this host's that charon's peers have chosen, at the
    /// inside interface. It is asked once for each change.
    pub(super) fn set_virtual_ips(&mut self) {
        let wanted = self.charon.as_ref().map_or_else(BTreeSet::new, Charon::virtual_ips);
        if wanted == self.virtual_ips {
            return;
        }
        self.virtual_ips = wanted;
        let result = match self.plan() {
            None => Err("there is no inside interface of the kernel's".to_owned()),
            Some(plan) => {
                for refused in self.virtual_ips.difference(&plan.virtual_ips) {
                    self.events.warn(format!("a peer has chosen {refused} for this host, which is not free"));
                }
                self.set_routes().map_err(|error| error.to_string())
            }
        };
        if let Err(error) = result {
            self.events.warn(format!("this host cannot have the virtual IPs of its tunnels: {error}"));
        }
    }

    /// Whether something that drops packets to the tunnels' networks stays after its end.
    pub fn blocks(&self) -> bool {
        let is_any = self.plan().is_some_and(|plan| !plan.routes.is_empty() || !plan.blocked.is_empty());
        self.on_stop() == OnStop::Block && (is_any || self.is_guarded())
    }

    fn is_guarded(&self) -> bool {
        self.config.guard && guard::has_inside_interface(&self.config)
    }

    /// The process that has set the guard, if there is one.
    fn guard_s_helper(&self) -> Option<&Helper> {
        self.helper.as_deref().filter(|_| self.is_guarded())
    }

    /// The guard's counters, if there is one and it can be asked.
    pub(super) fn guard_row(&self) -> Option<GuardRow> {
        let counts = self.guard_s_helper()?.guard_counts().ok()?;
        let table = guard_table(self.config.routing.table);
        Some(GuardRow { table, dropped_inbound: counts.inbound, dropped_outbound: counts.outbound })
    }

    /// Warns of packets that the guard has dropped.
    pub(super) fn watch_guard(&self, watch: &mut GuardWatch) {
        let now = Instant::now();
        let counts = self.guard_s_helper().filter(|_| watch.is_due(now)).map(Helper::guard_counts);
        match counts {
            Some(Ok(counts)) => watch.look(now, counts).into_iter().for_each(|line| self.events.warn(line)),
            Some(Err(error)) => tracing::warn!("cannot read the guard's counters: {error}"),
            None => {}
        }
    }
}
