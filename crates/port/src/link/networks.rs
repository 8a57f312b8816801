//! The networks of an inside port, as maps of prefixes in the kernel, which the port's programs
//! consult.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use convoy_kernel::Prefix;

use super::LinkTakes;
use crate::sys::{Map, MapKind};

/// Networks of one family, at most. The kernel only takes memory for existing ones.
const MOST: usize = 1 << 20;

/// The maps, of IPv4 and IPv6, and their contents. An outside port's are empty.
pub(crate) struct Networks {
    maps: [Map; 2],
    taken: Mutex<BTreeSet<Prefix>>,
}

impl Networks {
    /// Maps with what the port takes.
    ///
    /// # Errors
    /// What the system refused: it needs CAP_BPF.
    pub(crate) fn of(takes: &LinkTakes) -> io::Result<Self> {
        let maps = [Map::new(MapKind::LongestPrefix, 8, MOST)?, Map::new(MapKind::LongestPrefix, 20, MOST)?];
        let made = Self { maps, taken: Mutex::default() };
        if let LinkTakes::Plaintext { networks } = takes {
            made.set(&networks.iter().copied().collect())?;
        }
        Ok(made)
    }

    /// The maps' descriptors, as programs name them.
    pub(crate) fn numbers(&self) -> [i32; 2] {
        self.maps.each_ref().map(Map::number)
    }

    /// Sets the networks whose packets the programs take. It needs no capability.
    ///
    /// # Errors
    /// What the system refused; changes made before stay, and the next call makes the rest.
    pub(crate) fn set(&self, wanted: &BTreeSet<Prefix>) -> io::Result<()> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let (new, old): (Vec<Prefix>, Vec<Prefix>) =
            (wanted.difference(&taken).copied().collect(), taken.difference(wanted).copied().collect());
        for network in new {
            let (map, key) = self.place(network);
            map.set(&key, 0)?;
            taken.insert(network);
        }
        for network in old {
            let (map, key) = self.place(network);
            map.remove(&key)?;
            taken.remove(&network);
        }
        Ok(())
    }

    /// The map of a network, and its key there: the prefix length and the address.
    fn place(&self, Prefix { address, bits }: Prefix) -> (&Map, Vec<u8>) {
        let mut key = u32::from(bits).to_ne_bytes().to_vec();
        match address {
            IpAddr::V4(address) => key.extend(address.octets()),
            IpAddr::V6(address) => key.extend(address.octets()),
        }
        (&self.maps[usize::from(address.is_ipv6())], key)
    }
}
