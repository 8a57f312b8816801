//! The port's identity on its link.

use std::net::Ipv4Addr;

use convoy_packet::MacAddress;

/// Which packets a port hands up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Those to its own addresses.
    Own,
    /// Those to all hosts: it is their router to other networks.
    #[cfg_attr(not(any(feature = "dpdk", test)), expect(dead_code, reason = "the card is outside"))]
    All,
}

/// Hardware address, addresses, and the router to other networks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) mac: MacAddress,
    pub(super) takes: Takes,
    addresses: Vec<(Ipv4Addr, u8)>,
    gateway: Option<Ipv4Addr>,
}

impl Identity {
    /// Validates the identity; an error says what to do.
    pub(crate) fn new(
        mac: MacAddress,
        addresses: &[(Ipv4Addr, u8)],
        gateway: Option<Ipv4Addr>,
        takes: Takes,
    ) -> Result<Self, String> {
        let identity = Self { mac, takes, addresses: addresses.to_vec(), gateway };
        if mac.is_multicast() || mac == MacAddress([0; 6]) {
            return Err(format!(
                "mac = \"{mac}\" is not the address of one interface; use one such as 02:00:00:00:00:01"
            ));
        }
        if identity.addresses.is_empty() {
            return Err("it needs an address, address = [\"192.0.2.1/24\"]".to_owned());
        }
        for (address, bits) in &identity.addresses {
            if *bits > 32 || !is_host(*address) {
                return Err(format!(
                    "{address}/{bits} is not the address of a host; use one such as 192.0.2.1/24"
                ));
            }
        }
        if let Some(gateway) = gateway.filter(|gateway| !identity.is_on_link(*gateway)) {
            return Err(format!("the gateway {gateway} is in none of the networks of its addresses"));
        }
        Ok(identity)
    }

    /// Whether an address is one of the port's own.
    pub(crate) fn has(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether an address is another host's.
    pub(crate) fn may_answer(&self, address: Ipv4Addr) -> bool {
        is_host(address) && !self.has(address)
    }

    /// Whether an address is reached without a router.
    pub(crate) fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.source_for(address).is_some()
    }

    /// The port's own address in the network of another.
    pub(crate) fn source_for(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let shares = |own: Ipv4Addr, bits: u8| {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (u32::from(own) ^ u32::from(address)) & mask == 0
        };
        self.addresses.iter().find(|(own, bits)| shares(*own, *bits)).map(|(own, _)| *own)
    }

    /// The next hop of a packet to this destination; `None` if there is none.
    pub(crate) fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        if !self.may_answer(destination) {
            return None;
        }
        if self.is_on_link(destination) { Some(destination) } else { self.gateway }
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const GATEWAY: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 254);
    const ADDRESSES: [(Ipv4Addr, u8); 2] =
        [(Ipv4Addr::new(192, 0, 2, 1), 24), (Ipv4Addr::new(10, 0, 0, 1), 32)];

    #[test]
    fn a_next_hop_is_on_the_link_or_the_gateway() {
        let identity =
            Identity::new(MAC, &ADDRESSES, Some(GATEWAY), Takes::Own).expect("a good configuration");
        let hop =
            |text: &str| identity.next_hop(text.parse().expect("an address")).map(|hop| hop.to_string());
        assert_eq!(hop("192.0.2.9").as_deref(), Some("192.0.2.9"));
        assert_eq!(hop("198.51.100.1").as_deref(), Some("192.0.2.254"));
        for own in ["192.0.2.1", "10.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"] {
            assert_eq!(hop(own), None, "{own}");
        }
        let alone = Identity::new(MAC, &ADDRESSES, None, Takes::Own).expect("a good configuration");
        assert_eq!(alone.next_hop(Ipv4Addr::new(198, 51, 100, 1)), None);
    }

    #[test]
    fn a_configuration_that_cannot_be_is_refused_with_a_reason() {
        let refused = |mac, addresses: &[(Ipv4Addr, u8)], gateway| {
            Identity::new(mac, addresses, Some(gateway), Takes::Own).expect_err("it cannot be")
        };
        assert!(refused(MAC, &[], GATEWAY).contains("needs an address"));
        let far = Ipv4Addr::new(203, 0, 113, 1);
        assert!(refused(MAC, &ADDRESSES, far).contains("203.0.113.1"));
        assert!(refused(MacAddress::BROADCAST, &ADDRESSES, GATEWAY).contains("ff:ff"));
        let wide = [(Ipv4Addr::new(192, 0, 2, 1), 33)];
        assert!(refused(MAC, &wide, GATEWAY).contains("/33"));
    }
}
