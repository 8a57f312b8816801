//! Where the IVs of a start begin: a hybrid logical clock.

use crate::numbers::Reservation;

/// A clock of IVs, at the wall clock and behind all that is known to have been used. No gateway
/// sends a packet each nanosecond, so that a start never reaches the time at which the next one
/// begins. Without the store's help this needs wall clocks of gateways that agree, as NTP has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IvClock {
    /// The first IV that no SA known to it can have used.
    next: u64,
}

impl IvClock {
    /// A clock behind what is known to have been used, if anything is.
    pub fn new(next: u64) -> Self {
        Self { next }
    }

    /// The first IV that no SA known to it can have used.
    pub fn next(self) -> u64 {
        self.next
    }

    /// All IVs under this reservation may be used.
    pub fn pass(&mut self, reservation: &Reservation) {
        self.next = self.next.max(reservation.next_iv());
    }

    /// The `iv_start` of an SA that starts behind a reservation, so that its next number has an IV
    /// that was not used.
    pub fn begin(self, wall_ns: u64, behind: &Reservation) -> u64 {
        let next = wall_ns.max(self.next).max(behind.next_iv());
        next.wrapping_sub(behind.send_until).wrapping_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(send_until: u64, iv_start: u64) -> Reservation {
        Reservation { send_until, iv_start, ..Reservation::default() }
    }

    #[test]
    fn start_begins_at_the_wall_clock_and_behind_all_that_is_known() {
        let mut clock = IvClock::default();
        let first = |iv_start: u64, sent: u64| iv_start.wrapping_add(sent + 1);
        assert_eq!(first(clock.begin(1_000, &reserved(10, 500)), 10), 1_000, "the wall clock");
        assert_eq!(first(clock.begin(1_000, &reserved(10, 5_000)), 10), 5_011, "the store");
        clock.pass(&reserved(2_000, 7_000));
        assert_eq!(first(clock.begin(1_000, &reserved(10, 5_000)), 10), 9_001, "the clock's memory");
        assert_eq!(IvClock::new(clock.next()), clock);
    }

    #[test]
    fn numbers_above_the_wall_clock_begin_below_zero() {
        let iv_start = IvClock::default().begin(1_000, &reserved(5_000, 0u64.wrapping_sub(4_900)));
        assert_eq!(iv_start.wrapping_add(5_001), 1_000);
    }
}
