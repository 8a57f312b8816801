//! Between policies and SAs: each tunnel's outbound SAs and the traffic that it admits.

use std::collections::HashMap;

use convoy_packet::{Layout, prefetch};

use crate::ip::flow::FlowKey;
use crate::sa::id::{InboundId, OutboundId, TunnelId};
use crate::spd::fast_admission::{Ends, FastAdmission};
use crate::spd::links::Links;
use crate::spd::selector::Selector;

/// One tunnel.
struct Tunnel {
    id: TunnelId,
    /// The last, and newest, is the current one; the others are being replaced.
    outbound: Vec<OutboundId>,
    /// Outbound SAs that protect nothing yet, as the address of their peer is not known.
    parked: Vec<OutboundId>,
    inbound: Vec<InboundId>,
    /// The selectors of policies that protect by this tunnel.
    selectors: Vec<Selector>,
    /// The inside interface of these policies; 0 is the one that tunnels share.
    interface: u16,
    /// Whether its interface counts it among those that can send.
    is_linked: bool,
    /// Packets dropped for lack of an SA.
    dropped_without_sa: u64,
    /// Before when this worker does not ask for an SA of its own again, in ns; `None` if the key
    /// daemon negotiates one SA for all workers.
    own_sa_due_ns: Option<u64>,
}

/// How long after a request for an SA of its own a worker repeats it, in ns.
const OWN_SA_AGAIN_NS: u64 = 1_000_000_000;

/// The index of no SA.
const NONE: u32 = u32::MAX;

/// All tunnels that a policy or an SA has named, each with a dense number. Numbers are never
/// reused.
#[derive(Default)]
pub(crate) struct Tunnels {
    list: Vec<Tunnel>,
    /// The index of each tunnel's current SA, or [`NONE`]; separate, since every packet reads it.
    current: Vec<u32>,
    admissions: Vec<FastAdmission<u32>>,
    /// As long as the last tunnel that admits IPv6 needs.
    admissions_v6: Vec<FastAdmission<u128>>,
    numbers: HashMap<TunnelId, u32>,
    /// Whether a tunnel without an SA gets one once there are packets for it, so that it can send.
    negotiates: bool,
    links: Links,
}

impl Tunnels {
    /// No tunnels; `negotiates` says whether a key daemon negotiates an SA for the packets of a
    /// tunnel that has none.
    pub(crate) fn new(negotiates: bool) -> Self {
        Self { negotiates, ..Self::default() }
    }

    /// The number of a tunnel, new or old.
    pub(crate) fn number(&mut self, id: TunnelId) -> u32 {
        *self.numbers.entry(id).or_insert_with(|| {
            let (outbound, parked, inbound, selectors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            let (interface, is_linked) = (0, false);
            let (dropped_without_sa, own_sa_due_ns) = (0, None);
            self.list.push(Tunnel {
                id,
                outbound,
                parked,
                inbound,
                selectors,
                interface,
                is_linked,
                dropped_without_sa,
                own_sa_due_ns,
            });
            self.current.push(NONE);
            self.admissions.push(FastAdmission::NOTHING);
            self.list.len() as u32 - 1
        })
    }

    /// The id behind a number.
    pub(crate) fn id(&self, number: u32) -> TunnelId {
        self.list[number as usize].id
    }

    /// The SA that currently protects the tunnel's packets.
    #[inline]
    pub(crate) fn current(&self, number: u32) -> Option<OutboundId> {
        let place = self.current[number as usize];
        (place != NONE).then_some(OutboundId(place))
    }

    fn set_current(&mut self, number: u32) {
        let newest = self.list[number as usize].outbound.last();
        self.current[number as usize] = newest.map_or(NONE, |sa| sa.0);
        self.set_link(number);
    }

    /// The inside interface of a tunnel's packets.
    #[inline]
    pub(crate) fn interface(&self, number: u32) -> u16 {
        self.admissions[number as usize].interface
    }

    /// Tells its interface whether a tunnel can send: it has an SA, or packets get it one.
    fn set_link(&mut self, number: u32) {
        let tunnel = &mut self.list[number as usize];
        let can_send = !tunnel.outbound.is_empty() || self.negotiates && !tunnel.selectors.is_empty();
        if can_send != tunnel.is_linked {
            tunnel.is_linked = can_send;
            self.links.note(tunnel.interface, can_send);
        }
    }

    /// The interfaces whose link has come up or gone down since the last call.
    pub(crate) fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }

    /// Prefetches what [`admits_at_once`](Self::admits_at_once) reads.
    #[inline]
    pub(crate) fn prefetch_admission(&self, number: u32) {
        if let Some(admission) = self.admissions.get(number as usize) {
            prefetch(admission);
        }
        if let Some(admission) = self.admissions_v6.get(number as usize) {
            prefetch(admission);
        }
    }

