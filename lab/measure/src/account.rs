//! Counts lost, duplicated and reordered packets of a stream by their sequence numbers.

use serde::Serialize;

/// Reordering metrics (RFC 4737).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Reordering {
    /// Packets that arrived after one with a greater number (section 3.3).
    pub packets: u64,
    /// Mean reordering extent (section 4.2) of these packets: the number of packets received since
    /// the earliest one with a greater number.
    pub mean_extent: f64,
    /// The greatest reordering extent.
    pub greatest_extent: u64,
}

/// Arrivals of one stream. All memory is allocated at construction.
pub struct Account {
    /// One bit per sequence number.
    seen: Vec<u64>,
    packets: u64,
    received: u64,
    duplicated: u64,
    next_expected: u64,
    reordered: u64,
    extents: u64,
    greatest_extent: u64,
    /// Arrivals with a greater number than all before: their number, and how many packets had
    /// arrived before. A ring of the last [`RECORDS`].
    records: Box<[(u64, u64)]>,
    recorded: u64,
    /// Arrivals that turned out to be of an earlier stream.
    forgotten: u64,
}

/// Capacity of the ring. A packet that is older than all entries gets the extent of the oldest one.
const RECORDS: usize = 4096;

impl Account {
    /// For a stream of this many packets, numbered from 0.
    pub fn new(packets: u64) -> Self {
        Self {
            seen: vec![0; packets.div_ceil(64) as usize],
            packets,
            received: 0,
            duplicated: 0,
            next_expected: 0,
            reordered: 0,
            extents: 0,
            greatest_extent: 0,
            records: vec![(0, 0); RECORDS].into(),
            recorded: 0,
            forgotten: 0,
        }
    }

    /// Records an arrival. Returns whether it is the first with its number; `false` also for
    /// numbers that are not in the stream.
    #[inline]
    pub fn arrive(&mut self, sequence: u64) -> bool {
        if sequence >= self.packets {
            return false;
        }
        let (word, bit) = ((sequence / 64) as usize, 1 << (sequence % 64));
        if self.seen[word] & bit != 0 {
            self.duplicated += 1;
            return false;
        }
        self.seen[word] |= bit;
        if sequence >= self.next_expected {
            self.next_expected = sequence + 1;
            self.records[(self.recorded % RECORDS as u64) as usize] = (sequence, self.received);
            self.recorded += 1;
        } else {
            self.reorder(sequence);
        }
        self.received += 1;
        true
    }

    /// Takes the first `count` numbers out of the stream, which turned out to be of an earlier one:
    /// all others become lower by as much. Returns how many of them had arrived.
    ///
    /// This moves the memory of all numbers so far, so it is for exceptions.
    pub fn forget_first(&mut self, count: u64) -> u64 {
        let seen = |words: &[u64]| words.iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let (words, bits) = ((count / 64) as usize, (count % 64) as u32);
        let used = self.next_expected.div_ceil(64) as usize;
        let used = &mut self.seen[..used];
        let before = seen(used);
        for at in 0..used.len() {
            let word = |at: usize| used.get(at).copied().unwrap_or(0);
            let (low, high) = (word(at + words), word(at + words + 1));
            used[at] = (low >> bits) | high.checked_shl(64 - bits).unwrap_or(0);
        }
        let forgotten = before - seen(used);
        self.forgotten += forgotten;
        self.next_expected = self.next_expected.saturating_sub(count);
        // Those of the earlier stream are below every number of this one.
        self.records.iter_mut().for_each(|record| record.0 = record.0.saturating_sub(count));
        forgotten
    }

