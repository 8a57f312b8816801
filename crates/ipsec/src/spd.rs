//! The security policy database (RFC 4301 section 4.4.1): ordered policies, and their search.

pub(crate) mod fast_admission;
pub(crate) mod flow_cache;
pub(crate) mod index;
pub(crate) mod links;
pub(crate) mod ordered_selectors;
pub(crate) mod selector;
pub(crate) mod tunnels;

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;

use crate::ip::flow::FlowKey;
use crate::sa::id::TunnelId;
use crate::spd::index::AddressIndex;
use crate::spd::selector::Selector;

/// What happens to a packet that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Outbound: protected by the tunnel's current SA. Inbound: only packets received through an SA
    /// of the tunnel pass.
    Protect(TunnelId),
    /// It passes unprotected.
    Bypass,
    /// It is dropped.
    Discard,
}

/// The direction of a policy's traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyDirection {
    /// From the inside only (RFC 4301's SPD-O).
    Outbound,
    /// From the outside only (SPD-I).
    Inbound,
    /// Both; always so for a `Protect` policy (SPD-S).
    #[default]
    Both,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// For `convoy show policy`.
    pub name: String,
    /// Lower comes first; among equals, the order in which they were given.
    pub priority: u32,
    /// The traffic's direction.
    pub direction: PolicyDirection,
    /// The inside interface of the traffic; 0 is the one that tunnels share. Each has policies of
    /// its own.
    pub interface: u16,
    /// The traffic.
    pub selector: Selector,
    /// What happens to it.
    pub action: Action,
}

impl Policy {
    /// Whether it selects packets from the inside.
    pub(crate) fn is_outbound(&self) -> bool {
        self.applies(PolicyDirection::Outbound)
    }

    fn applies(&self, direction: PolicyDirection) -> bool {
        matches!(self.action, Action::Protect(_))
            || self.direction == PolicyDirection::Both
            || self.direction == direction
    }
}

/// A policy's rank within its priority: lower comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyRank(u64);

impl PolicyRank {
    /// A key daemon's rank; all of these come after the gateway's own of the same priority. The
    /// highest bit of `rank` is ignored.
    pub const fn of_daemon(rank: u64) -> Self {
        Self(rank | 1 << 63)
    }

    /// A rank of the gateway's own, in the order of its configuration. The highest bit of `rank` is
    /// ignored.
    pub const fn own(rank: u64) -> Self {
        Self(rank & !(1 << 63))
    }

    pub(crate) const fn is_own(self) -> bool {
        self.0 >> 63 == 0
    }
}

/// A policy's position in the total order; no two have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyPlace {
    /// Its priority.
    pub priority: u32,
    /// Its rank among those of that priority.
    pub rank: PolicyRank,
}

/// A change of a key daemon's policy: it is removed, added, or both, for example with a new rank or
/// name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyChange {
    /// Its previous place.
    pub gone: Option<PolicyPlace>,
    /// Its new rank and content.
    pub came: Option<(PolicyRank, Policy)>,
}

/// The policies in order, indexed for search. Each keeps its slot while it exists.
#[derive(Default)]
pub(crate) struct Spd {
    slots: Vec<Option<Policy>>,
    free: Vec<u32>,
    order: BTreeMap<PolicyPlace, u32>,
    /// By inside interface.
    indexes: HashMap<u16, AddressIndex<(PolicyPlace, u32)>>,
}

impl Spd {
    /// Inserts a policy at its place, replacing one that is there; returns its slot.
    pub(crate) fn insert(&mut self, rank: PolicyRank, policy: Policy) -> u32 {
        let place = PolicyPlace { priority: policy.priority, rank };
        self.remove(place);
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.indexes.entry(policy.interface).or_default().insert(&policy.selector, (place, slot));
        self.order.insert(place, slot);
        self.slots[slot as usize] = Some(policy);
        slot
    }

    /// Removes a policy; returns it with its slot.
    pub(crate) fn remove(&mut self, place: PolicyPlace) -> Option<(u32, Policy)> {
        let slot = self.order.remove(&place)?;
        let policy = self.slots[slot as usize].take()?;
        if let Some(index) = self.indexes.get_mut(&policy.interface) {
            index.remove(&policy.selector, (place, slot));
        }
        self.free.push(slot);
        Some((slot, policy))
    }

