//! IPv4's identification of outer packets, by which their fragments are put together again.

/// Counters of a worker: more pairs of addresses than that share some.
const COUNTERS: usize = 64;
/// The least range that is more than a burst. With more workers than have such a range of their
/// own, some share it.
const LEAST: u32 = 512;

/// The identifications that a worker gives out. Those of one source, destination and protocol must
/// differ while their packets live (RFC 6864 section 4.3), whatever SA and whatever worker they are
/// of. So they come from a counter of the three, as Linux has it, and each worker has a range of
/// its own.
#[derive(Debug)]
pub(crate) struct Identifications {
    next: [u32; COUNTERS],
    /// The range begins here,
    first: u32,
    /// and ends before this number.
    end: u32,
}

impl Identifications {
    /// The counters of one of `workers`, which begin at numbers that `seed` chooses.
    pub(crate) fn new(worker: u16, workers: u16, seed: u64) -> Self {
        let all = u32::from(u16::MAX) + 1;
        let len = (all / u32::from(workers.max(1))).max(LEAST);
        let start = u32::from(worker) % (all / len) * len;
        // Linux replaces 0 by a number of its own in a packet that includes its header (raw(7)),
        // which would break AH.
        let (first, end) = (start.max(1), start + len);
        let next = std::array::from_fn(|at| {
            let random = (seed ^ at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            first + random as u32 % (end - first)
        });
        Self { next, first, end }
    }

    /// Takes the identification of one packet.
    pub(crate) fn take_one(&mut self, flow: OuterFlow) -> u16 {
        self.take(flow, 0, 1).of(0)
    }

    /// Takes the identifications of the next `packets` of a flow, whose first has this sequence
    /// number.
    #[inline(always)]
    pub(crate) fn take(&mut self, flow: OuterFlow, sequence: u64, packets: usize) -> Series {
        let next = &mut self.next[flow.counter()];
        let mut first = *next;
        if first + packets as u32 > self.end {
            first = self.first;
        }
        *next = first + packets as u32;
        Series((first as u16).wrapping_sub(sequence as u16))
    }
}

/// A source, destination and protocol: their [sum](convoy_packet::IpTemplate::address_sum).
#[derive(Clone, Copy, Debug)]
pub(crate) struct OuterFlow(pub(crate) u16);

impl OuterFlow {
    #[inline]
    fn counter(self) -> usize {
        usize::from(self.0 ^ self.0 >> 8) % COUNTERS
    }
}

/// The identifications of packets that an SA numbers together: what is added to a sequence number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Series(u16);

impl Series {
    /// The identification of the packet with this sequence number.
    #[inline(always)]
    pub(crate) fn of(self, sequence: u64) -> u16 {
        self.0.wrapping_add(sequence as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::{IpHeader, IpTemplate};
    use std::collections::HashSet;

    fn flow(last: u8) -> OuterFlow {
        OuterFlow(
            IpTemplate::new(&IpHeader::new(50, [192, 0, 2, 1].into(), [192, 0, 2, last].into()))
                .address_sum(),
        )
    }

    #[test]
    fn the_packets_of_all_sas_and_workers_between_two_addresses_differ() {
        for workers in [1, 2, 3, 8, 128] {
            let mut all: Vec<_> = (0..workers)
                .map(|worker| Identifications::new(worker, workers, 7 + u64::from(worker)))
                .collect();
            let mut seen = HashSet::new();
            // Each worker has two SAs, which send in turns and whose sequence numbers are equal.
            for burst in 0..7_u64 {
                for own in &mut all {
                    for _sa in 0..2 {
                        let sequence = 1 + 32 * burst;
                        let series = own.take(flow(2), sequence, 32);
                        for number in sequence..sequence + 32 {
                            assert!(seen.insert(series.of(number)), "{workers} workers: one twice");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn none_is_0_and_a_counter_comes_round_only_after_nearly_all_of_its_numbers() {
        for (worker, workers, own) in [(0, 1, 65_535), (0, 4, 16_383), (3, 4, 16_384), (299, 300, 512)] {
            let mut ids = Identifications::new(worker, workers, 1);
            let series = |ids: &mut Identifications| {
                let series = ids.take(flow(2), 70_000, 32);
                (70_000..70_032).map(|number| series.of(number)).collect::<Vec<_>>()
            };
            let mut seen = HashSet::new();
            while series(&mut ids).into_iter().all(|id| seen.insert(id)) {}
            assert!(!seen.contains(&0));
            assert!(seen.len() > own - 64, "{} of {own}", seen.len());
        }
    }

    #[test]
    fn pairs_of_addresses_have_counters_of_their_own() {
        let flows: HashSet<_> = (1..=32).map(|last| flow(last).counter()).collect();
        assert!(flows.len() > 16, "{}", flows.len());
    }
}
