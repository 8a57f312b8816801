//! The monitors whose probes a worker sends.

use std::sync::Arc;

use convoy_config::TunnelConfig;
use convoy_dataplane::monitor::{Means, Monitor};
use convoy_ipsec::{Action, FlowKey, TunnelId};

use super::WorkerThread;
use crate::assemble::Installed;
use crate::events::Events;
use crate::monitors::{self, AllMonitors};
use crate::survey::Surveyed;

/// Time between two looks at all of them, in ns, at least.
const LEAST_NS: u64 = 10_000_000;
/// And at most: a tunnel may come to this worker.
const MOST_NS: u64 = 100_000_000;

/// The monitors of a worker, and when it looks at them.
#[derive(Default)]
pub(super) struct OwnMonitors {
    monitors: Vec<Arc<Monitor>>,
    due_ns: u64,
}

impl WorkerThread {
    /// Sends the probes of its share of these monitors from now on, and takes the answers to any.
    pub(crate) fn set_monitors(&mut self, all: &AllMonitors) {
        self.worker.set_monitors(all.shared());
        let own = all.of_worker(self.tables().worker());
        let before = std::mem::replace(&mut self.own_monitors.monitors, own);
        self.own_monitors.due_ns = 0;
        self.worker.wake_at(u64::MAX);
        let mut interfaces = monitors::interfaces(&before);
        interfaces.extend(monitors::interfaces(&self.own_monitors.monitors));
        interfaces.into_iter().for_each(|interface| self.set_answered(interface));
    }

    /// Sends the probes that are due, and reports tunnels that no longer answer, or answer again.
    pub(super) fn watch_monitors(&mut self, events: &Events) {
        if self.own_monitors.monitors.is_empty() {
            return;
        }
        let now_ns = self.now_ns();
        if now_ns < self.own_monitors.due_ns {
            return;
        }
        let may_send = self.worker.may_send();
        let mut due_ns = now_ns + MOST_NS;
        for at in 0..self.own_monitors.monitors.len() {
            let monitor = Arc::clone(&self.own_monitors.monitors[at]);
            // A member of a cluster has the tunnels of the groups that it leads.
            let Some(installed) = self.installed.named(&monitor.probe().tunnel).filter(|_| may_send) else {
                monitor.rest();
                continue;
            };
            let is_echo = monitor.probe().means == Means::Echo;
            let tunnel = if is_echo { self.tunnel_of(installed) } else { None };
            // Its SAs are another worker's, which sends its echoes.
            if tunnel.is_some_and(|tunnel| !self.tables().serves(tunnel)) {
                continue;
            }
            self.worker.probe(&monitor, tunnel);
            if let Some(verdict) = monitor.look(now_ns) {
                monitors::report(events, &monitor, verdict);
                monitors::follows(&monitor).into_iter().for_each(|interface| self.set_answered(interface));
            }
            due_ns = due_ns.min(monitor.next_ns());
        }
        let due_ns = due_ns.max(now_ns + LEAST_NS);
        self.own_monitors.due_ns = due_ns;
        self.worker.wake_at(due_ns);
    }

    /// The tunnel with the SAs of a tunnel of the configuration: itself, or the one of charon's
    /// that protects packets between its networks.
    fn tunnel_of(&self, installed: &Installed) -> Option<TunnelId> {
        let TunnelConfig { local_ts, remote_ts, .. } = &installed.config;
        if installed.config.has_static_keys() {
            return Some(installed.id);
        }
        let (local, remote) = (local_ts.first()?, remote_ts.first()?);
        let protocol = local.protocol.or(remote.protocol).unwrap_or_default();
        let flow = FlowKey::new(local.addresses.first(), remote.addresses.first(), protocol, None);
        match self.tables().policies_of(&flow).first()?.policy.action {
            Action::Protect(tunnel) => Some(tunnel),
            Action::Bypass | Action::Discard => None,
        }
    }

    /// Has the link of an interface follow its monitors.
    fn set_answered(&mut self, interface: u16) {
        let (monitors, now_ns) = (&self.own_monitors.monitors, self.worker.pipeline().clock().now_ns());
        let is_answered = || monitors::is_answered(monitors, interface, now_ns);
        self.worker.set_answered(interface, is_answered);
    }
}
