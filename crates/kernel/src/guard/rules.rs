//! The content of the table: sets of addresses, and chains whose rules look them up.

use std::net::IpAddr;

use super::ranges::{Range, select};
use super::{FlowSide, GuardPlan, GuardedFlow};
use crate::Prefix;

/// Before other chains at the priority `raw`, whatever they accept.
pub(super) const PRIORITY: i32 = -310;
/// Networks that never leave a link or a host, which a default route through a tunnel does not
/// include.
const LOCAL_USE: [&str; 8] = [
    "0.0.0.0/8",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "224.0.0.0/4",
    "255.255.255.255/32",
    "::/127",
    "fe80::/10",
    "ff00::/8",
];

/// The content of the table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Ruleset {
    pub(super) sets: Vec<AddressSet>,
    pub(super) chains: Vec<GuardChain>,
}

/// A set of addresses of one family.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AddressSet {
    pub(super) name: String,
    pub(super) is_v6: bool,
    pub(super) ranges: Vec<Range>,
}

/// A chain, and the hook at which the kernel enters it, if any.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GuardChain {
    pub(super) name: &'static str,
    pub(super) hook: Option<u32>,
    /// Whether packets whose mark it changes are routed again.
    pub(super) routes: bool,
    pub(super) rules: Vec<Vec<Expression>>,
}

/// One step of a rule. A loaded value is in the only register until it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads metadata of the packet.
    Meta(Meta),
    /// Loads bytes of the IP header.
    Network { offset: u32, len: u32 },
    /// Loads bytes of the header behind the IP header.
    Transport { offset: u32, len: u32 },
    /// Continues if the register equals these bytes.
    Equal(Vec<u8>),
    /// Continues if the register is between these values, inclusive.
    Between { first: Vec<u8>, last: Vec<u8> },
    /// Continues if the register is in the set, or not in it.
    In { is: bool, set: String },
    /// Counts the packet.
    Counter,
    /// Gives the packet this mark.
    SetMark(u32),
    /// Ends the rule.
    Verdict(GuardVerdict),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meta {
    InterfaceIn,
    InterfaceOut,
    Mark,
    Family,
    Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GuardVerdict {
    Accept,
    Drop,
    Jump(&'static str),
}

/// Bytes of an interface's name as the kernel compares it.
const NAME_BYTES: usize = 16;

/// The hook at which the kernel enters a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entrance {
    /// Packets for this host.
    Input,
    /// Packets forwarded to another interface.
    Forward,
    /// Packets that leave, forwarded or this host's own.
    Postrouting,
}

impl Entrance {
    const fn chain(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Postrouting => "postrouting",
        }
    }

    /// The number of the hook (`enum nf_inet_hooks`).
    const fn hook(self) -> u32 {
        match self {
            Self::Input => 1,
            Self::Forward => 2,
            Self::Postrouting => 4,
        }
    }

    const fn direction(self) -> ChainDirection {
        match self {
            Self::Input | Self::Forward => ChainDirection::Inbound,
            Self::Postrouting => ChainDirection::Outbound,
        }
    }
}

/// The direction of the packets that a chain drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChainDirection {
    Inbound,
    Outbound,
}

impl ChainDirection {
    /// The chain for packets of networks behind tunnels, which drops them with few exceptions.
    const fn chain(self) -> &'static str {
        match self {
            Self::Inbound => FROM_REMOTE,
            Self::Outbound => TO_REMOTE,
        }
    }

    fn interface_is(self, name: &str) -> Vec<Expression> {
        let meta = match self {
            Self::Inbound => Meta::InterfaceIn,
            Self::Outbound => Meta::InterfaceOut,
        };
        let mut value = name.as_bytes().to_vec();
        value.resize(NAME_BYTES, 0);
        vec![Expression::Meta(meta), Expression::Equal(value)]
    }

    /// Loads the address of the tunnels' far side, or of this side.
    const fn address(self, is_v6: bool, is_remote: bool) -> Expression {
        let is_source = matches!(self, Self::Inbound) == is_remote;
        let (offset, len) = match (is_v6, is_source) {
            (false, true) => (12, 4),
            (false, false) => (16, 4),
            (true, true) => (8, 16),
            (true, false) => (24, 16),
        };
        Expression::Network { offset, len }
    }
}

