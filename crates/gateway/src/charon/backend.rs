//! charon's SAs, each at the worker that serves its tunnel, and its policies at all workers.

use std::net::IpAddr;
use std::sync::Arc;

use convoy_config::{Config, PortConfig, not_carried};
use convoy_ike::protocol::{EncapMode, IkeReport, Message};
use convoy_ike::state::{
    ChildChange, ChildName, ChildNews, ChildSa, NegotiatedEnds, PolicyUpdate, Refusal, SaBackend, SaUsage,
};
use convoy_ipsec::{SaConfig, SaDirection, SaEnds, SaNumber, TunnelId, UdpEncap};
use convoy_process::wall_ns;
use convoy_report::events::{Events, SaNews, What};

use super::negotiations::Negotiations;
use super::networks::PolicyNetworks;
use super::share::Share;
use super::tunnel_names::{Renamed, TunnelNames};
use super::virtual_ips::VirtualIps;
use crate::worker_handles::WorkerHandles;

/// Changes of policies that a worker applies between two rounds; more are applied part by part.
const PART: usize = 64;

/// The workers, as the backend of charon's state.
pub(crate) struct Workers {
    handles: WorkerHandles,
    pub(super) networks: PolicyNetworks,
    pub(super) names: TunnelNames,
    natt_port: u16,
    /// The UDP port that each worker sends from beside [`natt_port`](Self::natt_port), if it has
    /// one.
    own_ports: Vec<u16>,
    /// Why ESP in UDP, and native ESP and AH, cannot leave, if no outside port carries them.
    not_carried: NotCarried,
    events: Events,
    pub(super) negotiations: Negotiations,
    pub(super) virtual_ips: VirtualIps,
    /// In a cluster, what it knows of the SAs.
    pub(super) share: Option<Share>,
}

impl Workers {
    pub(crate) fn new(handles: WorkerHandles, config: &Config, events: Events, share: Option<Share>) -> Self {
        let with_ports = if config.has_own_ports() { config.workers } else { 0 };
        let own_ports = (0..with_ports).map(|worker| config.own_port(worker)).collect();
        Self {
            handles,
            networks: PolicyNetworks::default(),
            names: TunnelNames::new(config),
            natt_port: config.natt_port(),
            own_ports,
            not_carried: NotCarried::by(&config.ports),
            negotiations: Negotiations::new(config, events.clone()),
            virtual_ips: VirtualIps::default(),
            events,
            share,
        }
    }

    /// Takes another configuration: its names of the tunnels, and its peers.
    pub(super) fn configure(&mut self, config: &Config) {
        self.negotiations.configure(config);
        let renamed = self.names.configure(config);
        self.rename(&renamed);
    }

    fn rename(&self, renamed: &[Renamed]) {
        for names in renamed.chunks(PART) {
            let names: Arc<[_]> = names.into();
            self.handles.tell(move |thread| {
                names.iter().for_each(|(tunnel, name)| thread.name_tunnel(*tunnel, name.as_ref()));
            });
        }
    }

    /// The resource of a worker's own SAs of a tunnel.
    pub(crate) fn resource_of(&self, tunnel: TunnelId, worker: u16) -> u32 {
        self.handles.resource_of(tunnel, worker)
    }

    /// With `per_cpu_sas = encap` charon picks any source port for an outbound SA, so that packets
    /// of several SAs are different flows to the network and to the peer. A worker can send from
    /// its own.
    fn sendable(&self, encap: UdpEncap, worker: u16) -> UdpEncap {
        let own = self.own_ports.get(usize::from(worker)).copied();
        let is_any = encap.local_port != self.natt_port;
        let local_port = if is_any { own.unwrap_or(self.natt_port) } else { encap.local_port };
        UdpEncap { local_port, ..encap }
    }
}

/// Why no outside port carries packets of either form; `None` if one does.
struct NotCarried {
    in_udp: Option<&'static str>,
    native: Option<&'static str>,
}

impl NotCarried {
    fn by(ports: &[PortConfig]) -> Self {
        Self { in_udp: not_carried(true, ports), native: not_carried(false, ports) }
    }

    /// Refuses an SA that would seem to be up, although none of its packets could leave.
    fn admit(&self, encap: Option<UdpEncap>) -> Result<(), Refusal> {
        let (what, remedy) = match encap {
            Some(_) => (self.in_udp, "or keep the NAT from between the peers"),
            None => (self.native, "or write encap = yes in the connection of swanctl.conf"),
        };
        let Some(what) = what else { return Ok(()) };
        tracing::warn!("an SA of charon's is refused: {what}; add one, {remedy}");
        Err(Refusal(format!("{what}; add one, {remedy}")))
    }
}

