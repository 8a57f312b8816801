//! The clocks that a gateway and its companions share.

use std::time::SystemTime;

use rustix::time::{ClockId, clock_gettime};

/// The machine's monotonic clock, in ns. All processes of a machine read the same time.
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The wall clock, in ns since 1970.
pub fn wall_ns() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