/// This host's own packets, which are routed into the inside interface where transport mode
/// protects them.
const TO_TRANSPORT: &str = "output";
/// `NF_INET_LOCAL_OUT`.
const LOCAL_OUT: u32 = 3;
/// Neighbour discovery (RFC 4861), without which no packet of IPv6 leaves at all.
const DISCOVERY: (u8, u8) = (133, 137);
/// Packets from networks behind tunnels that arrived by another interface.
pub(super) const FROM_REMOTE: &str = "from_remote";
/// Packets to these networks that leave by another interface.
pub(super) const TO_REMOTE: &str = "to_remote";

/// The table for a plan. `connected` are the networks on the host's other interfaces.
pub(super) fn ruleset(plan: &GuardPlan, connected: &[Prefix]) -> Ruleset {
    let sets: Vec<AddressSet> =
        [false, true].into_iter().flat_map(|is_v6| sets(plan, connected, is_v6)).collect();
    // Chains that are jumped to come first, so that they exist.
    let mut chains: Vec<GuardChain> = [ChainDirection::Inbound, ChainDirection::Outbound]
        .map(|direction| of_remote(plan, direction))
        .into();
    for entrance in [Entrance::Input, Entrance::Forward, Entrance::Postrouting] {
        let rules = entry(plan, &sets, entrance);
        chains.push(GuardChain { name: entrance.chain(), hook: Some(entrance.hook()), routes: false, rules });
    }
    chains.extend(to_transport(plan));
    Ruleset { sets, chains }
}

fn of_remote(plan: &GuardPlan, direction: ChainDirection) -> GuardChain {
    let bypass = plan.bypass.iter().filter_map(|bypass| bypassing(bypass, direction));
    let own = (direction == ChainDirection::Outbound).then(|| marked(plan.mark));
    let dropped = vec![Expression::Counter, Expression::Verdict(GuardVerdict::Drop)];
    let rules = own.into_iter().chain(bypass).chain([dropped]).collect();
    GuardChain { name: direction.chain(), hook: None, routes: false, rules }
}

/// Routes what transport mode protects into the inside interface, if that is the tunnels' own.
fn to_transport(plan: &GuardPlan) -> Option<GuardChain> {
    if plan.transport.is_empty() || !plan.inside.iter().any(|inside| inside.is_tunnels) {
        return None;
    }
    let mut rules = vec![marked(plan.mark)];
    rules.extend(never_protected(&plan.udp_ports, ChainDirection::Outbound));
    rules.extend(plan.transport.iter().filter_map(|flow| {
        let steps = of_flow(flow, ChainDirection::Outbound)?;
        Some([steps, vec![Expression::SetMark(plan.transport_mark)]].concat())
    }));
    Some(GuardChain { name: TO_TRANSPORT, hook: Some(LOCAL_OUT), routes: true, rules })
}

/// What transport mode leaves alone, whatever it selects: IKE, which negotiates it, and neighbour
/// discovery.
fn never_protected(udp_ports: &[u16], direction: ChainDirection) -> Vec<Vec<Expression>> {
    let accept = || vec![Expression::Verdict(GuardVerdict::Accept)];
    let own_port = if direction == ChainDirection::Outbound { 0 } else { 2 };
    let ike = udp_ports.iter().map(|port| {
        let port = port.to_be_bytes().to_vec();
        let is_port = vec![Expression::Transport { offset: own_port, len: 2 }, Expression::Equal(port)];
        [of_protocol(libc::IPPROTO_UDP as u8).to_vec(), is_port, accept()].concat()
    });
    let (first, last) = DISCOVERY;
    let of_kind = vec![
        Expression::Transport { offset: 0, len: 1 },
        Expression::Between { first: vec![first], last: vec![last] },
    ];
    let discovery = [of_protocol(libc::IPPROTO_ICMPV6 as u8).to_vec(), of_kind, accept()].concat();
    ike.chain([discovery]).collect()
}

