//! Assignment of SAs to the hosts of a trace.

use std::collections::HashMap;
use std::hash::Hash;

/// Numbers hosts from 0 in the order in which they first appear. Memory grows with the number of
/// hosts, not of packets.
#[derive(Clone, Debug)]
pub struct Hosts<K> {
    numbers: HashMap<K, u32>,
}

impl<K> Default for Hosts<K> {
    fn default() -> Self {
        Self { numbers: HashMap::new() }
    }
}

impl<K: Eq + Hash> Hosts<K> {
    /// The number of a host.
    pub fn number<Q>(&mut self, host: &Q) -> u32
    where
        K: std::borrow::Borrow<Q>,
        Q: Eq + Hash + ToOwned<Owned = K> + ?Sized,
    {
        if let Some(number) = self.numbers.get(host) {
            return *number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(host.to_owned(), number);
        number
    }
}
