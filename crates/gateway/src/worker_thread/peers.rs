//! Where the peers of a worker's tunnels are.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use convoy_config::TunnelConfig;
use convoy_ipsec::{MappingChange, SaEnds, UdpEncap};
use convoy_report::events::{Events, What};

use super::WorkerThread;
use super::reload::LOOKS;
use super::slices::Slices;

impl WorkerThread {
    /// Moves the SAs of tunnels with static keys to these addresses of their peers, by tunnel;
    /// `all` includes SAs whose peer's address is known already. Returns the tunnels that have an
    /// SA which cannot go there.
    pub(crate) fn point(&mut self, peers: &HashMap<String, IpAddr>, all: bool) -> Vec<String> {
        let mut refused = Vec::new();
        let mut slices = Slices::of(LOOKS);
        for (name, remote) in peers {
            slices.step(&mut self.worker);
            let Some(tunnel) = self.installed.named(name) else { continue };
            let ipsec = self.worker.pipeline_mut().ipsec_mut();
            for sa in tunnel.sas() {
                let known = ipsec.tables.ends(sa);
                let Some(known) = known.filter(|ends| all || ends.remote.is_unspecified()) else { continue };
                let remote_port = tunnel.config.remote_port;
                let encap = known.encap.map(|encap| UdpEncap { remote_port, ..encap });
                let ends = SaEnds { remote: *remote, encap, ..known };
                if !ipsec.upkeep.move_sa(&mut ipsec.tables, sa, &ends) {
                    refused.push(name.clone());
                }
            }
        }
        refused
    }

    /// Reports that packets of a peer with static keys come from elsewhere. It has moved if it may
    /// roam, so that answers follow; charon's peers have moved once charon says so.
    pub(super) fn tell_move(&self, events: &Events, change: &MappingChange) {
        let Some(installed) = self.installed.get(change.tunnel) else { return };
        let TunnelConfig { name, roams, .. } = &installed.config;
        let (tunnel, old, new) =
            (name.clone(), PeerPlace(change.old).to_string(), PeerPlace(change.new).to_string());
        if *roams {
            let message = format!("tunnel {tunnel}: the peer has moved from {old} to {new}");
            return events.tell(What::PeerMoved { tunnel, old, new }, message);
        }
        let message = format!(
            "tunnel {tunnel}: packets of the peer come from {new}, but answers go on to {old}; if a NAT is between \
             them, write roaming = true, with which answers follow"
        );
        events.tell(What::PeerElsewhere { tunnel, old, new }, message);
    }
}

/// Where a peer is, in words.
struct PeerPlace(SocketAddr);

impl fmt::Display for PeerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            place if place.ip().is_unspecified() => f.write_str("an unknown address"),
            // It is not in UDP.
            place if place.port() == 0 => write!(f, "{}", place.ip()),
            place => write!(f, "{place}"),
        }
    }
}
