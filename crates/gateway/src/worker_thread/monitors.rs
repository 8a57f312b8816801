//! The monitors whose probes a worker sends.

use std::collections::BTreeSet;
use std::sync::Arc;

use convoy_assembly::assemble::InstalledTunnel;
use convoy_dataplane::monitor::{Means, Monitor};
use convoy_ipsec::{Selector, TunnelId};
use convoy_report::events::Events;
use convoy_report::survey::Surveyed;

use super::WorkerThread;
use crate::monitors::{self, AllMonitors};

/// Time between two looks, in ns, at least.
const LEAST_NS: u64 = 10_000_000;
/// And at most, also at one monitor: an answer may have come, or a tunnel to this worker.
const MOST_NS: u64 = 100_000_000;
/// For how long it is known which of charon's tunnels a monitor is about, in ns.
const KNOWN_NS: u64 = 1_000_000_000;
/// Monitors of which that is found out in one look: each time all policies are gone through.
const FOUND_AT_ONCE: usize = 8;

/// The monitors of a worker, and when it looks at them.
#[derive(Default)]
pub(super) struct OwnMonitors {
    monitors: Vec<OwnMonitor>,
    due_ns: u64,
}

struct OwnMonitor {
    monitor: Arc<Monitor>,
    due_ns: u64,
    /// Of an echo, the tunnel with the SAs, and until when that is known.
    tunnel: Option<TunnelId>,
    known_until_ns: u64,
}

impl WorkerThread {
    /// Sends the probes of its share of these monitors from now on, and takes the answers to any.
    pub(crate) fn set_monitors(&mut self, all: &AllMonitors) {
        self.worker.set_monitors(all.shared());
        let own = all.of_worker(self.tables().worker());
        let own =
            own.into_iter().map(|monitor| OwnMonitor { monitor, due_ns: 0, tunnel: None, known_until_ns: 0 });
        let before = std::mem::replace(&mut self.own_monitors.monitors, own.collect());
        self.own_monitors.due_ns = 0;
        self.worker.wake_at(u64::MAX);
        let all = before.iter().chain(&self.own_monitors.monitors);
        let interfaces: BTreeSet<u16> = all.filter_map(|own| monitors::follows(&own.monitor)).collect();
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
        let (may_send, mut to_find) = (self.worker.may_send(), FOUND_AT_ONCE);
        let mut monitors = std::mem::take(&mut self.own_monitors.monitors);
        let mut lost_or_back = Vec::new();
        for own in monitors.iter_mut().filter(|own| own.due_ns <= now_ns) {
            // A member of a cluster has the tunnels of the groups that it leads.
            let Some(installed) = self.installed.named(&own.monitor.probe().tunnel).filter(|_| may_send)
            else {
                own.monitor.rest();
                own.due_ns = now_ns + MOST_NS;
                continue;
            };
            if own.monitor.probe().means == Means::Echo && own.known_until_ns <= now_ns {
                if to_find == 0 {
                    continue;
                }
                let interface = own.monitor.probe().interface;
                (own.tunnel, to_find) = (self.tunnel_of(installed, interface), to_find - 1);
                own.known_until_ns = now_ns + KNOWN_NS;
            }
            // Its SAs are another worker's, which sends its echoes.
            if own.tunnel.is_some_and(|tunnel| !self.tables().serves(tunnel)) {
                own.due_ns = now_ns + MOST_NS;
                continue;
            }
            self.worker.probe(&own.monitor, own.tunnel);
            if let Some(verdict) = own.monitor.look(now_ns) {
                monitors::report(events, &own.monitor, verdict);
                lost_or_back.extend(monitors::follows(&own.monitor));
            }
            own.due_ns = own.monitor.next_ns().min(now_ns + MOST_NS);
        }
        let first_ns = monitors.iter().map(|own| own.due_ns).min().unwrap_or(u64::MAX);
        self.own_monitors = OwnMonitors { monitors, due_ns: first_ns.max(now_ns + LEAST_NS) };
        self.worker.wake_at(self.own_monitors.due_ns);
        lost_or_back.into_iter().for_each(|interface| self.set_answered(interface));
    }

    /// The tunnel with the SAs of a tunnel of the configuration: itself, or the first of charon's
    /// that protects nothing but its networks by its inside interface, or whose networks it takes.
    fn tunnel_of(&self, installed: &InstalledTunnel, interface: u16) -> Option<TunnelId> {
        if installed.config.has_static_keys() {
            return Some(installed.id);
        }
        if installed.config.remote_ts.is_empty() {
            let named = self.names.iter().filter(|(_, name)| name.shown == installed.config.name);
            return named.map(|(tunnel, _)| *tunnel).min();
        }
        let selectors: Vec<Selector> = installed.config.selectors().collect();
        self.tables().tunnel_within(interface, &selectors)
    }

    /// Has the link of an interface follow its monitors.
    fn set_answered(&mut self, interface: u16) {
        let (monitors, now_ns) = (&self.own_monitors.monitors, self.worker.pipeline().clock().now_ns());
        let is_answered =
            || monitors::is_answered(monitors.iter().map(|own| &*own.monitor), interface, now_ns);
        self.worker.set_answered(interface, is_answered);
    }
}