    /// The entries rise in both number and position, so the earliest arrival with a greater number
    /// is found by binary search.
    fn reorder(&mut self, sequence: u64) {
        let record = |nth: u64| self.records[(nth % RECORDS as u64) as usize];
        let (mut low, mut high) = (self.recorded.saturating_sub(RECORDS as u64), self.recorded - 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if record(middle).0 > sequence {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let extent = self.received - record(low).1;
        self.reordered += 1;
        self.extents += extent;
        self.greatest_extent = self.greatest_extent.max(extent);
    }

    /// Distinct packets that arrived.
    pub fn received(&self) -> u64 {
        self.received - self.forgotten
    }

    /// Repeated arrivals.
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Reordering metrics; duplicates do not count.
    pub fn reordering(&self) -> Reordering {
        let mean_extent = if self.reordered == 0 { 0.0 } else { self.extents as f64 / self.reordered as f64 };
        Reordering { packets: self.reordered, mean_extent, greatest_extent: self.greatest_extent }
    }

    /// Of the packets in a range of numbers: how many did not arrive, and the last of them.
    pub fn missing(&self, range: std::ops::Range<u64>) -> (u64, Option<u64>) {
        let is_missing = |sequence: &u64| self.seen[(sequence / 64) as usize] & (1 << (sequence % 64)) == 0;
        let range = range.start..range.end.min(self.packets);
        let last = range.clone().rev().find(is_missing);
        (range.filter(is_missing).count() as u64, last)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn account(packets: u64, arrivals: &[u64]) -> Account {
        let mut account = Account::new(packets);
        arrivals.iter().for_each(|sequence| {
            account.arrive(*sequence);
        });
        account
    }

    #[test]
    fn the_extent_counts_arrivals_since_the_earliest_with_a_greater_number() {
        let one = account(8, &[0, 1, 2, 4, 5, 6, 7, 3]);
        assert_eq!(one.reordering(), Reordering { packets: 1, mean_extent: 4.0, greatest_extent: 4 });
        let two = account(8, &[0, 2, 3, 1, 5, 4, 6, 7]);
        assert_eq!(two.reordering(), Reordering { packets: 2, mean_extent: 1.5, greatest_extent: 2 });
    }

    #[test]
    fn what_is_missing_is_reported_by_range_and_by_its_last() {
        let account = account(200, &(0..200).filter(|at| at % 10 != 3).collect::<Vec<_>>());
        assert_eq!(account.missing(0..200), (20, Some(193)));
        assert_eq!(account.missing(0..100), (10, Some(93)));
        assert_eq!(account.missing(4..13), (0, None));
        assert_eq!(account.reordering(), Reordering::default(), "loss is no reordering");
    }

    #[test]
    fn numbers_of_an_earlier_stream_are_forgotten_and_the_others_keep_their_order() {
        for earlier in [1, 64, 70] {
            let mut account = account(200, &[0, 1, earlier + 3, earlier + 1, earlier + 1, earlier + 90]);
            let forgotten = account.forget_first(earlier);
            assert_eq!((forgotten, account.received()), if earlier == 1 { (1, 4) } else { (2, 3) });
            assert_eq!(account.duplicated(), 1);
            assert_eq!(account.missing(1..4), (1, Some(2)));
            assert_eq!(account.missing(90..91), (0, None));
            assert!(account.arrive(89) && account.arrive(91));
            assert_eq!(account.reordering().packets, 2);
        }
    }

    #[test]
    fn a_packet_of_another_number_is_none_of_the_stream() {
        let mut account = Account::new(4);
        assert!(!account.arrive(4) && account.arrive(3) && !account.arrive(3));
        assert_eq!((account.received(), account.duplicated()), (1, 1));
    }

    proptest! {
        /// Compares with a direct implementation of the definitions.
        #[test]
        fn counts_are_those_of_the_definitions(arrivals in prop::collection::vec(0u64..60, 0..200)) {
            let account = account(60, &arrivals);
            let mut firsts: Vec<u64> = Vec::new();
            for sequence in &arrivals {
                if !firsts.contains(sequence) {
                    firsts.push(*sequence);
                }
            }
            prop_assert_eq!(account.received(), firsts.len() as u64);
            prop_assert_eq!(account.duplicated(), (arrivals.len() - firsts.len()) as u64);
            prop_assert_eq!(account.missing(0..60).0, 60 - firsts.len() as u64);
            let extents: Vec<u64> = (0..firsts.len())
                .filter_map(|at| {
                    let earliest = firsts[..at].iter().position(|other| *other > firsts[at]);
                    earliest.map(|earliest| (at - earliest) as u64)
                })
                .collect();
            let found = account.reordering();
            prop_assert_eq!(found.packets, extents.len() as u64);
            prop_assert_eq!(found.greatest_extent, extents.iter().copied().max().unwrap_or(0));
            let sum = extents.iter().sum::<u64>() as f64;
            prop_assert!((found.mean_extent * extents.len() as f64 - sum).abs() < 1e-6);
        }
    }
}
