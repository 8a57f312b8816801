//! Since when tunnels have been in their states, as far as the gateway's events have it.

use std::collections::HashMap;

use convoy_report::events::{Event, Events, What};
use convoy_report::snapshot::{PeerRow, PeerState, Snapshot};

/// The last changes of tunnels, by name.
#[derive(Debug, Default)]
pub(super) struct TunnelChanges {
    /// The state that each event led to, and its time in seconds since 1970; the newest last.
    of_tunnel: HashMap<String, Vec<(PeerState, f64)>>,
    /// How many tunnels have a name: an event does not say which of several it is about.
    of_name: HashMap<String, usize>,
}

impl TunnelChanges {
    /// What the events that are kept say of the tunnels `peers`.
    pub(super) fn of(events: &Events, peers: &[PeerRow]) -> Self {
        let mut changes = Self::default();
        for event in events.after(0).events {
            if let Some((tunnel, state)) = change(&event) {
                let of_tunnel = changes.of_tunnel.entry(tunnel.to_owned()).or_default();
                of_tunnel.push((state, event.time_s));
            }
        }
        for peer in peers.iter().filter(|_| !changes.of_tunnel.is_empty()) {
            *changes.of_name.entry(peer.tunnel.clone()).or_default() += 1;
        }
        changes
    }

    /// Since when a tunnel has been in its state, in seconds since 1970; nothing if no event says.
    pub(super) fn since_s(&self, peer: &PeerRow, snapshot: &Snapshot) -> Option<f64> {
        let ago = |seconds: f64| snapshot.taken_s - seconds;
        match (peer.state, &peer.negotiation, &peer.monitor) {
            (PeerState::Negotiating, Some(last), _) => return Some(ago(last.age_s)),
            // Without a monitor, a peer is silent from its last packet on.
            (PeerState::Silent, _, None) => return peer.inbound.last_used_s.map(ago),
            _ => {}
        }
        if self.of_name.get(&peer.tunnel).is_some_and(|count| *count > 1) {
            return None;
        }
        // The probes of charon's tunnels are reported by the configuration's name.
        let monitored = peer.monitor.as_ref().map(|monitor| monitor.tunnel.as_str());
        let names = [Some(peer.tunnel.as_str()), monitored.filter(|name| *name != peer.tunnel)];
        let changes = names.into_iter().flatten().filter_map(|name| self.of_tunnel.get(name)).flatten();
        let last = changes.max_by(|one, other| one.1.total_cmp(&other.1));
        last.filter(|(state, _)| *state == peer.state).map(|(_, time_s)| *time_s)
    }
}

/// The tunnel that an event changes, and its state from then on.
fn change(event: &Event) -> Option<(&str, PeerState)> {
    let state = match &event.what {
        What::SaUp(_) | What::ProbesAnswered { .. } => PeerState::Up,
        What::ProbesLost { .. } => PeerState::Silent,
        What::SaDown(_) => PeerState::Down,
        What::SaExpired(_) => PeerState::Expired,
        _ => return None,
    };
    Some((event.what.tunnel()?, state))
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{MonitorRow, NegotiationRow, WayRow};

    use super::*;

    fn peer(state: PeerState) -> PeerRow {
        let monitor = MonitorRow { tunnel: "site".to_owned(), ..MonitorRow::default() };
        PeerRow { tunnel: "site/net".to_owned(), state, monitor: Some(monitor), ..PeerRow::default() }
    }

    #[test]
    fn state_has_the_time_of_the_event_that_led_to_it() {
        let events = Events::default();
        let tunnel = || "site".to_owned();
        events.tell(What::ProbesAnswered { tunnel: tunnel() }, "answered");
        events.tell(What::ProbesLost { tunnel: tunnel() }, "lost");
        let lost_s = events.after(1).events[0].time_s;
        let (silent, up) = (peer(PeerState::Silent), peer(PeerState::Up));
        let changes = TunnelChanges::of(&events, std::slice::from_ref(&silent));
        assert_eq!(changes.since_s(&silent, &Snapshot::default()), Some(lost_s));
        assert_eq!(changes.since_s(&up, &Snapshot::default()), None, "the last event says otherwise");
        let of_two = TunnelChanges::of(&events, &[silent.clone(), silent.clone()]);
        assert_eq!(of_two.since_s(&silent, &Snapshot::default()), None, "it may be the other");
    }

    #[test]
    fn state_without_an_event_has_the_time_that_the_snapshot_says() {
        let snapshot = Snapshot { taken_s: 100.0, ..Snapshot::default() };
        let negotiation = NegotiationRow { age_s: 10.0, ..NegotiationRow::default() };
        let failed = PeerRow { negotiation: Some(negotiation), ..peer(PeerState::Negotiating) };
        let inbound = WayRow { last_used_s: Some(70.0), ..WayRow::default() };
        let idle = PeerRow { monitor: None, inbound, ..peer(PeerState::Silent) };
        let changes = TunnelChanges::default();
        assert_eq!(changes.since_s(&failed, &snapshot), Some(90.0));
        assert_eq!(changes.since_s(&idle, &snapshot), Some(30.0));
        assert_eq!(changes.since_s(&peer(PeerState::Up), &snapshot), None);
    }
}
