//! Virtual time: ticks of one picosecond, fine enough that a bus cycle of 15.15 ns and a bit of 1
//! ns add up over half a million packets, and wide enough for 213 days.

/// Ticks in a second.
pub const TICKS_PER_SECOND: f64 = 1e12;

/// A tick that never comes.
pub(crate) const NEVER: u64 = u64::MAX;

/// Seconds as ticks, to the nearest one; what is negative or not a number is 0.
#[inline]
pub(crate) fn ticks(seconds: f64) -> u64 {
    (seconds * TICKS_PER_SECOND + 0.5) as u64
}

/// Ticks as milliseconds.
pub(crate) fn milliseconds(ticks: f64) -> f64 {
    ticks * 1e3 / TICKS_PER_SECOND
}
