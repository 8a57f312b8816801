//! Processor time of threads.

use std::ops::Sub;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

/// Processor time of a thread, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CpuSeconds {
    /// In user mode.
    pub user: f64,
    /// In kernel mode.
    pub system: f64,
    /// Time that the thread was ready to run and no processor was free; 0 where the kernel does not
    /// report it.
    pub waiting: f64,
}

impl CpuSeconds {
    /// Of the calling thread, so far.
    pub(crate) fn of_thread() -> Self {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let waiting = std::fs::read_to_string("/proc/thread-self/schedstat")
            .ok()
            .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
            .map_or(0.0, |ns| ns as f64 / 1e9);
        getrusage(UsageWho::RUSAGE_THREAD)
            .map(|usage| Self {
                user: seconds(usage.user_time()),
                system: seconds(usage.system_time()),
                waiting,
            })
            .unwrap_or_default()
    }

    /// User and kernel time.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}

impl Sub for CpuSeconds {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
            waiting: self.waiting - before.waiting,
        }
    }
}
