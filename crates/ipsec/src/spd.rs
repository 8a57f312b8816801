//! The security policy database (RFC 4301 section 4.4.1): ordered policies, and their search.

use crate::flow::FlowKey;
use crate::selector::Selector;
use crate::spd_index::AddressIndex;

/// What policies name instead of an SA, so that they outlive it: all SAs of one tunnel (in IKE's words,
/// of one CHILD_SA and its successors) carry the same id.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TunnelId(pub u32);

impl TunnelId {
    /// Which of so many workers serves it: tunnels are dealt to workers in turn, by their numbers, so that everyone knows whose each is.
    #[inline]
    pub const fn owner(self, workers: u16) -> u16 {
        (self.0 % workers as u32) as u16
    }
}

/// What is done with a packet that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Outbound: by the tunnel's current SA. Inbound: only what came by an SA of the tunnel passes.
    Protect(TunnelId),
    /// It passes as it is.
    Bypass,
    /// It is dropped.
    Discard,
}

/// The traffic that a policy is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PolicyDirection {
    /// From the inside only (RFC 4301's SPD-O).
    Outbound,
    /// From the outside only (SPD-I).
    Inbound,
    /// Both; what a `Protect` policy always is (SPD-S).
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
    /// Which way the traffic goes.
    pub direction: PolicyDirection,
    /// The traffic.
    pub selector: Selector,
    /// What becomes of it.
    pub action: Action,
}

impl Policy {
    fn applies(&self, direction: PolicyDirection) -> bool {
        matches!(self.action, Action::Protect(_))
            || self.direction == PolicyDirection::Both
            || self.direction == direction
    }
}

/// The policies in order, indexed for search.
pub(crate) struct Spd {
    policies: Vec<Policy>,
    outbound: AddressIndex,
    inbound: AddressIndex,
}

impl Spd {
    /// Sorts and indexes `policies`.
    pub(crate) fn new(mut policies: Vec<Policy>) -> Self {
        policies.sort_by_key(|policy| policy.priority);
        let index = |direction| {
            AddressIndex::new(&policies, |policy: &Policy| {
                policy.applies(direction).then_some(&policy.selector)
            })
        };
        Self {
            outbound: index(PolicyDirection::Outbound),
            inbound: index(PolicyDirection::Inbound),
            policies,
        }
    }

    /// All, first to last.
    pub(crate) fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The first policy that selects an outbound packet's flow.
    pub(crate) fn find_outbound(&self, flow: &FlowKey) -> Option<u32> {
        self.find(&self.outbound, flow)
    }

    /// The first policy that selects the flow of a packet that came in plain.
    pub(crate) fn find_inbound(&self, flow: &FlowKey) -> Option<u32> {
        self.find(&self.inbound, &flow.reversed())
    }

    /// `flow` has the local side as its source.
    fn find(&self, index: &AddressIndex, flow: &FlowKey) -> Option<u32> {
        let selects = |place: &u32| self.policies[*place as usize].selector.matches_outbound(flow);
        index.candidates(flow).iter().copied().find(selects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::number_address;
    use crate::selector::{Ports, TrafficSelector};
    use proptest::prelude::*;

    fn policy(priority: u32, local: &str, remote: &str, action: Action) -> Policy {
        Policy {
            name: format!("{local}-{remote}"),
            priority,
            direction: PolicyDirection::Both,
            selector: Selector { local: local.parse().expect(local), remote: remote.parse().expect(remote) },
            action,
        }
    }

    fn flow(source: &str, destination: &str) -> FlowKey {
        let (source, destination) = (source.parse().expect(source), destination.parse().expect(destination));
        FlowKey::new(source, destination, 6, Some((1, 2)))
    }

    #[test]
    fn the_first_policy_in_order_of_priority_wins() {
        let spd = Spd::new(vec![
            policy(20, "0.0.0.0/0", "0.0.0.0/0", Action::Bypass),
            policy(10, "10.1.0.0/16", "10.2.0.0/16", Action::Protect(TunnelId(1))),
            policy(10, "10.1.0.0/16", "10.2.3.0/24", Action::Discard),
            policy(5, "10.1.0.0/16", "10.2.4.0/24", Action::Discard),
        ]);
        let action = |destination| {
            let place = spd.find_outbound(&flow("10.1.0.1", destination)).expect("the last takes all");
            spd.policies()[place as usize].action
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
        let spd = Spd::new(vec![one_way, protect]);
        assert_eq!(spd.find_inbound(&flow("192.0.2.1", "10.0.0.1")), Some(0));
        assert_eq!(spd.find_outbound(&flow("10.0.0.1", "192.0.2.1")), None);
        assert_eq!(spd.find_inbound(&flow("10.2.0.1", "10.1.0.1")), Some(1));
    }

    #[test]
    fn thousands_of_disjoint_tunnels_leave_few_candidates() {
        let tunnels = (0..4_000u32).map(|n| {
            let remote = format!("10.{}.{}.0/24", n >> 8, n & 255);
            policy(1, "192.168.0.0/16", &remote, Action::Protect(TunnelId(n)))
        });
        let spd = Spd::new(tunnels.collect());
        assert_eq!(spd.find_outbound(&flow("192.168.1.1", "10.7.3.9")), Some(7 << 8 | 3));
        assert_eq!(spd.outbound.candidates(&flow("192.168.1.1", "10.7.3.9")).len(), 1);
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
        fn the_index_finds_what_a_search_of_all_policies_finds(
            selectors in proptest::collection::vec((any_selector(), 0u32..3), 0..40),
            flows in proptest::collection::vec((any::<bool>(), 0u8..34, 0u8..34, 0u16..5), 1..40),
        ) {
            let policies = selectors.into_iter().map(|(selector, priority)| Policy {
                name: String::new(), priority, direction: PolicyDirection::Both, selector, action: Action::Bypass,
            });
            let spd = Spd::new(policies.collect());
            for (is_v6, source, destination, port) in flows {
                let (source, destination) =
                    (number_address(is_v6, source.into()), number_address(is_v6, destination.into()));
                let flow = FlowKey::new(source, destination, 6, Some((port, port)));
                let expected = spd.policies().iter().position(|p| p.selector.matches_outbound(&flow));
                prop_assert_eq!(spd.find_outbound(&flow), expected.map(|place| place as u32));
                prop_assert_eq!(spd.find_inbound(&flow.reversed()), expected.map(|place| place as u32));
            }
        }
    }
}
