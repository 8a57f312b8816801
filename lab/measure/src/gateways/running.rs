//! A gateway on a thread of its own, and its utilisation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

use convoy_dataplane::worker::Worker;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike};
use nix::unistd::{Pid, gettid};
use serde::Serialize;

use super::threads::Waiting;
use crate::cores;
use crate::device::MeasureError;

/// Rounds between checks whether to stop, which are also the updates of the utilisation.
const ROUNDS: u32 = 1024;

/// How busy a gateway's thread was over a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Utilisation {
    /// Time in rounds that moved packets, in ns.
    pub busy_ns: u64,
    /// Time in rounds that found none, in ns.
    pub idle_ns: u64,
    /// Rounds that moved packets.
    pub busy_rounds: u64,
    /// CPU time of the thread in user mode, as the kernel counts it, in ns.
    pub user_ns: u64,
    /// CPU time in kernel mode, in ns.
    pub kernel_ns: u64,
}

impl Utilisation {
    /// Fraction of the thread's CPU time that was spent in the kernel, 0 to 1.
    pub fn kernel(&self) -> f64 {
        self.kernel_ns as f64 / (self.user_ns + self.kernel_ns).max(1) as f64
    }

    /// Fraction of time in rounds that moved packets, 0 to 1.
    pub fn part(&self) -> f64 {
        self.busy_ns as f64 / (self.busy_ns + self.idle_ns).max(1) as f64
    }
}

#[derive(Default)]
struct Shared {
    is_stopping: AtomicBool,
    utilisation: Mutex<Utilisation>,
}

/// A running gateway; it stops when this is dropped.
pub(super) struct Running {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    id: Pid,
    reported: Utilisation,
}

impl Running {
    /// Starts a gateway on a core.
    ///
    /// # Errors
    /// [`MeasureError::Io`] if no thread can be started.
    pub(super) fn start(worker: Worker, core: usize, waiting: Waiting) -> Result<Self, MeasureError> {
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        let (tell, reported) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("gateway".to_owned())
            .spawn(move || {
                cores::pin(core);
                // The starter waits for the ID, so the send cannot fail.
                let _ = tell.send(gettid());
                work(worker, &of_thread, waiting);
            })
            .map_err(|source| MeasureError::Io { action: "start a thread".to_owned(), source })?;
        let id = reported.recv().map_err(|_| MeasureError::Gateway("its thread has ended".to_owned()))?;
        Ok(Self { shared, thread: Some(thread), id, reported: Utilisation::default() })
    }

    /// Kernel thread ID.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Utilisation since the last call.
    pub(super) fn utilisation(&mut self) -> Utilisation {
        let now = *self.shared.utilisation.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut self.reported, now);
        Utilisation {
            busy_ns: now.busy_ns - before.busy_ns,
            idle_ns: now.idle_ns - before.idle_ns,
            busy_rounds: now.busy_rounds - before.busy_rounds,
            user_ns: now.user_ns.saturating_sub(before.user_ns),
            kernel_ns: now.kernel_ns.saturating_sub(before.kernel_ns),
        }
    }

    /// Checks that the gateway still runs.
    ///
    /// # Errors
    /// [`MeasureError::Gateway`] if it failed, because a port failed or it panicked.
    pub(super) fn check(&self) -> Result<(), MeasureError> {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            return Err(MeasureError::Gateway("its thread has ended".to_owned()));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported on standard error.
            let _ = thread.join();
        }
    }
}

/// The end of a round is the start of the next one, so the clock is read once per round.
fn work(mut worker: Worker, shared: &Shared, waiting: Waiting) {
    let mut sums = Utilisation::default();
    let mut last = Instant::now();
    while !shared.is_stopping.load(Ordering::Relaxed) {
        for _ in 0..ROUNDS {
            let Ok(moved) = worker.round(true) else { return };
            let now = Instant::now();
            let taken_ns = (now - last).as_nanos() as u64;
            last = now;
            if moved {
                sums.busy_ns += taken_ns;
                sums.busy_rounds += 1;
            } else {
                sums.idle_ns += taken_ns;
                waiting.wait();
            }
        }
        (sums.user_ns, sums.kernel_ns) = thread_ns();
        *shared.utilisation.lock().unwrap_or_else(PoisonError::into_inner) = sums;
    }
}

/// CPU time of the calling thread in user and kernel mode, in ns.
fn thread_ns() -> (u64, u64) {
    let ns = |time: TimeVal| time.num_microseconds().unsigned_abs() * 1000;
    getrusage(UsageWho::RUSAGE_THREAD)
        .map_or((0, 0), |usage| (ns(usage.user_time()), ns(usage.system_time())))
}
