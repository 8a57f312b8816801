//! The outer addresses of tunnels: ours, and the peer's by address or name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_port::PortTraits;
use convoy_settings::{Checker, Text};

use super::{PortConfig, TunnelConfig, file};

/// The peer's end as the file has it.
pub(super) enum PeerEnd {
    Address(IpAddr),
    /// A name, whose address is known only to a running gateway.
    Name(String),
}

impl PeerEnd {
    /// The address, and the name.
    pub(super) fn parts(self, unknown: IpAddr) -> (IpAddr, Option<String>) {
        match self {
            Self::Address(address) => (address, None),
            Self::Name(name) => (unknown, Some(name)),
        }
    }
}

/// The unspecified address of the family of another.
pub(super) fn unspecified_like(address: IpAddr) -> IpAddr {
    if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// Our address.
pub(super) fn local(c: &mut Checker<'_>, text: &Text) -> Option<IpAddr> {
    let address = c.address(text, "tunnel.local")?;
    c.not_link_local(text, address, "tunnel.local");
    Some(address)
}

/// The peer's address, of the family of ours, or its name.
pub(super) fn remote(c: &mut Checker<'_>, text: &Text, local: Option<IpAddr>) -> Option<PeerEnd> {
    let (name, key) = (text.get_ref(), "tunnel.remote");
    if let Ok(remote) = name.parse::<IpAddr>() {
        c.not_link_local(text, remote, key);
        if let Some(local) = local.filter(|local| local.is_ipv4() != remote.is_ipv4()) {
            c.add(&text.span(), key, format!("it is not of the same address family as local = {local}"));
        }
        return Some(PeerEnd::Address(remote));
    }
    if !is_host_name(name) {
        let what = format!(
            "{name:?} is neither an IP address nor a name such as 192.0.2.2, 2001:db8::2 or gateway.example.org"
        );
        c.add(&text.span(), key, what);
        return None;
    }
    Some(PeerEnd::Name(name.clone()))
}

/// A host name (RFC 1123 section 2.1): labels of letters, digits and hyphens, the last of which is
/// no number, so that a mistyped IPv4 address is not one.
pub fn is_host_name(text: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    let name = text.strip_suffix('.').unwrap_or(text);
    let last = name.rsplit('.').next().unwrap_or(name);
    name.len() <= 253 && name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Packets leave by the socket of their source address.
pub(super) fn local_address_fits(
    c: &mut Checker<'_>,
    text: &Text,
    local: IpAddr,
    is_encapsulated: bool,
    ports: &[PortConfig],
) {
    if let Some(what) = not_from(local, is_encapsulated, ports) {
        c.add(&text.span(), "tunnel.local", what);
    } else if carrier(is_encapsulated, ports).is_some_and(|port| has_any(port, local)) {
        c.address_is_there(text, local, "tunnel.local");
    }
}

/// Warns of a private address at one end of a tunnel with static keys alone: a NAT is between them,
/// unless a private network joins them.
pub(super) fn no_nat_is_in_the_way(
    c: &mut Checker<'_>,
    file: &file::Tunnel,
    local: IpAddr,
    remote: IpAddr,
    is_native: bool,
) {
    let (text, key, what) = match (is_private(local), is_private(remote)) {
        (true, false) if is_native => (
            file.local.as_ref(),
            "tunnel.local",
            format!(
                "{local} is a private address and remote = {remote} is not, so a NAT is probably between them, which \
                 native ESP seldom passes; write encap = \"udp\" at both ends, and roaming = true at the other"
            ),
        ),
        (false, true) => (
            file.remote.as_ref(),
            "tunnel.remote",
            format!(
                "{remote} is a private address and local = {local} is not, so the peer is probably behind a NAT, and \
                 only the NAT's address can be reached; write that, and roaming = true, which has answers follow"
            ),
        ),
        _ => return,
    };
    if let Some(text) = text {
        c.warn(&text.span(), key, what);
    }
}

/// Whether an address is not routed in the Internet: those of RFC 1918, and those that carriers
/// translate (RFC 6598).
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_private() || (address.octets()[0] == 100 && address.octets()[1] & 0xc0 == 64)
        }
        IpAddr::V6(address) => address.is_unique_local(),
    }
}

