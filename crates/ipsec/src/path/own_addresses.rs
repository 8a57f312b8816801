//! The gateway's own addresses outside: packets to them are for itself.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Addresses of inbound SAs and of the configuration, each counted, as thousands of SAs share one.
#[derive(Default)]
pub(crate) struct OwnAddresses {
    /// By address.
    counted: Vec<(IpAddr, u32)>,
}

impl OwnAddresses {
    pub(crate) fn new(addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut own = Self::default();
        addresses.into_iter().for_each(|address| own.add(address));
        own
    }

    pub(crate) fn add(&mut self, address: IpAddr) {
        match self.place(address) {
            Ok(place) => self.counted[place].1 += 1,
            Err(place) => self.counted.insert(place, (address, 1)),
        }
    }

    /// Undoes one `add`.
    pub(crate) fn remove(&mut self, address: IpAddr) {
        let Ok(place) = self.place(address) else { return };
        self.counted[place].1 -= 1;
        if self.counted[place].1 == 0 {
            self.counted.remove(place);
        }
    }

    /// Whether `address` is one of them, or all of its family are.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let any: IpAddr =
            if address.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
        self.place(address).is_ok() || self.place(any).is_ok()
    }

    fn place(&self, address: IpAddr) -> Result<usize, usize> {
        self.counted.binary_search_by_key(&address, |(address, _)| *address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_own_until_the_last_that_has_it_is_gone() {
        let [one, other]: [IpAddr; 2] =
            ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().expect("an address"));
        let mut own = OwnAddresses::new([one]);
        own.add(one);
        own.add(other);
        own.remove(other);
        own.remove(one);
        assert!(own.has(one) && !own.has(other));
        own.remove(one);
        assert!(!own.has(one));
        own.remove(one);
    }

    #[test]
    fn the_unspecified_address_stands_for_all_of_its_family() {
        let own = OwnAddresses::new([Ipv4Addr::UNSPECIFIED.into()]);
        assert!(own.has(Ipv4Addr::LOCALHOST.into()) && !own.has(Ipv6Addr::LOCALHOST.into()));
    }
}
