//! The thread that follows a platform's virtual time with the machine's clock.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use nix::sched::{sched_getaffinity, sched_setaffinity};
#[cfg(target_os = "linux")]
use nix::unistd::Pid;

use convoy_engine::{BusTiming, Completion, MultibufferCore, Outcome, SaKeys, Submission};

use super::ModelTiming;
use super::bus::{BusBoard, crossing};
use super::platform::{DeviceTiming, FinishedJob, ModelPlatform, Work};

/// A multi-packet with the keys of its SA.
pub(super) struct ModelJob {
    pub(super) keys: Arc<dyn SaKeys>,
    /// Computes in bursts, if it has the SA's keys.
    pub(super) burst: Option<Arc<Mutex<MultibufferCore>>>,
    pub(super) submission: Submission,
}

pub(super) enum ThreadMessage {
    /// A new device, in the order of their numbers.
    Join { timing: ModelTiming, done: Sender<Completion> },
    /// Work for a device.
    Work { device: usize, submitted: Instant, job: ModelJob },
    /// A device is removed; its work is dropped.
    Leave { device: usize },
    /// Requests nothing: that it can be sent shows that the thread lives.
    Ping,
}

/// Closer to an event than this, the thread spins; farther, it sleeps. It never yields: among busy
/// threads that costs whole time slices, whereas one that wakes from sleep runs at once.
const SPIN: Duration = Duration::from_micros(30);
/// For this long after the last work the thread does not sleep: a device takes work at once, but a
/// virtual core that halts needs 100 us and more to wake.
const AWAKE: Duration = Duration::from_millis(2);

