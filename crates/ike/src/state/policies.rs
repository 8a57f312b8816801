//! charon's policies, counted, and the resulting changes of the gateway's.

use std::collections::{HashMap, HashSet};

use convoy_ipsec::{
    Action, AddressRange, Policy, PolicyChange, PolicyDirection as IpsecDirection, PolicyPlace, PolicyRank,
    Ports, Selector, TrafficSelector, TunnelId,
};

use super::backend::{PolicyStep, Refusal};
use super::tunnels::TunnelTable;
use crate::protocol::{
    EncapMode, PolicyClass, PolicyKind, PolicyRef, PolicySpec, WirePolicyDirection, WireSelector,
};

/// The range of priorities of one class; the lowest class begins at twice it. A tunnel of the
/// gateway's own configuration, by default at 1,000, so precedes all of charon's.
const CLASS_SPAN: u32 = 100_000;

/// One policy of one charon; `u64` is the session.
type PolicyKey = (u64, PolicySpec);

/// A policy, and how often it was added.
struct PolicyEntry {
    count: u32,
    /// Its place in the order of adding.
    order: u64,
    /// `None` for forward policies without reqid, which the gateway does not need.
    traffic: Option<PolicyTraffic>,
}

/// A policy in the gateway's terms. charon's of both directions, and of several charons, may be
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct PolicyTraffic {
    priority: u32,
    direction: IpsecDirection,
    interface: u16,
    selector: Selector,
    action: Action,
    is_tunnel_mode: bool,
}

impl PolicyTraffic {
    fn of(spec: &PolicySpec, tunnel: Option<TunnelId>, interface: u16) -> Result<Option<Self>, Refusal> {
        let (source, destination) = (traffic(&spec.id.source)?, traffic(&spec.id.destination)?);
        let selector = match spec.id.direction {
            WirePolicyDirection::Out => Selector { local: source, remote: destination },
            WirePolicyDirection::In | WirePolicyDirection::Forward => {
                Selector { local: destination, remote: source }
            }
        };
        let action = match spec.kind {
            PolicyKind::Protect => tunnel.map(Action::Protect),
            PolicyKind::Pass => Some(Action::Bypass),
            PolicyKind::Drop => Some(Action::Discard),
        };
        Ok(action.map(|action| Self {
            priority: priority(spec),
            direction: direction(spec, action),
            interface,
            selector,
            action,
            is_tunnel_mode: spec.mode != EncapMode::Transport,
        }))
    }

    fn tunnel(&self) -> Option<TunnelId> {
        match self.action {
            Action::Protect(id) => Some(id),
            Action::Bypass | Action::Discard => None,
        }
    }
}

/// A policy of the gateway's.
#[derive(Default)]
struct Listing {
    /// The policies of charons behind it: session and order of each.
    members: Vec<(u64, u64)>,
    /// Its place in the gateway, and its name there.
    reported: Option<(PolicyPlace, String)>,
}

/// All policies of all charons. The cost of a change does not depend on how many there are.
#[derive(Default)]
pub(super) struct PolicyTable {
    entries: HashMap<PolicyKey, PolicyEntry>,
    by_tunnel: HashMap<TunnelId, HashSet<PolicyKey>>,
    by_ref: HashMap<PolicyRef, HashSet<PolicyKey>>,
    listings: HashMap<PolicyTraffic, Listing>,
    /// Listings that have changed since the gateway was last updated.
    touched: Vec<PolicyTraffic>,
    added: u64,
}

impl PolicyTable {
    /// Adds a policy, or increments its count; returns whether it is new. `tunnel` is that of its
    /// reqid, `interface` the inside interface of its `if_id`.
    pub(super) fn add(
        &mut self,
        session: u64,
        spec: PolicySpec,
        tunnel: Option<TunnelId>,
        interface: u16,
    ) -> Result<bool, Refusal> {
        let key = (session, spec);
        if let Some(entry) = self.entries.get_mut(&key) {
            entry.count = entry.count.saturating_add(1);
            return Ok(false);
        }
        let traffic = PolicyTraffic::of(&spec, tunnel, interface)?;
        self.added += 1;
        self.entries.insert(key, PolicyEntry { count: 1, order: self.added, traffic });
        self.by_ref.entry(spec.id).or_default().insert(key);
        if let Some(id) = traffic.and_then(|traffic| traffic.tunnel()) {
            self.by_tunnel.entry(id).or_default().insert(key);
        }
        if let Some(traffic) = traffic {
            self.listings.entry(traffic).or_default().members.push((session, self.added));
            self.touched.push(traffic);
        }
        Ok(true)
    }

    /// Decrements a policy's count; returns whether it was removed, or `None` if it is unknown.
    pub(super) fn remove(&mut self, session: u64, spec: &PolicySpec) -> Option<bool> {
        let key = (session, *spec);
        let entry = self.entries.get_mut(&key)?;
        entry.count -= 1;
        let is_last = entry.count == 0;
        if is_last {
            self.forget(&key);
        }
        Some(is_last)
    }

