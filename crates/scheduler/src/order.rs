//! Release in the order of each SA, whatever the order in which engines finish.

use std::collections::VecDeque;

enum Seat<T> {
    /// Still at an engine.
    Taken,
    /// Settled without a packet.
    Empty,
    /// Done, and waiting for those before it.
    Ready(T),
}

struct Lane<T> {
    /// The seat at the front of `seats`.
    first: u64,
    seats: VecDeque<Seat<T>>,
}

/// Lets packets of one SA go in the order in which they were admitted. Constant time per packet.
///
/// ```
/// let mut order = convoy_scheduler::OrderedRelease::new();
/// let (first, second) = (order.admit(3), order.admit(3));
/// let mut released = Vec::new();
/// order.settle(3, second, Some("second"), &mut released);
/// assert!(released.is_empty());
/// order.settle(3, first, Some("first"), &mut released);
/// assert_eq!(released, ["first", "second"]);
/// ```
pub struct OrderedRelease<T> {
    lanes: Vec<Lane<T>>,
}

impl<T> Default for OrderedRelease<T> {
    fn default() -> Self {
        Self { lanes: Vec::new() }
    }
}

impl<T> OrderedRelease<T> {
    /// Nothing admitted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the next packet of an SA its seat.
    pub fn admit(&mut self, sa: u32) -> u64 {
        let at = sa as usize;
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, || Lane { first: 0, seats: VecDeque::new() });
        }
        let lane = &mut self.lanes[at];
        lane.seats.push_back(Seat::Taken);
        lane.first + lane.seats.len() as u64 - 1
    }

    /// Settles a seat, with its packet or without (`None`: it was dropped), and appends all packets that can go
    /// now to `released`. A seat that was never given or is settled already changes nothing, but its packet is
    /// released at once rather than lost.
    pub fn settle(&mut self, sa: u32, seat: u64, packet: Option<T>, released: &mut Vec<T>) {
        let lane = self.lanes.get_mut(sa as usize);
        let place = lane.and_then(|lane| {
            let at = seat.checked_sub(lane.first)? as usize;
            matches!(lane.seats.get(at), Some(Seat::Taken)).then_some((lane, at))
        });
        let Some((lane, at)) = place else {
            released.extend(packet);
            return;
        };
        if at > 0 {
            lane.seats[at] = packet.map_or(Seat::Empty, Seat::Ready);
            return;
        }
        released.extend(packet);
        lane.seats.pop_front();
        lane.first += 1;
        while let Some(Seat::Empty | Seat::Ready(_)) = lane.seats.front() {
            lane.first += 1;
            if let Some(Seat::Ready(packet)) = lane.seats.pop_front() {
                released.push(packet);
            }
        }
    }

    /// Seats of an SA that are not settled or not released yet.
    pub fn outstanding(&self, sa: u32) -> usize {
        self.lanes.get(sa as usize).map_or(0, |lane| lane.seats.len())
    }

    /// Forgets an SA, so that its number can be given to another. What it still held is returned, in order.
    pub fn remove(&mut self, sa: u32) -> Vec<T> {
        let Some(lane) = self.lanes.get_mut(sa as usize) else { return Vec::new() };
        lane.first += lane.seats.len() as u64;
        lane.seats
            .drain(..)
            .filter_map(|seat| match seat {
                Seat::Ready(packet) => Some(packet),
                Seat::Taken | Seat::Empty => None,
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
        let seats: Vec<u64> = (0..3).map(|_| order.admit(0)).collect();
        let mut released = Vec::new();
        order.settle(0, seats[2], Some(2), &mut released);
        order.settle(0, seats[1], None, &mut released);
        order.settle(0, seats[0], Some(0), &mut released);
        assert_eq!(released, [0, 2]);
        assert_eq!(order.outstanding(0), 0);
    }

    #[test]
    fn a_removed_sa_gives_back_what_it_held_and_starts_anew() {
        let mut order = OrderedRelease::new();
        let seats: Vec<u64> = (0..2).map(|_| order.admit(0)).collect();
        order.settle(0, seats[1], Some('b'), &mut Vec::new());
        assert_eq!(order.remove(0), ['b']);
        let mut released = Vec::new();
        let seat = order.admit(0);
        order.settle(0, seat, Some('c'), &mut released);
        // A packet that comes back after its SA was removed is not lost either.
        order.settle(0, seats[0], Some('a'), &mut released);
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
                let (sa, seat, place) = open.swap_remove(pick.index(open.len()));
                order.settle(sa, seat, Some((sa, place)), &mut released);
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
