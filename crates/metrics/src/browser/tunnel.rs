//! One tunnel as the page shows it.

use std::cmp::Ordering;
use std::collections::HashMap;

use convoy_report::snapshot::{MonitorRow, PeerRow, PeerState, Snapshot};
use serde::Serialize;

use super::interval::{Interval, Traffic, TunnelCounters};
use super::query::{Query, TunnelSort};
use super::since::TunnelChanges;

/// Characters of a reason that are sent, at most.
const TEXT: usize = 300;

/// One direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct DirectionRates {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Nothing before the second snapshot.
    pub(super) packets_per_s: Option<f64>,
    pub(super) bits_per_s: Option<f64>,
}

impl DirectionRates {
    /// One that was not there at the start of the interval has no earlier count to compare with.
    fn of(now: Traffic, before: Option<Traffic>, interval: Option<&Interval<'_>>) -> Self {
        let rates = interval.map(|interval| interval.rates(now, before.unwrap_or(now)));
        Self {
            packets: now.packets,
            bytes: now.bytes,
            packets_per_s: rates.map(|[packets, _]| packets),
            bits_per_s: rates.map(|[_, bits]| bits),
        }
    }
}

/// A tunnel with one peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct TunnelLine {
    pub(super) tunnel: String,
    pub(super) tunnel_id: Option<u32>,
    /// The peer's address; empty if unknown.
    pub(super) peer: String,
    pub(super) state: PeerState,
    /// Since when, in seconds since 1970, if known.
    pub(super) since_s: Option<f64>,
    /// Why it is not up, in words; empty if it is.
    pub(super) why: String,
    #[serde(rename = "in")]
    pub(super) inbound: DirectionRates,
    #[serde(rename = "out")]
    pub(super) outbound: DirectionRates,
    /// Dropped packets in both directions.
    pub(super) dropped: u64,
    /// Nothing before the second snapshot.
    pub(super) dropped_per_s: Option<f64>,
    /// Time since the last packet from the peer, in seconds, if one came.
    pub(super) heard_s: Option<f64>,
    /// As its monitor measures it, in seconds.
    pub(super) round_trip_s: Option<f64>,
}

impl TunnelLine {
    /// The tunnel `peer`, with what has changed since the start of an interval.
    pub(super) fn of(
        peer: &PeerRow,
        reasons: &Reasons<'_>,
        changes: &TunnelChanges,
        interval: Option<&Interval<'_>>,
    ) -> Self {
        let now = TunnelCounters::of(peer);
        let before = interval.and_then(|interval| interval.tunnel(peer));
        Self {
            tunnel: peer.tunnel.clone(),
            tunnel_id: peer.tunnel_id,
            peer: peer.remote.clone(),
            state: peer.state,
            since_s: changes.since_s(peer, reasons.snapshot),
            why: cut(&reasons.of(peer)),
            inbound: DirectionRates::of(now.inbound, before.map(|before| before.inbound), interval),
            outbound: DirectionRates::of(now.outbound, before.map(|before| before.outbound), interval),
            dropped: now.dropped,
            dropped_per_s: interval.map(|interval| {
                interval.per_second(now.dropped, before.map_or(now.dropped, |before| before.dropped))
            }),
            heard_s: peer.inbound.last_used_s,
            round_trip_s: peer.monitor.as_ref().and_then(|monitor| monitor.round_trip_s),
        }
    }

    /// Bits per second in both directions.
    fn bits(&self) -> f64 {
        self.inbound.bits_per_s.unwrap_or_default() + self.outbound.bits_per_s.unwrap_or_default()
    }

    /// Whether a query selects it.
    pub(super) fn is_selected(&self, query: &Query) -> bool {
        let has_text = |text: &str| text.to_lowercase().contains(&query.filter);
        query.states.has(self.state)
            && (query.filter.is_empty() || has_text(&self.tunnel) || has_text(&self.peer))
    }

