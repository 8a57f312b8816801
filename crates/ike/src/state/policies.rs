//! charon's policies, counted, as the gateway's ordered list.

use std::collections::{HashMap, HashSet};

use convoy_ipsec::{
    Action, AddressRange, Policy, PolicyDirection as IpsecDirection, Ports, Selector, TrafficSelector,
    TunnelId,
};

use super::backend::Refusal;
use super::tunnels::TunnelTable;
use crate::protocol::{PolicyClass, PolicyDirection, PolicyKind, PolicyRef, PolicySpec, WireSelector};

/// Priorities of one class span this much; the lowest class begins at twice it. A tunnel of the gateway's own
/// configuration, at 1,000 as a rule, so comes before all of charon's.
const CLASS_SPAN: u32 = 100_000;

/// One policy, and how often it was added.
struct Entry {
    count: u32,
    /// Its place in the order of adding.
    order: u64,
    selector: Selector,
    /// `None` for the forward policies without reqid, which the gateway has no need of.
    action: Option<Action>,
}

/// All policies of all charons; `u64` is the session.
#[derive(Default)]
pub(super) struct PolicyTable {
    entries: HashMap<(u64, PolicySpec), Entry>,
    added: u64,
}

impl PolicyTable {
    /// Adds one, or counts it once more; whether it is new. `tunnel` is that of its reqid.
    pub(super) fn add(
        &mut self,
        session: u64,
        spec: PolicySpec,
        tunnel: Option<TunnelId>,
    ) -> Result<bool, Refusal> {
        if let Some(entry) = self.entries.get_mut(&(session, spec)) {
            entry.count = entry.count.saturating_add(1);
            return Ok(false);
        }
        let (source, destination) = (traffic(&spec.id.source)?, traffic(&spec.id.destination)?);
        let selector = match spec.id.direction {
            PolicyDirection::Out => Selector { local: source, remote: destination },
            PolicyDirection::In | PolicyDirection::Forward => Selector { local: destination, remote: source },
        };
        let action = match spec.kind {
            PolicyKind::Protect => tunnel.map(Action::Protect),
            PolicyKind::Pass => Some(Action::Bypass),
            PolicyKind::Drop => Some(Action::Discard),
        };
        self.added += 1;
        self.entries.insert((session, spec), Entry { count: 1, order: self.added, selector, action });
        Ok(true)
    }

    /// Counts one once less; whether that was the last time, or `None` if it is unknown.
    pub(super) fn remove(&mut self, session: u64, spec: &PolicySpec) -> Option<bool> {
        let entry = self.entries.get_mut(&(session, *spec))?;
        entry.count -= 1;
        let is_last = entry.count == 0;
        if is_last {
            self.entries.remove(&(session, *spec));
        }
        Some(is_last)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Removes those that `is_kept` does not keep, and returns their sessions and what they were.
    pub(super) fn retain(
        &mut self,
        mut is_kept: impl FnMut(u64, &PolicySpec) -> bool,
    ) -> Vec<(u64, PolicySpec)> {
        let gone: Vec<_> =
            self.entries.keys().filter(|(session, spec)| !is_kept(*session, spec)).copied().collect();
        for key in &gone {
            self.entries.remove(key);
        }
        gone
    }

    /// The tunnels of the policies that are meant, whoever's they are.
    pub(super) fn tunnels_of(&self, policy: &PolicyRef) -> Vec<TunnelId> {
        let meant = self.entries.iter().filter(|((_, spec), _)| spec.id == *policy);
        meant
            .filter_map(|(_, entry)| match entry.action? {
                Action::Protect(id) => Some(id),
                Action::Bypass | Action::Discard => None,
            })
            .collect()
    }

    /// Whether a trap asks for the SAs of this reqid.
    pub(super) fn has_trap(&self, session: u64, reqid: u32) -> bool {
        self.entries.keys().any(|(of, spec)| {
            *of == session && spec.reqid == reqid && spec.class == PolicyClass::Trap && is_protect(spec)
        })
    }

    /// The gateway's list: by priority; of those that are equal first what has an SA to leave by, then the newest charon's,
    /// then the oldest policy.
    pub(super) fn list(&self, session: u64, tunnels: &TunnelTable) -> Vec<Policy> {
        let mut sorted: Vec<_> = self
            .entries
            .iter()
            .filter_map(|((of, spec), entry)| {
                let action = entry.action?;
                let has_sa = match action {
                    Action::Protect(id) => tunnels.get(id).is_some_and(|tunnel| tunnel.outbound_sas > 0),
                    Action::Bypass | Action::Discard => true,
                };
                Some(((priority(spec), !has_sa, *of != session, entry.order), spec, entry.selector, action))
            })
            .collect();
        sorted.sort_unstable_by_key(|(key, ..)| *key);
        let mut seen = HashSet::with_capacity(sorted.len());
        let policies = sorted.into_iter().map(|((priority, ..), spec, selector, action)| Policy {
            name: name(spec, action, tunnels),
            priority,
            direction: direction(spec, action),
            selector,
            action,
        });
        policies.filter(|policy| seen.insert(policy.clone())).collect()
    }
}

fn is_protect(spec: &PolicySpec) -> bool {
    spec.kind == PolicyKind::Protect
}

fn direction(spec: &PolicySpec, action: Action) -> IpsecDirection {
    match (action, spec.id.direction) {
        (Action::Protect(_), _) => IpsecDirection::Both,
        (_, PolicyDirection::Out) => IpsecDirection::Outbound,
        (_, PolicyDirection::In | PolicyDirection::Forward) => IpsecDirection::Inbound,
    }
}

fn name(spec: &PolicySpec, action: Action, tunnels: &TunnelTable) -> String {
    match action {
        Action::Bypass => "charon's bypass".to_owned(),
        Action::Discard => "charon's drop".to_owned(),
        Action::Protect(id) => match tunnels.get(id) {
            Some(tunnel) if !tunnel.name.child.is_empty() => tunnel.name.to_string(),
            _ => format!("reqid {}", spec.reqid),
        },
    }
}

/// One given by hand as it is; else by class, and within it the narrower selector first.
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
        (first, last) => return Err(Refusal(format!("ports {first} to {last} are the wrong way round"))),
    };
    Ok(TrafficSelector {
        addresses: addresses.map_err(|error| Refusal(error.to_string()))?,
        protocol: (selector.protocol != 0).then_some(selector.protocol),
        ports,
    })
}
