//! How far an SA may go before the store must know more.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An SA, or a pair of them, by a number that its gateway gives it and that no other of its group
/// has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SaId(pub u64);

impl fmt::Display for SaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// An SA's marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// The last outbound sequence number that may be used.
    pub sent: u64,
    /// The last inbound sequence number that may be accepted.
    pub ceiling: u64,
    /// The highest inbound sequence number that was accepted, as far as the store knows.
    pub received: u64,
    /// Where the term's IVs of counter ciphers begin: the IV of a packet is this plus its number,
    /// modulo 2^64.
    pub iv_start: u64,
}

impl Marks {
    /// The length of encoded marks.
    pub const LEN: usize = 32;

    /// The marks as the store has them, in network byte order.
    pub fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let marks = [self.sent, self.ceiling, self.received, self.iv_start];
        for (place, mark) in bytes.chunks_exact_mut(8).zip(marks) {
            place.copy_from_slice(&mark.to_be_bytes());
        }
        bytes
    }

    /// The marks in these bytes; `None` if there are too few or too many.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.try_into().ok()?;
        let mark = |at: usize| bytes[at..].first_chunk().map(|mark| u64::from_be_bytes(*mark));
        Some(Self { sent: mark(0)?, ceiling: mark(8)?, received: mark(16)?, iv_start: mark(24)? })
    }

    /// The IV after all that may have been used with these marks.
    pub(crate) fn next_iv(&self) -> u64 {
        self.iv_start.wrapping_add(self.sent).wrapping_add(1)
    }
}

/// How many sequence numbers are reserved at once: as many as were used in a time, between bounds.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// The number with which an SA begins.
    pub first: u64,
    /// The lowest number.
    pub least: u64,
    /// The highest number.
    pub most: u64,
    /// The time, in ns.
    pub time_ns: u64,
}

impl Span {
    /// For outbound numbers: a takeover leaves up to this many unused, which costs nothing but
    /// numbers.
    pub const OUTBOUND: Self = Self { first: 1 << 20, least: 1 << 18, most: 1 << 22, time_ns: 4_000_000_000 };
    /// For inbound numbers: after a takeover in strict mode, up to this many packets of the peer
    /// are dropped, so it is short. A gateway holds packets that come before more is reserved, so
    /// that a reserve that is too small costs a delay and no packet. 0.2 s are some tens of round
    /// trips to the store. With 4 numbers an SA asks for more at each second packet, and with 50
    /// packets a second at each fifth.
    pub const INBOUND: Self = Self { first: 16, least: 4, most: 1 << 20, time_ns: 200_000_000 };

    /// A longer one: fewer requests for as many packets.
    pub(crate) fn times(&self, factor: u32) -> Self {
        let of = |count: u64| (count * u64::from(factor)).min(self.most);
        Self { least: of(self.least), time_ns: self.time_ns * u64::from(factor), ..*self }
    }
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
    pub(crate) fn extend(&mut self, span: &Span, end: u64, used: u64, now_ns: u64) -> Option<u64> {
        if end.saturating_sub(used) > end.saturating_sub(self.base) / 2 {
            return None;
        }
        // A burst is no rate.
        let elapsed_ns = u128::from(now_ns.saturating_sub(self.at_ns).max(span.time_ns / 4).max(1));
        let in_time = u128::from(used.saturating_sub(self.base)) * u128::from(span.time_ns) / elapsed_ns;
        let in_time = u64::try_from(in_time).unwrap_or(u64::MAX);
        let count = in_time.min(self.in_time).clamp(span.least, span.most);
        *self = Self { base: used, at_ns: now_ns, in_time };
        Some(used.saturating_add(count)).filter(|new| *new > end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span { first: 100, least: 100, most: 1000, time_ns: 1_000 };

    #[test]
    fn marks_are_decoded_as_they_were_encoded() {
        let marks = Marks { sent: 1, ceiling: u64::MAX, received: 0x0102_0304_0506_0708, iv_start: 5 };
        assert_eq!(Marks::decode(&marks.encode()), Some(marks));
        assert_eq!(Marks::decode(&[0; Marks::LEN - 1]), None);
        assert_eq!(Marks::decode(&[0; Marks::LEN + 1]), None);
    }

    #[test]
    fn a_reserve_is_extended_when_half_of_it_is_used() {
        let mut reserve = Reserve::new(0, 0);
        assert_eq!(reserve.extend(&SPAN, 100, 49, 1_000_000), None);
        assert_eq!(reserve.extend(&SPAN, 100, 50, 1_000_000), Some(150));
        assert_eq!(reserve.extend(&SPAN, 150, 90, 1_000_000), None);
    }

    #[test]
    fn a_reserve_follows_the_rate_between_its_bounds() {
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, 100, 100, 500), Some(300));
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, 100, 100, 250), Some(500));
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, 100, 100, 1), Some(500), "a burst is no rate");
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, 300, 300, 250), Some(1300));
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, 100, 100, u64::MAX), Some(200));
        assert_eq!(Reserve::new(0, 0).extend(&SPAN, u64::MAX, u64::MAX, 1), None);
    }

    #[test]
    fn a_jump_of_the_peer_is_not_taken_for_a_rate() {
        const MS: u64 = 1_000_000;
        let span = Span::INBOUND;
        let mut reserve = Reserve::of_peer(0, 0);
        // After a takeover the peer is far ahead, and sends 50 packets a second.
        assert_eq!(reserve.extend(&span, 16, 5_000, 3 * MS), Some(5_004));
        assert_eq!(reserve.extend(&span, 5_004, 5_002, 43 * MS), Some(5_010));
        // Later it leaves out a million numbers.
        assert_eq!(reserve.extend(&span, 5_010, 5_006, 143 * MS), Some(5_014));
        assert_eq!(reserve.extend(&span, 5_014, 1_005_006, 163 * MS), Some(1_005_014));
        assert_eq!(reserve.extend(&span, 1_005_014, 1_005_010, 263 * MS), Some(1_005_018));
    }

    #[test]
    fn a_burst_after_a_pause_has_what_it_needs_at_the_third_request() {
        const MS: u64 = 1_000_000;
        let span = Span::INBOUND;
        let mut reserve = Reserve::of_peer(0, 0);
        // 1,000 packets a second after a minute without any; the store answers in 10 ms.
        let begin_ns = 60_000 * MS;
        assert_eq!(reserve.extend(&span, 4, 2, begin_ns), Some(6));
        assert_eq!(reserve.extend(&span, 6, 12, begin_ns + 10 * MS), Some(16));
        assert_eq!(reserve.extend(&span, 16, 22, begin_ns + 20 * MS), Some(62), "40 ms of packets");
    }
}
