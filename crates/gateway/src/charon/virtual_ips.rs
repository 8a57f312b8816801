//! Addresses of this host's that peers of charon's have chosen (IKEv2's virtual IPs). charon need
//! not be allowed to set them, so the gateway does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

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
            *self.tunnels.entry(address).or_default() += 1;
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
