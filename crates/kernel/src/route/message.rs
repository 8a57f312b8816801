//! Rules, routes and addresses as the kernel says them by netlink.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rtnetlink::packet_core::DefaultNla;
use rtnetlink::packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage, AddressScope};
use rtnetlink::packet_route::link::{AfSpecInet, AfSpecUnspec, LinkAttribute, LinkMessage};
use rtnetlink::packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage, RulePortRange};
use rtnetlink::packet_route::{AddressFamily, IpProtocol};
use rtnetlink::{AddressMessageBuilder, LinkUnspec};

use super::plan::{KernelRoute, PROTOCOL, Rule, RuleTraffic, Service, Target};
use super::source::HostAddress;
use crate::prefix::Prefix;

/// The kernel's value for a rule without this attribute.
const NO_SUPPRESSION: u32 = u32::MAX;
/// Ports of services; Linux gives clients those above. A connecting client has none yet.
const SERVICES: RulePortRange = RulePortRange { start: 1, end: 32_767 };
/// For ICMPv6 the kernel matches type and code as the destination port: an echo reply, 129 and 0.
const ECHO_REPLY: RulePortRange = RulePortRange { start: 129 << 8, end: 129 << 8 };

/// The attribute of IPv4's settings of an interface, which nests those to be changed
/// (`IFLA_INET_CONF`), and that of ICMP redirects in it (`IPV4_DEVCONF_SEND_REDIRECTS`).
const INET_CONF: u16 = 1;
const SEND_REDIRECTS: u16 = 6;

/// A request that sets `send_redirects` of the interface with this index to 0.
pub(super) fn no_redirects(interface: u32) -> LinkMessage {
    const ATTRIBUTE_BYTES: u16 = 8;
    let setting = [ATTRIBUTE_BYTES.to_ne_bytes(), SEND_REDIRECTS.to_ne_bytes(), [0; 2], [0; 2]].concat();
    // rtnetlink's own attribute leaves out settings that are to be 0.
    let settings = AfSpecInet::Other(DefaultNla::new(INET_CONF, setting));
    let of_families = LinkAttribute::AfSpecUnspec(vec![AfSpecUnspec::Inet(vec![settings])]);
    LinkUnspec::new_with_index(interface).append_extra_attribute(of_families).build()
}

impl Service {
    fn attributes(self) -> [RuleAttribute; 2] {
        let from_service = RuleAttribute::SourcePortRange(SERVICES);
        match self {
            Self::Tcp => [RuleAttribute::IpProtocol(IpProtocol::Tcp), from_service],
            Self::Udp => [RuleAttribute::IpProtocol(IpProtocol::Udp), from_service],
            Self::Echo => {
                let reply = RuleAttribute::DestinationPortRange(ECHO_REPLY);
                [RuleAttribute::IpProtocol(IpProtocol::Other(libc::IPPROTO_ICMPV6)), reply]
            }
        }
    }

    fn of(protocol: IpProtocol) -> Option<Self> {
        match protocol {
            IpProtocol::Tcp => Some(Self::Tcp),
            IpProtocol::Udp => Some(Self::Udp),
            IpProtocol::Other(libc::IPPROTO_ICMPV6) => Some(Self::Echo),
            _ => None,
        }
    }
}

fn family(is_v6: bool) -> AddressFamily {
    if is_v6 { AddressFamily::Inet6 } else { AddressFamily::Inet }
}

/// An address that is valid at once: no other host can have it, and until the kernel has verified
/// that, it refuses routes with it as their source.
pub(crate) fn address(interface: u32, address: Ipv6Addr, bits: u8) -> AddressMessage {
    let builder = AddressMessageBuilder::<Ipv6Addr>::new().index(interface).address(address, bits);
    let mut message = builder.build();
    message.header.flags |= AddressHeaderFlags::Nodad;
    message
}

/// An address without a network.
pub(crate) fn host_address(interface: u32, of: IpAddr) -> AddressMessage {
    match of {
        IpAddr::V4(v4) => AddressMessageBuilder::<Ipv4Addr>::new().index(interface).address(v4, 32).build(),
        IpAddr::V6(v6) => address(interface, v6, 128),
    }
}

