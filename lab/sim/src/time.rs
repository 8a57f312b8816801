//! Virtual time in ticks of one picosecond, fine enough to add up bus cycles of 15.15 ns and bits
//! of 1 ns over half a million packets; 64 bits hold 213 days.

/// Number of ticks in a second.
pub const TICKS_PER_SECOND: f64 = 1e12;

/// The time of an event that never happens.
pub(crate) const NEVER: u64 = u64::MAX;

/// Converts seconds to ticks, rounded to the nearest; a value that is negative or not a number
/// becomes 0.
#[inline]
pub(crate) fn ticks(seconds: f64) -> u64 {
    (seconds * TICKS_PER_SECOND + 0.5) as u64
}

/// Converts ticks to milliseconds.
pub(crate) fn milliseconds(ticks: f64) -> f64 {
    ticks * 1e3 / TICKS_PER_SECOND
}