    /// Makes `sa` the current one.
    pub(crate) fn add_outbound(&mut self, number: u32, sa: OutboundId) {
        self.list[number as usize].outbound.push(sa);
        self.set_current(number);
    }

    /// Adds an outbound SA that protects nothing until
    /// [`unpark_outbound`](Self::unpark_outbound).
    pub(crate) fn park_outbound(&mut self, number: u32, sa: OutboundId) {
        self.list[number as usize].parked.push(sa);
    }

    /// Makes a parked SA the current one; nothing happens to others.
    pub(crate) fn unpark_outbound(&mut self, number: u32, sa: OutboundId) {
        let parked = &mut self.list[number as usize].parked;
        if let Some(place) = parked.iter().position(|present| *present == sa) {
            parked.remove(place);
            self.add_outbound(number, sa);
        }
    }

    /// The outbound SA that will protect the tunnel's packets once the address of its peer is
    /// known, if that is all it lacks.
    pub(crate) fn parked(&self, number: u32) -> Option<OutboundId> {
        self.list[number as usize].parked.last().copied()
    }

    /// All its outbound SAs, also those that protect nothing yet.
    pub(crate) fn outbound(&self, number: u32) -> Vec<OutboundId> {
        let Tunnel { outbound, parked, .. } = &self.list[number as usize];
        outbound.iter().chain(parked).copied().collect()
    }

    /// Removes an SA; the one before it takes over if it was the current one.
    pub(crate) fn remove_outbound(&mut self, number: u32, sa: OutboundId) {
        let Tunnel { outbound, parked, .. } = &mut self.list[number as usize];
        outbound.retain(|present| *present != sa);
        parked.retain(|present| *present != sa);
        self.set_current(number);
    }

    /// All its inbound SAs.
    pub(crate) fn inbound(&self, number: u32) -> &[InboundId] {
        &self.list[number as usize].inbound
    }

    /// Adds an inbound SA to the tunnel.
    pub(crate) fn add_inbound(&mut self, number: u32, sa: InboundId) {
        self.list[number as usize].inbound.push(sa);
    }

    /// Removes an inbound SA.
    pub(crate) fn remove_inbound(&mut self, number: u32, sa: InboundId) {
        self.list[number as usize].inbound.retain(|present| *present != sa);
    }

    /// The number of a tunnel that a policy or an SA has named.
    pub(crate) fn find(&self, id: TunnelId) -> Option<u32> {
        self.numbers.get(&id).copied()
    }

    /// Counts a packet dropped because the tunnel has no SA.
    pub(crate) fn count_without_sa(&mut self, number: u32) {
        self.list[number as usize].dropped_without_sa += 1;
    }

    /// Sets whether the key daemon negotiates an SA for each worker that has packets of the tunnel.
    pub(crate) fn set_own_sas(&mut self, number: u32, are_wanted: bool) {
        let due_ns = &mut self.list[number as usize].own_sa_due_ns;
        *due_ns = are_wanted.then(|| due_ns.unwrap_or(0));
    }

    /// Whether this worker is to ask for an SA of its own, for a packet that another worker
    /// protects meanwhile.
    pub(crate) fn wants_own_sa(&mut self, number: u32, now_ns: u64) -> bool {
        match &mut self.list[number as usize].own_sa_due_ns {
            Some(due_ns) if now_ns >= *due_ns => {
                *due_ns = now_ns + OWN_SA_AGAIN_NS;
                true
            }
            _ => false,
        }
    }

