//! An index from address to the policies that may select it, so that with thousands of tunnels a
//! search considers few, and adding or removing one costs the same among ten thousand as alone.
//!
//! Each side's addresses are split into prefixes, and each prefix lists its policies in order. A
//! lookup tries the prefixes of an address, only of lengths in use, and takes the side with fewer
//! policies: hubs distinguish their tunnels by the remote side, branches with a full tunnel by the
//! local one.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::ip::flow::FlowKey;
use crate::spd::selector::{AddressRange, Selector};

/// With no more policies than this on the remote side, the local one is not consulted.
const FEW: usize = 8;

/// Both families. `K` represents a policy, and is ordered like policies.
pub(crate) struct AddressIndex<K> {
    v4: FamilyIndex<K>,
    v6: FamilyIndex<K>,
}

impl<K> Default for AddressIndex<K> {
    fn default() -> Self {
        Self { v4: FamilyIndex::default(), v6: FamilyIndex::default() }
    }
}

impl<K: Copy + Ord> AddressIndex<K> {
    /// Adds `selector` for `key`. One whose sides are of two families selects nothing.
    pub(crate) fn insert(&mut self, selector: &Selector, key: K) {
        if let Some(family) = self.family_mut(selector) {
            family.local.insert(&selector.local.addresses, key);
            family.remote.insert(&selector.remote.addresses, key);
        }
    }

    /// Undoes one [`insert`](Self::insert).
    pub(crate) fn remove(&mut self, selector: &Selector, key: K) {
        if let Some(family) = self.family_mut(selector) {
            family.local.remove(&selector.local.addresses, key);
            family.remote.remove(&selector.remote.addresses, key);
        }
    }

    fn family_mut(&mut self, selector: &Selector) -> Option<&mut FamilyIndex<K>> {
        match (selector.local.addresses.is_v6(), selector.remote.addresses.is_v6()) {
            (false, false) => Some(&mut self.v4),
            (true, true) => Some(&mut self.v6),
            _ => None,
        }
    }

    /// The first in order for which `selects` is true, of those whose addresses contain `flow`,
    /// whose source is the local side.
    pub(crate) fn first(&self, flow: &FlowKey, selects: impl Fn(K) -> bool) -> Option<K> {
        let family = if flow.is_v6() { &self.v6 } else { &self.v4 };
        let (remote, local) = ((&family.remote, flow.destination), (&family.local, flow.source));
        let (side, address) = match remote.0.candidates(remote.1) {
            0 => return None,
            few if few <= FEW || few <= local.0.candidates(local.1) => remote,
            _ => local,
        };
        let mut first = None;
        for list in side.lists(address) {
            let earlier = list.iter().take_while(|key| first.is_none_or(|first| **key < first));
            first = earlier.copied().find(|key| selects(*key)).or(first);
        }
        first
    }
}

struct FamilyIndex<K> {
    local: SideIndex<K>,
    remote: SideIndex<K>,
}

impl<K> Default for FamilyIndex<K> {
    fn default() -> Self {
        Self { local: SideIndex::default(), remote: SideIndex::default() }
    }
}

/// A prefix: the number of varying low bits of its addresses, and the remaining bits.
type Network = (u8, u128);

fn network(address: u128, host_bits: u8) -> Network {
    (host_bits, address.checked_shr(host_bits.into()).unwrap_or(0))
}

/// The policies by the addresses of one side.
struct SideIndex<K> {
    /// Numbers of varying bits in use, with the number of prefixes of each.
    lengths: Vec<(u8, usize)>,
    /// None is empty, each is in order.
    lists: HashMap<Network, Vec<K>>,
}

impl<K> Default for SideIndex<K> {
    fn default() -> Self {
        Self { lengths: Vec::new(), lists: HashMap::new() }
    }
}

impl<K: Copy + Ord> SideIndex<K> {
    fn networks(range: &AddressRange) -> impl Iterator<Item = Network> {
        let width = if range.is_v6() { 128 } else { 32 };
        range.prefix_numbers().map(move |(first, bits)| network(first, width - bits))
    }