impl HostAddress {
    /// An address for others to answer to, which has been found to be no other host's.
    pub(super) fn read(message: &AddressMessage) -> Option<Self> {
        let header = &message.header;
        let unusable =
            AddressHeaderFlags::Tentative | AddressHeaderFlags::Dadfailed | AddressHeaderFlags::Deprecated;
        if header.scope != AddressScope::Universe || header.flags.intersects(unusable) {
            return None;
        }
        let find =
            |wanted: fn(&AddressAttribute) -> Option<IpAddr>| message.attributes.iter().find_map(wanted);
        // With a peer, the address is the peer's.
        let local = find(|attribute| match attribute {
            AddressAttribute::Local(address) => Some(*address),
            _ => None,
        });
        let any = find(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        });
        Some(Self { address: local.or(any)?, bits: header.prefix_len, interface: header.index })
    }
}

/// The request for all routes of a family and a table that a protocol has set.
pub(super) fn question(is_v6: bool, table: u32, protocol: RouteProtocol) -> RouteMessage {
    let mut message = RouteMessage::default();
    message.header.address_family = family(is_v6);
    message.header.protocol = protocol;
    message.attributes.push(RouteAttribute::Table(table));
    message
}

fn unspecified(is_v6: bool) -> IpAddr {
    if is_v6 { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() }
}

fn ip(address: &RouteAddress) -> Option<IpAddr> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

/// The destination of a route.
pub(super) fn destination(message: &RouteMessage) -> Option<Prefix> {
    let is_v6 = message.header.address_family == AddressFamily::Inet6;
    let destination = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Destination(address) => Some(address),
        _ => None,
    });
    let address = destination.map_or(Some(unspecified(is_v6)), ip)?;
    Some(Prefix { address, bits: message.header.destination_prefix_length })
}

/// The interface of a route that is the network of an interface's address.
pub(super) fn connected(message: &RouteMessage) -> Option<u32> {
    let is_connected =
        message.header.protocol == RouteProtocol::Kernel && message.header.kind == RouteType::Unicast;
    is_connected.then(|| output(message)).flatten()
}

fn output(message: &RouteMessage) -> Option<u32> {
    message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Oif(index) => Some(*index),
        _ => None,
    })
}

/// The table of a route: the header's has eight bits.
pub(super) fn table(message: &RouteMessage) -> u32 {
    let long = message.attributes.iter().find_map(|attribute| match attribute {
        RouteAttribute::Table(table) => Some(*table),
        _ => None,
    });
    long.unwrap_or(message.header.table.into())
}

impl KernelRoute {
    pub(super) fn message(&self) -> RouteMessage {
        let mut message = RouteMessage::default();
        let header = &mut message.header;
        header.address_family = family(self.prefix.address.is_ipv6());
        header.destination_prefix_length = self.prefix.bits;
        header.protocol = RouteProtocol::Other(PROTOCOL);
        header.scope = RouteScope::Universe;
        header.kind = match self.target {
            Target::Throw => RouteType::Throw,
            Target::Device { .. } => RouteType::Unicast,
            Target::Blackhole => RouteType::BlackHole,
        };
        if let Target::Device { .. } = self.target
            && self.prefix.address.is_ipv4()
        {
            // Reached without a router.
            header.scope = RouteScope::Link;
        }
        let attributes = &mut message.attributes;
        attributes.push(RouteAttribute::Table(self.table));
        attributes.push(RouteAttribute::Priority(self.target.metric()));
        if self.prefix.bits > 0 {
            attributes.push(RouteAttribute::Destination(self.prefix.address.into()));
        }
        if let Target::Device { index, source } = self.target {
            attributes.push(RouteAttribute::Oif(index));
            attributes.extend(source.map(|source| RouteAttribute::PrefSource(source.into())));
        }
        message
    }

    /// A route of ours; `None` if it is anything else.
    pub(super) fn read(message: &RouteMessage) -> Option<Self> {
        if message.header.protocol != RouteProtocol::Other(PROTOCOL) {
            return None;
        }
        let target = match message.header.kind {
            RouteType::Throw => Target::Throw,
            RouteType::BlackHole => Target::Blackhole,
            RouteType::Unicast => {
                let source = message.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::PrefSource(address) => ip(address),
                    _ => None,
                });
                Target::Device { index: output(message)?, source }
            }
            _ => return None,
        };
        Some(Self { table: table(message), prefix: destination(message)?, target })
    }
}

