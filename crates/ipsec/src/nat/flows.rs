//! UDP flows to peers that are kept open through a NAT: one for each pair of addresses and ports,
//! however many SAs use it (RFC 3948 section 4).

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};

use crate::sa::config::NatKeepalive;
use crate::sa::facts::SaFacts;
use crate::sa::id::OutboundId;

/// From our address and port to the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NatFlow {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl NatFlow {
    /// The flow to be kept open for an outbound SA, if any.
    pub(crate) fn of(facts: &SaFacts) -> Option<Self> {
        let (encap, name) = (facts.encap?, facts.name);
        let is_wanted = match facts.nat_keepalive {
            NatKeepalive::Always => true,
            NatKeepalive::Never => false,
            NatKeepalive::Auto => is_private(name.local) && !is_private(name.remote),
        };
        is_wanted.then(|| Self {
            local: SocketAddr::new(name.local, encap.local_port),
            remote: SocketAddr::new(name.remote, encap.remote_port),
        })
    }
}

/// Whether an address is one that no host of the public Internet has, so that a NAT is between the
/// two: RFC 1918, RFC 6598 (carrier-grade NAT), RFC 4193, and link-local ones.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            let is_shared = first == 100 && second & 0xc0 == 64;
            address.is_private() || address.is_link_local() || is_shared
        }
        IpAddr::V6(address) => address.is_unique_local() || address.is_unicast_link_local(),
    }
}

/// One flow.
struct NatFlowState {
    /// When it is examined next, in ns.
    due_ns: u64,
    /// The outbound SAs that use it.
    sas: BTreeSet<OutboundId>,
    /// The SA at which the next examination begins.
    first: OutboundId,
}

/// All flows that a worker keeps open, by the time of their next examination.
#[derive(Default)]
pub(crate) struct NatFlows {
    flows: HashMap<NatFlow, NatFlowState>,
    due: BTreeSet<(u64, NatFlow)>,
    /// Flows added so far: each is first examined in another part of the interval.
    came: u32,
}

impl NatFlows {
    /// Adds an SA to a flow. A new flow is examined within `interval_ns`, and many added at once
    /// are spread over it.
    pub(crate) fn join(&mut self, flow: NatFlow, sa: OutboundId, now_ns: u64, interval_ns: u64) {
        if let Some(state) = self.flows.get_mut(&flow) {
            state.sas.insert(sa);
            return;
        }
        self.came = self.came.wrapping_add(1);
        // Multiples of the golden ratio fill the interval evenly, whatever their number.
        let part = self.came.wrapping_mul(0x9e37_79b9);
        let due_ns = now_ns + ((u128::from(interval_ns) * u128::from(part)) >> 32) as u64;
        self.flows.insert(flow, NatFlowState { due_ns, sas: BTreeSet::from([sa]), first: sa });
        self.due.insert((due_ns, flow));
    }

    /// Removes an SA from a flow; without any the flow is forgotten.
    pub(crate) fn leave(&mut self, flow: NatFlow, sa: OutboundId) {
        let Some(state) = self.flows.get_mut(&flow) else { return };
        state.sas.remove(&sa);
        if state.sas.is_empty() {
            self.due.remove(&(state.due_ns, flow));
            self.flows.remove(&flow);
        }
    }

    /// The flow that has been due the longest at `now_ns`.
    pub(crate) fn next_due(&self, now_ns: u64) -> Option<NatFlow> {
        self.due.first().filter(|(due_ns, _)| *due_ns <= now_ns).map(|(_, flow)| *flow)
    }

    /// Sets the time of a flow's next examination.
    pub(crate) fn set_due(&mut self, flow: NatFlow, due_ns: u64) {
        if let Some(state) = self.flows.get_mut(&flow) {
            self.due.remove(&(state.due_ns, flow));
            state.due_ns = due_ns;
            self.due.insert((due_ns, flow));
        }
    }

    /// Up to `most` SAs of a flow, different ones than the last time if there are more.
    pub(crate) fn some_sas(&mut self, flow: NatFlow, most: usize) -> Vec<OutboundId> {
        let Some(state) = self.flows.get_mut(&flow) else { return Vec::new() };
        let behind = state.sas.range(state.first..);
        let found: Vec<_> = behind.chain(state.sas.range(..state.first)).copied().take(most + 1).collect();
        if let [some @ .., next] = found.as_slice()
            && some.len() == most
        {
            state.first = *next;
            return some.to_vec();
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nat_is_between_a_private_address_and_a_public_one() {
        let is = |text: &str| is_private(text.parse().expect(text));
        for text in
            ["10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "169.254.0.1", "fd00::1", "fe80::1"]
        {
            assert!(is(text), "{text}");
        }
        for text in ["8.8.8.8", "172.32.0.1", "100.128.0.1", "192.0.2.1", "2001:db8::1"] {
            assert!(!is(text), "{text}");
        }
    }

    #[test]
    fn flows_that_come_at_once_are_spread_over_the_interval() {
        const FLOWS: u16 = 1_000;
        let mut flows = NatFlows::default();
        for port in 1..=FLOWS {
            let ends = ["10.0.0.1:4500".parse(), format!("192.0.2.1:{port}").parse()];
            let [local, remote] = ends.map(|end: Result<SocketAddr, _>| end.expect("an address"));
            flows.join(NatFlow { local, remote }, OutboundId(port.into()), 5_000, 100_000);
        }
        // A tenth of them in each tenth of the interval, but for a few.
        for tenth in 0..10 {
            let range = 5_000 + tenth * 10_000..5_000 + (tenth + 1) * 10_000;
            let count = flows.due.iter().filter(|(due_ns, _)| range.contains(due_ns)).count();
            assert!((90..=110).contains(&count), "{count} in tenth {tenth}");
        }
    }

    #[test]
    fn all_sas_of_a_flow_are_looked_at_in_turn() {
        let mut flows = NatFlows::default();
        let end: SocketAddr = "10.0.0.1:4500".parse().expect("an address");
        let flow = NatFlow { local: end, remote: end };
        (0..5).for_each(|sa| flows.join(flow, OutboundId(sa), 0, 1));
        let looks: Vec<u32> = (0..5).flat_map(|_| flows.some_sas(flow, 2)).map(|sa| sa.0).collect();
        assert_eq!(looks, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]);
        assert_eq!(flows.some_sas(flow, 9).len(), 5);
        (0..5).for_each(|sa| flows.leave(flow, OutboundId(sa)));
        assert!(flows.flows.is_empty() && flows.due.is_empty());
    }
}