    fn forget(&mut self, key: &PolicyKey) {
        let Some(PolicyEntry { order, traffic, .. }) = self.entries.remove(key) else { return };
        remove_from(&mut self.by_ref, key.1.id, key);
        let Some(traffic) = traffic else { return };
        if let Some(id) = traffic.tunnel() {
            remove_from(&mut self.by_tunnel, id, key);
        }
        if let Some(listing) = self.listings.get_mut(&traffic) {
            listing.members.retain(|member| *member != (key.0, order));
        }
        self.touched.push(traffic);
    }

    /// Whether a charon's policy is there.
    pub(super) fn is_known(&self, session: u64, spec: &PolicySpec) -> bool {
        self.entries.contains_key(&(session, *spec))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes those for which `is_kept` is false, and returns their sessions and contents.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(u64, &PolicySpec) -> bool) -> Vec<PolicyKey> {
        let gone: Vec<_> =
            self.entries.keys().filter(|(session, spec)| !is_kept(*session, spec)).copied().collect();
        gone.iter().for_each(|key| self.forget(key));
        gone
    }

    /// Removes a tunnel's regular policies, and returns their sessions and contents.
    pub(super) fn remove_regular(&mut self, tunnel: TunnelId) -> Vec<PolicyKey> {
        let is_regular = |(_, spec): &&PolicyKey| is_protect(spec) && spec.class == PolicyClass::Regular;
        let gone: Vec<_> = self.of_tunnel(tunnel).filter(is_regular).copied().collect();
        gone.iter().for_each(|key| self.forget(key));
        gone
    }

    /// A tunnel's regular policies, each with its place in the order of adding.
    pub(super) fn regular(&self, tunnel: TunnelId) -> Vec<(u64, PolicySpec)> {
        let is_regular = |(_, spec): &&PolicyKey| is_protect(spec) && spec.class == PolicyClass::Regular;
        let order = |key: &PolicyKey| Some((self.entries.get(key)?.order, key.1));
        let mut regular: Vec<_> = self.of_tunnel(tunnel).filter(is_regular).filter_map(order).collect();
        regular.sort_unstable_by_key(|(order, _)| *order);
        regular
    }

    fn of_tunnel(&self, tunnel: TunnelId) -> impl Iterator<Item = &PolicyKey> {
        self.by_tunnel.get(&tunnel).into_iter().flatten()
    }

    /// The tunnels of the matching policies, whatever charon they belong to.
    pub(super) fn tunnels_of(&self, policy: &PolicyRef) -> Vec<TunnelId> {
        let meant = self.by_ref.get(policy).into_iter().flatten();
        meant.filter_map(|key| self.entries.get(key)?.traffic?.tunnel()).collect()
    }

    /// Whether a trap of this charon's asks for the SAs of a tunnel.
    pub(super) fn has_trap(&self, session: u64, tunnel: TunnelId) -> bool {
        self.of_tunnel(tunnel).any(|(of, spec)| *of == session && spec.class == PolicyClass::Trap)
    }

    /// Session, order and content of each policy that the gateway needs, without the tunnels'
    /// names.
    #[cfg(test)]
    pub(super) fn listed_entries(&self) -> Vec<(u64, u64, Policy)> {
        let listed = |((session, spec), entry): (&PolicyKey, &PolicyEntry)| {
            let PolicyTraffic { priority, direction, interface, selector, action, .. } = entry.traffic?;
            let name = match action {
                Action::Protect(_) => format!("reqid {}", spec.reqid),
                Action::Bypass => "charon's bypass".to_owned(),
                Action::Discard => "charon's drop".to_owned(),
            };
            let policy = Policy { name, priority, direction, interface, selector, action };
            Some((*session, entry.order, policy))
        };
        self.entries.iter().filter_map(listed).collect()
    }

    /// Something that a tunnel's policies depend on has changed: its name, or whether it has an
    /// outbound SA.
    pub(super) fn touch_tunnel(&mut self, tunnel: TunnelId) {
        let of_tunnel = self.by_tunnel.get(&tunnel).into_iter().flatten();
        self.touched.extend(of_tunnel.filter_map(|key| self.entries.get(key)?.traffic));
    }

    /// Something that all policies depend on has changed.
    pub(super) fn touch_all(&mut self) {
        self.touched.extend(self.listings.keys());
    }

    /// The changes of the gateway's policies that result from changes since the last call.
    /// `session` is the newest charon's. Additions precede removals, so that no packet is without
    /// its policy meanwhile.
    pub(super) fn take_steps(&mut self, session: u64, tunnels: &TunnelTable) -> Vec<PolicyStep> {
        let touched = std::mem::take(&mut self.touched);
        let mut steps: Vec<_> =
            touched.iter().filter_map(|traffic| self.step(traffic, session, tunnels)).collect();
        let came = |step: &PolicyStep| {
            let (rank, policy) = step.change.came.as_ref()?;
            Some((policy.priority, *rank))
        };
        steps.sort_by_key(|step| (step.change.came.is_none(), came(step)));
        steps
    }