/// Runs until every sender is gone. `beside` is the core on which its creator runs, if known.
pub(super) fn run(
    bus: BusTiming,
    messages: &Receiver<ThreadMessage>,
    board: &BusBoard,
    beside: Option<usize>,
) {
    wake_on_time();
    leave(beside);
    let mut follower = Follower {
        platform: ModelPlatform::new(bus),
        bus,
        done: Vec::new(),
        finished: Vec::new(),
        epoch: Instant::now(),
        awake_since: Instant::now(),
    };
    loop {
        match follower.next_message(messages) {
            Ok(message) => follower.take(message),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        follower.catch_up(board);
    }
}

/// By default the kernel may wake a sleeper 50 us late, to save power, which would show in the
/// times.
fn wake_on_time() {
    #[cfg(target_os = "linux")]
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// The core on which the caller runs, if known.
pub(super) fn this_core() -> Option<usize> {
    #[cfg(target_os = "linux")]
    return nix::sched::sched_getcpu().ok();
    #[cfg(not(target_os = "linux"))]
    None
}

/// Leaves a core to the thread that runs there, if this thread may use another. Linux tends to wake
/// a thread on the core of the one that wakes it; a worker that is always busy there would never
/// let it run, and its wait would be measured as the device's time.
fn leave(core: Option<usize>) {
    #[cfg(target_os = "linux")]
    if let Some(core) = core
        && let Ok(mut cores) = sched_getaffinity(Pid::from_raw(0))
        && cores.unset(core).is_ok()
    {
        // Refused if no core is left, and then it stays where it is.
        let _ = sched_setaffinity(Pid::from_raw(0), &cores);
    }
}

struct Follower {
    platform: ModelPlatform<ModelJob>,
    bus: BusTiming,
    /// By device.
    done: Vec<Sender<Completion>>,
    finished: Vec<FinishedJob<ModelJob>>,
    epoch: Instant,
    /// When something last happened; the thread stays awake for a moment, in which more often
    /// arrives.
    awake_since: Instant,
}

/// The real work, at the moment when the modelled device starts on it.
pub(super) fn compute(job: &mut ModelJob) {
    if let Some(burst) = &job.burst
        && burst.lock().unwrap_or_else(PoisonError::into_inner).process_one(&mut job.submission)
    {
        return;
    }
    job.keys.run(job.submission.direction, &mut job.submission.packets);
}

impl From<ModelTiming> for DeviceTiming {
    fn from(timing: ModelTiming) -> Self {
        Self {
            t_init_ps: timing.t_init_ns * 1_000.0,
            t_block_ps: timing.t_block_ns * 1_000.0,
            has_prefetch: timing.has_prefetch,
        }
    }
}

/// Queues a multi-packet at a device.
pub(super) fn queue(
    platform: &mut ModelPlatform<ModelJob>,
    bus: &BusTiming,
    at_ps: u64,
    device: usize,
    job: ModelJob,
    finished: &mut Vec<FinishedJob<ModelJob>>,
) {
    let jobs = || job.submission.packets.iter().map(|packet| &packet.job);
    let blocks = jobs().map(|job| u64::from(job.blocks())).sum();
    let bytes = jobs().map(|job| u64::from(job.cipher_len.max(job.auth_len))).sum();
    let bytes = crossing(bus, job.submission.packets.len(), bytes);
    platform.submit(at_ps, device, Work::new(blocks, bytes, job), &mut compute, finished);
}

/// Delivers a completed multi-packet; `ended_ps` is its end as its caller sees it.
pub(super) fn finish(finished: FinishedJob<ModelJob>, ended_ps: u64, done: &[Sender<Completion>]) {
    let service_ns = Some((ended_ps - finished.began_ps) / 1_000);
    let submission = finished.payload.submission;
    // A device that was removed meanwhile does not want it; its frames are returned as they drop.
    let _ = done[finished.device].send(Completion { submission, outcome: Outcome::Done, service_ns });
}

impl Follower {
    fn now_ps(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64 * 1_000
    }

    /// Waits for a message or the next event, whichever is first; `Timeout` means an event, or
    /// nothing yet.
    fn next_message(&self, messages: &Receiver<ThreadMessage>) -> Result<ThreadMessage, RecvTimeoutError> {
        match messages.try_recv() {
            Ok(message) => return Ok(message),
            Err(TryRecvError::Disconnected) => return Err(RecvTimeoutError::Disconnected),
            Err(TryRecvError::Empty) => {}
        }
        let Some(next_ps) = self.platform.next_ps() else {
            if self.awake_since.elapsed() < AWAKE {
                std::hint::spin_loop();
                return Err(RecvTimeoutError::Timeout);
            }
            return messages.recv().map_err(|_| RecvTimeoutError::Disconnected);
        };
        let left = Duration::from_nanos(next_ps.saturating_sub(self.now_ps()) / 1_000);
        if left > SPIN && self.awake_since.elapsed() >= AWAKE {
            return messages.recv_timeout(left - SPIN);
        }
        std::hint::spin_loop();
        Err(RecvTimeoutError::Timeout)
    }

    fn take(&mut self, message: ThreadMessage) {
        match message {
            ThreadMessage::Join { timing, done } => {
                self.platform.add(timing.into());
                self.done.push(done);
            }
            ThreadMessage::Work { device, submitted, job } => {
                // A thread that slept has woken late, which is not the device's time.
                let submitted_ps = submitted.saturating_duration_since(self.epoch).as_nanos() as u64 * 1_000;
                let at_ps = if self.platform.next_ps().is_none() { self.now_ps() } else { submitted_ps };
                queue(&mut self.platform, &self.bus, at_ps, device, job, &mut self.finished);
            }
            ThreadMessage::Leave { device } => self.platform.clear(device),
            ThreadMessage::Ping => {}
        }
        self.awake_since = Instant::now();
    }

    /// Processes due events, and delivers completions.
    fn catch_up(&mut self, board: &BusBoard) {
        let now_ps = self.now_ps();
        if self.finished.is_empty() && self.platform.next_ps().is_none_or(|at| at > now_ps) {
            return;
        }
        self.platform.advance(now_ps, &mut compute, &mut self.finished);
        board.write(self.platform.statistics());
        for finished in self.finished.drain(..) {
            // A late thread shows in the measured time.
            let ended_ps = (self.epoch.elapsed().as_nanos() as u64 * 1_000).max(finished.ended_ps);
            finish(finished, ended_ps, &self.done);
        }
        self.awake_since = Instant::now();
    }
}
