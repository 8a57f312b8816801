//! How many sequence numbers are reserved at once.

/// How many sequence numbers are reserved at once: as many as were used in a time, between bounds.
#[derive(Clone, Copy, Debug)]
pub struct ReserveSize {
    /// Numbers with which an SA starts.
    pub first: u64,
    /// The fewest numbers.
    pub least: u64,
    /// The most numbers.
    pub most: u64,
    /// The time, in ns.
    pub time_ns: u64,
}

impl ReserveSize {
    /// For outbound numbers in a cluster: a takeover leaves up to this many unused, which costs
    /// nothing but numbers.
    pub const OUTBOUND: Self = Self { first: 1 << 20, least: 1 << 18, most: 1 << 22, time_ns: 4_000_000_000 };
    /// For inbound numbers in a cluster: after a takeover in strict mode, up to this many packets
    /// of the peer are dropped, so it is short. A gateway holds packets that come before more is
    /// reserved, so that a reserve that is too small costs a delay and no packet. 0.2 s are some
    /// tens of round trips to the store. With 4 numbers an SA asks for more at each second packet,
    /// and with 50 packets a second at each fifth.
    pub const INBOUND: Self = Self { first: 16, least: 4, most: 1 << 20, time_ns: 200_000_000 };
    /// For outbound numbers in the state file. A gateway that is killed leaves the rest unused, so
    /// 32-bit numbers last for 16,384 such ends; at 1.5 million packets a second half of the first
    /// ones last for 87 ms, in which the disk must respond. The most is a thousandth of all 32-bit
    /// numbers.
    pub const STATE_FILE: Self = Self { first: 1 << 18, ..Self::OUTBOUND };

    /// A larger one: fewer writes for as many packets.
    pub(crate) fn times(&self, factor: u32) -> Self {
        let of = |count: u64| (count * u64::from(factor)).min(self.most);
        Self { least: of(self.least), time_ns: self.time_ns * u64::from(factor), ..*self }
    }
}

/// Whether half of the numbers up to `end` is used that were left when `base` was.
pub fn is_half_used(base: u64, end: u64, used: u64) -> bool {
    end.saturating_sub(used) <= end.saturating_sub(base) / 2
}

/// The reserve of one direction of an SA: when it was made, from which number on, and how many
/// numbers the rate before asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserve {
    base: u64,
    at_ns: u64,
    in_time: u64,
}

impl Reserve {
    /// One whose first rate is believed.
    pub(crate) fn new(base: u64, at_ns: u64) -> Self {
        Self { base, at_ns, in_time: u64::MAX }
    }

    /// One of a peer that may be anywhere above `base`: the distance to it is not a rate.
    pub(crate) fn of_peer(base: u64, at_ns: u64) -> Self {
        Self { in_time: 0, ..Self::new(base, at_ns) }
    }

    /// The new end of the reserve, if half of what ends at `end` is used. It follows the lower one
    /// of the last two rates: a peer that leaves out numbers, as it does after a takeover of its
    /// own, seems to have a high rate once. A burst after a pause thus has what it needs at its
    /// third request.
    pub(crate) fn extend(&mut self, size: &ReserveSize, end: u64, used: u64, now_ns: u64) -> Option<u64> {
        if !is_half_used(self.base, end, used) {
            return None;
        }
        // A burst is no rate.
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.at_ns).max(size.time_ns / 4).max(1));
        let in_time = u128::from(used.saturating_sub(self.base)) * u128::from(size.time_ns) / elapsed_ns;
        let in_time = u64::try_from(in_time).unwrap_or(u64::MAX);
        let count = in_time.min(self.in_time).clamp(size.least, size.most);
        *self = Self { base: used, at_ns: now_ns, in_time };
        Some(used.saturating_add(count)).filter(|new| *new > end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: ReserveSize = ReserveSize { first: 100, least: 100, most: 1000, time_ns: 1_000 };
    const MS: u64 = 1_000_000;

    #[test]
    fn reserve_is_extended_when_half_of_it_is_used() {
        let mut reserve = Reserve::new(0, 0);
        assert_eq!(reserve.extend(&SIZE, 100, 49, 1_000_000), None);
        assert_eq!(reserve.extend(&SIZE, 100, 50, 1_000_000), Some(150));
        assert_eq!(reserve.extend(&SIZE, 150, 90, 1_000_000), None);
    }

    #[test]
    fn reserve_follows_the_rate_between_its_bounds() {
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, 100, 100, 500), Some(300));
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, 100, 100, 250), Some(500));
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, 100, 100, 1), Some(500), "a burst is no rate");
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, 300, 300, 250), Some(1300));
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, 100, 100, u64::MAX), Some(200));
        assert_eq!(Reserve::new(0, 0).extend(&SIZE, u64::MAX, u64::MAX, 1), None);
    }

    #[test]
    fn jump_of_the_peer_is_no_rate() {
        let size = ReserveSize::INBOUND;
        let mut reserve = Reserve::of_peer(0, 0);
        // After a takeover the peer is far ahead, and sends 50 packets a second.
        assert_eq!(reserve.extend(&size, 16, 5_000, 3 * MS), Some(5_004));
        assert_eq!(reserve.extend(&size, 5_004, 5_002, 43 * MS), Some(5_010));
        // Later it leaves out a million numbers.
        assert_eq!(reserve.extend(&size, 5_010, 5_006, 143 * MS), Some(5_014));
        assert_eq!(reserve.extend(&size, 5_014, 1_005_006, 163 * MS), Some(1_005_014));
        assert_eq!(reserve.extend(&size, 1_005_014, 1_005_010, 263 * MS), Some(1_005_018));
    }

    #[test]
    fn burst_after_a_pause_has_what_it_needs_at_the_third_request() {
        let size = ReserveSize::INBOUND;
        let mut reserve = Reserve::of_peer(0, 0);
        // 1,000 packets a second after a minute without any; the store answers in 10 ms.
        let begin_ns = 60_000 * MS;
        assert_eq!(reserve.extend(&size, 4, 2, begin_ns), Some(6));
        assert_eq!(reserve.extend(&size, 6, 12, begin_ns + 10 * MS), Some(16));
        assert_eq!(reserve.extend(&size, 16, 22, begin_ns + 20 * MS), Some(62), "40 ms of packets");
    }

    #[test]
    fn larger_reserve_has_more_numbers_of_a_longer_time() {
        let larger = ReserveSize::INBOUND.times(64);
        assert_eq!((larger.least, larger.time_ns), (4 * 64, 12_800_000_000));
    }
}