    /// The change from the gateway's state to the wanted one; `None` if there is none.
    fn step(&mut self, traffic: &PolicyTraffic, session: u64, tunnels: &TunnelTable) -> Option<PolicyStep> {
        let listing = self.listings.get_mut(traffic)?;
        let rank = rank(traffic, &listing.members, session, tunnels);
        let place = |rank| PolicyPlace { priority: traffic.priority, rank };
        let wanted = rank.map(|rank| (place(rank), name(traffic.action, tunnels)));
        if listing.reported == wanted {
            if wanted.is_none() {
                self.listings.remove(traffic);
            }
            return None;
        }
        let gone = listing.reported.take().map(|(place, _)| place);
        listing.reported.clone_from(&wanted);
        if wanted.is_none() {
            self.listings.remove(traffic);
        }
        let PolicyTraffic { priority, direction, interface, selector, action, is_tunnel_mode } = *traffic;
        let policy = |name| Policy { name, priority, direction, interface, selector, action };
        let came = wanted.map(|(place, name)| (place.rank, policy(name)));
        Some(PolicyStep { change: PolicyChange { gone, came }, is_tunnel_mode })
    }
}

fn remove_from<G: Eq + std::hash::Hash>(
    groups: &mut HashMap<G, HashSet<PolicyKey>>,
    group: G,
    key: &PolicyKey,
) {
    if let Some(keys) = groups.get_mut(&group) {
        keys.remove(key);
        if keys.is_empty() {
            groups.remove(&group);
        }
    }
}

/// The rank within the same priority: first policies with an outbound SA, then the newest charon's,
/// then the oldest policy. `None` if no charon's policy is left.
fn rank(
    traffic: &PolicyTraffic,
    members: &[(u64, u64)],
    session: u64,
    tunnels: &TunnelTable,
) -> Option<PolicyRank> {
    const NO_WAY_OUT: u64 = 1 << 62;
    const FORMER: u64 = 1 << 61;
    let has_sa = |id| tunnels.get(id).is_some_and(|tunnel| !tunnel.outbound_sas.is_empty());
    let way_out = if traffic.tunnel().is_none_or(has_sa) { 0 } else { NO_WAY_OUT };
    let ranks = members.iter().map(|(of, order)| if *of == session { *order } else { FORMER | *order });
    Some(PolicyRank::of_daemon(way_out | ranks.min()?))
}

fn is_protect(spec: &PolicySpec) -> bool {
    spec.kind == PolicyKind::Protect
}

fn direction(spec: &PolicySpec, action: Action) -> IpsecDirection {
    match (action, spec.id.direction) {
        (Action::Protect(_), _) => IpsecDirection::Both,
        (_, WirePolicyDirection::Out) => IpsecDirection::Outbound,
        (_, WirePolicyDirection::In | WirePolicyDirection::Forward) => IpsecDirection::Inbound,
    }
}

fn name(action: Action, tunnels: &TunnelTable) -> String {
    match action {
        Action::Bypass => "charon's bypass".to_owned(),
        Action::Discard => "charon's drop".to_owned(),
        Action::Protect(id) => match tunnels.get(id) {
            Some(tunnel) if !tunnel.name.child.is_empty() => tunnel.name.to_string(),
            tunnel => format!("reqid {}", tunnel.map_or(0, |tunnel| tunnel.reqid.number)),
        },
    }
}

/// A manual priority as it is; otherwise by class, and within it the narrower selector first.
fn priority(spec: &PolicySpec) -> u32 {
    if spec.manual_priority != 0 {
        return spec.manual_priority;
    }
    let class = CLASS_SPAN * (u32::from(spec.class.number()) + 2);
    class - narrowness(&spec.id.source) - narrowness(&spec.id.destination)
}

/// At most 40,000: prefix bits first, then the protocol, then ports.
fn narrowness(selector: &WireSelector) -> u32 {
    let bits = match (selector.first, selector.last) {
        (std::net::IpAddr::V4(first), std::net::IpAddr::V4(last)) => {
            (first.to_bits() ^ last.to_bits()).leading_zeros()
        }
        (std::net::IpAddr::V6(first), std::net::IpAddr::V6(last)) => {
            (first.to_bits() ^ last.to_bits()).leading_zeros()
        }
        _ => 0,
    };
    let protocol = if selector.protocol == 0 { 0 } else { 32 };
    let ports = (selector.last_port.wrapping_sub(selector.first_port)).leading_zeros();
    bits * 64 + protocol + ports
}

fn traffic(selector: &WireSelector) -> Result<TrafficSelector, Refusal> {
    let addresses = AddressRange::new(selector.first, selector.last);
    let ports = match (selector.first_port, selector.last_port) {
        (0, u16::MAX) => Ports::Any,
        (u16::MAX, 0) => Ports::Opaque,
        (first, last) if first <= last => Ports::Range(first, last),
        (first, last) => return Err(Refusal(format!("the range of ports {first} to {last} is reversed"))),
    };
    Ok(TrafficSelector {
        addresses: addresses.map_err(|error| Refusal(error.to_string()))?,
        protocol: (selector.protocol != 0).then_some(selector.protocol),
        ports,
    })
}
