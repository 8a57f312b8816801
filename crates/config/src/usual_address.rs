//! The address that a gateway has inside, where nothing says which.

use std::net::IpAddr;

use ipnet::IpNet;

/// The one of its `own` addresses that is in a network, or else the network's first for a host.
pub(crate) fn usual_address(network: &IpNet, own: &[IpAddr]) -> Option<IpAddr> {
    own.iter().find(|address| network.contains(*address)).copied().or_else(|| first_of(network))
}

/// The first address for a host.
fn first_of(network: &IpNet) -> Option<IpAddr> {
    match network {
        IpNet::V4(network) => network.hosts().next().map(IpAddr::V4),
        IpNet::V6(network) if network.prefix_len() == 128 => Some(IpAddr::V6(network.addr())),
        IpNet::V6(network) => network.hosts().nth(1).map(IpAddr::V6),
    }
}