impl Rule {
    pub(super) fn message(&self) -> RuleMessage {
        let mut message = RuleMessage::default();
        message.header.family = family(self.is_v6);
        message.header.action = RuleAction::ToTable;
        let attributes = &mut message.attributes;
        attributes.push(RuleAttribute::Table(self.table));
        attributes.push(RuleAttribute::Priority(self.priority));
        attributes.push(RuleAttribute::Protocol(RouteProtocol::Other(PROTOCOL)));
        if let Some(from) = self.from {
            message.header.src_len = Prefix::host(from).bits;
            attributes.push(RuleAttribute::Source(from));
        }
        if let RuleTraffic::Answers(service) = self.traffic {
            attributes.extend(service.attributes());
        }
        if let Some(mark) = self.unmarked {
            message.header.flags = RuleFlags::Invert;
            attributes.push(RuleAttribute::FwMark(mark));
        }
        attributes.extend(self.marked.map(RuleAttribute::FwMark));
        if self.ignores_default {
            attributes.push(RuleAttribute::SuppressPrefixLen(0));
        }
        message
    }

    /// A rule with our protocol; `None` if it is anything else.
    pub(super) fn read(message: &RuleMessage) -> Option<Self> {
        let mut rule = Self {
            is_v6: message.header.family == AddressFamily::Inet6,
            priority: 0,
            from: None,
            traffic: RuleTraffic::All,
            unmarked: None,
            marked: None,
            ignores_default: false,
            table: message.header.table.into(),
        };
        let mut is_ours = false;
        for attribute in &message.attributes {
            match attribute {
                RuleAttribute::Table(table) => rule.table = *table,
                RuleAttribute::Priority(priority) => rule.priority = *priority,
                RuleAttribute::Source(from) => rule.from = Some(*from),
                RuleAttribute::IpProtocol(protocol) => {
                    rule.traffic = Service::of(*protocol).map_or(RuleTraffic::All, RuleTraffic::Answers);
                }
                RuleAttribute::FwMark(mark) if message.header.flags.contains(RuleFlags::Invert) => {
                    rule.unmarked = Some(*mark);
                }
                RuleAttribute::FwMark(mark) => rule.marked = Some(*mark),
                RuleAttribute::SuppressPrefixLen(bits) => rule.ignores_default = *bits != NO_SUPPRESSION,
                RuleAttribute::Protocol(protocol) => is_ours = *protocol == RouteProtocol::Other(PROTOCOL),
                _ => {}
            }
        }
        is_ours.then_some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_be_a_routes_source_from_the_start() {
        let message = address(7, "fd00:1::1".parse().expect("an address"), 64);
        assert_eq!((message.header.index, message.header.prefix_len), (7, 64));
        assert!(message.header.flags.contains(AddressHeaderFlags::Nodad));
    }

    #[test]
    fn rules_and_routes_are_read_as_they_were_written() {
        let v4 = IpAddr::from([10, 2, 0, 0]);
        let device = Target::Device { index: 7, source: Some([10, 1, 0, 1].into()) };
        for target in [Target::Throw, Target::Blackhole, device] {
            for prefix in [Prefix { address: v4, bits: 24 }, Prefix { address: [0; 4].into(), bits: 0 }] {
                let entry = KernelRoute { table: 4500, prefix, target };
                assert_eq!(KernelRoute::read(&entry.message()), Some(entry));
            }
        }
        let rule = Rule {
            is_v6: false,
            priority: 4500,
            from: Some(v4),
            traffic: RuleTraffic::Answers(Service::Udp),
            unmarked: Some(9),
            marked: None,
            ignores_default: true,
            table: 4500,
        };
        assert_eq!(Rule::read(&rule.message()), Some(rule));
        let marked = Rule { unmarked: None, marked: Some(9), ..rule };
        assert_eq!(Rule::read(&marked.message()), Some(marked));
        let mut other = rule.message();
        other.attributes.retain(|attribute| !matches!(attribute, RuleAttribute::Protocol(_)));
        assert_eq!(Rule::read(&other), None);
    }
}
