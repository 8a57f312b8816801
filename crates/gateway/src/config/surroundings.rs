//! The machine that a configuration is checked for.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};

use convoy_settings::Surroundings;
use ipnet::IpNet;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// This machine, with the system's resolver.
#[derive(Clone, Copy, Debug)]
pub struct ThisMachine;

impl Surroundings for ThisMachine {
    fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
    }

    fn networks(&self) -> Vec<(String, IpNet)> {
        // Without the list nothing is warned of.
        let Ok(all) = getifaddrs() else { return Vec::new() };
        let network = |address: Option<SockaddrStorage>, mask: Option<SockaddrStorage>| {
            IpNet::with_netmask(ip_of(&address?)?, ip_of(&mask?)?).ok()
        };
        let named = |found: nix::ifaddrs::InterfaceAddress| {
            network(found.address, found.netmask).map(|network| (found.interface_name, network))
        };
        all.filter_map(named).collect()
    }
}

fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = || address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4().or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