    fn insert(&mut self, range: &AddressRange, key: K) {
        for network in Self::networks(range) {
            let list = match self.lists.entry(network) {
                Entry::Occupied(present) => present.into_mut(),
                Entry::Vacant(new) => {
                    match self.lengths.iter_mut().find(|(bits, _)| *bits == network.0) {
                        Some((_, count)) => *count += 1,
                        None => self.lengths.push((network.0, 1)),
                    }
                    new.insert(Vec::new())
                }
            };
            if let Err(place) = list.binary_search(&key) {
                list.insert(place, key);
            }
        }
    }

    fn remove(&mut self, range: &AddressRange, key: K) {
        for network in Self::networks(range) {
            let Entry::Occupied(mut present) = self.lists.entry(network) else { continue };
            if let Ok(place) = present.get().binary_search(&key) {
                present.get_mut().remove(place);
            }
            if present.get().is_empty() {
                present.remove();
                self.forget_length(network.0);
            }
        }
    }

    /// Removes a prefix with this many varying bits from the lengths.
    fn forget_length(&mut self, host_bits: u8) {
        if let Some((_, count)) = self.lengths.iter_mut().find(|(bits, _)| *bits == host_bits) {
            *count -= 1;
        }
        self.lengths.retain(|(_, count)| *count > 0);
    }

    fn lists(&self, address: u128) -> impl Iterator<Item = &[K]> {
        self.lengths
            .iter()
            .filter_map(move |(bits, _)| self.lists.get(&network(address, *bits)).map(Vec::as_slice))
    }

    /// The number of policies of an address.
    fn candidates(&self, address: u128) -> usize {
        self.lists(address).map(<[K]>::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spd::selector::{Ports, TrafficSelector};

    fn side(first: u32, last: u32) -> TrafficSelector {
        let addresses = AddressRange { first: first.into(), last: last.into(), is_v6: false };
        TrafficSelector { addresses, protocol: None, ports: Ports::Any }
    }

    fn index(selectors: &[Selector]) -> AddressIndex<u32> {
        let mut index = AddressIndex::default();
        (0..).zip(selectors).for_each(|(key, selector)| index.insert(selector, key));
        index
    }

    #[test]
    fn nested_ranges_do_not_blow_the_index_up() {
        let selectors: Vec<_> = (0..1_000)
            .map(|n| Selector { local: side(n, u32::MAX - n), remote: side(n, u32::MAX - n) })
            .collect();
        let index = index(&selectors);
        let entries: usize = index.v4.remote.lists.values().map(Vec::len).sum();
        assert!(entries <= selectors.len() * 64, "{entries} entries");
        let flow = FlowKey::new([0, 0, 1, 0].into(), [0, 0, 1, 0].into(), 6, None);
        assert_eq!(index.first(&flow, |_| true), Some(0));
        assert_eq!(index.first(&flow, |key| key > 200), Some(201));
        assert_eq!(index.first(&flow, |key| key > 256), None);
    }

    #[test]
    fn the_side_that_tells_more_apart_is_searched() {
        let everything: TrafficSelector = "0.0.0.0/0".parse().expect("everything");
        let selectors: Vec<_> =
            (0..100).map(|n| Selector { local: side(n << 8, n << 8 | 255), remote: everything }).collect();
        let index = index(&selectors);
        let looked_at = std::cell::Cell::new(0);
        let flow = FlowKey::new([0, 0, 7, 9].into(), [8, 8, 8, 8].into(), 6, None);
        let first = index.first(&flow, |key| {
            looked_at.set(looked_at.get() + 1);
            key == 7
        });
        assert_eq!((first, looked_at.get()), (Some(7), 1));
    }

    #[test]
    fn what_is_removed_leaves_nothing_behind() {
        let selectors = [
            Selector { local: side(0, u32::MAX), remote: side(3, 77) },
            Selector { local: side(5, 5), remote: side(3, 77) },
        ];
        let mut index = index(&selectors);
        index.remove(&selectors[0], 0);
        let flow = FlowKey::new([0, 0, 0, 5].into(), [0, 0, 0, 77].into(), 6, None);
        assert_eq!(index.first(&flow, |_| true), Some(1));
        index.remove(&selectors[1], 1);
        assert_eq!(index.first(&flow, |_| true), None);
        for side in [&index.v4.local, &index.v4.remote] {
            assert!(side.lists.is_empty() && side.lengths.is_empty());
        }
    }
}
