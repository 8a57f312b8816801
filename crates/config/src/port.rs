//! Constraints on the `[[port]]` of a gateway together.

use convoy_port::{PortConfig, PortEntry, PortSide, QueueCount, TunSettings};
use convoy_settings::{Checker, is_link_local, parse_prefix};
use ipnet::IpNet;
use toml::Spanned;

use super::EngineConfig;
use super::file::File;

/// Warns of an inside address whose prefix is also an interface's: the kernel then has two routes
/// to it, and when the interface's link goes down and up, only the one to the gateway is left.
pub(super) fn prefixes_are_free(c: &mut Checker<'_>, file: &[PortEntry]) {
    let tuns = file.iter().filter_map(|port| Some((&port.common, port.kind.as_ref()?.of::<TunSettings>()?)));
    let interfaces = c.interfaces().unwrap_or_default();
    let networks: Vec<(String, IpNet)> = interfaces
        .iter()
        .flat_map(|interface| interface.networks.iter().map(|network| (interface.name.clone(), *network)))
        .collect();
    for (port, keys) in tuns {
        let device = keys.device.as_ref().map(Spanned::get_ref);
        for text in port.address.iter().flat_map(Spanned::get_ref) {
            let Some(address) = parse_prefix(text.get_ref())
                .filter(|it| it.prefix_len() < it.max_prefix_len() && !is_link_local(it.addr()))
            else {
                continue;
            };
            let holds = |(name, other): &&(String, IpNet)| {
                Some(name) != device
                    && (address.contains(&other.network()) || other.contains(&address.network()))
            };
            if let Some((name, network)) = networks.iter().find(holds) {
                let what = format!(
                    "{address} assigns the network {} to this port, which overlaps {} of interface {name}; write {}/{}",
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

/// Whether the ports suffice for a gateway: one inside, or interfaces of the tunnels, and outside
/// at most one of a kind. A
/// configuration without ports is valid for `replay` and `sim plan`.
pub(super) fn ports_fit(c: &mut Checker<'_>, file: &File, ports: &[PortConfig]) {
    let Some(last) = file.port.last() else {
        let what = "there is no [[port]], so only `convoy replay` and `convoy-lab sim plan` can use this \
            file; `convoy run` needs one inside and one outside";
        return c.warn_whole(what);
    };
    let name = last.common.name.as_ref();
    let span = name.map_or_else(|| last.common.at.span.clone(), Spanned::span);
    let inside = ports.iter().filter(|port| !port.is_outside).count();
    let has_interfaces =
        !file.interface.is_empty() || file.tunnel.iter().any(|entry| entry.interface.is_some());
    let mut add = |what: &str| c.add(&span, "port", what);
    if inside == 0 && !has_interfaces {
        add("there is no inside port; add one with kind = \"tun\", or give the tunnels an interface");
    } else if inside > 1 {
        add("there are several inside ports; a gateway has one, which can have several addresses");
    }
    if let Some(other) =
        ports.iter().find(|port| !port.is_outside && !port.traits().is_interface).filter(|_| has_interfaces)
    {
        add(&format!(
            "with [[interface]], the inside port must be of kind \"tun\", but {:?} is not",
            other.name
        ));
    }
    if inside == ports.len() {
        add("there is no outside port; add one with kind = \"udp\" or \"raw\"");
    }
    let outside = || ports.iter().filter(|port| port.is_outside);
    let alone = outside().find_map(|port| Some((port.kind(), port.traits().why_alone?)));
    if let Some((kind, why)) = alone.filter(|_| outside().count() > 1) {
        add(&format!("a {kind} port must be the only outside port; {why}"));
    }
    let of_system = |port: &&PortConfig| port.traits().side == PortSide::Outside && !port.traits().is_engine;
    let kinds: Vec<_> = outside().filter(of_system).map(PortConfig::kind).collect();
    for (at, kind) in kinds.iter().enumerate() {
        if kinds[..at].iter().filter(|other| *other == kind).count() == 1 {
            add(&format!(
                "there are several ports of kind {kind}; use one port, which can have several addresses"
            ));
        }
    }
}

/// A port whose device is also an engine uses its own name for that.
pub(super) fn names_are_no_engine_s(c: &mut Checker<'_>, ports: &[PortEntry], engines: &[EngineConfig]) {
    let is_engine = |port: &&PortEntry| port.kind.as_ref().is_some_and(|keys| keys.traits().is_engine);
    for port in ports.iter().filter(is_engine) {
        let (Some(name), Some(kind)) = (&port.common.name, &port.word) else { continue };
        if engines.iter().any(|engine| engine.name == *name.get_ref()) {
            let what = format!(
                "{:?} is also the name of an engine, and a {} port is an engine as well; names must differ",
                name.get_ref(),
                kind.get_ref()
            );
            c.add(&name.span(), "port.name", what);
        }
    }
}

/// Not every kind of port has a queue for each worker.
pub(super) fn others_have_one_queue(c: &mut Checker<'_>, file: &[PortEntry], workers: u16) {
    let has_one =
        |port: &&PortEntry| port.kind.as_ref().is_some_and(|keys| keys.traits().queues == QueueCount::One);
    if let Some(port) = file.iter().find(has_one).filter(|_| workers > 1) {
        c.add(&port.span(), "port.kind", "it has one queue; set workers = 1");
    }
}
