//! The bus that modelled accelerators share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use convoy_engine::{BusTiming, Completion};

use super::ModelTiming;
use super::thread::{ThreadMessage, run, this_core};

/// Bytes transferred each way over a bus for this many packets of `bytes` in all.
pub(super) fn crossing(bus: &BusTiming, packets: usize, bytes: u64) -> u64 {
    bytes + u64::from(bus.packet_bytes) * packets as u64
}

/// How long a transfer of `bytes` holds a bus, in ps.
pub(super) fn transfer_ps(bus: &BusTiming, bytes: u64) -> u64 {
    let cycles = u64::from(bus.c_address) + bytes.div_ceil(bus.width_bytes.max(1).into());
    (bus.t_cycle_ns * 1_000.0 * cycles as f64).round() as u64
}

/// Statistics of a bus since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BusStatistics {
    /// Transfers requested.
    pub requests: u64,
    /// Those of them that found the bus taken.
    pub conflicts: u64,
    /// How long it was held, in ns.
    pub busy_ns: u64,
}

/// Where the thread publishes the statistics.
#[derive(Default)]
pub(super) struct BusBoard {
    requests: AtomicU64,
    conflicts: AtomicU64,
    busy_ns: AtomicU64,
}

impl BusBoard {
    pub(super) fn write(&self, statistics: BusStatistics) {
        self.requests.store(statistics.requests, Ordering::Relaxed);
        self.conflicts.store(statistics.conflicts, Ordering::Relaxed);
        self.busy_ns.store(statistics.busy_ns, Ordering::Relaxed);
    }
}

struct BusShare {
    /// The channel to the thread, and the number of the next device. `None` only while dropping.
    joining: Mutex<(Option<Sender<ThreadMessage>>, usize)>,
    board: Arc<BusBoard>,
    thread: Option<JoinHandle<()>>,
}

/// A handle on one bus and the thread that keeps its time; clones are the same bus. The thread ends
/// when the last handle and the last [`Model`](super::Model) on it are gone.
#[derive(Clone)]
pub struct SharedBus(Arc<BusShare>);

impl SharedBus {
    /// A bus without devices.
    ///
    /// # Errors
    /// The operating system's, if it cannot create a thread.
    pub fn new(timing: BusTiming) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let board = Arc::new(BusBoard::default());
        let on_thread = Arc::clone(&board);
        let beside = this_core();
        let thread = std::thread::Builder::new()
            .name("convoy-model".to_owned())
            .spawn(move || run(timing, &receiver, &on_thread, beside))?;
        Ok(Self(Arc::new(BusShare { joining: Mutex::new((Some(sender), 0)), board, thread: Some(thread) })))
    }

    /// The statistics so far.
    pub fn statistics(&self) -> BusStatistics {
        let board = &self.0.board;
        BusStatistics {
            requests: board.requests.load(Ordering::Relaxed),
            conflicts: board.conflicts.load(Ordering::Relaxed),
            busy_ns: board.busy_ns.load(Ordering::Relaxed),
        }
    }

    /// Adds a device to the bus; returns its number and the channel for its work.
    pub(super) fn join(
        &self,
        timing: ModelTiming,
        done: Sender<Completion>,
    ) -> (usize, Sender<ThreadMessage>) {
        let mut joining = self.0.joining.lock().unwrap_or_else(PoisonError::into_inner);
        let device = joining.1;
        joining.1 += 1;
        let sender = joining.0.clone().expect("the sender stands until the last handle is dropped");
        // If the thread has ended, the first submit reports it.
        let _ = sender.send(ThreadMessage::Join { timing, done });
        (device, sender)
    }
}

impl Drop for BusShare {
    fn drop(&mut self) {
        // All models are gone before the last handle, so this was the last sender, and the thread
        // ends.
        self.joining.get_mut().unwrap_or_else(PoisonError::into_inner).0 = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
