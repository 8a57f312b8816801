//! `[[port]]`.

use std::net::{IpAddr, Ipv4Addr};

use convoy_packet::MacAddress;
use convoy_port::PortKind;
use ipnet::IpNet;
use toml::Spanned;

use super::checker::Checker;
use super::file::{self, Text};
use super::{EngineConfig, NAT_PORT, PortConfig};
use crate::charon::IKE_PORT;

const KINDS: [(&str, PortKind); 5] = [
    ("tun", PortKind::Tun),
    ("udp", PortKind::Udp),
    ("raw", PortKind::Raw),
    ("pcap", PortKind::Pcap),
    ("card", PortKind::Card),
];

pub(super) fn port(c: &mut Checker<'_>, file: &file::Port) -> Option<PortConfig> {
    let name = c.needed(&file.at, file.name.as_ref(), "port.name", "\"outside\"");
    let kind = c.needed(&file.at, file.kind.as_ref(), "port.kind", "\"udp\"");
    let kind = kind.and_then(|kind| c.one_of(Some(kind), "port.kind", &KINDS));
    let addresses: Vec<(&Text, IpNet)> = file
        .address
        .iter()
        .flat_map(Spanned::get_ref)
        .filter_map(|text| address_with_prefix(c, text).map(|address| (text, address)))
        .collect();
    let device = c.interface(file.device.as_ref(), "port.device");
    let interface = c.interface(file.interface.as_ref(), "port.interface");
    let gateway = file.gateway.as_ref().and_then(|text| gateway(c, text));
    let mac = file.mac.as_ref().and_then(|text| mac(c, text));
    let udp_port = c.in_range(file.udp_port.as_ref(), "port.udp_port", NAT_PORT, (1, u16::MAX));
    if let Some(text) = file.udp_port.as_ref().filter(|_| udp_port == IKE_PORT) {
        c.add(&text.span(), "port.udp_port", "port 500 is for IKE and must not carry ESP (RFC 3948)");
    }
    let (name, kind) = (name?, kind?);
    settings_fit(c, file, kind);
    addresses_fit(c, &addresses, kind);
    let is_outside = side(c, file, name, kind)?;
    let path = |text: &Option<Text>| text.as_ref().map(|text| text.get_ref().into());
    Some(PortConfig {
        name: name.get_ref().clone(),
        kind,
        is_outside,
        device,
        mtu: tun_mtu(c, file, &addresses),
        addresses: addresses.iter().map(|(_, address)| (address.addr(), address.prefix_len())).collect(),
        udp_port,
        interface,
        gateway,
        mac,
        files: (path(&file.read), path(&file.write)),
    })
}

/// Whether it is outside, by its kind, or where that may be either by its key or name.
fn side(c: &mut Checker<'_>, file: &file::Port, name: &Text, kind: PortKind) -> Option<bool> {
    if let Some(text) = &file.side {
        return c.one_of(Some(text), "port.side", &[("inside", false), ("outside", true)]);
    }
    match (kind, name.get_ref().as_str()) {
        (PortKind::Tun, _) | (PortKind::Pcap, "inside") => Some(false),
        (PortKind::Udp | PortKind::Raw | PortKind::Card, _) | (PortKind::Pcap, "outside") => Some(true),
        _ if file.at.unread.contains(&"side") => None,
        _ => {
            let what = "is it plaintext or protected? Add side = \"inside\" or side = \"outside\"";
            c.add(&name.span(), "port.side", what);
            None
        }
    }
}

/// Which addresses a port of this kind can have.
fn addresses_fit(c: &mut Checker<'_>, addresses: &[(&Text, IpNet)], kind: PortKind) {
    for (text, address) in addresses {
        let ip = address.addr();
        let what = match kind {
            PortKind::Udp | PortKind::Raw if text.get_ref().contains('/') => &format!(
                "write {ip} alone: packets leave with this address, and the prefix is the interface's"
            ),
            PortKind::Raw if ip.is_unspecified() => {
                "list the address itself; only a port of kind \"udp\" can use all addresses"
            }
            PortKind::Card if ip.is_ipv6() || ip.is_unspecified() => {
                "a card has IPv4 addresses of its own, such as 192.0.2.1/24"
            }
            _ => continue,
        };
        c.add(&text.span(), "port.address", what);
    }
}

