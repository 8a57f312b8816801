//! Release in the order of a stream, whatever the order in which engines complete.

use std::collections::VecDeque;
use std::ops::Range;

/// Buffers kept for reuse.
const SPARE_BUFFERS: usize = 256;

/// Finished packets with consecutive positions that wait for earlier ones.
struct Run<T> {
    first: u64,
    /// One past its last position.
    end: u64,
    /// Empty where the packets leave by other means.
    packets: Vec<T>,
}

struct Stream<T> {
    /// The next position to be released.
    turn: u64,
    /// The next position to be assigned.
    next: u64,
    /// Finished runs that are not next, in order.
    waiting: VecDeque<Run<T>>,
}

/// Releases the packets of a stream in the order of their admission: those of one SA, or all of a
/// direction if trains of many SAs go to engines.
///
/// Packets that go to an engine together are admitted together and get consecutive positions. They
/// may come back in parts. A train whose turn it is takes constant time, any other a search among
/// the waiting ones.
///
/// ```
/// let mut order = convoy_scheduler::OrderedRelease::new();
/// let (first, second) = (order.admit(3, 1), order.admit(3, 2));
/// let mut released = Vec::new();
/// order.complete(3, second, &mut vec!["second", "third"], &mut released);
/// assert!(released.is_empty());
/// order.complete(3, first, &mut vec!["first"], &mut released);
/// assert_eq!(released, ["first", "second", "third"]);
/// ```
pub struct OrderedRelease<T> {
    streams: Vec<Stream<T>>,
    spare: Vec<Vec<T>>,
}

impl<T> Default for OrderedRelease<T> {
    fn default() -> Self {
        Self { streams: Vec::new(), spare: Vec::new() }
    }
}

impl<T> OrderedRelease<T> {
    /// An order without streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Assigns positions to the next packets of a stream; returns the first.
    #[inline]
    pub fn admit(&mut self, stream: u32, packets: usize) -> u64 {
        let at = stream as usize;
        if at >= self.streams.len() {
            self.ensure_stream(at);
        }
        let stream = &mut self.streams[at];
        let first = stream.next;
        stream.next += packets as u64;
        first
    }

    #[cold]
    fn ensure_stream(&mut self, at: usize) {
        self.streams.resize_with(at + 1, || Stream { turn: 0, next: 0, waiting: VecDeque::new() });
    }

    /// Completes the consecutive positions of `packets` from `first` on, and appends all packets
    /// that may leave now to `released`. An empty buffer for reuse is left in `packets`. Positions
    /// that were never assigned or are complete already are released at once rather than lost.
    #[inline]
    pub fn complete(&mut self, stream: u32, first: u64, packets: &mut Vec<T>, released: &mut Vec<T>) {
        self.complete_run(stream, first..first + packets.len() as u64, packets, released);
    }

    /// Completes positions whose packets leave by other means. Packets that waited for them are
    /// appended to `released`.
    pub fn pass(&mut self, stream: u32, first: u64, packets: usize, released: &mut Vec<T>) {
        self.complete_run(stream, first..first + packets as u64, &mut Vec::new(), released);
    }

    #[inline]
    fn complete_run(&mut self, stream: u32, places: Range<u64>, packets: &mut Vec<T>, released: &mut Vec<T>) {
        let Range { start: first, end } = places;
        let is_next = |stream: &&mut Stream<T>| stream.is_next(first, end);
        let Some(stream) = self.streams.get_mut(stream as usize).filter(is_next) else {
            return self.complete_out_of_turn(stream, places, packets, released);
        };
        stream.turn = end;
        if released.is_empty() {
            // Swapped, not copied.
            std::mem::swap(released, packets);
        } else {
            released.append(packets);
        }
        if !stream.waiting.is_empty() {
            stream.release_waiting(&mut self.spare, released);
        }
    }

    #[inline(never)]
    fn complete_out_of_turn(
        &mut self,
        stream: u32,
        places: Range<u64>,
        packets: &mut Vec<T>,
        released: &mut Vec<T>,
    ) {
        let Range { start: first, end } = places;
        match self.streams.get_mut(stream as usize).filter(|stream| stream.is_open(first, end)) {
            Some(_) if first == end => {}
            Some(stream) => {
                let packets = std::mem::replace(packets, self.spare.pop().unwrap_or_default());
                stream.wait(Run { first, end, packets });
            }
            None => released.append(packets),
        }
    }

    /// Packets of a stream that are not released yet.
    pub fn outstanding(&self, stream: u32) -> u64 {
        self.streams.get(stream as usize).map_or(0, |stream| stream.next - stream.turn)
    }

    /// The position that a stream's next packet gets. Once [`has_left`](Self::has_left) is true for
    /// it, all packets admitted before have left.
    pub fn next_place(&self, stream: u32) -> u64 {
        self.streams.get(stream as usize).map_or(0, |stream| stream.next)
    }

