//! A snapshot by tunnel and peer: one row for what an operator takes for one connection, with both
//! of its directions.

mod state;

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::Serialize;

pub use state::PeerState;

use super::{ConfiguredRow, Drops, IkePeerRow, MonitorRow, NegotiationRow, SaRow, Snapshot, TunnelRow};

/// One direction of a tunnel.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct WayRow {
    /// SAs.
    pub sas: usize,
    /// Packets: since the gateway's start if the tunnel has one peer, else of the present SAs.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time since the last packet, in seconds: of all SAs that the tunnel has had if it has one
    /// peer, else of the present ones. Nothing if there was none.
    pub last_used_s: Option<f64>,
    /// Dropped packets by reason, counted as `packets` are.
    pub drops: Drops,
}

/// One tunnel with one peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PeerRow {
    /// The tunnel's name, as [`SaRow::tunnel`].
    pub tunnel: String,
    /// The tunnel's number, as [`SaRow::tunnel_id`]; nothing while it has neither SAs nor policies.
    pub tunnel_id: Option<u32>,
    /// charon's name for the CHILD_SA, as `connection/child`; empty with static keys, and while
    /// charon has none.
    pub child: String,
    /// Whether it carries packets, as far as that is known.
    pub state: PeerState,
    /// `tunnel`, `transport` or `iptfs`; empty if unknown.
    pub mode: String,
    /// Our outer address; empty if unknown.
    pub local: String,
    /// Our UDP port, where ESP goes in UDP.
    pub local_port: Option<u16>,
    /// The peer's outer address, to which packets are sent; empty if unknown.
    pub remote: String,
    /// The peer's UDP port, where ESP goes in UDP.
    pub remote_port: Option<u16>,
    /// Who the peer is, as charon has found out.
    pub ike: Option<IkePeerRow>,
    /// What keeps charon's negotiation with the peer from an end.
    pub negotiation: Option<NegotiationRow>,
    /// The probes through it, if it has a monitor.
    pub monitor: Option<MonitorRow>,
    /// The path MTU to the peer, in bytes, as far as known.
    pub path_mtu: Option<u16>,
    /// To the peer.
    pub outbound: WayRow,
    /// From the peer.
    pub inbound: WayRow,
}

impl PeerRow {
    /// What tells this tunnel from others, also in another snapshot.
    pub fn key(&self) -> TunnelKey<'_> {
        (&self.tunnel, self.tunnel_id)
    }
}

/// A tunnel's name and number.
pub type TunnelKey<'a> = (&'a str, Option<u32>);

impl Snapshot {
    /// All tunnels by peer: those of the configuration in its order, then the others by name.
    pub fn peers(&self) -> Vec<PeerRow> {
        let mut sas: BTreeMap<TunnelKey<'_>, Vec<&SaRow>> = BTreeMap::new();
        let mut children: HashMap<Option<u32>, &str> = HashMap::new();
        // Tunnels of the configuration that another one's SAs serve as well.
        let mut served: HashSet<&str> = HashSet::new();
        for policy in self.policies.iter().filter(|policy| policy.tunnel_id.is_some()) {
            sas.entry((&policy.name, policy.tunnel_id)).or_default();
            children.insert(policy.tunnel_id, &policy.child);
            served.extend(policy.others.iter().map(String::as_str));
        }
        for sa in &self.sas {
            children.insert(Some(sa.tunnel_id), &sa.child);
            sas.entry((&sa.tunnel, Some(sa.tunnel_id))).or_default().push(sa);
        }
        let (mut known, mut of_name) = (HashSet::new(), HashMap::new());
        for (name, _) in sas.keys() {
            known.insert(*name);
            *of_name.entry(*name).or_insert(0) += 1;
        }
        known.extend(served);
        let bare = self.configured.iter().filter(|row| !known.contains(row.name.as_str()));
        let bare: Vec<TunnelKey<'_>> = bare.map(|row| (row.name.as_str(), None)).collect();
        known.extend(self.configured.iter().map(|row| row.name.as_str()));
        let gone = |row: &&TunnelRow| !known.contains(row.tunnel.as_str());
        let gone: HashSet<&str> = self.tunnels.iter().filter(gone).map(|row| row.tunnel.as_str()).collect();
        sas.extend(
            bare.into_iter().chain(gone.iter().map(|name| (*name, None))).map(|key| (key, Vec::new())),
        );
        let facts = Facts::of(self, of_name);
        let mut rows: Vec<PeerRow> = sas.into_iter().map(|(key, sas)| facts.row(key, sas)).collect();
        rows.iter_mut()
            .filter(|row| gone.contains(row.tunnel.as_str()))
            .for_each(|row| row.state = PeerState::Removed);
        for row in rows.iter_mut().filter(|row| row.tunnel_id.is_some()) {
            row.child = children.get(&row.tunnel_id).copied().unwrap_or_default().to_owned();
        }
        rows.iter_mut().for_each(|row| self.add_ike(row));
        self.add_monitors(&mut rows);
        // Stable: those of one name stay in the order of their numbers.
        rows.sort_by_key(|row| facts.place(&row.tunnel));
        rows
    }