    /// The policies behind a place, or all, first to last, with their slots.
    pub(crate) fn policies(
        &self,
        behind: Option<PolicyPlace>,
    ) -> impl Iterator<Item = (PolicyPlace, u32, &Policy)> {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.order.range((from, Bound::Unbounded));
        range.filter_map(|(place, slot)| Some((*place, *slot, self.slots[*slot as usize].as_ref()?)))
    }

    /// The slot of the first policy that selects an outbound packet's flow.
    pub(crate) fn find_outbound(&self, flow: &FlowKey) -> Option<u32> {
        self.find(PolicyDirection::Outbound, flow)
    }

    /// The slot of the first policy that selects the flow of a packet that came in plain.
    pub(crate) fn find_inbound(&self, flow: &FlowKey) -> Option<u32> {
        self.find(PolicyDirection::Inbound, &flow.reversed())
    }

    /// `flow` has the local side as its source.
    fn find(&self, direction: PolicyDirection, flow: &FlowKey) -> Option<u32> {
        let selects = |slot: u32| {
            let policy = self.slots[slot as usize].as_ref();
            policy.is_some_and(|policy| policy.applies(direction) && policy.selector.matches_outbound(flow))
        };
        self.indexes.get(&flow.interface())?.first(flow, |(_, slot)| selects(slot)).map(|(_, slot)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::flow::number_address;
    use crate::spd::selector::{Ports, TrafficSelector};
    use proptest::prelude::*;

    fn policy(priority: u32, local: &str, remote: &str, action: Action) -> Policy {
        Policy {
            name: format!("{local}-{remote}"),
            priority,
            direction: PolicyDirection::Both,
            interface: 0,
            selector: Selector { local: local.parse().expect(local), remote: remote.parse().expect(remote) },
            action,
        }
    }

    /// One of these, the gateway's own.
    fn spd(policies: impl IntoIterator<Item = Policy>) -> Spd {
        let mut spd = Spd::default();
        for (place, policy) in (0..).zip(policies) {
            spd.insert(PolicyRank::own(place), policy);
        }
        spd
    }

    fn action(spd: &Spd, slot: u32) -> Action {
        spd.slots[slot as usize].as_ref().expect("it stands").action
    }

    fn flow(source: &str, destination: &str) -> FlowKey {
        let (source, destination) = (source.parse().expect(source), destination.parse().expect(destination));
        FlowKey::new(source, destination, 6, Some((1, 2)))
    }

    #[test]
    fn the_first_policy_in_order_of_priority_wins() {
        let spd = spd([
            policy(20, "0.0.0.0/0", "0.0.0.0/0", Action::Bypass),
            policy(10, "10.1.0.0/16", "10.2.0.0/16", Action::Protect(TunnelId(1))),
            policy(10, "10.1.0.0/16", "10.2.3.0/24", Action::Discard),
            policy(5, "10.1.0.0/16", "10.2.4.0/24", Action::Discard),
        ]);
        let action = |destination| {
            action(&spd, spd.find_outbound(&flow("10.1.0.1", destination)).expect("the last takes all"))
        };
        assert_eq!(action("10.2.3.1"), Action::Protect(TunnelId(1)), "given first among equals");
        assert_eq!(action("10.2.4.1"), Action::Discard);
        assert_eq!(action("10.3.0.1"), Action::Bypass);
        assert_eq!(spd.find_outbound(&flow("::1", "::2")), None);
    }

    #[test]
    fn a_bypass_may_be_one_way_and_protection_never_is() {
        let mut one_way = policy(1, "0.0.0.0/0", "192.0.2.0/24", Action::Bypass);
        one_way.direction = PolicyDirection::Inbound;
        let mut protect = policy(2, "10.1.0.0/16", "10.2.0.0/16", Action::Protect(TunnelId(1)));
        protect.direction = PolicyDirection::Outbound;
        let spd = spd([one_way, protect]);
        assert_eq!(spd.find_inbound(&flow("192.0.2.1", "10.0.0.1")), Some(0));
        assert_eq!(spd.find_outbound(&flow("10.0.0.1", "192.0.2.1")), None);
        assert_eq!(spd.find_inbound(&flow("10.2.0.1", "10.1.0.1")), Some(1));
    }

    #[test]
    fn each_interface_has_policies_of_its_own() {
        let on = |interface, remote, tunnel| Policy {
            interface,
            ..policy(1, "0.0.0.0/0", remote, Action::Protect(TunnelId(tunnel)))
        };
        let spd = spd([on(0, "10.2.0.0/16", 0), on(1, "0.0.0.0/0", 1), on(2, "0.0.0.0/0", 2)]);
        let found = |interface, destination| {
            let slot = spd.find_outbound(&flow("10.1.0.1", destination).on(interface))?;
            Some(action(&spd, slot))
        };
        assert_eq!(found(0, "10.2.0.1"), Some(Action::Protect(TunnelId(0))));
        assert_eq!(found(0, "10.3.0.1"), None);
        for interface in [1, 2] {
            assert_eq!(found(interface, "10.2.0.1"), Some(Action::Protect(TunnelId(interface.into()))));
        }
        assert_eq!(found(3, "10.2.0.1"), None);
    }

    #[test]
    fn thousands_of_disjoint_tunnels_leave_few_candidates() {
        let tunnels = (0..4_000u32).map(|n| {
            let remote = format!("10.{}.{}.0/24", n >> 8, n & 255);
            policy(1, "192.168.0.0/16", &remote, Action::Protect(TunnelId(n)))
        });
        let spd = spd(tunnels);
        let slot = spd.find_outbound(&flow("192.168.1.1", "10.7.3.9")).expect("one selects it");
        assert_eq!(action(&spd, slot), Action::Protect(TunnelId(7 << 8 | 3)));
    }

    fn any_selector() -> impl Strategy<Value = Selector> {
        let side = (any::<bool>(), 0u8..32, 0u8..32, proptest::option::of(Just(6u8)), 0u16..4).prop_map(
            |(is_v6, a, b, protocol, port)| TrafficSelector {
                addresses: crate::AddressRange::new(
                    number_address(is_v6, a.min(b).into()),
                    number_address(is_v6, a.max(b).into()),
                )
                .expect("in order"),
                protocol,
                ports: if port == 0 { Ports::Any } else { Ports::Range(0, port) },
            },
        );
        (side.clone(), side).prop_map(|(local, remote)| Selector { local, remote })
    }

    proptest! {
        #[test]
        fn policies_that_come_and_go_are_found_as_by_a_search_of_all(
            steps in proptest::collection::vec((any_selector(), 0u32..3, 0u64..12, any::<bool>(), any::<bool>()), 0..60),
            flows in proptest::collection::vec((any::<bool>(), 0u8..34, 0u8..34, 0u16..5), 1..40),
        ) {
            let (mut spd, mut all) = (Spd::default(), BTreeMap::new());
            for (selector, priority, rank, is_daemons, comes) in steps {
                let rank = if is_daemons { PolicyRank::of_daemon(rank) } else { PolicyRank::own(rank) };
                let place = PolicyPlace { priority, rank };
                if comes {
                    let policy = Policy {
                        name: String::new(), priority, direction: PolicyDirection::Both, interface: 0, selector, action: Action::Bypass,
                    };
                    spd.insert(rank, policy);
                    all.insert(place, selector);
                } else {
                    let gone = spd.remove(place).map(|(_, policy)| policy.selector);
                    prop_assert_eq!(gone, all.remove(&place));
                }
            }
            prop_assert!(spd.policies(None).map(|(place, _, policy)| (place, policy.selector)).eq(all.clone()));
            for (is_v6, source, destination, port) in flows {
                let (source, destination) =
                    (number_address(is_v6, source.into()), number_address(is_v6, destination.into()));
                let flow = FlowKey::new(source, destination, 6, Some((port, port)));
                let expected = all.iter().find(|(_, selector)| selector.matches_outbound(&flow));
                let expected = expected.map(|(place, _)| spd.order[place]);
                prop_assert_eq!(spd.find_outbound(&flow), expected);
                prop_assert_eq!(spd.find_inbound(&flow.reversed()), expected);
            }
        }
    }
}
