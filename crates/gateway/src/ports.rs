//! From a configuration to open ports, a queue for each worker.

use std::net::IpAddr;

use convoy_engine::Engine;
use convoy_port::{Pcap, Port, PortError, PortKind, Raw, Route, Tun, TunConfig, Udp, UdpConfig};
use convoy_scheduler::CostModel;

use crate::charon::IKE_PORT;
use crate::config::{Config, PortConfig};
use crate::inner_mtu::inner_mtu;

/// One worker's queues of all ports of a side, in the order of the configuration.
type Queues = Vec<Box<dyn Port>>;

/// What stands for the device of a port among the engines, and what it costs.
type PortEngine = (Box<dyn Engine>, CostModel);

/// The ports of a gateway.
pub(crate) struct Opened {
    /// For each worker its queues inside and outside.
    pub(crate) queues: Vec<[Queues; 2]>,
    /// For the one worker that such ports have.
    pub(crate) engines: Vec<PortEngine>,
}

/// Opens all ports.
///
/// # Errors
/// [`PortError`] names the port and what the system refused.
pub(crate) fn open_all(config: &Config) -> Result<Opened, PortError> {
    let workers = usize::from(config.workers);
    let mut all: Vec<[Queues; 2]> = (0..workers).map(|_| Default::default()).collect();
    let mut engines = Vec::new();
    for port in &config.ports {
        let queues = open(port, config, &mut engines)?;
        if queues.len() != workers {
            let reason = format!("it has {} queues for {workers} workers", queues.len());
            return Err(PortError::Invalid { port: port.name.clone(), reason });
        }
        for (sides, queue) in all.iter_mut().zip(queues) {
            sides[usize::from(port.is_outside)].push(queue);
        }
    }
    for (side, name) in ["inside", "outside"].into_iter().enumerate() {
        if all.iter().any(|sides| sides[side].is_empty()) {
            let reason = "there is none; a gateway needs a [[port]] on each side".to_owned();
            return Err(PortError::Invalid { port: name.to_owned(), reason });
        }
    }
    Ok(Opened { queues: all, engines })
}

fn boxed<P: Port + 'static>(queues: Vec<P>) -> Queues {
    queues.into_iter().map(|queue| Box::new(queue) as Box<dyn Port>).collect()
}

fn open(port: &PortConfig, config: &Config, engines: &mut Vec<PortEngine>) -> Result<Queues, PortError> {
    let invalid = |reason: &str| PortError::Invalid { port: port.name.clone(), reason: reason.to_owned() };
    let addresses = || port.addresses.iter().map(|(address, _)| *address).collect::<Vec<IpAddr>>();
    let queues = usize::from(config.workers);
    match port.kind {
        PortKind::Tun => {
            let device = port.device.as_deref().ok_or_else(|| invalid("add device = \"convoy0\""))?;
            Tun::open(&TunConfig {
                name: port.name.clone(),
                device: device.to_owned(),
                addresses: port.addresses.clone(),
                mtu: inner_mtu(config).bytes,
                routes: routes(config),
                queues,
            })
            .map(boxed)
        }
        PortKind::Udp => Udp::bind(&UdpConfig {
            name: port.name.clone(),
            addresses: addresses(),
            ports: std::iter::once(port.udp_port).chain(config.charon.as_ref().map(|_| IKE_PORT)).collect(),
            mtu: config.mtu,
            queues,
            offloads: true,
        })
        .map(boxed),
        PortKind::Pcap => {
            let (read, write) = &port.files;
            let mut pcap = Pcap::open(&port.name, read.as_deref(), write.as_deref())?;
            if port.is_outside {
                pcap = pcap.completing_udp_checksums();
            }
            Ok(boxed(vec![pcap]))
        }
        PortKind::Raw => Raw::bind(&port.name, &addresses(), config.mtu.into(), queues).map(boxed),
        PortKind::Card => open_card(port, config, engines),
        PortKind::Memory => Err(invalid("memory ports are for tests; use tun and udp")),
    }
}

#[cfg(feature = "card")]
fn open_card(port: &PortConfig, config: &Config, engines: &mut Vec<PortEngine>) -> Result<Queues, PortError> {
    let addresses = port.addresses.iter().filter_map(|(address, bits)| match address {
        IpAddr::V4(address) => Some((*address, *bits)),
        IpAddr::V6(_) => None,
    });
    let opened = convoy_port::CardPort::open(&convoy_port::CardConfig {
        name: port.name.clone(),
        interface: port.interface.clone().unwrap_or_default(),
        mac: port.mac,
        addresses: addresses.collect(),
        gateway: port.gateway,
        mtu: config.mtu.into(),
    })?;
    let (t_init, t_block) = convoy_engine::CardInFlight::cost_ns();
    let engine = convoy_engine::CardInFlight::new(&port.name, opened.control());
    engines.push((Box::new(engine), CostModel { t_init, t_block }));
    Ok(boxed(vec![opened]))
}

#[cfg(not(feature = "card"))]
fn open_card(port: &PortConfig, _: &Config, _: &mut Vec<PortEngine>) -> Result<Queues, PortError> {
    let reason = "this program was built without the card; build it with --features card (docs/card.md)";
    Err(PortError::Invalid { port: port.name.clone(), reason: reason.to_owned() })
}

/// What is behind the tunnels' peers, but for what the interface's own addresses already cover.
pub(crate) fn routes(config: &Config) -> Vec<Route> {
    let own = || config.ports.iter().filter(|port| !port.is_outside).flat_map(|port| &port.addresses);
    let mut routes: Vec<Route> = Vec::new();
    for tunnel in config.tunnels.iter().filter(|tunnel| tunnel.mode == convoy_ipsec::Mode::Tunnel) {
        let prefixes = tunnel.remote_ts.iter().filter_map(|selector| selector.addresses.as_prefix());
        for (prefix, bits) in prefixes.filter(|prefix| !own().any(|address| address == prefix)) {
            let is_local = |address: &IpAddr| {
                address.is_ipv4() == prefix.is_ipv4()
                    && tunnel.local_ts.iter().any(|selector| selector.addresses.contains(*address))
            };
            let source = own().map(|(address, _)| *address).find(is_local);
            if !routes.iter().any(|known| (known.prefix, known.bits) == (prefix, bits)) {
                routes.push(Route { prefix, bits, source });
            }
        }
    }
    routes
}

/// A route in the words of ip(8).
pub(crate) fn command(route: &Route) -> String {
    let source = route.source.map_or_else(String::new, |source| format!(" src {source}"));
    format!("{}/{}{source}", route.prefix, route.bits)
}

/// The device of the inside port, if it is one of the kernel's.
pub(crate) fn inside_device(config: &Config) -> Option<&str> {
    config.ports.iter().filter(|port| !port.is_outside).find_map(|port| port.device.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let words: Vec<String> = routes(&config).iter().map(command).collect();
        assert_eq!(words, ["10.2.0.0/24 src 10.1.0.1", "10.2.1.0/24 src 10.1.1.1"]);
    }
}