/// The sets that a family needs: the networks behind tunnels; and if one of these is a default
/// route, the networks that it excludes, and those of this side that it protects.
fn sets(plan: &GuardPlan, connected: &[Prefix], is_v6: bool) -> Vec<AddressSet> {
    let remote = || plan.remote.iter().copied();
    let is_remote = |prefix: &Prefix| plan.remote.contains(prefix);
    let local_use = LOCAL_USE.iter().map(|text| prefix(text));
    let own = plan.here.iter().chain(connected).copied().filter(|own| !is_remote(own));
    let peers = plan.peers.iter().copied().map(Prefix::host);
    let near: Vec<Prefix> = local_use.chain(own).chain(peers).collect();
    let left_out = || near.iter().map(|prefix| (*prefix, false));
    let networks = remote().filter(|prefix| prefix.bits > 0).map(|prefix| (prefix, true));
    let mut sets = vec![(name("remote", is_v6), select(networks.chain(left_out()), is_v6))];
    if remote().any(|prefix| prefix.bits == 0 && prefix.address.is_ipv6() == is_v6) {
        sets.push((name("near", is_v6), select(near.iter().map(|prefix| (*prefix, true)), is_v6)));
        let here = plan.here.iter().map(|prefix| (*prefix, true));
        let outer = plan.outer.iter().map(|address| (Prefix::host(*address), false));
        sets.push((name("here", is_v6), select(here.chain(outer), is_v6)));
    }
    let filled = sets.into_iter().filter(|(_, ranges)| !ranges.is_empty());
    filled.map(|(name, ranges)| AddressSet { name, is_v6, ranges }).collect()
}

fn name(what: &str, is_v6: bool) -> String {
    format!("{what}{}", if is_v6 { 6 } else { 4 })
}

fn prefix(text: &str) -> Prefix {
    let (address, bits) = text.split_once('/').expect("a constant with a length");
    let bits = bits.parse().expect("a constant's length is a number");
    Prefix { address: address.parse().expect("a constant is an address"), bits }
}

/// The rules at a hook: the tunnels' own packets are accepted, and those of networks behind tunnels
/// go to the other chain.
fn entry(plan: &GuardPlan, sets: &[AddressSet], entrance: Entrance) -> Vec<Vec<Expression>> {
    let direction = entrance.direction();
    let accept =
        |name| [direction.interface_is(name), vec![Expression::Verdict(GuardVerdict::Accept)]].concat();
    let (tunnels, networks): (Vec<_>, Vec<_>) = plan.inside.iter().partition(|inside| inside.is_tunnels);
    let own = tunnels.iter().map(|inside| inside.name.as_str());
    let mut rules: Vec<Vec<Expression>> = std::iter::once("lo").chain(own).map(accept).collect();
    if entrance == Entrance::Input {
        rules.extend(protected_packets(&plan.udp_ports));
    }
    let jump = |is_v6, steps: Vec<Expression>| {
        [of_family(is_v6), steps, vec![Expression::Verdict(GuardVerdict::Jump(direction.chain()))]].concat()
    };
    let look_up = |is_v6, is_remote, is, set: &str| {
        vec![direction.address(is_v6, is_remote), Expression::In { is, set: set.to_owned() }]
    };
    if !plan.transport.is_empty() && entrance != Entrance::Forward {
        rules.extend(never_protected(&plan.udp_ports, direction));
        let flows = plan.transport.iter().filter_map(|flow| of_flow(flow, direction));
        let jump = vec![Expression::Verdict(GuardVerdict::Jump(direction.chain()))];
        rules.extend(flows.map(|steps| [steps, jump.clone()].concat()));
    }
    for set in sets.iter().filter(|set| set.name == name("remote", set.is_v6)) {
        rules.push(jump(set.is_v6, look_up(set.is_v6, true, true, &set.name)));
    }
    let defaults: Vec<&AddressSet> = sets.iter().filter(|set| set.name == name("here", set.is_v6)).collect();
    if !defaults.is_empty() {
        // Behind the inside port there may be more networks than are known here.
        rules.extend(networks.iter().map(|inside| accept(&inside.name)));
    }
    for AddressSet { name: here, is_v6, .. } in defaults {
        let far = look_up(*is_v6, true, false, &name("near", *is_v6));
        rules.push(jump(*is_v6, [look_up(*is_v6, false, true, here), far].concat()));
    }
    rules
}