    /// Whether all packets of a stream before a position have left.
    pub fn has_left(&self, stream: u32, place: u64) -> bool {
        self.streams.get(stream as usize).is_none_or(|stream| stream.turn >= place)
    }

    /// Removes a stream, so that its number can be reused. Packets that it still held are returned,
    /// in order.
    pub fn remove(&mut self, stream: u32) -> Vec<T> {
        let Some(stream) = self.streams.get_mut(stream as usize) else { return Vec::new() };
        stream.turn = stream.next;
        stream.waiting.drain(..).flat_map(|run| run.packets).collect()
    }
}

impl<T> Stream<T> {
    /// Whether these positions are assigned, incomplete, and next.
    #[inline]
    fn is_next(&self, first: u64, end: u64) -> bool {
        first == self.turn && end <= self.next && self.waiting.front().is_none_or(|run| end <= run.first)
    }

    /// Whether these positions are assigned and incomplete.
    fn is_open(&self, first: u64, end: u64) -> bool {
        let is_apart = |run: &Run<T>| end <= run.first || run.end <= first;
        first >= self.turn && end <= self.next && self.waiting.iter().all(is_apart)
    }

    /// Inserts a run among the waiting ones, mostly at the end.
    fn wait(&mut self, run: Run<T>) {
        let behind = self.waiting.iter().rev().take_while(|other| other.first > run.first).count();
        self.waiting.insert(self.waiting.len() - behind, run);
    }

    /// Releases the runs that have become next.
    #[inline(never)]
    fn release_waiting(&mut self, spare: &mut Vec<Vec<T>>, released: &mut Vec<T>) {
        while self.waiting.front().is_some_and(|run| run.first == self.turn)
            && let Some(mut run) = self.waiting.pop_front()
        {
            self.turn = run.end;
            released.append(&mut run.packets);
            if spare.len() < SPARE_BUFFERS {
                spare.push(run.packets);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_removed_stream_gives_back_what_it_held_and_starts_again() {
        let mut order = OrderedRelease::new();
        let first = order.admit(0, 2);
        order.complete(0, first + 1, &mut vec!['b'], &mut Vec::new());
        assert_eq!(order.remove(0), ['b']);
        let mut released = Vec::new();
        let place = order.admit(0, 1);
        order.complete(0, place, &mut vec!['c'], &mut released);
        // A packet that comes back after its stream was removed is not lost either.
        order.complete(0, first, &mut vec!['a'], &mut released);
        assert_eq!(released, ['c', 'a']);
    }

    #[test]
    fn a_train_may_come_back_in_parts_and_what_is_complete_already_is_not_lost() {
        let mut order = OrderedRelease::new();
        assert_eq!([order.admit(0, 4), order.admit(0, 2)], [0, 4]);
        let mut released = Vec::new();
        for (place, packets) in [(2, vec![2, 3]), (4, vec![4, 5]), (1, vec![1]), (0, vec![])] {
            order.complete(0, place, &mut { packets }, &mut released);
            assert!(released.is_empty());
        }
        assert_eq!((order.outstanding(0), order.has_left(0, 1)), (6, false));
        order.complete(0, 0, &mut vec![0], &mut released);
        assert_eq!(released, [0, 1, 2, 3, 4, 5]);
        order.complete(0, 4, &mut vec![4, 5], &mut released);
        assert_eq!(released[6..], [4, 5]);
        assert_eq!((order.outstanding(0), order.has_left(0, order.next_place(0))), (0, true));
    }

    proptest! {
        #[test]
        fn every_packet_leaves_once_and_in_the_order_of_its_stream(
            trains in proptest::collection::vec((0u32..4, 1usize..5), 1..40),
            shuffle in proptest::collection::vec((any::<prop::sample::Index>(), 0usize..5), 200),
        ) {
            let mut order = OrderedRelease::new();
            let mut open = Vec::new();
            let mut all = 0;
            for (stream, count) in trains {
                let first = order.admit(stream, count);
                let places = first..first + count as u64;
                let packets: Vec<(u32, u64)> = places.map(|place| (stream, place)).collect();
                open.push((stream, first, packets));
                all += count;
            }
            let mut released = Vec::new();
            // Trains come back in any order, whole or cut in two.
            for (pick, cut) in shuffle {
                if open.is_empty() { break; }
                let (stream, first, mut packets) = open.remove(pick.index(open.len()));
                let rest = packets.split_off(cut.clamp(1, packets.len()));
                if !rest.is_empty() {
                    open.push((stream, first + packets.len() as u64, rest));
                }
                order.complete(stream, first, &mut packets, &mut released);
                prop_assert!(packets.is_empty());
            }
            for (stream, first, mut packets) in open {
                order.complete(stream, first, &mut packets, &mut released);
            }
            prop_assert_eq!(released.len(), all);
            for stream in 0..4 {
                let of_stream: Vec<u64> =
                    released.iter().filter(|(of, _)| *of == stream).map(|(_, place)| *place).collect();
                prop_assert!(of_stream.iter().enumerate().all(|(at, place)| at as u64 == *place));
            }
        }
    }
}
