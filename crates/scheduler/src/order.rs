//! Release in the order of each SA, whatever the order in which engines finish.

use std::collections::VecDeque;

enum Entry<T> {
    /// Still at an engine.
    Taken,
    /// Completed without a packet.
    Empty,
    /// Done, and waiting for those before it.
    Ready(T),
}

struct SaOrder<T> {
    /// The index at the front of `entries`.
    first: u64,
    entries: VecDeque<Entry<T>>,
}

/// Lets packets of one SA go in the order in which they were admitted. Constant time per packet.
///
/// ```
/// let mut order = convoy_scheduler::OrderedRelease::new();
/// let (first, second) = (order.admit(3), order.admit(3));
/// let mut released = Vec::new();
/// order.complete(3, second, Some("second"), &mut released);
/// assert!(released.is_empty());
/// order.complete(3, first, Some("first"), &mut released);
/// assert_eq!(released, ["first", "second"]);
/// ```
pub struct OrderedRelease<T> {
    sas: Vec<SaOrder<T>>,
}

impl<T> Default for OrderedRelease<T> {
    fn default() -> Self {
        Self { sas: Vec::new() }
    }
}

impl<T> OrderedRelease<T> {
    /// Nothing admitted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the next packet of an SA its index.
    pub fn admit(&mut self, sa: u32) -> u64 {
        let at = sa as usize;
        if at >= self.sas.len() {
            self.sas.resize_with(at + 1, || SaOrder { first: 0, entries: VecDeque::new() });
        }
        let order = &mut self.sas[at];
        order.entries.push_back(Entry::Taken);
        order.first + order.entries.len() as u64 - 1
    }

    /// Completes an index, with its packet or without (`None`: it was dropped), and appends all packets that can go
    /// now to `released`. An index that was never given or is complete already changes nothing, but its packet is
    /// released at once rather than lost.
    pub fn complete(&mut self, sa: u32, index: u64, packet: Option<T>, released: &mut Vec<T>) {
        let order = self.sas.get_mut(sa as usize);
        let place = order.and_then(|order| {
            let at = index.checked_sub(order.first)? as usize;
            matches!(order.entries.get(at), Some(Entry::Taken)).then_some((order, at))
        });
        let Some((order, at)) = place else {
            released.extend(packet);
            return;
        };
        if at > 0 {
            order.entries[at] = packet.map_or(Entry::Empty, Entry::Ready);
            return;
        }
        released.extend(packet);
        order.entries.pop_front();
        order.first += 1;
        while let Some(Entry::Empty | Entry::Ready(_)) = order.entries.front() {
            order.first += 1;
            if let Some(Entry::Ready(packet)) = order.entries.pop_front() {
                released.push(packet);
            }
        }
    }

    /// Packets of an SA that are not complete or not released yet.
    pub fn outstanding(&self, sa: u32) -> usize {
        self.sas.get(sa as usize).map_or(0, |order| order.entries.len())
    }

    /// Forgets an SA, so that its number can be given to another. What it still held is returned, in order.
    pub fn remove(&mut self, sa: u32) -> Vec<T> {
        let Some(order) = self.sas.get_mut(sa as usize) else { return Vec::new() };
        order.first += order.entries.len() as u64;
        order
            .entries
            .drain(..)
            .filter_map(|index| match index {
                Entry::Ready(packet) => Some(packet),
                Entry::Taken | Entry::Empty => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_dropped_packet_does_not_hold_up_those_behind_it() {
        let mut order = OrderedRelease::new();
        let entries: Vec<u64> = (0..3).map(|_| order.admit(0)).collect();
        let mut released = Vec::new();
        order.complete(0, entries[2], Some(2), &mut released);
        order.complete(0, entries[1], None, &mut released);
        order.complete(0, entries[0], Some(0), &mut released);
        assert_eq!(released, [0, 2]);
        assert_eq!(order.outstanding(0), 0);
    }

    #[test]
    fn a_removed_sa_gives_back_what_it_held_and_starts_anew() {
        let mut order = OrderedRelease::new();
        let entries: Vec<u64> = (0..2).map(|_| order.admit(0)).collect();
        order.complete(0, entries[1], Some('b'), &mut Vec::new());
        assert_eq!(order.remove(0), ['b']);
        let mut released = Vec::new();
        let index = order.admit(0);
        order.complete(0, index, Some('c'), &mut released);
        // A packet that comes back after its SA was removed is not lost either.
        order.complete(0, entries[0], Some('a'), &mut released);
        assert_eq!(released, ['c', 'a']);
    }

    proptest! {
        #[test]
        fn every_packet_leaves_once_and_in_the_order_of_its_sa(
            sas in proptest::collection::vec(0u32..4, 1..60),
            shuffle in proptest::collection::vec(any::<prop::sample::Index>(), 60),
        ) {
            let mut order = OrderedRelease::new();
            let mut open: Vec<(u32, u64, usize)> =
                sas.iter().enumerate().map(|(place, sa)| (*sa, order.admit(*sa), place)).collect();
            let mut released = Vec::new();
            for pick in shuffle {
                if open.is_empty() { break; }
                let (sa, index, place) = open.swap_remove(pick.index(open.len()));
                order.complete(sa, index, Some((sa, place)), &mut released);
            }
            prop_assert!(open.is_empty());
            prop_assert_eq!(released.len(), sas.len());
            for sa in 0..4 {
                let of_sa: Vec<usize> = released.iter().filter(|(of, _)| *of == sa).map(|(_, place)| *place).collect();
                prop_assert!(of_sa.is_sorted());
            }
        }
    }
}
