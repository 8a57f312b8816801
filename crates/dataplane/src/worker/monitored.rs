//! Monitors at a worker: pings go out as packets from the inside would, echoes by an SA, and
//! answers are taken before anything goes inside.

use convoy_ipsec::{EchoNumber, TunnelId};
use convoy_port::Port;

use super::Worker;
use crate::monitor::{Means, Monitor, Monitors};
use crate::path_probe::ProbeStep;

impl Worker {
    /// Takes the answers to the probes of these monitors from now on, whichever worker sends them.
    pub fn set_monitors(&mut self, monitors: Monitors) {
        self.monitors = monitors;
    }

    /// Has it sleep no longer than until this time, in ns: its owner has probes to send then.
    pub fn wake_at(&mut self, due_ns: u64) {
        self.owner_due_ns = due_ns;
    }

    /// Whether packets may leave: it is in no cluster, or has a lease.
    pub fn may_send(&self) -> bool {
        !self.is_fenced()
    }

    /// Sends a monitor's next probe if it is due: by a tunnel with SAs of this worker, or if it is
    /// a ping, by the SA that the policies have for it. Sends echoes that find out what the path
    /// carries as well, which the SAs then follow.
    pub fn probe(&mut self, monitor: &Monitor, tunnel: Option<TunnelId>) {
        let now_ns = self.pipeline.clock().now_ns();
        if let Some(tunnel) = tunnel {
            self.probe_path(now_ns, monitor, tunnel);
        }
        let Some(sequence) = monitor.next(now_ns) else { return };
        match (monitor.probe().means, tunnel) {
            (Means::Ping { .. }, _) => {
                let ping = monitor.ping(sequence, self.pipeline.pool_mut());
                self.pipeline.outbound(&mut ping.into_iter().collect());
            }
            (Means::Echo, Some(tunnel)) => {
                monitor.note_echoed_by(tunnel);
                self.pipeline.send_echo(tunnel, EchoNumber { id: monitor.echo_id(), sequence }, 0);
            }
            (Means::Echo, None) => {}
        }
    }

    fn probe_path(&mut self, now_ns: u64, monitor: &Monitor, tunnel: TunnelId) {
        let Some(path) = self.pipeline.ipsec().tables.assumed_path(tunnel) else { return };
        for step in monitor.path_steps(now_ns, &path) {
            match step {
                ProbeStep::Send { len, sequence } => {
                    let data_len = self.pipeline.ipsec().tables.echo_data_len(tunnel, len);
                    let number = EchoNumber { id: monitor.path_id(), sequence };
                    data_len.into_iter().for_each(|len| self.pipeline.send_echo(tunnel, number, len));
                }
                ProbeStep::Learn(mtu) => {
                    self.pipeline.ipsec_mut().tables.learn_path_mtu(now_ns, path.peer, mtu);
                }
            }
        }
    }

    pub(super) fn take_answers(&mut self, now_ns: u64) {
        let answers = self.pipeline.ipsec_mut().inbound.echoes.take_answers();
        self.monitors.take_echo_answers(now_ns, &answers);
        let (pool, departures) = self.pipeline.pool_and_departures();
        if !departures.to_inside.is_empty() {
            self.monitors.take_answers(now_ns, &mut departures.to_inside, pool);
        }
    }

    /// Has the link of an interface follow its monitors, beside its tunnels.
    pub fn set_answered(&mut self, interface: u16, is_answered: impl FnOnce() -> bool) {
        let Some(links) = &self.links else { return };
        let Some(port) = self.interfaces.port(interface).and_then(|port| self.inside.get_mut(port)) else {
            return;
        };
        links.answer(interface, is_answered, |is_up| set_link(port.as_mut(), is_up));
    }
}

/// Sets the link of an interface, and logs it.
pub(super) fn set_link(port: &mut dyn Port, is_up: bool) {
    let name = port.description().name.clone();
    match port.set_link(is_up) {
        Ok(()) => tracing::info!("interface {name} is {}", if is_up { "up" } else { "down" }),
        Err(error) => tracing::warn!("cannot set the link of interface {name}: {error}"),
    }
}
