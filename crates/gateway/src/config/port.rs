//! `[[port]]`.

use std::net::{IpAddr, Ipv4Addr};

use convoy_packet::MacAddress;
use convoy_port::PortKind;

use super::checker::Checker;
use super::file::{self, Text};
use super::{EngineConfig, NAT_PORT, PortConfig};

pub(super) fn port(c: &mut Checker<'_>, file: &file::Port) -> Option<PortConfig> {
    let kinds = [
        ("tun", PortKind::Tun),
        ("udp", PortKind::Udp),
        ("raw", PortKind::Raw),
        ("pcap", PortKind::Pcap),
        ("card", PortKind::Card),
    ];
    let kind = c.one_of(Some(&file.kind), "port.kind", &kinds);
    let by_kind = match kind {
        PortKind::Tun => Some(false),
        PortKind::Udp | PortKind::Raw | PortKind::Card => Some(true),
        PortKind::Pcap | PortKind::Memory => match file.name.get_ref().as_str() {
            "inside" => Some(false),
            "outside" => Some(true),
            _ => None,
        },
    };
    let side = file
        .side
        .as_ref()
        .map(|text| c.one_of(Some(text), "port.side", &[("inside", false), ("outside", true)]));
    let Some(is_outside) = side.or(by_kind) else {
        let what = "is it plaintext or protected? Add side = \"inside\" or side = \"outside\"";
        c.add(&file.name.span(), "port.side", what);
        return None;
    };
    settings_fit(c, file, kind);
    let mut addresses = Vec::new();
    for text in &file.address {
        let Some(address) = address_with_prefix(c, text) else { continue };
        if kind == PortKind::Raw && address.0.is_unspecified() {
            let what = "name the address itself; only a port of kind \"udp\" takes every address";
            c.add(&text.span(), "port.address", what);
        }
        if kind == PortKind::Card && (address.0.is_ipv6() || address.0.is_unspecified()) {
            c.add(&text.span(), "port.address", "a card has IPv4 addresses of its own, such as 192.0.2.1/24");
        }
        addresses.push(address);
    }
    let udp_port = file.udp_port.as_ref();
    let path = |text: &Option<Text>| text.as_ref().map(|text| text.get_ref().into());
    Some(PortConfig {
        name: file.name.get_ref().clone(),
        kind,
        is_outside,
        device: file.device.as_ref().map(|text| text.get_ref().clone()),
        addresses,
        udp_port: c.in_range(udp_port, "port.udp_port", NAT_PORT, (1, u16::MAX)),
        interface: file.interface.as_ref().map(|text| text.get_ref().clone()),
        gateway: file.gateway.as_ref().and_then(|text| gateway(c, text)),
        mac: file.mac.as_ref().and_then(|text| mac(c, text)),
        files: (path(&file.read), path(&file.write)),
    })
}

/// Whether a port of this kind has what it needs, and nothing that it would ignore.
fn settings_fit(c: &mut Checker<'_>, file: &file::Port, kind: PortKind) {
    let is = |wanted| kind == wanted;
    c.only(file.device.as_ref(), is(PortKind::Tun), "port.device", "it is for kind = \"tun\"");
    c.only(file.udp_port.as_ref(), is(PortKind::Udp), "port.udp_port", "it is for kind = \"udp\"");
    c.only(file.read.as_ref(), is(PortKind::Pcap), "port.read", "it is for kind = \"pcap\"");
    c.only(file.write.as_ref(), is(PortKind::Pcap), "port.write", "it is for kind = \"pcap\"");
    let card =
        [(&file.interface, "port.interface"), (&file.gateway, "port.gateway"), (&file.mac, "port.mac")];
    for (text, key) in card {
        c.only(text.as_ref(), is(PortKind::Card), key, "it is for kind = \"card\"");
    }
    let missing = match kind {
        PortKind::Tun if file.device.is_none() => "a tun port needs device = \"convoy0\"",
        PortKind::Udp | PortKind::Raw if file.address.is_empty() => {
            "this kind of port needs address = [\"192.0.2.1\"], the tunnels' local address"
        }
        PortKind::Card if file.address.is_empty() || file.interface.is_none() => {
            "a card port needs interface = \"eth1\", its line, and address = [\"192.0.2.1/24\"]"
        }
        PortKind::Pcap if file.read.is_none() && file.write.is_none() => {
            "a pcap port needs read = \"A.pcap\", write = \"B.pcap\", or both"
        }
        _ => return,
    };
    c.add(&file.kind.span(), "port.kind", missing);
}