/// Warns of an address inside whose prefix is also an interface's: the kernel then has two routes to it, and when the
/// interface's link goes down and up, the one to the gateway is left.
pub(super) fn prefixes_are_free(c: &mut Checker<'_>, file: &[file::Port]) {
    let tuns = file.iter().filter(|port| is(port, "tun"));
    let networks = c.surroundings().networks();
    for port in tuns {
        let device = port.device.as_ref().map(Spanned::get_ref);
        for text in port.address.iter().flat_map(Spanned::get_ref) {
            let Some(address) =
                parse_address(text.get_ref()).filter(|it| it.prefix_len() < it.max_prefix_len())
            else {
                continue;
            };
            let holds = |(name, other): &&(String, IpNet)| {
                Some(name) != device
                    && (address.contains(&other.network()) || other.contains(&address.network()))
            };
            if let Some((name, network)) = networks.iter().find(holds) {
                let what = format!(
                    "{address} gives the tunnels {}, which overlaps {} of interface {name}; write {}/{}",
                    address.trunc(),
                    network.trunc(),
                    address.addr(),
                    address.max_prefix_len()
                );
                c.warn(&text.span(), "port.address", what);
            }
        }
    }
}

/// Linux gives no IPv6 address to an interface whose MTU is less than IPv6's least (RFC 8200 section 5).
fn tun_mtu(c: &mut Checker<'_>, file: &file::Port, addresses: &[(&Text, IpNet)]) -> Option<u16> {
    let mtu = file.mtu.as_ref()?;
    let has_v6 = addresses.iter().any(|(_, address)| address.addr().is_ipv6());
    if has_v6 && (576..1280).contains(mtu.get_ref()) {
        let what =
            "an interface with an IPv6 address needs 1280 bytes at least; raise it, or remove that address";
        c.add(&mtu.span(), "port.mtu", what);
    }
    Some(c.in_range(Some(mtu), "port.mtu", 1280, (576, 9400)))
}

/// Whether a port of this kind has what it needs, and nothing that it would ignore.
fn settings_fit(c: &mut Checker<'_>, file: &file::Port, kind: PortKind) {
    let is = |wanted| kind == wanted;
    c.only(file.device.as_ref(), is(PortKind::Tun), "port.device", "it is only for kind = \"tun\"");
    c.only(
        file.mtu.as_ref(),
        is(PortKind::Tun),
        "port.mtu",
        "it is only for kind = \"tun\"; outside, mtu of [gateway] holds",
    );
    c.only(file.udp_port.as_ref(), is(PortKind::Udp), "port.udp_port", "it is only for kind = \"udp\"");
    c.only(file.read.as_ref(), is(PortKind::Pcap), "port.read", "it is only for kind = \"pcap\"");
    c.only(file.write.as_ref(), is(PortKind::Pcap), "port.write", "it is only for kind = \"pcap\"");
    let card =
        [(&file.interface, "port.interface"), (&file.gateway, "port.gateway"), (&file.mac, "port.mac")];
    for (text, key) in card {
        c.only(text.as_ref(), is(PortKind::Card), key, "it is only for kind = \"card\"");
    }
    let lacks = |key: &str, is_there: bool| !is_there && !file.at.unread.contains(&key);
    let lacks_address =
        lacks("address", file.address.as_ref().is_some_and(|list| !list.get_ref().is_empty()));
    let missing = match kind {
        PortKind::Tun if lacks("device", file.device.is_some()) => "a tun port needs device = \"convoy0\"",
        PortKind::Udp | PortKind::Raw if lacks_address => {
            "this kind of port needs address = [\"192.0.2.1\"], the tunnels' local address"
        }
        PortKind::Card if lacks_address || lacks("interface", file.interface.is_some()) => {
            "a card port needs interface = \"eth1\", its line, and address = [\"192.0.2.1/24\"]"
        }
        PortKind::Pcap if lacks("read", file.read.is_some()) && lacks("write", file.write.is_some()) => {
            "a pcap port needs read = \"A.pcap\", write = \"B.pcap\", or both"
        }
        _ => return,
    };
    let span = file.kind.as_ref().map_or_else(|| file.at.span.clone(), Spanned::span);
    c.add(&span, "port.kind", missing);
}

