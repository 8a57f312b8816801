//! The source addresses of this host's own packets into a tunnel, where the configuration has none
//! that the tunnel's policy selects: an address of the LAN, or a virtual IP that a key daemon got.

use std::net::IpAddr;

use super::plan::RoutePlan;
use crate::prefix::Prefix;

/// An address of this host that may be a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostAddress {
    pub(super) address: IpAddr,
    pub(super) bits: u8,
    /// The index of its interface.
    pub(super) interface: u32,
}

impl RoutePlan {
    /// Whether the host's addresses matter.
    pub(super) fn needs_sources(&self) -> bool {
        self.routes.iter().any(|route| route.source.is_none() && !route.local.is_empty())
    }

    /// Chooses sources from the host's addresses, given the index of the inside interface.
    pub(super) fn choose_sources(&mut self, host: &[HostAddress], device: Option<u32>) {
        for route in self.routes.iter_mut().filter(|route| route.source.is_none()) {
            let is_selected = |own: &&HostAddress| {
                own.address.is_ipv4() == route.prefix.address.is_ipv4()
                    && route.local.iter().any(|local| local.contains(Prefix::host(own.address)))
            };
            // A virtual IP has no network; the outer address is what a policy means least.
            let rank = |own: &&HostAddress| {
                let is_alone = Prefix::host(own.address).bits == own.bits;
                (self.outer.contains(&own.address), Some(own.interface) != device, !is_alone, own.address)
            };
            route.source = host.iter().filter(is_selected).min_by_key(rank).map(|own| own.address);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::plan::{Route, Routing};
    use super::*;

    fn prefix(text: &str) -> Prefix {
        let (address, bits) = text.split_once('/').expect("a prefix");
        Prefix { address: address.parse().expect("an address"), bits: bits.parse().expect("a length") }
    }

    /// The source of a route to `remote` of a tunnel with `local`, if the host has these addresses,
    /// each at the interface of its place.
    fn source(local: &str, remote: &str, host: &[&str]) -> Option<String> {
        let route = Route { prefix: prefix(remote), source: None, local: vec![prefix(local)] };
        let mut plan = RoutePlan {
            device: "convoy0".to_owned(),
            addresses: Vec::new(),
            virtual_ips: BTreeSet::new(),
            routing: Routing { table: 4500, priority: 4500, mark: 4500 },
            routes: vec![route],
            blocked: Vec::new(),
            here: Vec::new(),
            outer: vec![[192, 0, 2, 1].into()],
            peers: Vec::new(),
            transport_mark: None,
        };
        assert!(plan.needs_sources());
        let addresses = host.iter().zip(1..).map(|(text, interface)| {
            let Prefix { address, bits } = prefix(text);
            HostAddress { address, bits, interface }
        });
        plan.choose_sources(&addresses.collect::<Vec<_>>(), Some(9));
        plan.routes[0].source.map(|address| address.to_string())
    }

    #[test]
    fn a_source_is_an_address_that_the_policy_selects() {
        let host = ["192.0.2.1/24", "10.1.0.1/24", "10.3.0.7/32", "fd00:1::1/64"];
        let of = |local, remote| source(local, remote, &host);
        assert_eq!(of("10.1.0.0/16", "10.2.0.0/24").as_deref(), Some("10.1.0.1"), "of the LAN");
        assert_eq!(of("10.3.0.0/24", "10.2.0.0/24").as_deref(), Some("10.3.0.7"), "a virtual IP");
        assert_eq!(of("0.0.0.0/0", "10.2.0.0/24").as_deref(), Some("10.3.0.7"), "rather than the LAN's");
        assert_eq!(of("192.0.2.1/32", "10.2.0.0/24").as_deref(), Some("192.0.2.1"), "the only one");
        assert_eq!(of("10.9.0.0/24", "10.2.0.0/24"), None);
        assert_eq!(of("fd00:1::/64", "fd00:2::/64").as_deref(), Some("fd00:1::1"));
        assert_eq!(of("::/0", "10.2.0.0/24"), None, "of the other family");
    }
}
