//! The clock that a gateway and its companions share.

use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, in ns. All processes of a machine read the same time.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}