    /// Whether it stands before another in an order.
    pub(super) fn compare(&self, other: &Self, sort: TunnelSort) -> Ordering {
        let most = |of: fn(&Self) -> f64| of(other).total_cmp(&of(self));
        match sort {
            TunnelSort::State => urgency(other.state).cmp(&urgency(self.state)),
            TunnelSort::Name => self.tunnel.cmp(&other.tunnel),
            TunnelSort::Rate => most(Self::bits),
            TunnelSort::In => most(|line| line.inbound.bits_per_s.unwrap_or_default()),
            TunnelSort::Out => most(|line| line.outbound.bits_per_s.unwrap_or_default()),
            TunnelSort::Dropped => {
                let now = most(|line| line.dropped_per_s.unwrap_or_default());
                now.then(other.dropped.cmp(&self.dropped))
            }
            TunnelSort::RoundTrip => most(|line| line.round_trip_s.unwrap_or_default()),
            TunnelSort::Heard => most(|line| line.heard_s.unwrap_or(f64::INFINITY)),
        }
    }
}

/// How much a state needs a look. Tunnels that were removed on purpose need none.
fn urgency(state: PeerState) -> usize {
    if state == PeerState::Removed {
        return 0;
    }
    1 + PeerState::ALL.iter().position(|other| *other == state).unwrap_or_default()
}

/// Why tunnels are not up, as far as a snapshot has it.
pub(super) struct Reasons<'a> {
    snapshot: &'a Snapshot,
    /// What is wrong with the names of peers, by tunnel.
    names: HashMap<&'a str, &'a str>,
    /// Why this gateway has no SAs of a tunnel: another leads its group, or none does.
    led_elsewhere: HashMap<&'a str, String>,
}

impl<'a> Reasons<'a> {
    pub(super) fn of_all(snapshot: &'a Snapshot) -> Self {
        let names = snapshot.names.iter().filter(|row| !row.problem.is_empty());
        Self {
            snapshot,
            names: names.map(|row| (row.tunnel.as_str(), row.problem.as_str())).collect(),
            led_elsewhere: led_elsewhere(snapshot),
        }
    }

    fn of(&self, peer: &PeerRow) -> String {
        if let Some(last) = peer.negotiation.as_ref().filter(|_| peer.state != PeerState::Up) {
            return format!("IKE: {}", last.reason);
        }
        let tunnel = peer.tunnel.as_str();
        match (peer.state, &peer.monitor) {
            (PeerState::Up, _) => String::new(),
            (PeerState::Silent, Some(monitor)) if monitor.is_lost() => lost(monitor),
            (PeerState::Silent, _) if peer.inbound.last_used_s.is_none() => {
                "the peer was not heard yet".to_owned()
            }
            (PeerState::Silent, _) => "the peer was not heard for a minute: it is idle or gone".to_owned(),
            (PeerState::NoPeer, _) => match self.names.get(tunnel) {
                Some(problem) => format!("the peer's address is not known: {problem}"),
                None => "the peer's address is not known".to_owned(),
            },
            (PeerState::OneWay, _) => "it has SAs in one direction only".to_owned(),
            (PeerState::Expired, _) => "the SAs of a direction have reached their hard lifetime".to_owned(),
            (PeerState::Negotiating, _) => "charon's last negotiation failed or has no answer".to_owned(),
            (PeerState::Down, _) => {
                let elsewhere = self.led_elsewhere.get(tunnel).cloned();
                elsewhere.unwrap_or_else(|| "it has no SAs".to_owned())
            }
            (PeerState::Removed, _) => "neither the configuration nor charon has it any more".to_owned(),
        }
    }
}

fn lost(monitor: &MonitorRow) -> String {
    let (probes, who) = (monitor.probes(), monitor.answerer());
    let last =
        monitor.answered_s.map_or_else(String::new, |ago| format!(", the last answer came {ago:.1} s ago"));
    format!("{probes} to {who} are not answered{last}")
}

