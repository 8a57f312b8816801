//! Where the IVs of a term begin.
//!
//! With a counter cipher one IV for two packets gives both away (RFC 4106, section 2). The numbers
//! in the store keep IVs apart as long as the store forgets nothing. So that a store which goes
//! back to an older state costs no nonce, each term begins its IVs by a hybrid logical clock: at
//! the wall clock, and behind all that the store or this member knows of. No gateway sends a packet
//! each nanosecond, so a term never reaches the time at which the next one begins. Without the
//! store's help this needs wall clocks of members that agree, as NTP has them.

use crate::marks::Marks;

/// A hybrid logical clock of IVs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IvClock {
    /// The first IV that no SA of this member can have used.
    next: u64,
}

impl IvClock {
    /// A clock behind what is known to have been used, if anything is.
    pub(crate) fn new(next: u64) -> Self {
        Self { next }
    }

    /// The first IV that no SA of this member can have used.
    pub(crate) fn next(self) -> u64 {
        self.next
    }

    /// These marks were asked for, so that all their IVs may be used.
    pub(crate) fn pass(&mut self, marks: &Marks) {
        self.next = self.next.max(marks.next_iv());
    }

    /// The `iv_start` of an SA whose next number is the one after `before.sent`.
    pub(crate) fn begin(self, wall_ns: u64, before: &Marks) -> u64 {
        let next = wall_ns.max(self.next).max(before.next_iv());
        next.wrapping_sub(before.sent).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(sent: u64, iv_start: u64) -> Marks {
        Marks { sent, iv_start, ..Marks::default() }
    }

    #[test]
    fn a_term_begins_at_the_wall_clock_and_behind_all_that_is_known() {
        let mut clock = IvClock::new(0);
        let first = |iv_start: u64, sent: u64| iv_start.wrapping_add(sent + 1);
        assert_eq!(first(clock.begin(1_000, &marks(10, 500)), 10), 1_000, "the wall clock");
        assert_eq!(first(clock.begin(1_000, &marks(10, 5_000)), 10), 5_011, "the store");
        clock.pass(&marks(2_000, 7_000));
        assert_eq!(first(clock.begin(1_000, &marks(10, 5_000)), 10), 9_001, "the member's memory");
        assert_eq!(IvClock::new(clock.next()), clock);
    }

    #[test]
    fn numbers_above_the_wall_clock_begin_below_zero() {
        let iv_start = IvClock::new(0).begin(1_000, &marks(5_000, 0u64.wrapping_sub(4_900)));
        assert_eq!(iv_start.wrapping_add(5_001), 1_000);
    }
}