    /// Packets dropped for lack of an SA, for each tunnel that has lost any, among the `most` from
    /// number `first`; `None` behind the last.
    pub(crate) fn dropped_without_sa(
        &self,
        first: usize,
        most: usize,
    ) -> Option<impl Iterator<Item = (TunnelId, u64)> + '_> {
        let rest = self.list.get(first..).filter(|rest| !rest.is_empty())?;
        let losers = rest.iter().take(most).filter(|tunnel| tunnel.dropped_without_sa > 0);
        Some(losers.map(|tunnel| (tunnel.id, tunnel.dropped_without_sa)))
    }

    /// Adds a selector to a tunnel, whose packets are on this inside interface.
    pub(crate) fn add_selector(&mut self, number: u32, selector: Selector, interface: u16) {
        self.set_interface(number, interface);
        self.list[number as usize].selectors.push(selector);
        self.set_admission(number);
        self.set_link(number);
    }

    fn set_interface(&mut self, number: u32, interface: u16) {
        let tunnel = &mut self.list[number as usize];
        let before = std::mem::replace(&mut tunnel.interface, interface);
        if before != interface && tunnel.is_linked {
            self.links.note(before, false);
            self.links.note(interface, true);
        }
    }

    /// Undoes one [`add_selector`](Self::add_selector).
    pub(crate) fn remove_selector(&mut self, number: u32, selector: &Selector) {
        let selectors = &mut self.list[number as usize].selectors;
        if let Some(place) = selectors.iter().position(|present| present == selector) {
            selectors.remove(place);
        }
        self.set_admission(number);
        self.set_link(number);
    }

    fn set_admission(&mut self, number: u32) {
        let Tunnel { selectors, interface, .. } = &self.list[number as usize];
        let (at, interface) = (number as usize, *interface);
        let v4 = FastAdmission::first_of(selectors, interface);
        self.admissions[at] = v4.unwrap_or(FastAdmission::NOTHING.on(interface));
        let v6 = FastAdmission::first_of(selectors, interface);
        if v6.is_some() && at >= self.admissions_v6.len() {
            self.admissions_v6.resize(at + 1, FastAdmission::NOTHING);
        }
        if let Some(admission) = self.admissions_v6.get_mut(at) {
            *admission = v6.unwrap_or(FastAdmission::NOTHING);
        }
    }

    /// Whether the fast check admits an inner packet to this tunnel; if not,
    /// [`admits_inbound`](Self::admits_inbound) decides.
    #[inline]
    pub(crate) fn admits_at_once(&self, number: u32, packet: &[u8], layout: &Layout) -> bool {
        let ((source, destination), protocol) = (layout.address_numbers(packet), layout.protocol);
        let interface = if layout.is_v6 {
            self.admits_v6(number, [source, destination], protocol)
        } else {
            self.admits_v4(number, (source as u64) << 32 | destination as u64, protocol)
        };
        interface.is_some()
    }

    /// Whether the fast check admits an IPv4 packet that is not ICMP, by its addresses, source
    /// before destination. Returns the inside interface by which it leaves.
    #[inline]
    pub(crate) fn admits_v4(&self, number: u32, addresses: u64, protocol: u8) -> Option<u16> {
        let ends = Ends { source: (addresses >> 32) as u32, destination: addresses as u32 };
        self.admissions[number as usize].admits_inbound(ends, protocol)
    }

    /// Whether the fast check admits an IPv6 packet that is not ICMPv6; likewise.
    #[inline]
    pub(crate) fn admits_v6(&self, number: u32, addresses: [u128; 2], protocol: u8) -> Option<u16> {
        let [source, destination] = addresses;
        let ends = Ends { source, destination };
        self.admissions_v6.get(number as usize)?.admits_inbound(ends, protocol)
    }

    /// Whether an inner packet may arrive through this tunnel (RFC 4301 section 5.2, step 4).
    pub(crate) fn admits_inbound(&self, number: u32, flow: &FlowKey) -> bool {
        let flow = flow.reversed();
        self.list[number as usize].selectors.iter().any(|selector| selector.matches_outbound(&flow))
    }

    /// Whether the tunnel carries answers to a quoted outbound packet, as far as the quote reaches
    /// (RFC 4301 section 6.2).
    pub(crate) fn answers(&self, number: u32, quoted: &FlowKey) -> bool {
        self.list[number as usize].selectors.iter().any(|selector| selector.matches_quoted(quoted))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spd::selector::{Ports, TrafficSelector};
    use convoy_packet::IpHeader;
    use proptest::prelude::*;

    #[test]
    fn the_newest_sa_is_current_and_its_forerunner_takes_over() {
        let mut tunnels = Tunnels::default();
        let number = tunnels.number(TunnelId(900));
        assert_eq!(tunnels.number(TunnelId(900)), number);
        tunnels.add_outbound(number, OutboundId(1));
        tunnels.add_outbound(number, OutboundId(2));
        assert_eq!(tunnels.current(number), Some(OutboundId(2)));
        tunnels.remove_outbound(number, OutboundId(2));
        assert_eq!(tunnels.current(number), Some(OutboundId(1)));
        tunnels.remove_outbound(number, OutboundId(1));
        assert_eq!(tunnels.current(number), None);
        assert_eq!(tunnels.id(number), TunnelId(900));
    }

    #[test]
    fn an_sa_of_its_own_is_wanted_once_a_second_where_the_daemon_negotiates_some() {
        let mut tunnels = Tunnels::new(true);
        let number = tunnels.number(TunnelId(1));
        assert!(!tunnels.wants_own_sa(number, 5), "it has one SA for all workers");
        tunnels.set_own_sas(number, true);
        assert!(tunnels.wants_own_sa(number, 5));
        tunnels.set_own_sas(number, true);
        assert!(!tunnels.wants_own_sa(number, OWN_SA_AGAIN_NS + 4), "it has just asked");
        assert!(tunnels.wants_own_sa(number, OWN_SA_AGAIN_NS + 5));
        tunnels.set_own_sas(number, false);
        assert!(!tunnels.wants_own_sa(number, u64::MAX));
    }

    fn everything() -> Selector {
        let all: TrafficSelector = "0.0.0.0/0".parse().expect("everything");
        Selector { local: all, remote: all }
    }

    #[test]
    fn an_interface_has_a_link_while_a_tunnel_of_it_can_send() {
        let mut tunnels = Tunnels::new(false);
        let number = tunnels.number(TunnelId(1));
        tunnels.add_outbound(number, OutboundId(1));
        assert_eq!(tunnels.links_mut().take_changes(), [], "it is on the shared interface");
        tunnels.add_selector(number, everything(), 5);
        assert_eq!(tunnels.interface(number), 5);
        assert_eq!(tunnels.links_mut().take_changes(), [(5, true)]);
        tunnels.remove_selector(number, &everything());
        tunnels.add_selector(number, everything(), 5);
        assert_eq!(tunnels.links_mut().take_changes(), [], "policies that stay change nothing");
        tunnels.remove_selector(number, &everything());
        tunnels.add_selector(number, everything(), 6);
        assert_eq!(tunnels.links_mut().take_changes(), [(5, false), (6, true)]);
        tunnels.remove_outbound(number, OutboundId(1));
        assert_eq!(tunnels.links_mut().take_changes(), [(6, false)]);
    }

    #[test]
    fn with_a_key_daemon_a_policy_without_sa_is_a_link() {
        let mut tunnels = Tunnels::new(true);
        let number = tunnels.number(TunnelId(1));
        tunnels.add_selector(number, everything(), 5);
        assert_eq!(tunnels.links_mut().take_changes(), [(5, true)], "the first packet gets it an SA");
        tunnels.remove_selector(number, &everything());
        assert_eq!(tunnels.links_mut().take_changes(), [(5, false)]);
    }

    fn side() -> impl Strategy<Value = TrafficSelector> {
        let ports =
            prop_oneof![Just(Ports::Any), Just(Ports::Any), Just(Ports::Opaque), Just(Ports::Range(3, 5))];
        let protocol = prop_oneof![Just(None), Just(Some(17u8)), Just(Some(6))];
        let range = (0u8..8, 0u8..8, any::<bool>()).prop_map(|(first, more, is_v6)| {
            let address = |host: u8| if is_v6 { format!("fd00::{host}") } else { format!("10.0.0.{host}") };
            format!("{}-{}", address(first), address(first + more)).parse().expect("a range")
        });
        (range, protocol, ports).prop_map(|(addresses, protocol, ports)| TrafficSelector {
            addresses,
            protocol,
            ports,
        })
    }

    fn flow() -> impl Strategy<Value = FlowKey> {
        let ports = proptest::option::of((2u16..7, 2u16..7));
        (0u8..16, 0u8..16, any::<bool>(), prop_oneof![Just(17u8), Just(6), Just(1)], ports).prop_map(
            |(source, destination, is_v6, protocol, ports)| {
                let address =
                    |host: u8| if is_v6 { format!("fd00::{host}") } else { format!("10.0.0.{host}") };
                let [source, destination] =
                    [source, destination].map(|host| address(host).parse().expect("one"));
                FlowKey::new(source, destination, protocol, ports)
            },
        )
    }

    proptest! {
        #[test]
        fn a_tunnel_admits_what_one_of_its_selectors_does(
            sides in proptest::collection::vec((side(), side()), 0..4), flows in proptest::collection::vec(flow(), 1..20),
        ) {
            let mut tunnels = Tunnels::default();
            let number = tunnels.number(TunnelId(1));
            let selectors: Vec<_> = sides.into_iter().map(|(local, remote)| Selector { local, remote }).collect();
            selectors.iter().for_each(|selector| tunnels.add_selector(number, *selector, 0));
            for flow in flows {
                let is_admitted = selectors.iter().any(|selector| selector.matches_inbound(&flow));
                prop_assert_eq!(tunnels.admits_inbound(number, &flow), is_admitted);
                let mut packet = [0; 60];
                IpHeader::new(flow.protocol(), flow.source(), flow.destination()).write(&mut packet);
                let layout = Layout::parse(&packet).expect("a packet");
                let is_simple = |selector: &Selector| match flow.is_v6() {
                    false => FastAdmission::<u32>::of(selector).is_some(),
                    true => FastAdmission::<u128>::of(selector).is_some(),
                };
                let simple = selectors.iter().find(|selector| is_simple(selector));
                let at_once = simple.is_some_and(|selector| selector.matches_inbound(&flow));
                prop_assert_eq!(tunnels.admits_at_once(number, &packet, &layout), at_once);
            }
        }
    }
}