fn led_elsewhere(snapshot: &Snapshot) -> HashMap<&str, String> {
    let Some(cluster) = &snapshot.cluster else { return HashMap::new() };
    let groups = cluster.groups.iter().filter(|group| !group.is_led);
    let leaders: HashMap<&str, Option<&str>> =
        groups.map(|group| (group.name.as_str(), group.leader.as_deref())).collect();
    let why = |group: &str| {
        Some(match leaders.get(group)? {
            Some(leader) => format!("{leader} leads its group {group}"),
            None => format!("no gateway leads its group {group}"),
        })
    };
    snapshot.configured.iter().filter_map(|row| Some((row.name.as_str(), why(&row.group)?))).collect()
}

/// A text of bounded length.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{ClusterRow, ConfiguredRow, GroupRow, NameRow, NegotiationRow};

    use super::*;

    fn peer(state: PeerState) -> PeerRow {
        PeerRow { tunnel: "site".to_owned(), state, ..PeerRow::default() }
    }

    #[test]
    fn tunnel_that_is_not_up_says_why() {
        let snapshot = Snapshot::default();
        let reasons = Reasons::of_all(&snapshot);
        let reason = "the peer refuses our identity".to_owned();
        let negotiation = Some(NegotiationRow { reason, ..NegotiationRow::default() });
        let failed = PeerRow { negotiation, ..peer(PeerState::Negotiating) };
        assert_eq!(reasons.of(&failed), "IKE: the peer refuses our identity");
        let (state, ping, source) = ("lost".to_owned(), "10.2.0.1".to_owned(), "10.1.0.1".to_owned());
        let monitor = MonitorRow { state, ping, source, answered_s: Some(1.25), ..MonitorRow::default() };
        let lost = PeerRow { monitor: Some(monitor), ..peer(PeerState::Silent) };
        let words = "pings from 10.1.0.1 to 10.2.0.1 are not answered, the last answer came 1.2 s ago";
        assert_eq!(reasons.of(&lost), words);
        assert_eq!(reasons.of(&peer(PeerState::Up)), "");
    }

    #[test]
    fn tunnel_of_a_group_that_another_gateway_leads_names_it() {
        let group = |name: &str, leader: Option<&str>| GroupRow {
            name: name.to_owned(),
            leader: leader.map(str::to_owned),
            ..GroupRow::default()
        };
        let groups = vec![group("west", Some("gw-2")), group("east", None)];
        let configured = |name: &str, group: &str| ConfiguredRow {
            name: name.to_owned(),
            group: group.to_owned(),
            ..ConfiguredRow::default()
        };
        let problem = "no such name".to_owned();
        let snapshot = Snapshot {
            cluster: Some(ClusterRow { groups, ..ClusterRow::default() }),
            configured: vec![configured("site", "west"), configured("other", "east")],
            names: vec![NameRow { tunnel: "site".to_owned(), problem, ..NameRow::default() }],
            ..Snapshot::default()
        };
        let reasons = Reasons::of_all(&snapshot);
        assert_eq!(reasons.of(&peer(PeerState::Down)), "gw-2 leads its group west");
        let other = PeerRow { tunnel: "other".to_owned(), ..PeerRow::default() };
        assert_eq!(reasons.of(&other), "no gateway leads its group east");
        assert_eq!(reasons.of(&peer(PeerState::NoPeer)), "the peer's address is not known: no such name");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = cut(&"ü".repeat(TEXT + 1));
        assert!(long.ends_with('…') && long.chars().count() == TEXT + 1);
        assert_eq!(cut("ü"), "ü");
    }

    #[test]
    fn tunnels_that_need_a_look_come_first() {
        let mut states = PeerState::ALL;
        states.sort_by_key(|state| std::cmp::Reverse(urgency(*state)));
        assert_eq!((states[0], states[6], states[7]), (PeerState::Down, PeerState::Up, PeerState::Removed));
    }
}
