//! From a configuration to open ports, a queue for each worker.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use convoy_config::PortEngine;
use convoy_config::inner_mtu::{inner_mtu, interface_mtu};
use convoy_config::{Config, PortConfig, TunnelConfig, counted};
use convoy_ipsec::TunnelId;
use convoy_kernel::RoutePlan;
use convoy_port::{IKE_PORT, Opened, Port, PortContext, PortError};

use crate::guard;
use crate::networks::{here, named, networks, routes};
use crate::port_watch::WatchedPort;

/// One worker's queues of all ports of a side, in the order of the configuration.
type WorkerQueues = Vec<Box<dyn Port>>;

/// The ports of a gateway.
pub struct OpenPorts {
    /// For each worker its queues inside and outside.
    pub queues: Vec<[WorkerQueues; 2]>,
    /// The engines of ports, which have a single worker.
    pub engines: Vec<PortEngine>,
    /// What the ports need of the kernel.
    pub watched: Vec<WatchedPort>,
}

/// Opens all ports.
///
/// # Errors
/// [`PortError`] names the port and what the system refused.
pub fn open_all(config: &Config) -> Result<OpenPorts, PortError> {
    let workers = usize::from(config.workers);
    let mut all: Vec<[WorkerQueues; 2]> = (0..workers).map(|_| Default::default()).collect();
    let (mut engines, mut watched) = (Vec::new(), Vec::new());
    // Outside first: if an address is in use, no interface is created.
    let (outside, inside): (Vec<_>, Vec<_>) = config.ports.iter().partition(|port| port.is_outside);
    for port in outside.into_iter().chain(inside) {
        let Opened { queues, device, note, reopening } = port.open(&context(port, config))?;
        watched.push(WatchedPort { name: port.name.clone(), addresses: needed(config, port), reopening });
        if let Some(note) = note {
            tracing::info!("port {}: {note}", port.name);
        }
        engines.extend(device.map(|device| (config.kinds.port_engine)(&port.name, device)));
        if queues.len() != workers {
            let reason =
                format!("it has {} for {}", counted(queues.len(), "queue"), counted(workers, "worker"));
            return Err(PortError::Invalid { port: port.name.clone(), reason });
        }
        for (sides, queue) in all.iter_mut().zip(queues) {
            sides[usize::from(port.is_outside)].push(queue);
        }
    }
    for interface in &config.interfaces {
        let inner_mtu = interface_mtu(config, interface).bytes;
        let port = interface.port(reader(config, &interface.name).map(usize::from));
        let Opened { queues, reopening, .. } =
            port.open(&PortContext { inner_mtu, ..context(&port, config) })?;
        watched.push(WatchedPort { name: port.name, addresses: Vec::new(), reopening });
        for (sides, queue) in all.iter_mut().zip(queues) {
            sides[0].push(queue);
        }
    }
    for (side, name) in ["inside", "outside"].into_iter().enumerate() {
        if all.iter().any(|sides| sides[side].is_empty()) {
            let reason = "there is none; a gateway needs a [[port]] on each side".to_owned();
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
    }
    Ok(OpenPorts { queues: all, engines, watched })
}

/// The addresses that this host must have for a port. Those of a cluster come and go with its lead.
fn needed(config: &Config, port: &PortConfig) -> Vec<IpAddr> {
    if !port.is_outside || !port.traits().uses_kernel_routes {
        return Vec::new();
    }
    let is_service = |address: &IpAddr| {
        let mut all = config.cluster.iter().flat_map(|cluster| cluster.addresses());
        all.any(|service| service.address == *address)
    };
    named(port.addresses.iter().map(|(address, _)| *address).filter(|address| !is_service(address)))
}

/// The gateway's settings for a port.
fn context(port: &PortConfig, config: &Config) -> PortContext {
    PortContext {
        workers: usize::from(config.workers),
        has_own_ports: config.has_own_ports(),
        mtu: config.mtu,
        inner_mtu: inner_mtu(config).bytes,
        ike_port: config.charon.as_ref().filter(|_| has_ike(config, port)).map(|_| IKE_PORT),
        reports: reports(config, port),
        networks: networks(config),
        is_only_outside: config.ports.iter().filter(|port| port.is_outside).count() == 1,
        mark: mark(config),
    }
}

/// Whether IKE to a port's addresses is this port's. The kernel gives a datagram to one socket, so
/// of several ports with an address in common it is that of kind `udp`, otherwise the first.
fn has_ike(config: &Config, port: &PortConfig) -> bool {
    let of_all = |address: IpAddr| if address.is_ipv4() { IpAddr::from([0; 4]) } else { [0; 16].into() };
    let has = |other: &PortConfig, address: IpAddr| {
        other.addresses.iter().any(|(it, _)| *it == address || *it == of_all(address))
    };
    let shares = |other: &&PortConfig| port.addresses.iter().any(|(address, _)| has(other, *address));
    let carries = |other: &&PortConfig| other.is_outside && other.traits().carries_ike;
    let first =
        config.ports.iter().filter(carries).filter(shares).min_by_key(|it| !it.traits().has_ike_socket);
    first.is_some_and(|first| first.name == port.name)
}

/// The worker that reads an interface: that of its first tunnel, whose packets then need not be
/// handed over. `None` is all workers, where a tunnel has SAs of several.
fn reader(config: &Config, name: &str) -> Option<u16> {
    let is_there = |tunnel: &TunnelConfig| tunnel.interface.as_deref() == Some(name);
    if config.tunnels.iter().any(|tunnel| is_there(tunnel) && tunnel.manual.len() > 1) {
        return None;
    }
    // Numbers of charon's tunnels are given later.
    let has_number = |tunnel: &TunnelConfig| is_there(tunnel) && tunnel.has_static_keys();
    let of_tunnel = config.tunnels.iter().position(has_number);
    let number = of_tunnel.or_else(|| config.interfaces.iter().position(|interface| interface.name == name));
    Some(TunnelId(number.unwrap_or_default() as u32).owner(config.workers))
}

/// The inside interfaces of a worker's inside ports, in their order.
pub fn inside_interfaces(config: &Config) -> Vec<u16> {
    let shared = config.ports.iter().filter(|port| !port.is_outside).map(|_| 0);
    shared.chain((1..).take(config.interfaces.len())).collect()
}

/// The addresses of a port at which it receives ICMP about paths. The kernel gives a message to
/// every raw socket that listens there, so only one of several ports does: the first that has all
/// addresses of the family, otherwise the first with that address.
fn reports(config: &Config, port: &PortConfig) -> Vec<IpAddr> {
    let hears = |port: &&PortConfig| port.traits().hears_reports && port.is_outside;
    if !hears(&port) {
        return Vec::new();
    }
    let has =
        |address: IpAddr| move |port: &&PortConfig| port.addresses.iter().any(|(other, _)| *other == address);
    let first = |address: IpAddr| config.ports.iter().filter(hears).find(has(address));
    let is_heard_here = |address: &IpAddr| {
        let all = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let is_part = *address != all && first(all).is_some();
        !is_part && first(*address).is_some_and(|first| first.name == port.name)
    };
    port.addresses.iter().map(|(address, _)| *address).filter(is_heard_here).collect()
}

/// The running ports with the settings of `new` that they take over without a restart.
pub fn reloaded(running: &[PortConfig], new: &[PortConfig]) -> Vec<PortConfig> {
    let with_new = |port: &PortConfig| {
        let settings =
            new.iter().find(|it| it.name == port.name).map(|it| port.settings.reloaded(&it.settings));
        PortConfig { settings: settings.unwrap_or_else(|| port.settings.clone()), ..port.clone() }
    };
    running.iter().map(with_new).collect()
}

/// The mark of the gateway's own packets; without an inside interface nothing is routed or guarded,
/// and nothing need be distinguished.
fn mark(config: &Config) -> Option<u32> {
    guard::has_inside_interface(config).then_some(config.routing.mark)
}

/// What is routed into the tunnels; `None` without an interface inside.
pub fn route_plan(config: &Config) -> Option<RoutePlan> {
    let inside =
        config.ports.iter().find(|port| !port.is_outside && port.settings.routed_interface().is_some())?;
    let outside = config.ports.iter().filter(|port| port.is_outside).flat_map(|port| &port.addresses);
    let locals = config.tunnels.iter().map(|tunnel| tunnel.local);
    Some(RoutePlan {
        device: inside.settings.routed_interface()?.to_owned(),
        addresses: inside.addresses.clone(),
        virtual_ips: BTreeSet::new(),
        routing: config.routing,
        routes: routes(config),
        blocked: Vec::new(),
        here: here(config),
        outer: named(outside.map(|(address, _)| *address).chain(locals)),
        peers: named(config.tunnels.iter().map(|tunnel| tunnel.remote)),
        transport_mark: guard::transport_mark(config),
    })
}

/// The device of the inside port, if it is one of the kernel's.
pub fn inside_device(config: &Config) -> Option<&str> {
    config.ports.iter().filter(|port| !port.is_outside).find_map(|port| port.settings.routed_interface())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_alone_hears_what_icmp_says_of_an_address() {
        let heard = |[udp, raw]: [&str; 2]| {
            let port = |kind: &str, addresses: &str| {
                format!("[[port]]\nname = \"{kind}\"\nkind = \"{kind}\"\naddress = [{addresses}]\n")
            };
            let inside = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n";
            let text = [&port("udp", udp), &port("raw", raw), inside].concat();
            let config = Config::parse("test.toml", &text).expect("good");
            let words =
                |port| reports(&config, port).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
            [words(&config.ports[0]), words(&config.ports[1])]
        };
        let (one, both) = ("\"192.0.2.1\"", "\"192.0.2.1\", \"2001:db8::1\"");
        assert_eq!(heard([one, one]), ["192.0.2.1", ""]);
        assert_eq!(heard([one, both]), ["192.0.2.1", "2001:db8::1"]);
        assert_eq!(heard(["\"0.0.0.0\"", both]), ["0.0.0.0", "2001:db8::1"]);
    }

    #[test]
    fn ike_is_one_port_s_and_rather_a_udp_port_s() {
        let port = |kind: &str, address: &str| {
            let interface = if kind == "udp" { "" } else { "interface = \"eth1\"\n" };
            format!(
                "[[port]]\nname = \"{kind}\"\nkind = \"{kind}\"\nside = \"outside\"\n{interface}address = [\"{address}\"]\n"
            )
        };
        let having = |ports: &[(&str, &str)]| {
            let outside: String = ports.iter().map(|(kind, address)| port(kind, address)).collect();
            let inside = "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/32\"]\n";
            let text = ["[gateway]\ncharon = \"/run/charon.sock\"\n", &outside, inside].concat();
            let config = Config::parse("test.toml", &text).expect("good");
            let has = |port: &&PortConfig| context(port, &config).ike_port == Some(IKE_PORT);
            config.ports.iter().filter(has).map(|port| port.name.clone()).collect::<Vec<_>>()
        };
        let (here, there) = ("192.0.2.1", "192.0.2.9");
        assert_eq!(having(&[("af_packet", here)]), ["af_packet"]);
        assert_eq!(having(&[("af_packet", here), ("udp", here)]), ["udp"]);
        assert_eq!(having(&[("af_packet", here), ("udp", "0.0.0.0")]), ["udp"]);
        assert_eq!(having(&[("af_packet", here), ("udp", there)]), ["af_packet", "udp"]);
        assert_eq!(having(&[("af_packet", here), ("udp", "::")]), ["af_packet", "udp"]);
        assert_eq!(having(&[("af_xdp", here), ("af_packet", here)]), ["af_xdp"]);
    }

    #[test]
    fn a_tunnels_route_has_the_address_that_its_policy_selects_as_source() {
        let tunnel = |name: &str, local: &str, remote: &str| {
            format!(
                "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.2\"\n\
                 local_ts = [\"{local}\"]\nremote_ts = [\"{remote}\"]\nesp_proposal = \"aes128gcm16\"\n"
            )
        };
        let text = [
            "[[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\n",
            "address = [\"10.1.0.1/24\", \"10.1.1.1/24\"]\n",
            "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n",
            &tunnel("first", "10.1.0.0/24", "10.2.0.0/24"),
            &tunnel("second", "10.1.1.0/24", "10.2.1.0/24"),
            &tunnel("third", "10.9.0.0/24", "10.2.1.0/24"),
        ]
        .concat();
        let config = Config::parse("test.toml", &text).expect("good");
        let plan = route_plan(&config).expect("there is an interface inside");
        let words = |route: &convoy_kernel::Route| {
            let source = route.source.expect("an address inside is local to each");
            format!("{}/{} src {source}", route.prefix.address, route.prefix.bits)
        };
        let routes: Vec<String> = plan.routes.iter().map(words).collect();
        assert_eq!(routes, ["10.2.0.0/24 src 10.1.0.1", "10.2.1.0/24 src 10.1.1.1"]);
        assert_eq!(plan.here.len(), 3);
        assert_eq!((plan.outer.len(), plan.peers.len()), (1, 1));
    }

    #[test]
    fn a_charon_tunnels_route_has_the_inside_address_as_source() {
        let text = "[gateway]\ncharon = \"/run/charon.sock\"\n\
            [[port]]\nname = \"inside\"\nkind = \"tun\"\ndevice = \"convoy0\"\naddress = [\"10.1.0.1/24\"]\n\
            [[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n\
            [[tunnel]]\nname = \"site-b\"\nremote_ts = [\"10.2.0.0/24\"]\n";
        let config = Config::parse("test.toml", text).expect("good");
        let route = &route_plan(&config).expect("there is an interface inside").routes[0];
        assert_eq!((route.prefix.address.to_string(), route.prefix.bits), ("10.2.0.0".to_owned(), 24));
        assert_eq!(route.source, Some([10, 1, 0, 1].into()));
    }

    #[test]
    fn tunnels_with_interfaces_of_their_own_get_a_guard_and_no_routes() {
        let tunnel = |name: &str, number: u8, more: &str| {
            let key = |way: u8| format!("{:02x}", 2 * number + way).repeat(20);
            format!(
                "[[tunnel]]\nname = \"{name}\"\nlocal = \"192.0.2.1\"\nremote = \"192.0.2.{number}\"\n\
                 interface = \"ipsec-{name}\"\nesp_proposal = \"aes128gcm16\"\n{more}[tunnel.manual]\n\
                 spi_in = 0x100{number}\nspi_out = 0x200{number}\nkey_in = \"{}\"\nkey_out = \"{}\"\n",
                key(0),
                key(1)
            )
        };
        let text = [
            "[[port]]\nname = \"outside\"\nkind = \"udp\"\naddress = [\"192.0.2.1\"]\n",
            &tunnel("a", 2, ""),
            &tunnel("b", 3, "remote_ts = [\"10.2.0.0/16\"]\n"),
        ]
        .concat();
        let config = Config::parse("test.toml", &text).expect("good");
        assert_eq!(inside_interfaces(&config), [1, 2], "there is no shared one");
        assert!(crate::networks::networks(&config).is_empty());
        let plan = crate::guard::plan(&config, &[]).expect("a guard");
        let prefixes: Vec<String> =
            plan.remote.iter().map(|it| format!("{}/{}", it.address, it.bits)).collect();
        assert_eq!(prefixes, ["10.2.0.0/16"], "not what is everything");
        assert!(plan.inside.iter().all(|inside| inside.is_tunnels) && plan.inside.len() == 2);
    }
}
