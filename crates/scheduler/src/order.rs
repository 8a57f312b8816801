//! Release in the order of each SA, whatever the order in which engines finish.

use std::collections::VecDeque;

/// Buffers that are kept for reuse.
const SPARE_BUFFERS: usize = 256;

/// Packets with consecutive indices that are done and wait for those before them.
struct Run<T> {
    first: u64,
    /// Behind the last index. There may be fewer packets than indices, since some were dropped.
    end: u64,
    packets: Vec<T>,
}

struct SaOrder<T> {
    /// The index whose turn it is.
    turn: u64,
    /// The index that is given next.
    next: u64,
    /// What is done and out of turn, in order.
    waiting: VecDeque<Run<T>>,
}

/// Lets packets of one SA go in the order in which they were admitted.
///
/// Packets that come back together mostly have consecutive indices, and [`complete_all`](Self::complete_all) takes them as one: constant time for a
/// multi-packet whose turn it is, else a search among those that wait for theirs.
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
    spare: Vec<Vec<T>>,
}

impl<T> Default for OrderedRelease<T> {
    fn default() -> Self {
        Self { sas: Vec::new(), spare: Vec::new() }
    }
}

impl<T> OrderedRelease<T> {
    /// Nothing admitted yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the next packet of an SA its index.
    #[inline]
    pub fn admit(&mut self, sa: u32) -> u64 {
        let at = sa as usize;
        if at >= self.sas.len() {
            self.know(at);
        }
        let order = &mut self.sas[at];
        order.next += 1;
        order.next - 1
    }

    #[cold]
    fn know(&mut self, at: usize) {
        self.sas.resize_with(at + 1, || SaOrder { turn: 0, next: 0, waiting: VecDeque::new() });
    }

    /// Completes an index, with its packet or without (`None`: it was dropped), and appends all packets that can go
    /// now to `released`. An index that was never given or is complete already changes nothing, but its packet is
    /// released at once rather than lost.
    pub fn complete(&mut self, sa: u32, index: u64, packet: Option<T>, released: &mut Vec<T>) {
        let mut packets = self.spare.pop().unwrap_or_default();
        packets.extend(packet);
        self.complete_run(sa, index, index + 1, &mut packets, released);
        self.keep_buffer(packets);
    }

    /// Completes the indices of several packets of one SA, of which `index_of` tells, and appends all packets that can go now to `released`. A buffer
    /// for other packets is left in `packets`, and nothing in it. An index that was never given or is complete already is treated as
    /// [`complete`](Self::complete) does.
    #[inline]
    pub fn complete_all(
        &mut self,
        sa: u32,
        packets: &mut Vec<T>,
        index_of: impl Fn(&T) -> u64,
        released: &mut Vec<T>,
    ) {
        while let Some(first) = packets.first().map(&index_of) {
            let is_next = |(packet, index): (&T, u64)| index_of(packet) == index;
            let run =
                packets.iter().zip(first..).take_while(|(packet, index)| is_next((packet, *index))).count();
            let end = first + run as u64;
            if run == packets.len() {
                return self.complete_run(sa, first, end, packets, released);
            }
            let mut part = self.spare.pop().unwrap_or_default();
            part.extend(packets.drain(..run));
            self.complete_run(sa, first, end, &mut part, released);
            self.keep_buffer(part);
        }
    }

    /// Completes consecutive indices, and leaves an empty buffer in `packets`.
    #[inline]
    fn complete_run(&mut self, sa: u32, first: u64, end: u64, packets: &mut Vec<T>, released: &mut Vec<T>) {
        let is_up = |order: &&mut SaOrder<T>| order.is_up(first, end);
        let Some(order) = self.sas.get_mut(sa as usize).filter(is_up) else {
            return self.complete_out_of_turn(sa, first, end, packets, released);
        };
        released.append(packets);
        order.turn = end;
        if !order.waiting.is_empty() {
            self.release_waiting(sa, released);
        }
    }

    /// Lets go what has waited for the turn.
    #[inline(never)]
    fn release_waiting(&mut self, sa: u32, released: &mut Vec<T>) {
        let order = &mut self.sas[sa as usize];
        while order.waiting.front().is_some_and(|run| run.first == order.turn)
            && let Some(mut run) = order.waiting.pop_front()
        {
            order.turn = run.end;
            released.append(&mut run.packets);
            keep(&mut self.spare, run.packets);
        }
    }

