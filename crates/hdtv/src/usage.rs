//! Processor time of threads.

use nix::sys::resource::{UsageWho, getrusage};
use serde::Serialize;

/// What a thread used, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct CpuSeconds {
    /// In the program.
    pub user: f64,
    /// In the kernel, on its behalf.
    pub system: f64,
}

impl CpuSeconds {
    /// Of the calling thread, so far.
    pub(crate) fn of_thread() -> Self {
        let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        getrusage(UsageWho::RUSAGE_THREAD)
            .map(|usage| Self { user: seconds(usage.user_time()), system: seconds(usage.system_time()) })
            .unwrap_or_default()
    }

    /// Both together.
    pub fn total(&self) -> f64 {
        self.user + self.system
    }
}