/// The outside port that carries traffic in UDP, or other traffic.
fn carrier(is_encapsulated: bool, ports: &[PortConfig]) -> Option<&PortConfig> {
    ports.iter().find(|port| {
        let traits = port.traits();
        let fits = if is_encapsulated { traits.carries_udp } else { traits.carries_native };
        port.is_outside && fits
    })
}

/// Whether a port has the unspecified address of this family, and so all addresses of the machine.
fn has_any(port: &PortConfig, local: IpAddr) -> bool {
    port.addresses.iter().any(|(address, _)| address.is_unspecified() && address.is_ipv4() == local.is_ipv4())
}

/// Why these ports cannot serve a tunnel, if they cannot: for a reload, which leaves the ports as
/// they are.
pub fn unserved(tunnel: &TunnelConfig, ports: &[PortConfig]) -> Option<String> {
    if let Some(what) = not_carried(tunnel.is_encapsulated, ports) {
        return Some(format!("encap: {what}"));
    }
    // A key daemon's choice of an address is not known yet.
    let local = Some(tunnel.local).filter(|local| !local.is_unspecified())?;
    let what = not_from(local, tunnel.is_encapsulated, ports)?;
    Some(format!("local: {what}"))
}

/// Why no port carries traffic in UDP, or other traffic.
pub fn not_carried(is_encapsulated: bool, ports: &[PortConfig]) -> Option<&'static str> {
    let mut outside = ports.iter().filter(|port| port.is_outside).map(PortConfig::traits).peekable();
    outside.peek()?;
    let carries = |port: &PortTraits| if is_encapsulated { port.carries_udp } else { port.carries_native };
    if outside.any(carries) {
        return None;
    }
    Some(if is_encapsulated {
        "ESP in UDP needs an outside port of kind \"udp\", \"af_packet\" or \"af_xdp\", and there is none"
    } else {
        "native ESP and AH need an outside port of kind \"raw\", \"af_packet\" or \"af_xdp\", and there is none"
    })
}

/// Why packets cannot leave from this address by the outside port that carries them.
fn not_from(local: IpAddr, is_encapsulated: bool, ports: &[PortConfig]) -> Option<String> {
    let port = carrier(is_encapsulated, ports)?;
    let has_it = has_any(port, local) || port.addresses.iter().any(|(address, _)| *address == local);
    if !port.addresses.is_empty() && !has_it {
        let known: Vec<String> = port.addresses.iter().map(|(address, _)| address.to_string()).collect();
        Some(format!("port {:?} has no address {local}; it has {}", port.name, known.join(", ")))
    } else {
        None
    }
}

/// Warns of a tunnel whose remote selectors contain the peer itself, unless they contain
/// everything. Sealed packets find their way by the gateway's mark; the peer's address is still
/// left out of the routes into the tunnel, as the reverse path filter requires.
pub(super) fn peer_is_not_inside(c: &mut Checker<'_>, list: &[Text], tunnel: &TunnelConfig) {
    if tunnel.mode == convoy_ipsec::Mode::Transport || tunnel.remote.is_unspecified() {
        return;
    }
    for (text, selector) in list.iter().zip(&tunnel.remote_ts) {
        let is_all = selector.addresses.as_prefix().is_some_and(|(_, bits)| bits == 0);
        if !is_all && selector.addresses.contains(tunnel.remote) {
            let what = format!(
                "it contains the peer's own address {}: packets that this host sends to the peer itself (ssh, \
                 ping) are not encrypted; list only the networks behind the peer",
                tunnel.remote
            );
            c.warn(&text.span(), "tunnel.remote_ts", what);
        }
    }
}
