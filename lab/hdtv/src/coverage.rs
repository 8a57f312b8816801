//! Which bytes of a frame have arrived.

use std::ops::Range;

/// Disjoint ranges in ascending order. Packets that arrive in order extend a single range, so the
/// list stays short unless many packets are missing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    ranges: Vec<Range<usize>>,
}

impl Coverage {
    /// Adds a range and returns how many of its bytes are new.
    pub(crate) fn add(&mut self, range: Range<usize>) -> usize {
        if let Some(last) = self.ranges.last_mut()
            && last.end == range.start
        {
            last.end = range.end;
            return range.len();
        }
        self.insert(range)
    }

    fn insert(&mut self, range: Range<usize>) -> usize {
        let from = self.ranges.partition_point(|other| other.end < range.start);
        let until = self.ranges.partition_point(|other| other.start <= range.end);
        let mut whole = range;
        let mut had = 0;
        if from < until {
            had = self.ranges[from..until].iter().map(Range::len).sum();
            whole.start = whole.start.min(self.ranges[from].start);
            whole.end = whole.end.max(self.ranges[until - 1].end);
        }
        let new = whole.len() - had;
        self.ranges.splice(from..until, [whole]);
        new
    }

    /// Whether no byte of a range has arrived.
    pub(crate) fn is_free(&self, range: &Range<usize>) -> bool {
        if self.ranges.last().is_none_or(|last| last.end <= range.start) {
            return true;
        }
        let at = self.ranges.partition_point(|other| other.end <= range.start);
        self.ranges.get(at).is_none_or(|other| range.end <= other.start)
    }

    /// The missing ranges of a frame with this many bytes.
    pub(crate) fn holes(&self, frame_bytes: usize) -> Vec<Range<usize>> {
        let starts = std::iter::once(0).chain(self.ranges.iter().map(|range| range.end));
        let ends = self.ranges.iter().map(|range| range.start).chain([frame_bytes]);
        starts.zip(ends).filter(|(start, end)| start < end).map(|(start, end)| start..end).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_a_bit_for_each_byte_would_say(
            ranges in prop::collection::vec((0..60_usize, 1..20_usize), 0..20), asked in (0..60_usize, 1..20_usize),
        ) {
            let (mut coverage, mut bits) = (Coverage::default(), vec![false; 80]);
            for (start, len) in ranges {
                let new = bits[start..start + len].iter().filter(|bit| !**bit).count();
                prop_assert_eq!(coverage.add(start..start + len), new);
                bits[start..start + len].fill(true);
            }
            let asked = asked.0..asked.0 + asked.1;
            prop_assert_eq!(coverage.is_free(&asked), bits[asked].iter().all(|bit| !bit));
            let mut holes = vec![true; 80];
            coverage.holes(80).into_iter().for_each(|hole| holes[hole].fill(false));
            prop_assert_eq!(holes, bits);
        }
    }
}
