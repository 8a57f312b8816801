//! Who the port is on its link.

use std::net::Ipv4Addr;

use convoy_packet::MacAddress;

use super::card_port::CardConfig;

/// Hardware address, addresses, and the way to other networks.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) mac: MacAddress,
    addresses: Vec<(Ipv4Addr, u8)>,
    gateway: Option<Ipv4Addr>,
}

impl Identity {
    /// `index` is the interface's; an error says what to do.
    pub(super) fn new(config: &CardConfig, index: u32) -> Result<Self, String> {
        let mac = config.mac.unwrap_or_else(|| made_from(&config.interface, index));
        let identity = Self { mac, addresses: config.addresses.clone(), gateway: config.gateway };
        if mac.is_multicast() || mac == MacAddress([0; 6]) {
            return Err(format!(
                "mac = \"{mac}\" is not the address of one interface; use one such as 02:00:00:00:00:01"
            ));
        }
        if identity.addresses.is_empty() {
            return Err("a card port needs an address, address = [\"192.0.2.1/24\"]".to_owned());
        }
        for (address, bits) in &identity.addresses {
            if *bits > 32 || !is_host(*address) {
                return Err(format!(
                    "{address}/{bits} is not the address of a host; use one such as 192.0.2.1/24"
                ));
            }
        }
        if let Some(gateway) = config.gateway.filter(|gateway| !identity.is_on_link(*gateway)) {
            return Err(format!("the gateway {gateway} is in none of the networks of its addresses"));
        }
        Ok(identity)
    }

    /// Whether an address is one of the port's own.
    pub(super) fn has(&self, address: Ipv4Addr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == address)
    }

    /// Whether an address is another host's.
    pub(super) fn may_answer(&self, address: Ipv4Addr) -> bool {
        is_host(address) && !self.has(address)
    }

    /// Whether an address is reached without a router.
    pub(super) fn is_on_link(&self, address: Ipv4Addr) -> bool {
        self.source_for(address).is_some()
    }

    /// The port's own address in the network of another.
    pub(super) fn source_for(&self, address: Ipv4Addr) -> Option<Ipv4Addr> {
        let shares = |own: Ipv4Addr, bits: u8| {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (u32::from(own) ^ u32::from(address)) & mask == 0
        };
        self.addresses.iter().find(|(own, bits)| shares(*own, *bits)).map(|(own, _)| *own)
    }

    /// Whom to give a packet to this destination; `None` if there is no way.
    pub(super) fn next_hop(&self, destination: Ipv4Addr) -> Option<Ipv4Addr> {
        if !self.may_answer(destination) {
            return None;
        }
        if self.is_on_link(destination) { Some(destination) } else { self.gateway }
    }
}

fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified() || address.is_multicast() || address.is_broadcast() || address.is_loopback())
}

/// A locally administered address, the same for the same interface (FNV-1a of its name and number).
fn made_from(interface: &str, index: u32) -> MacAddress {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = interface.bytes().chain(index.to_be_bytes()).fold(0xcbf2_9ce4_8422_2325, step);
    let [_, _, _, a, b, c, d, e] = hash.to_be_bytes();
    MacAddress([2, a, b, c, d, e])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> CardConfig {
        CardConfig {
            name: "outside".to_owned(),
            interface: "eth1".to_owned(),
            mac: None,
            addresses: vec![(Ipv4Addr::new(192, 0, 2, 1), 24), (Ipv4Addr::new(10, 0, 0, 1), 32)],
            gateway: Some(Ipv4Addr::new(192, 0, 2, 254)),
            mtu: 1500,
        }
    }

    #[test]
    fn a_next_hop_is_on_the_link_or_the_gateway() {
        let identity = Identity::new(&config(), 7).expect("a good configuration");
        let hop =
            |text: &str| identity.next_hop(text.parse().expect("an address")).map(|hop| hop.to_string());
        assert_eq!(hop("192.0.2.9").as_deref(), Some("192.0.2.9"));
        assert_eq!(hop("198.51.100.1").as_deref(), Some("192.0.2.254"));
        for own in ["192.0.2.1", "10.0.0.1", "224.0.0.1", "255.255.255.255", "0.0.0.0"] {
            assert_eq!(hop(own), None, "{own}");
        }
        let alone =
            Identity::new(&CardConfig { gateway: None, ..config() }, 7).expect("a good configuration");
        assert_eq!(alone.next_hop(Ipv4Addr::new(198, 51, 100, 1)), None);
    }

    #[test]
    fn the_hardware_address_is_local_and_stable() {
        let mac = |index| Identity::new(&config(), index).expect("a good configuration").mac;
        assert_eq!((mac(7), mac(7).0[0]), (mac(7), 2));
        assert_ne!(mac(7), mac(8));
    }

    #[test]
    fn a_configuration_that_cannot_be_is_refused_with_a_reason() {
        let refused = |config: CardConfig| Identity::new(&config, 1).expect_err("it cannot be");
        assert!(refused(CardConfig { addresses: vec![], ..config() }).contains("needs an address"));
        let far = Some(Ipv4Addr::new(203, 0, 113, 1));
        assert!(refused(CardConfig { gateway: far, ..config() }).contains("203.0.113.1"));
        let mac = Some(MacAddress::BROADCAST);
        assert!(refused(CardConfig { mac, ..config() }).contains("ff:ff"));
        let addresses = vec![(Ipv4Addr::new(192, 0, 2, 1), 33)];
        assert!(refused(CardConfig { addresses, ..config() }).contains("/33"));
    }
}