fn of_family(is_v6: bool) -> Vec<Expression> {
    let family = if is_v6 { libc::NFPROTO_IPV6 } else { libc::NFPROTO_IPV4 };
    vec![Expression::Meta(Meta::Family), Expression::Equal(vec![family as u8])]
}

fn of_protocol(protocol: u8) -> [Expression; 2] {
    [Expression::Meta(Meta::Protocol), Expression::Equal(vec![protocol])]
}

/// ESP, AH and IKE for this host: a peer that moved may have an address in any network.
fn protected_packets(udp_ports: &[u16]) -> Vec<Vec<Expression>> {
    let accept = || vec![Expression::Verdict(GuardVerdict::Accept)];
    let native = [libc::IPPROTO_ESP, libc::IPPROTO_AH].into_iter();
    let native = native.map(|protocol| [of_protocol(protocol as u8).to_vec(), accept()].concat());
    let in_udp = udp_ports.iter().map(|port| {
        let to_port =
            vec![Expression::Transport { offset: 2, len: 2 }, Expression::Equal(port.to_be_bytes().to_vec())];
        [of_protocol(libc::IPPROTO_UDP as u8).to_vec(), to_port, accept()].concat()
    });
    native.chain(in_udp).collect()
}

fn marked(mark: u32) -> Vec<Expression> {
    let value = mark.to_ne_bytes().to_vec();
    vec![Expression::Meta(Meta::Mark), Expression::Equal(value), Expression::Verdict(GuardVerdict::Accept)]
}

/// Accepts a bypass; `None` if no packet can match.
fn bypassing(flow: &GuardedFlow, direction: ChainDirection) -> Option<Vec<Expression>> {
    let accept = vec![Expression::Verdict(GuardVerdict::Accept)];
    Some([of_flow(flow, direction)?, accept].concat())
}

/// Continues with packets of a flow; `None` if no packet can match: two families, or two protocols.
fn of_flow(
    GuardedFlow { local, remote }: &GuardedFlow,
    direction: ChainDirection,
) -> Option<Vec<Expression>> {
    let is_v6 = local.first.is_ipv6();
    let protocol = local.protocol.or(remote.protocol);
    let is_one = [local, remote].iter().all(|side| side.protocol.is_none_or(|own| Some(own) == protocol));
    if remote.first.is_ipv6() != is_v6 || !is_one {
        return None;
    }
    let mut rule = of_family(is_v6);
    for (side, is_remote) in [(local, false), (remote, true)] {
        rule.push(direction.address(is_v6, is_remote));
        rule.push(Expression::Between { first: octets(side.first), last: octets(side.last) });
    }
    rule.extend(protocol.into_iter().flat_map(of_protocol));
    for (side, is_remote) in [(local, false), (remote, true)] {
        rule.extend(side_s_ports(side, protocol, (direction == ChainDirection::Inbound) == is_remote));
    }
    Some(rule)
}

/// For ICMP the ports are type and code, which both sides share.
fn side_s_ports(side: &FlowSide, protocol: Option<u8>, is_source: bool) -> Vec<Expression> {
    let Some((first, last)) = side.ports else { return Vec::new() };
    let is_icmp = [libc::IPPROTO_ICMP, libc::IPPROTO_ICMPV6].map(|icmp| Some(icmp as u8)).contains(&protocol);
    let offset = if is_source || is_icmp { 0 } else { 2 };
    let [first, last] = [first, last].map(|port| port.to_be_bytes().to_vec());
    vec![Expression::Transport { offset, len: 2 }, Expression::Between { first, last }]
}

pub(super) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
