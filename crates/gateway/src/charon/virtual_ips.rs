//! Addresses of this host's that peers of charon's have chosen (IKEv2's virtual IPs). charon need
//! not be allowed to set them, so the gateway does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Addresses, at most: a charon that another controls must not fill the host with them.
const MOST: usize = 64;

/// Whether a peer may have chosen this address for the host. Not where it would take the place of
/// others: of the peers, of the gateway's own outer addresses (`taken`), or of none at all.
pub(crate) fn may_be_ours(address: IpAddr, mut taken: impl Iterator<Item = IpAddr>) -> bool {
    let is_special = match address {
        IpAddr::V4(v4) => v4.is_broadcast() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local() || v6.to_ipv4_mapped().is_some(),
    };
    let is_of_one = !address.is_unspecified() && !address.is_loopback() && !address.is_multicast();
    is_of_one && !is_special && !taken.any(|other| other == address)
}

/// The virtual IPs of this host, by the tunnels that have them.
#[derive(Debug, Default)]
pub(super) struct VirtualIps {
    /// How many tunnels have each.
    tunnels: BTreeMap<IpAddr, usize>,
    /// Whether they are those of a charon that has ended. Its SAs go on, and so do its addresses,
    /// until the next charon has some.
    are_former: bool,
}

impl VirtualIps {
    /// Another charon has connected.
    pub(super) fn reconnected(&mut self) {
        self.are_former = true;
    }

    /// A tunnel has an address, or has it no longer.
    pub(super) fn note(&mut self, address: IpAddr, is_held: bool) {
        if is_held {
            if std::mem::take(&mut self.are_former) {
                self.tunnels.clear();
            }
            if self.tunnels.len() < MOST || self.tunnels.contains_key(&address) {
                *self.tunnels.entry(address).or_default() += 1;
            }
        } else if !self.are_former
            && let Some(count) = self.tunnels.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.tunnels.remove(&address);
            }
        }
    }

    /// All that some tunnel has.
    pub(super) fn all(&self) -> BTreeSet<IpAddr> {
        self.tunnels.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(last: u8) -> IpAddr {
        [10, 3, 0, last].into()
    }

    #[test]
    fn address_stays_while_one_of_two_tunnels_has_it() {
        let mut ips = VirtualIps::default();
        ips.note(of(1), true);
        ips.note(of(1), true);
        ips.note(of(1), false);
        assert_eq!(ips.all(), BTreeSet::from([of(1)]));
        ips.note(of(1), false);
        ips.note(of(1), false);
        assert_eq!(ips.all(), BTreeSet::new());
    }

    #[test]
    fn addresses_that_others_have_are_not_ours_and_there_are_few() {
        let peer: IpAddr = [192, 0, 2, 2].into();
        let ours = |text: &str| may_be_ours(text.parse().expect("an address"), [peer].into_iter());
        assert!(ours("10.3.0.1") && ours("fd00::1"));
        for text in [
            "192.0.2.2",
            "0.0.0.0",
            "127.0.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "169.254.0.1",
            "::1",
            "fe80::1",
        ] {
            assert!(!ours(text), "{text}");
        }
        let mut ips = VirtualIps::default();
        (0..=u8::MAX).for_each(|last| ips.note(of(last), true));
        assert_eq!(ips.all().len(), MOST);
    }

    #[test]
    fn addresses_of_a_charon_that_ended_stay_until_the_next_has_some() {
        let mut ips = VirtualIps::default();
        ips.note(of(1), true);
        ips.reconnected();
        ips.note(of(1), false);
        assert_eq!(ips.all(), BTreeSet::from([of(1)]));
        ips.note(of(2), true);
        assert_eq!(ips.all(), BTreeSet::from([of(2)]));
    }
}
