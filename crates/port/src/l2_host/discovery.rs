//! What neighbours ask and say on a link: ARP for IPv4, neighbour discovery for IPv6. Pure.

use std::net::IpAddr;

use convoy_packet::arp::{Arp, Operation};
use convoy_packet::ndp::{self, Ndp, NdpKind};
use convoy_packet::{MacAddress, ethernet};

use super::identity::{HostIdentity, PortTakes};

/// A message of either protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    /// ARP.
    Arp(Arp),
    /// Neighbour discovery, and the sender of its frame.
    Ndp(Ndp, MacAddress),
}

/// A frame of the host's own, to be sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnFrame {
    /// The hardware address that it is for.
    pub to: MacAddress,
    /// Its EtherType.
    pub ethertype: u16,
    /// What follows the Ethernet header.
    pub bytes: Vec<u8>,
}

/// What a message says of a neighbour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostReport {
    pub(super) address: IpAddr,
    pub(super) mac: MacAddress,
    /// Whether it is meant for this host, to which the sender is about to send, or has answered.
    pub(super) is_to_us: bool,
    /// Whether another hardware address that is known stays known.
    pub(super) is_weak: bool,
}

impl Discovery {
    /// What it says of a neighbour, if that may be believed.
    pub(super) fn reported(&self, identity: &HostIdentity) -> Option<HostReport> {
        let reported = match self {
            Self::Arp(message) => {
                let address = message.sender.into();
                let is_to_us = identity.has(message.target) && identity.is_on_link(message.sender);
                let mac = message.sender_mac;
                let is_said = is_to_us || message.operation == Operation::Request;
                is_said.then_some(HostReport { address, mac, is_to_us, is_weak: false })?
            }
            Self::Ndp(message, _) => {
                let mac = message.mac?;
                match message.kind {
                    NdpKind::Solicitation => {
                        let address = message.source.into();
                        let is_to_us = identity.has(message.target) && identity.is_on_link(address);
                        HostReport { address, mac, is_to_us, is_weak: false }
                    }
                    NdpKind::Advertisement { is_solicited, overrides, .. } => {
                        let is_to_us = is_solicited && identity.has(message.destination);
                        HostReport { address: message.target.into(), mac, is_to_us, is_weak: !overrides }
                    }
                }
            }
        };
        (identity.may_answer(reported.address) && !reported.mac.is_multicast()).then_some(reported)
    }

    /// The answer, if it asks for an address of this host; also to a probe (RFC 5227, RFC 4862),
    /// whose sender has no address yet, and asks whether ours is taken.
    pub(super) fn answer(&self, identity: &HostIdentity) -> Option<OwnFrame> {
        match self {
            Self::Arp(message) => {
                let is_for_us = message.operation == Operation::Request && identity.has(message.target);
                let is_answerable = message.sender.is_unspecified() || identity.may_answer(message.sender);
                (is_for_us && is_answerable).then(|| arp_reply(message, identity))
            }
            Self::Ndp(message, from) => {
                let is_for_us = message.kind == NdpKind::Solicitation && identity.has(message.target);
                let is_answerable = message.source.is_unspecified() || identity.may_answer(message.source);
                (is_for_us && is_answerable).then(|| advertisement(message, *from, identity))
            }
        }
    }
}

fn arp_reply(request: &Arp, identity: &HostIdentity) -> OwnFrame {
    let reply = Arp {
        operation: Operation::Reply,
        sender_mac: identity.mac,
        sender: request.target,
        target_mac: request.sender_mac,
        target: request.sender,
    };
    OwnFrame { to: request.sender_mac, ethertype: ethernet::ARP, bytes: reply.to_bytes().to_vec() }
}

/// A probe is answered to all nodes, as its sender has no address (RFC 4861 section 7.2.4).
fn advertisement(request: &Ndp, from: MacAddress, identity: &HostIdentity) -> OwnFrame {
    let is_probe = request.source.is_unspecified();
    let (to, destination) = if is_probe {
        (ndp::group_mac(ndp::ALL_NODES), ndp::ALL_NODES)
    } else {
        (request.mac.filter(|mac| !mac.is_multicast()).unwrap_or(from), request.source)
    };
    let is_router = identity.takes == PortTakes::All;
    let reply = Ndp {
        kind: NdpKind::Advertisement { is_router, is_solicited: !is_probe, overrides: true },
        source: request.target,
        destination,
        target: request.target,
        mac: Some(identity.mac),
    };
    OwnFrame { to, ethertype: ethernet::IPV6, bytes: reply.to_packet() }
}