    #[inline(never)]
    fn complete_out_of_turn(
        &mut self,
        sa: u32,
        first: u64,
        end: u64,
        packets: &mut Vec<T>,
        released: &mut Vec<T>,
    ) {
        let Some(order) = self.sas.get_mut(sa as usize).filter(|order| order.is_open(first, end)) else {
            return self.complete_one_by_one(sa, first, end, packets, released);
        };
        let packets = std::mem::replace(packets, self.spare.pop().unwrap_or_default());
        order.wait(Run { first, end, packets });
    }

    /// Completes those indices of a run that may be.
    #[cold]
    fn complete_one_by_one(
        &mut self,
        sa: u32,
        first: u64,
        end: u64,
        packets: &mut Vec<T>,
        released: &mut Vec<T>,
    ) {
        if end - first == 1 {
            return released.append(packets);
        }
        for (index, packet) in (first..end).zip(packets.drain(..)) {
            self.complete(sa, index, Some(packet), released);
        }
    }

    fn keep_buffer(&mut self, buffer: Vec<T>) {
        keep(&mut self.spare, buffer);
    }

    /// Packets of an SA that are not complete or not released yet.
    pub fn outstanding(&self, sa: u32) -> usize {
        self.sas.get(sa as usize).map_or(0, |order| (order.next - order.turn) as usize)
    }

    /// Forgets an SA, so that its number can be given to another. What it still held is returned, in order.
    pub fn remove(&mut self, sa: u32) -> Vec<T> {
        let Some(order) = self.sas.get_mut(sa as usize) else { return Vec::new() };
        order.turn = order.next;
        order.waiting.drain(..).flat_map(|run| run.packets).collect()
    }
}

impl<T> SaOrder<T> {
    /// Whether these indices were given, none of them is complete, and it is their turn.
    #[inline]
    fn is_up(&self, first: u64, end: u64) -> bool {
        first == self.turn && end <= self.next && self.waiting.front().is_none_or(|run| end <= run.first)
    }

    /// Whether these indices were given and none of them is complete.
    fn is_open(&self, first: u64, end: u64) -> bool {
        let is_apart = |run: &Run<T>| end <= run.first || run.end <= first;
        first >= self.turn && end <= self.next && self.waiting.iter().all(is_apart)
    }

    /// Puts a run among those that wait, mostly at the end.
    fn wait(&mut self, run: Run<T>) {
        let behind = self.waiting.iter().rev().take_while(|other| other.first > run.first).count();
        self.waiting.insert(self.waiting.len() - behind, run);
    }
}

fn keep<T>(spare: &mut Vec<Vec<T>>, buffer: Vec<T>) {
    if spare.len() < SPARE_BUFFERS && buffer.capacity() > 0 {
        spare.push(buffer);
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

    #[test]
    fn several_that_come_back_together_wait_and_leave_as_one() {
        let mut order = OrderedRelease::new();
        let all: Vec<u64> = (0..6).map(|_| order.admit(0)).collect();
        let mut released = Vec::new();
        let mut complete = |indices: &[usize], released: &mut Vec<u64>| {
            let mut packets = indices.iter().map(|at| all[*at]).collect();
            order.complete_all(0, &mut packets, |index| *index, released);
            assert!(packets.is_empty());
        };
        complete(&[2, 3], &mut released);
        assert!(released.is_empty());
        // Part of them was done again: 4 came back before 1, which failed at first.
        complete(&[4, 1], &mut released);
        assert!(released.is_empty());
        complete(&[0], &mut released);
        assert_eq!(released, [0, 1, 2, 3, 4]);
        // What is complete already is not lost, and what is not is completed.
        complete(&[3, 4, 5], &mut released);
        assert_eq!(released[5..], [3, 4, 5]);
        assert_eq!(order.outstanding(0), 0);
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
                // As many of the SA at once as follow each other here, in whatever order.
                let at = pick.index(open.len());
                let sa = open[at].0;
                let together = open[at..].iter().take_while(|(of, ..)| *of == sa).count();
                let mut packets: Vec<_> = open.drain(at..at + together).collect();
                order.complete_all(sa, &mut packets, |(_, index, _)| *index, &mut released);
            }
            while let Some((sa, index, place)) = open.pop() {
                order.complete(sa, index, Some((sa, index, place)), &mut released);
            }
            let released: Vec<_> = released.into_iter().map(|(sa, _, place)| (sa, place)).collect();
            prop_assert!(open.is_empty());
            prop_assert_eq!(released.len(), sas.len());
            for sa in 0..4 {
                let of_sa: Vec<usize> = released.iter().filter(|(of, _)| *of == sa).map(|(_, place)| *place).collect();
                prop_assert!(of_sa.is_sorted());
            }
        }
    }
}
