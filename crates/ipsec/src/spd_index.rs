//! An index from address to the policies that may select it, so that thousands of tunnels cost a
//! search of a few.
//!
//! The policies' address ranges of one side cut the address space into intervals; each interval lists
//! the policies that cover it, in order. A lookup is a binary search and a walk along one list. The side
//! whose longest list is shorter is taken. Where both sides overlap so much that the lists would outgrow
//! [`ENTRIES_PER_POLICY`], there is one list of all.

use crate::flow::FlowKey;
use crate::selector::{AddressRange, Selector};

/// Bound on the index's size.
const ENTRIES_PER_POLICY: usize = 64;

#[derive(Clone, Copy)]
enum Side {
    Local,
    Remote,
}

impl Side {
    const fn range(self, selector: &Selector) -> &AddressRange {
        match self {
            Self::Local => &selector.local.addresses,
            Self::Remote => &selector.remote.addresses,
        }
    }

    const fn address(self, flow: &FlowKey) -> u128 {
        match self {
            Self::Local => flow.source,
            Self::Remote => flow.destination,
        }
    }
}

/// Both families of one direction.
pub(crate) struct AddressIndex {
    v4: FamilyIndex,
    v6: FamilyIndex,
}

impl AddressIndex {
    /// Indexes those of `policies` for which `selector_of` has a selector, under their place in the slice.
    pub(crate) fn new<P>(policies: &[P], selector_of: impl Fn(&P) -> Option<&Selector>) -> Self {
        let family = |is_v6: bool| {
            let of_family = |selector: &&Selector| {
                selector.local.addresses.is_v6 == is_v6 && selector.remote.addresses.is_v6 == is_v6
            };
            let numbered = policies.iter().enumerate();
            let members = numbered.filter_map(|(place, policy)| {
                selector_of(policy).filter(of_family).map(|selector| (place as u32, *selector))
            });
            FamilyIndex::new(&members.collect::<Vec<_>>())
        };
        Self { v4: family(false), v6: family(true) }
    }

    /// Places of the policies that may select `flow`, whose source is the local side; in order.
    pub(crate) fn candidates(&self, flow: &FlowKey) -> &[u32] {
        if flow.is_v6() { self.v6.candidates(flow) } else { self.v4.candidates(flow) }
    }
}

struct FamilyIndex {
    side: Side,
    /// First address of each interval, ascending, from 0.
    starts: Vec<u128>,
    /// Where in `entries` the list of each interval begins; one more than intervals.
    offsets: Vec<u32>,
    entries: Vec<u32>,
}

impl FamilyIndex {
    fn new(members: &[(u32, Selector)]) -> Self {
        let limit = members.len() * ENTRIES_PER_POLICY;
        let cuts = [Side::Remote, Side::Local].map(|side| Cut::new(side, members));
        let fitting = cuts.into_iter().filter(|cut| cut.entries <= limit);
        match fitting.min_by_key(|cut| cut.longest) {
            Some(cut) => Self::fill(cut.side, cut.starts, members),
            None => Self::fill(Side::Remote, vec![0], members),
        }
    }

    fn fill(side: Side, starts: Vec<u128>, members: &[(u32, Selector)]) -> Self {
        let mut lists = vec![Vec::new(); starts.len()];
        for (place, selector) in members {
            for list in &mut lists[covered(&starts, side.range(selector))] {
                list.push(*place);
            }
        }
        let mut offsets = vec![0u32];
        let mut entries = Vec::new();
        for list in lists {
            entries.extend(list);
            offsets.push(entries.len() as u32);
        }
        Self { side, starts, offsets, entries }
    }

    fn candidates(&self, flow: &FlowKey) -> &[u32] {
        let address = self.side.address(flow);
        let interval = self.starts.partition_point(|start| *start <= address) - 1;
        &self.entries[self.offsets[interval] as usize..self.offsets[interval + 1] as usize]
    }
}

/// The intervals of one side, and how long their lists would be.
struct Cut {
    side: Side,
    starts: Vec<u128>,
    /// Of all lists together.
    entries: usize,
    /// Of the longest list.
    longest: usize,
}

impl Cut {
    fn new(side: Side, members: &[(u32, Selector)]) -> Self {
        let starts = interval_starts(side, members);
        let mut change = vec![0isize; starts.len() + 1];
        for (_, selector) in members {
            let intervals = covered(&starts, side.range(selector));
            change[intervals.start] += 1;
            change[intervals.end] -= 1;
        }
        let lengths = change.iter().scan(0isize, |length, change| {
            *length += change;
            Some(length.unsigned_abs())
        });
        let (entries, longest) = lengths.fold((0, 0), |(sum, most), len| (sum + len, most.max(len)));
        Self { side, starts, entries, longest }
    }
}

fn interval_starts(side: Side, members: &[(u32, Selector)]) -> Vec<u128> {
    let ends = members.iter().flat_map(|(_, selector)| {
        let range = side.range(selector);
        [Some(range.first), range.last.checked_add(1)].into_iter().flatten()
    });
    let mut starts: Vec<u128> = ends.chain([0]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The intervals that a range touches; where `starts` holds its bounds, those that it covers.
fn covered(starts: &[u128], range: &AddressRange) -> std::ops::Range<usize> {
    let first = starts.partition_point(|start| *start <= range.first) - 1;
    first..starts.partition_point(|start| *start <= range.last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selector::{Ports, TrafficSelector};

    fn nested(count: u32) -> Vec<Selector> {
        let side = |n: u32| TrafficSelector {
            addresses: AddressRange { first: n.into(), last: (u32::MAX - n).into(), is_v6: false },
            protocol: None,
            ports: Ports::Any,
        };
        (0..count).map(|n| Selector { local: side(n), remote: side(n) }).collect()
    }

    #[test]
    fn nested_ranges_do_not_blow_the_index_up() {
        let selectors = nested(1_000);
        let index = AddressIndex::new(&selectors, |selector| Some(selector));
        assert!(index.v4.entries.len() <= selectors.len() * ENTRIES_PER_POLICY);
        let flow = FlowKey::new([0, 0, 1, 0].into(), [0, 0, 1, 0].into(), 6, None);
        assert!(index.candidates(&flow).starts_with(&[0, 1, 2]));
    }

    #[test]
    fn the_side_that_tells_more_apart_is_indexed() {
        let hub = |n: u32| Selector {
            local: TrafficSelector {
                addresses: AddressRange { first: (n << 8).into(), last: (n << 8 | 255).into(), is_v6: false },
                protocol: None,
                ports: Ports::Any,
            },
            remote: "0.0.0.0/0".parse().expect("everything"),
        };
        let selectors: Vec<Selector> = (0..100).map(hub).collect();
        let index = AddressIndex::new(&selectors, |selector| Some(selector));
        let flow = FlowKey::new([0, 0, 7, 9].into(), [8, 8, 8, 8].into(), 6, None);
        assert_eq!(index.candidates(&flow), [7]);
    }
}