    /// Says who the peer is, and how charon's negotiation stands, if it has failed.
    fn add_ike(&self, row: &mut PeerRow) {
        let Some(charon) = &self.charon else { return };
        row.ike = row.tunnel_id.and_then(|id| charon.peers.get(&id)).cloned();
        let peer = Some(row.remote.as_str()).filter(|remote| !remote.is_empty());
        let last = charon.negotiation([&row.tunnel, &row.child], peer);
        // Another peer of the same connection, or a stranger, is no matter of one that has SAs.
        let has_sas = row.outbound.sas + row.inbound.sas > 0;
        row.negotiation = last.filter(|last| !has_sas || Some(last.peer.as_str()) == peer).cloned();
        if row.state == PeerState::Down && row.negotiation.is_some() {
            row.state = PeerState::Negotiating;
        }
    }

    /// Adds the probes through tunnels, which decide whether one is up.
    fn add_monitors(&self, rows: &mut [PeerRow]) {
        let by_name: HashMap<&str, &MonitorRow> =
            self.monitors.iter().map(|row| (row.tunnel.as_str(), row)).collect();
        for row in rows {
            let Some(monitor) = by_name.get(row.tunnel.as_str()) else { continue };
            row.state = row.state.as_probed(monitor);
            row.monitor = Some((*monitor).clone());
        }
    }

    /// The SAs of a tunnel in one direction, the newest first.
    pub fn sas_of(&self, peer: &PeerRow, direction: &str) -> Vec<&SaRow> {
        let is_one = |sa: &&SaRow| {
            sa.tunnel == peer.tunnel && Some(sa.tunnel_id) == peer.tunnel_id && sa.direction == direction
        };
        let mut sas: Vec<&SaRow> = self.sas.iter().filter(is_one).collect();
        sas.sort_by(|one, other| one.age_s.total_cmp(&other.age_s));
        sas
    }

    /// The tunnels of the configuration in its order, each with whether packets can leave through
    /// it and come: it has SAs in both directions and a peer, and its probes, if it has a monitor,
    /// are not lost. Those that another gateway of the cluster leads are left out.
    pub fn usable(&self) -> Vec<(&ConfiguredRow, bool)> {
        let mut sas: HashMap<TunnelKey<'_>, [Vec<&SaRow>; 2]> = HashMap::new();
        for sa in &self.sas {
            let ways = sas.entry((&sa.tunnel, Some(sa.tunnel_id))).or_default();
            ways[usize::from(sa.direction != "outbound")].push(sa);
        }
        let both_ways = sas.iter().filter(|(_, [out, back])| PeerState::of(out, back, None).has_both_ways());
        let keys: HashSet<TunnelKey<'_>> = both_ways.map(|(key, _)| *key).collect();
        let serving = self.policies.iter().filter(|policy| keys.contains(&(&policy.name, policy.tunnel_id)));
        let others = serving.flat_map(|policy| &policy.others).map(String::as_str);
        let names: HashSet<&str> = keys.iter().map(|(name, _)| *name).chain(others).collect();
        let lost: HashSet<&str> =
            self.monitors.iter().filter(|row| row.is_lost()).map(|row| row.tunnel.as_str()).collect();
        let is_usable = |row: &ConfiguredRow| {
            let name = row.name.as_str();
            !lost.contains(name) && names.contains(name)
        };
        let rows = self.configured.iter().filter(|row| self.leads(&row.group));
        rows.map(|row| (row, is_usable(row))).collect()
    }

