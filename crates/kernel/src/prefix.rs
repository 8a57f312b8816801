//! Networks.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// A network: an address and how many of its bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Prefix {
    /// Its first address.
    pub address: IpAddr,
    /// Its length in bits.
    pub bits: u8,
}

impl Prefix {
    /// Whether all of `other` is in this network.
    pub fn contains(&self, other: Prefix) -> bool {
        self.bits <= other.bits && self.contains_address(other.address)
    }

    /// Those of `networks` that are in this one.
    pub(crate) fn those_within(self, networks: &BTreeSet<Prefix>) -> impl Iterator<Item = Prefix> + '_ {
        let host_bits = |width: u32| width - u32::from(self.bits).min(width);
        let last = match self.address {
            IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() | low_bits(host_bits(32)) as u32).into(),
            IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() | low_bits(host_bits(128))).into(),
        };
        let bounds = Self { bits: 0, ..self }..=Self { address: last, bits: u8::MAX };
        networks.range(bounds).copied().filter(move |network| self.contains(*network))
    }

    fn contains_address(&self, address: IpAddr) -> bool {
        let same = |width: u32, ours: u128, theirs: u128| {
            let shift = width - u32::from(self.bits).min(width);
            (ours ^ theirs).checked_shr(shift).unwrap_or(0) == 0
        };
        match (self.address, address) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                same(32, ours.to_bits().into(), theirs.to_bits().into())
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => same(128, ours.to_bits(), theirs.to_bits()),
            _ => false,
        }
    }

    /// The network of this one address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, bits: if address.is_ipv4() { 32 } else { 128 } }
    }
}

/// A number whose lowest `count` bits are set.
fn low_bits(count: u32) -> u128 {
    u128::MAX.checked_shr(128 - count).unwrap_or(0)
}
