//! Peers given by name: their tunnels follow the addresses of the names, and so do guard and
//! routes.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use convoy_host::networks::named;
use convoy_names::PeerMove;
use convoy_report::events::{Events, What};

use super::Gateway;

/// Interval between two changes of routes and guard for the sake of peers: each reads all routes.
const ROUTES: Duration = Duration::from_secs(1);

impl Gateway {
    /// Moves the tunnels whose peer's name has another address now. Call it often.
    pub(super) fn follow_names(&mut self) {
        let moves = self.names.take_moves(&self.events);
        moves.iter().for_each(|moved| tell(&self.events, moved));
        if !moves.is_empty() {
            self.peers_changed = true;
            let peers = moves.into_iter().map(|moved| (moved.tunnel, moved.new)).collect();
            self.point(peers, true);
        }
        let is_due = self.peers_reported.is_none_or(|reported| reported.elapsed() >= ROUTES);
        if self.peers_changed && is_due {
            (self.peers_changed, self.peers_reported) = (false, Some(Instant::now()));
            if let Err(error) = self.route_again() {
                self.events.warn(format!("cannot update the routes of peers that have moved: {error}"));
            }
        }
    }

    /// Follows the names of a new configuration; returns what went wrong. Tunnels that are new and
    /// whose peer is known already get its address at once.
    pub(super) fn name_peers(&mut self) -> Option<String> {
        let followed = self.names.follow(&self.config.tunnels, &self.faults.sender());
        let known = self.names.known();
        if !known.is_empty() {
            self.point(known, false);
        }
        followed.err().map(|error| format!("cannot resolve the names of peers: {error}"))
    }

    /// Has all workers move the SAs of these tunnels.
    fn point(&self, peers: HashMap<String, IpAddr>, all: bool) {
        let reported = Arc::new(peers);
        let peers = Arc::clone(&reported);
        let answers = self.handles.tell(move |thread| thread.point(&reported, all));
        let refused: BTreeSet<String> = answers.into_iter().flatten().flatten().collect();
        for tunnel in refused {
            let address = peers.get(&tunnel).map(ToString::to_string).unwrap_or_default();
            self.events.warn(format!(
                "tunnel {tunnel:?} cannot move to {address}: another SA has its spi_out there; give one of the two another SPI"
            ));
        }
    }

    /// The outer addresses of all peers as known, which are reached outside the tunnels.
    pub(super) fn peers(&self) -> Vec<IpAddr> {
        named(self.config.tunnels.iter().map(|tunnel| tunnel.remote).chain(self.names.addresses()))
    }
}

fn tell(events: &Events, moved: &PeerMove) {
    let PeerMove { tunnel, name, old, new } = moved;
    match old {
        Some(old) => {
            let message =
                format!("tunnel {tunnel}: the peer has moved from {old} to {new}: {name} has changed");
            let (old, new) = (old.to_string(), new.to_string());
            events.tell(What::PeerMoved { tunnel: tunnel.clone(), old, new }, message);
        }
        None => tracing::info!("tunnel {tunnel}: {name} resolved to {new}"),
    }
}