    /// Whether this gateway has the SAs of a group of tunnels: it leads it, or is in no cluster.
    fn leads(&self, group: &str) -> bool {
        let Some(cluster) = &self.cluster else { return true };
        cluster.groups.iter().any(|row| row.name == group && row.is_led)
    }
}

/// What is looked up for each tunnel.
struct Facts<'a> {
    /// The totals by tunnel and direction.
    totals: HashMap<(&'a str, &'a str), &'a TunnelRow>,
    configured: HashMap<&'a str, (usize, &'a ConfiguredRow)>,
    /// How many tunnels have a name.
    of_name: HashMap<&'a str, usize>,
}

impl<'a> Facts<'a> {
    fn of(snapshot: &'a Snapshot, of_name: HashMap<&'a str, usize>) -> Self {
        let totals = snapshot.tunnels.iter().map(|row| ((row.tunnel.as_str(), row.direction.as_str()), row));
        let configured = snapshot.configured.iter().enumerate();
        Self {
            totals: totals.collect(),
            configured: configured.map(|(at, row)| (row.name.as_str(), (at, row))).collect(),
            of_name,
        }
    }

    /// The place of a tunnel in the configuration.
    fn place(&self, tunnel: &str) -> usize {
        self.configured.get(tunnel).map_or(usize::MAX, |(at, _)| *at)
    }

    fn row(&self, (tunnel, tunnel_id): TunnelKey<'a>, sas: Vec<&SaRow>) -> PeerRow {
        let (mut outbound, mut inbound): (Vec<&SaRow>, Vec<&SaRow>) =
            sas.into_iter().partition(|sa| sa.direction == "outbound");
        for sas in [&mut outbound, &mut inbound] {
            sas.sort_by(|one, other| one.age_s.total_cmp(&other.age_s));
        }
        let [outbound_way, inbound_way] =
            [self.way(tunnel, "outbound", &outbound), self.way(tunnel, "inbound", &inbound)];
        let row = PeerRow {
            tunnel: tunnel.to_owned(),
            tunnel_id,
            state: PeerState::of(&outbound, &inbound, inbound_way.last_used_s),
            path_mtu: outbound.iter().filter_map(|sa| sa.path_mtu).min(),
            outbound: outbound_way,
            inbound: inbound_way,
            ..PeerRow::default()
        };
        match (outbound.first().or(inbound.first()), self.configured.get(tunnel)) {
            (Some(sa), _) => PeerRow {
                mode: sa.mode.clone(),
                local: sa.local.clone(),
                local_port: sa.local_port,
                remote: sa.remote.clone(),
                remote_port: sa.remote_port,
                ..row
            },
            (None, Some((_, configured))) => {
                let ConfiguredRow { mode, local, remote, .. } = configured;
                PeerRow { mode: mode.clone(), local: local.clone(), remote: remote.clone(), ..row }
            }
            (None, None) => row,
        }
    }

    fn way(&self, tunnel: &str, direction: &str, sas: &[&SaRow]) -> WayRow {
        let has_one_peer = self.of_name.get(tunnel).is_none_or(|count| *count == 1);
        let total = self.totals.get(&(tunnel, direction)).filter(|_| has_one_peer);
        let (packets, bytes, drops) = match total {
            Some(total) => (total.packets, total.bytes, total.drops.clone()),
            None => {
                let mut drops = Drops::new();
                for (reason, count) in sas.iter().flat_map(|sa| &sa.drops) {
                    *drops.entry(reason.clone()).or_default() += count;
                }
                (sas.iter().map(|sa| sa.packets).sum(), sas.iter().map(|sa| sa.bytes).sum(), drops)
            }
        };
        let of_former = total.and_then(|total| total.last_used_s);
        let of_all = sas.iter().filter_map(|sa| sa.last_used_s).chain(of_former);
        let last_used_s = of_all.min_by(f64::total_cmp);
        WayRow { sas: sas.len(), packets, bytes, last_used_s, drops }
    }
}

#[cfg(test)]
mod tests;