fn came(tunnel: String, child: String, sa: &ChildSa) -> SaNews {
    let peer = if sa.is_encapsulated { sa.peer.to_string() } else { sa.peer.ip().to_string() };
    let ChildSa { spi_out, spi_in, transform, .. } = *sa;
    SaNews { tunnel, child, peer, spi_out, spi_in, algorithms: transform.to_string() }
}

fn silent(worker: u16) -> Refusal {
    Refusal(format!("worker {worker} did not answer in time"))
}

impl SaBackend for Workers {
    fn install(&mut self, mut sa: SaConfig, resource: Option<u32>) -> Result<SaNumber, Refusal> {
        self.not_carried.admit(sa.encap)?;
        let owner = self.handles.worker_of(sa.tunnel, resource);
        if sa.direction == SaDirection::Outbound {
            sa.encap = sa.encap.map(|encap| self.sendable(encap, owner));
        }
        let begun = self.share.as_mut().map(|share| share.begin(&mut sa));
        let started = begun.map(|begun| begun.started);
        let answer = self.handles.ask_or_undo(
            owner,
            move |thread| thread.install(&sa, started.as_ref()).map_err(|error| Refusal(error.to_string())),
            |thread, done| done.into_iter().for_each(|sa| thread.retire(sa)),
        );
        let number = answer.unwrap_or_else(|| Err(silent(owner)))?;
        if let Some((share, begun)) = self.share.as_mut().zip(begun) {
            share.installed(number, begun);
        }
        Ok(number)
    }

    fn warn_of_mode(&mut self, child: &ChildName, configured: EncapMode, mode: EncapMode) {
        tracing::warn!(
            "charon's child {child} uses {mode} mode instead of the configured {configured} mode, because the peer \
             did not agree to it"
        );
    }

    fn tell(&mut self, news: ChildNews) {
        let child = news.child.to_string();
        let tunnel = self.names.shown(news.tunnel).map_or_else(|| child.clone(), str::to_owned);
        if let ChildChange::Up(sa) | ChildChange::Rekeyed(sa) = &news.what {
            self.negotiations.succeeded(&news.child.connection, sa.peer.ip());
        }
        match news.what {
            ChildChange::Up(sa) => self.events.sa_up(came(tunnel, child, &sa)),
            ChildChange::Rekeyed(sa) => self.events.sa_rekeyed(came(tunnel, child, &sa)),
            ChildChange::Down(sa) => self.events.sa_down(came(tunnel, child, &sa)),
            ChildChange::Moved { old, new } => {
                let (old, new) = (old.to_string(), new.to_string());
                let message = format!("tunnel {tunnel}: its peer has moved from {old} to {new}");
                self.events.tell(What::PeerMoved { tunnel, old, new }, message);
            }
        }
    }

    fn report_ike(&mut self, report: IkeReport) {
        self.negotiations.report(&report, self.names.of_connection(&report.connection));
    }

    fn virtual_ip(&mut self, address: IpAddr, is_held: bool) {
        self.virtual_ips.note(address, is_held);
    }

    fn wall_ms(&mut self) -> u64 {
        wall_ns() / 1_000_000
    }

    fn share(&mut self, sa: SaNumber, record: Message) {
        if let Some(share) = &mut self.share {
            share.put(sa, &record);
        }
    }

    fn remove(&mut self, sa: SaNumber) {
        if let Some(share) = &mut self.share {
            share.remove(sa);
        }
        self.handles.send(sa.owner.into(), move |thread| thread.retire(sa));
    }

    fn change_policies(&mut self, update: PolicyUpdate) {
        let renamed = self.names.update(&update);
        self.rename(&renamed);
        let PolicyUpdate { own_sas, steps, .. } = update;
        steps.iter().for_each(|step| self.networks.note(step));
        for own_sas in own_sas.chunks(PART) {
            let own_sas: Arc<[_]> = own_sas.into();
            self.handles.tell(move |thread| {
                own_sas.iter().for_each(|(tunnel, are_wanted)| thread.set_own_sas(*tunnel, *are_wanted));
            });
        }
        for steps in steps.chunks(PART) {
            let changes: Arc<[_]> = steps.iter().map(|step| step.change.clone()).collect();
            self.handles.tell(move |thread| thread.change_policies(&changes));
        }
    }

    fn move_sa(&mut self, sa: SaNumber, ends: NegotiatedEnds) -> Result<(), Refusal> {
        self.not_carried.admit(ends.encap)?;
        let encap = ends.encap.map(|encap| self.sendable(encap, sa.owner));
        let ends = SaEnds { local: ends.local, remote: ends.remote, encap };
        let old_ends = self.handles.ask_or_undo(
            sa.owner,
            move |thread| thread.move_sa(sa, &ends),
            move |thread, old| {
                old.and_then(|old| thread.move_sa(sa, &old));
            },
        );
        match old_ends {
            Some(Some(_)) => Ok(()),
            Some(None) => Err(Refusal("the gateway cannot move the SA to these addresses".to_owned())),
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
