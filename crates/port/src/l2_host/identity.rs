//! The port's identity on its link.

use std::net::{IpAddr, Ipv6Addr};

use convoy_packet::{MacAddress, ndp};

/// Which packets a port hands up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortTakes {
    /// Those to its own addresses.
    Own,
    /// Those to all hosts: it is their router to other networks.
    All,
}

/// Hardware address, addresses, and the routers to other networks, one of a family.
#[derive(Clone, Debug)]
pub struct HostIdentity {
    /// Its hardware address.
    pub mac: MacAddress,
    pub(super) takes: PortTakes,
    addresses: Vec<(IpAddr, u8)>,
    gateways: Vec<IpAddr>,
}

impl HostIdentity {
    /// Validates the identity; an error says what to do.
    pub fn new(
        mac: MacAddress,
        addresses: &[(IpAddr, u8)],
        gateways: &[IpAddr],
        takes: PortTakes,
    ) -> Result<Self, String> {
        let identity = Self { mac, takes, addresses: addresses.to_vec(), gateways: gateways.to_vec() };
        if mac.is_multicast() || mac == MacAddress([0; 6]) {
            return Err(format!(
                "mac = \"{mac}\" is not a unicast address; use one such as 02:00:00:00:00:01"
            ));
        }
        if identity.addresses.is_empty() {
            return Err("it needs an address; add address = [\"192.0.2.1/24\"]".to_owned());
        }
        for (address, bits) in &identity.addresses {
            if *bits > longest(*address) || !is_host(*address) {
                return Err(format!(
                    "{address}/{bits} is not the address of a host; use one such as 192.0.2.1/24"
                ));
            }
        }
        if let Some(gateway) = gateways.iter().find(|gateway| !identity.is_on_link(**gateway)) {
            return Err(format!("the gateway {gateway} is in none of the networks of its addresses"));
        }
        Ok(identity)
    }

    /// Whether an address is one of the port's own.
    pub fn has(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether it has an IPv6 address.
    pub(super) fn has_v6(&self) -> bool {
        self.addresses.iter().any(|(own, _)| own.is_ipv6())
    }

    /// Whether a frame to this Ethernet address may be neighbour discovery for it: the group of one
    /// of its addresses, or of all nodes.
    pub(super) fn is_in_group(&self, mac: MacAddress) -> bool {
        let has = |own: &IpAddr| match own {
            IpAddr::V6(own) => mac == ndp::group_mac(ndp::solicited_node(*own)),
            IpAddr::V4(_) => false,
        };
        self.has_v6()
            && (mac == ndp::group_mac(ndp::ALL_NODES) || self.addresses.iter().any(|(own, _)| has(own)))
    }

    /// Whether an address is another host's.
    pub fn may_answer(&self, address: impl Into<IpAddr>) -> bool {
        let address = address.into();
        is_host(address) && !self.has(address)
    }

    /// Whether an address is reached without a router.
    pub fn is_on_link(&self, address: impl Into<IpAddr>) -> bool {
        self.source_for(address.into()).is_some()
    }

    /// The port's own address in the network of another. A link-local address of IPv6 is on every
    /// link.
    pub fn source_for(&self, address: IpAddr) -> Option<IpAddr> {
        let is_local = is_link_local(address);
        let shares = |own: IpAddr, bits: u8| {
            let rest = u32::from(longest(own) - bits);
            match (own, address) {
                (IpAddr::V4(own), IpAddr::V4(address)) => {
                    (u32::from(own) ^ u32::from(address)).checked_shr(rest).unwrap_or(0) == 0
                }
                (IpAddr::V6(own), IpAddr::V6(address)) => {
                    is_local || (u128::from(own) ^ u128::from(address)).checked_shr(rest).unwrap_or(0) == 0
                }
                _ => false,
            }
        };
        self.addresses.iter().find(|(own, bits)| shares(*own, *bits)).map(|(own, _)| *own)
    }

    /// The next hop of a packet to this destination; `None` if there is none.
    pub fn next_hop(&self, destination: IpAddr) -> Option<IpAddr> {
        if !self.may_answer(destination) {
            return None;
        }
        if self.is_on_link(destination) {
            return Some(destination);
        }
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv6() == destination.is_ipv6())
    }
}