/// Whether the ports are enough for a gateway: one inside, and outside at most one of a kind. No ports at all are good
/// for `replay`.
pub(super) fn ports_fit(c: &mut Checker<'_>, file: &[file::Port], ports: &[PortConfig]) {
    let Some(last) = file.last() else { return };
    let inside = ports.iter().filter(|port| !port.is_outside).count();
    let mut add = |what: &str| c.add(&last.name.span(), "port", what);
    if inside == 0 {
        add("there is no port inside; add one with kind = \"tun\"");
    } else if inside > 1 {
        add("there are several ports inside; a gateway has one, which may have several addresses");
    }
    if inside == ports.len() {
        add("there is no port outside; add one with kind = \"udp\" or \"raw\"");
    }
    if ports.len() - inside > 1 && ports.iter().any(|port| port.is_outside && port.kind == PortKind::Card) {
        add("a card port is the only one outside: it carries ESP in UDP and right on IP");
    }
    for kind in [PortKind::Udp, PortKind::Raw] {
        if ports.iter().filter(|port| port.is_outside && port.kind == kind).count() > 1 {
            add(&format!("there are several ports of kind {kind}; one may have several addresses"));
        }
    }
}

/// A card port is an engine as well, under its own name.
pub(super) fn names_are_no_engine_s(c: &mut Checker<'_>, ports: &[file::Port], engines: &[EngineConfig]) {
    for port in ports.iter().filter(|port| port.kind.get_ref() == "card") {
        let name = port.name.get_ref();
        if engines.iter().any(|engine| engine.name == *name) {
            let what =
                format!("{name:?} is an engine's name too, and a card port is an engine; names must differ");
            c.add(&port.name.span(), "port.name", what);
        }
    }
}

/// Only the kernel's ports have a queue for each worker.
pub(super) fn others_have_one_queue(c: &mut Checker<'_>, file: &file::File, workers: u16) {
    let is_other = |port: &&file::Port| matches!(port.kind.get_ref().as_str(), "pcap" | "card");
    if let (Some(port), true) = (file.port.iter().find(is_other), workers > 1) {
        c.add(&port.kind.span(), "port.kind", "it has one queue; take it with workers = 1");
    }
}

fn gateway(c: &mut Checker<'_>, text: &Text) -> Option<Ipv4Addr> {
    let parsed = text.get_ref().parse().ok();
    if parsed.is_none() {
        let what = format!("{:?} is no IPv4 address, such as 192.0.2.254", text.get_ref());
        c.add(&text.span(), "port.gateway", what);
    }
    parsed
}

/// An Ethernet address of one station: the first byte's lowest bit is for groups.
fn mac(c: &mut Checker<'_>, text: &Text) -> Option<MacAddress> {
    let parsed = text.get_ref().parse::<MacAddress>().ok();
    let parsed = parsed.filter(|mac| !mac.is_multicast() && *mac != MacAddress([0; 6]));
    if parsed.is_none() {
        let what = format!("{:?} is no station's address, such as 02:00:5e:10:00:01", text.get_ref());
        c.add(&text.span(), "port.mac", what);
    }
    parsed
}

fn address_with_prefix(c: &mut Checker<'_>, text: &Text) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.get_ref().split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (text.get_ref().as_str(), None),
    };
    let parsed = address.parse::<IpAddr>().ok().and_then(|address| {
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok()).filter(|bits| *bits <= most)?;
        Some((address, bits))
    });
    if parsed.is_none() {
        let what = format!("{:?} is no address, such as 10.1.0.1/24 or 2001:db8::1/64", text.get_ref());
        c.add(&text.span(), "port.address", what);
    }
    parsed
}