/// Whether the ports are enough for a gateway: one inside, and outside at most one of a kind. No ports at all are good
/// for `replay` and `sim plan`.
pub(super) fn ports_fit(c: &mut Checker<'_>, file: &[file::Port], ports: &[PortConfig]) {
    let Some(last) = file.last() else {
        let what = "there is no [[port]]: this is for `convoy replay` and `convoy sim plan` alone; `convoy run` needs \
                    one inside and one outside";
        return c.warn_whole(what);
    };
    let span = last.name.as_ref().map_or_else(|| last.at.span.clone(), Spanned::span);
    let inside = ports.iter().filter(|port| !port.is_outside).count();
    let mut add = |what: &str| c.add(&span, "port", what);
    if inside == 0 {
        add("there is no inside port; add one with kind = \"tun\"");
    } else if inside > 1 {
        add("there are several inside ports; a gateway has one, which can have several addresses");
    }
    if inside == ports.len() {
        add("there is no outside port; add one with kind = \"udp\" or \"raw\"");
    }
    if ports.len() - inside > 1 && ports.iter().any(|port| port.is_outside && port.kind == PortKind::Card) {
        add("a card port must be the only outside port; it carries both ESP in UDP and native ESP");
    }
    for kind in [PortKind::Udp, PortKind::Raw] {
        if ports.iter().filter(|port| port.is_outside && port.kind == kind).count() > 1 {
            add(&format!("there are several ports of kind {kind}; one may have several addresses"));
        }
    }
}

/// A card port is an engine as well, under its own name.
pub(super) fn names_are_no_engine_s(c: &mut Checker<'_>, ports: &[file::Port], engines: &[EngineConfig]) {
    for name in ports.iter().filter(|port| is(port, "card")).filter_map(|port| port.name.as_ref()) {
        if engines.iter().any(|engine| engine.name == *name.get_ref()) {
            let what = format!(
                "{:?} is an engine's name too, and a card port is an engine; names must differ",
                name.get_ref()
            );
            c.add(&name.span(), "port.name", what);
        }
    }
}

/// Only the kernel's ports have a queue for each worker.
pub(super) fn others_have_one_queue(c: &mut Checker<'_>, file: &file::File, workers: u16) {
    let other = file.port.iter().find(|port| is(port, "pcap") || is(port, "card"));
    if let Some(kind) = other.and_then(|port| port.kind.as_ref()).filter(|_| workers > 1) {
        c.add(&kind.span(), "port.kind", "it has one queue; set workers = 1");
    }
}

fn is(port: &file::Port, kind: &str) -> bool {
    port.kind.as_ref().is_some_and(|text| text.get_ref() == kind)
}

fn gateway(c: &mut Checker<'_>, text: &Text) -> Option<Ipv4Addr> {
    let parsed = text.get_ref().parse().ok();
    if parsed.is_none() {
        let what = format!("{:?} is not an IPv4 address such as 192.0.2.254", text.get_ref());
        c.add(&text.span(), "port.gateway", what);
    }
    parsed
}

/// An Ethernet address of one station: the first byte's lowest bit is for groups.
fn mac(c: &mut Checker<'_>, text: &Text) -> Option<MacAddress> {
    let parsed = text.get_ref().parse::<MacAddress>().ok();
    let parsed = parsed.filter(|mac| !mac.is_multicast() && *mac != MacAddress([0; 6]));
    if parsed.is_none() {
        let what = format!("{:?} is not a MAC address such as 02:00:5e:10:00:01", text.get_ref());
        c.add(&text.span(), "port.mac", what);
    }
    parsed
}

fn address_with_prefix(c: &mut Checker<'_>, text: &Text) -> Option<IpNet> {
    let parsed = parse_address(text.get_ref());
    if parsed.is_none() {
        let what = format!("{:?} is not an address such as 10.1.0.1/32 or 2001:db8::1/128", text.get_ref());
        c.add(&text.span(), "port.address", what);
    }
    parsed
}

/// An address with the length of its prefix; without one it is all of it.
fn parse_address(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}
