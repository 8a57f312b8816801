//! Whether other threads had the caller's core during a measurement.

use std::time::{Duration, Instant};

/// The kernel's account of the calling thread: time on a core, time waiting for one, both in ns,
/// and time slices (Documentation/scheduler/sched-stats.rst).
const ACCOUNT: &str = "/proc/thread-self/schedstat";
/// A measurement is unreliable if the thread waited for more than this part of its time.
const PART: u32 = 20;

/// A measurement in progress on the calling thread.
pub(super) struct Contention {
    began: Instant,
    waited: Option<Duration>,
}

impl Contention {
    pub(super) fn begin() -> Self {
        Self { began: Instant::now(), waited: waited() }
    }

    /// Whether the thread has waited for its core too long since the beginning. `false` where the
    /// kernel does not say.
    pub(super) fn is_high(&self) -> bool {
        let since = waited().zip(self.waited).map(|(now, before)| now.saturating_sub(before));
        since.is_some_and(|waited| is_too_long(waited, self.began.elapsed()))
    }
}

fn is_too_long(waited: Duration, elapsed: Duration) -> bool {
    waited > elapsed / PART
}

/// For how long the calling thread has waited for a core since it started.
fn waited() -> Option<Duration> {
    read(&std::fs::read_to_string(ACCOUNT).ok()?)
}

fn read(account: &str) -> Option<Duration> {
    account.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_the_time_that_the_thread_waited() {
        assert_eq!(read("59098 1000000 1\n"), Some(Duration::from_millis(1)));
        assert_eq!(read(""), None);
    }

    #[test]
    fn a_twentieth_of_the_time_may_be_spent_waiting() {
        let elapsed = Duration::from_millis(20);
        assert!(!is_too_long(Duration::ZERO, elapsed));
        assert!(!is_too_long(Duration::from_millis(1), elapsed));
        assert!(is_too_long(Duration::from_micros(1_001), elapsed));
    }

    #[test]
    fn without_the_kernels_account_nothing_is_said_to_be_disturbed() {
        assert!(!Contention { began: Instant::now(), waited: None }.is_high());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_keeps_the_account_of_this_thread() {
        assert!(waited().is_some(), "{ACCOUNT} cannot be read");
    }
}