/// A request for an address, from one that is on the same link; `None` if there is none.
pub(super) fn request(address: IpAddr, identity: &HostIdentity) -> Option<OwnFrame> {
    Some(match (address, identity.source_for(address)?) {
        (IpAddr::V4(target), IpAddr::V4(sender)) => {
            let target_mac = MacAddress([0; 6]);
            let (operation, sender_mac) = (Operation::Request, identity.mac);
            let request = Arp { operation, sender_mac, sender, target_mac, target };
            let bytes = request.to_bytes().to_vec();
            OwnFrame { to: MacAddress::BROADCAST, ethertype: ethernet::ARP, bytes }
        }
        (IpAddr::V6(target), IpAddr::V6(source)) => {
            let (kind, destination) = (NdpKind::Solicitation, ndp::solicited_node(target));
            let request = Ndp { kind, source, destination, target, mac: Some(identity.mac) };
            let to = ndp::group_mac(destination);
            OwnFrame { to, ethertype: ethernet::IPV6, bytes: request.to_packet() }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use convoy_packet::Ipv6;

    use super::*;

    const A: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const B: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2);
    const LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);
    const FAR: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb9, 0, 0, 0, 0, 0, 2);
    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const PEER: MacAddress = MacAddress([2, 0, 0, 0, 0, 0x99]);

    fn identity(takes: PortTakes) -> HostIdentity {
        let addresses = [(Ipv4Addr::new(192, 0, 2, 1).into(), 24), (A.into(), 64)];
        HostIdentity::new(OWN, &addresses, &[], takes).expect("a good configuration")
    }

    fn solicitation(source: Ipv6Addr) -> Ndp {
        let mac = (!source.is_unspecified()).then_some(PEER);
        Ndp { kind: NdpKind::Solicitation, source, destination: ndp::solicited_node(A), target: A, mac }
    }

    fn advertisement(is_solicited: bool, overrides: bool) -> Ndp {
        let kind = NdpKind::Advertisement { is_router: false, is_solicited, overrides };
        let destination = if is_solicited { A } else { ndp::ALL_NODES };
        Ndp { kind, source: B, destination, target: B, mac: Some(PEER) }
    }

    fn answer(message: Ndp, takes: PortTakes) -> Option<(MacAddress, Ndp)> {
        let frame = Discovery::Ndp(message, PEER).answer(&identity(takes))?;
        assert_eq!(frame.ethertype, ethernet::IPV6);
        let message = Ndp::parse(&Ipv6::parse(&frame.bytes).expect("whole")).expect("a valid message");
        Some((frame.to, message))
    }

    #[test]
    fn a_solicitation_is_answered_to_who_asked_from_whichever_address() {
        for source in [B, LOCAL, FAR] {
            let (to, reply) = answer(solicitation(source), PortTakes::Own).expect("an answer");
            assert_eq!((to, reply.destination, reply.target, reply.mac), (PEER, source, A, Some(OWN)));
            let kind = NdpKind::Advertisement { is_router: false, is_solicited: true, overrides: true };
            assert_eq!(reply.kind, kind);
        }
        let unnamed = Ndp { mac: None, ..solicitation(B) };
        assert_eq!(answer(unnamed, PortTakes::Own).expect("an answer").0, PEER, "to the frame's sender");
        let (_, reply) = answer(solicitation(B), PortTakes::All).expect("an answer");
        assert!(matches!(reply.kind, NdpKind::Advertisement { is_router: true, .. }));
    }

    #[test]
    fn a_probe_for_our_address_is_answered_to_all_nodes() {
        let (to, reply) = answer(solicitation(Ipv6Addr::UNSPECIFIED), PortTakes::Own).expect("it is taken");
        assert_eq!((to, reply.destination), (MacAddress([0x33, 0x33, 0, 0, 0, 1]), ndp::ALL_NODES));
        assert!(matches!(reply.kind, NdpKind::Advertisement { is_solicited: false, .. }));
    }

    #[test]
    fn only_own_addresses_are_answered_for_and_own_questions_are_not() {
        let for_b = Ndp { target: B, destination: ndp::solicited_node(B), ..solicitation(LOCAL) };
        assert_eq!(answer(for_b, PortTakes::All), None);
        assert_eq!(answer(solicitation(A), PortTakes::Own), None, "another host has our address");
        assert_eq!(answer(advertisement(true, true), PortTakes::Own), None);
    }

    #[test]
    fn what_is_believed_of_neighbours() {
        let own = identity(PortTakes::Own);
        let reported = |message| Discovery::Ndp(message, PEER).reported(&own);
        let (address, mac) = (B.into(), PEER);
        let asked = HostReport { address, mac, is_to_us: true, is_weak: false };
        assert_eq!(reported(solicitation(B)), Some(asked));
        assert_eq!(
            reported(solicitation(FAR)).map(|reported| reported.is_to_us),
            Some(false),
            "not on the link"
        );
        assert_eq!(reported(solicitation(Ipv6Addr::UNSPECIFIED)), None);
        assert_eq!(reported(advertisement(true, true)), Some(asked));
        assert_eq!(reported(advertisement(true, false)), Some(HostReport { is_weak: true, ..asked }));
        assert_eq!(reported(advertisement(false, true)), Some(HostReport { is_to_us: false, ..asked }));
        assert_eq!(reported(Ndp { mac: None, ..advertisement(true, true) }), None);
        assert_eq!(reported(Ndp { mac: Some(MacAddress::BROADCAST), ..advertisement(true, true) }), None);
        assert_eq!(reported(Ndp { target: A, ..advertisement(true, true) }), None, "our own address");
    }

    #[test]
    fn requests_go_to_the_group_of_the_address_and_only_on_the_link() {
        let own = identity(PortTakes::Own);
        let frame = request(B.into(), &own).expect("on the link");
        let message = Ndp::parse(&Ipv6::parse(&frame.bytes).expect("whole")).expect("a valid message");
        assert_eq!((frame.to, frame.ethertype), (ndp::group_mac(ndp::solicited_node(B)), ethernet::IPV6));
        assert_eq!((message.source, message.target, message.mac), (A, B, Some(OWN)));
        assert!(request(LOCAL.into(), &own).is_some());
        assert_eq!((request(FAR.into(), &own), request([10, 0, 0, 1].into(), &own)), (None, None));
    }
}
