//! The networks at both ends of the tunnels, as the configuration has them.

use std::collections::BTreeSet;
use std::net::IpAddr;

use convoy_config::{Config, TunnelConfig};
use convoy_ipsec::{AddressRange, TrafficSelector};
use convoy_kernel::{Prefix, Route};

/// The networks behind the tunnels, for which an inside port takes packets from the kernel.
pub fn networks(config: &Config) -> Vec<Prefix> {
    routes(config).into_iter().map(|route| route.prefix).collect()
}

/// All networks whose packets reach the gateway: those that are routed, and those of the inside
/// interface.
pub fn covered(config: &Config) -> Vec<Prefix> {
    networks(config).into_iter().chain(inside(config)).collect()
}

/// The networks of this side.
pub fn here(config: &Config) -> Vec<Prefix> {
    let tunnels = config.tunnels.iter().filter(|tunnel| tunnel.interface.is_none());
    let prefixes = tunnels.flat_map(|tunnel| &tunnel.local_ts);
    distinct(prefixes.filter_map(|selector| prefix(&selector.addresses)))
}

/// A selector's addresses, if they are one prefix.
fn prefix(addresses: &AddressRange) -> Option<Prefix> {
    let (address, bits) = addresses.as_prefix()?;
    Some(Prefix { address, bits })
}

/// Each value once, in order.
pub fn distinct<T: Ord>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.collect::<BTreeSet<T>>().into_iter().collect()
}

/// The specified addresses.
pub fn named(all: impl Iterator<Item = IpAddr>) -> Vec<IpAddr> {
    distinct(all.filter(|address| !address.is_unspecified()))
}

/// The networks behind the tunnels' peers, except for what the interface's own addresses already
/// cover.
pub fn routes(config: &Config) -> Vec<Route> {
    let mut routes: Vec<Route> = Vec::new();
    let mut known = BTreeSet::new();
    // To interfaces of their own, routes are the operator's, or a routing daemon's.
    let is_routed =
        |tunnel: &&TunnelConfig| tunnel.mode != convoy_ipsec::Mode::Transport && tunnel.interface.is_none();
    for tunnel in config.tunnels.iter().filter(is_routed) {
        let prefixes = tunnel.remote_ts.iter().filter_map(|selector| prefix(&selector.addresses));
        let is_inside = |prefix: &Prefix| inside(config).any(|inside| inside == *prefix);
        for prefix in prefixes.filter(|prefix| !is_inside(prefix)) {
            if known.insert(prefix) {
                routes.push(route(config, prefix, &tunnel.local_ts));
            }
        }
    }
    routes
}

/// The route to a network, for packets from this side.
pub fn route(config: &Config, prefix: Prefix, local_ts: &[TrafficSelector]) -> Route {
    let is_local = |address: &IpAddr| {
        address.is_ipv4() == prefix.address.is_ipv4()
            && local_ts.iter().any(|selector| selector.addresses.contains(*address))
    };
    let source = inside(config).map(|inside| inside.address).find(is_local);
    let local = local_ts.iter().flat_map(|selector| selector.addresses.prefixes());
    let local = local.filter(|_| source.is_none()).map(|(address, bits)| Prefix { address, bits }).collect();
    Route { prefix, source, local }
}

/// The addresses of the inside ports, with prefix lengths.
fn inside(config: &Config) -> impl Iterator<Item = Prefix> {
    let addresses = config.ports.iter().filter(|port| !port.is_outside).flat_map(|port| &port.addresses);
    addresses.map(|(address, bits)| Prefix { address: *address, bits: *bits })
}