/// The longest prefix, in bits.
const fn longest(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Whether an IPv6 address means one link alone.
pub(super) fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if Ipv6Addr::is_unicast_link_local(&address))
}

fn is_host(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(address.is_unspecified() || address.is_multicast() || is_broadcast || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn identity(addresses: &[(&str, u8)], gateways: &[&str]) -> Result<HostIdentity, String> {
        let addresses: Vec<_> = addresses.iter().map(|(text, bits)| (address(text), *bits)).collect();
        let gateways: Vec<_> = gateways.iter().copied().map(address).collect();
        HostIdentity::new(MAC, &addresses, &gateways, PortTakes::Own)
    }

    #[test]
    fn a_next_hop_is_on_the_link_or_the_gateway_of_its_family() {
        let addresses = [("192.0.2.1", 24), ("10.0.0.1", 32), ("2001:db8::1", 64), ("fd00::1", 128)];
        let both = identity(&addresses, &["192.0.2.254", "fe80::fe"]).expect("a good configuration");
        let hop = |identity: &HostIdentity, text| identity.next_hop(address(text)).map(|hop| hop.to_string());
        assert_eq!(hop(&both, "192.0.2.9").as_deref(), Some("192.0.2.9"));
        assert_eq!(hop(&both, "198.51.100.1").as_deref(), Some("192.0.2.254"));
        assert_eq!(hop(&both, "2001:db8::9").as_deref(), Some("2001:db8::9"));
        assert_eq!(hop(&both, "2001:db8:0:1::9").as_deref(), Some("fe80::fe"));
        assert_eq!(hop(&both, "fd00::2").as_deref(), Some("fe80::fe"));
        let own = ["192.0.2.1", "10.0.0.1", "2001:db8::1", "fd00::1"];
        for to in own.into_iter().chain(["224.0.0.1", "255.255.255.255", "0.0.0.0", "ff02::1", "::", "::1"]) {
            assert_eq!(hop(&both, to), None, "{to}");
        }
        let alone = identity(&addresses, &[]).expect("a good configuration");
        assert_eq!((hop(&alone, "198.51.100.1"), hop(&alone, "2001:db9::1")), (None, None));
        let v4 = identity(&[("192.0.2.1", 24)], &["192.0.2.254"]).expect("a good configuration");
        assert_eq!((hop(&v4, "2001:db8::9"), hop(&v4, "fe80::9")), (None, None), "no address of the family");
        let all = identity(&[("2001:db8::1", 0)], &[]).expect("a good configuration");
        assert_eq!(hop(&all, "2001:db9::1").as_deref(), Some("2001:db9::1"));
    }

    #[test]
    fn it_is_in_the_groups_of_its_ipv6_addresses_and_of_all_nodes() {
        let both = identity(&[("192.0.2.1", 24), ("2001:db8::12:3456", 64)], &[]).expect("good");
        let is_in = |identity: &HostIdentity, text: &str| identity.is_in_group(text.parse().expect("a MAC"));
        assert!(is_in(&both, "33:33:ff:12:34:56") && is_in(&both, "33:33:00:00:00:01"));
        assert!(!is_in(&both, "33:33:ff:12:34:57") && !is_in(&both, "33:33:00:00:00:02"));
        let v4 = identity(&[("192.0.2.1", 24)], &[]).expect("good");
        assert!(!is_in(&v4, "33:33:00:00:00:01"));
    }

    #[test]
    fn a_configuration_that_cannot_be_is_refused_with_a_reason() {
        let refused = |addresses: &[_], gateway| identity(addresses, &[gateway]).expect_err("it cannot be");
        assert!(refused(&[], "192.0.2.254").contains("needs an address"));
        let here = [("192.0.2.1", 24)];
        for far in ["203.0.113.1", "2001:db8::fe", "fe80::1"] {
            assert!(refused(&here, far).contains(&format!("the gateway {far} is in none")), "{far}");
        }
        assert!(refused(&[("192.0.2.1", 33)], "192.0.2.254").contains("/33"));
        assert!(refused(&[("2001:db8::1", 129)], "2001:db8::fe").contains("/129"));
        assert!(refused(&[("ff02::1", 64)], "ff02::2").contains("ff02::1/64"));
        let broadcast = HostIdentity::new(MacAddress::BROADCAST, &[], &[], PortTakes::Own);
        assert!(broadcast.expect_err("no interface's").contains("ff:ff"));
    }
}
