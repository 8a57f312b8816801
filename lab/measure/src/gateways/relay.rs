//! Packet I/O on a thread of its own: it moves packets between a gateway's sockets and the rings of
//! its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortError};
use nix::unistd::{Pid, gettid};

use super::threads::Waiting;
use crate::cores;
use crate::device::MeasureError;

/// Packets moved at a time.
const BURST: usize = 64;
/// Frames for received packets: small and jumbo ones.
const FRAMES: (usize, usize) = (8192, 1024);
/// Rounds between checks whether to stop.
const ROUNDS: u32 = 256;

/// A socket, and the end of the ring that it feeds and is fed from.
pub(super) type Joint = (Box<dyn Port>, Box<dyn Port>);

/// A thread that moves packets; it stops when this is dropped.
pub(super) struct Relay {
    is_stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    id: Pid,
}

impl Relay {
    /// Starts the thread on a core.
    ///
    /// # Errors
    /// [`MeasureError`] if there is no memory for frames, or if no thread can be started.
    pub(super) fn start(joints: Vec<Joint>, core: usize, waiting: Waiting) -> Result<Self, MeasureError> {
        let pool = FramePool::in_region(FRAMES.0, FRAMES.1, 0);
        let pool = pool.map_err(|error| MeasureError::Invalid(error.to_string()))?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let (tell, reported) = mpsc::sync_channel(1);
        let thread = std::thread::Builder::new()
            .name("packet-io".to_owned())
            .spawn(move || {
                cores::pin(core);
                // The starter waits for the ID, so the send cannot fail.
                let _ = tell.send(gettid());
                work(joints, pool, &stop, waiting);
            })
            .map_err(|source| MeasureError::Io { action: "start a thread".to_owned(), source })?;
        let id = reported.recv().map_err(|_| MeasureError::Gateway("its packet I/O has ended".to_owned()))?;
        Ok(Self { is_stopping, thread: Some(thread), id })
    }

    /// Kernel thread ID.
    pub(super) fn id(&self) -> Pid {
        self.id
    }

    /// Whether it failed, because a port failed or it panicked.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

/// One direction of a joint: packets that found no room stay in front of those behind them, which
/// the socket then drops, as a network card without descriptors does.
#[derive(Default)]
struct RelayDirection {
    burst: Vec<Frame>,
}

impl RelayDirection {
    /// Moves a burst; returns whether anything moved.
    fn pass(
        &mut self,
        from: &mut dyn Port,
        to: &mut dyn Port,
        pool: &mut FramePool,
    ) -> Result<bool, PortError> {
        let received = if self.burst.is_empty() { from.receive(pool, BURST, &mut self.burst)? } else { 0 };
        let sent = if self.burst.is_empty() { 0 } else { to.send(pool, &mut self.burst)? };
        Ok(received + sent > 0)
    }
}

/// Moves packets until it is to stop or a port fails.
fn work(joints: Vec<Joint>, mut pool: FramePool, stop: &AtomicBool, waiting: Waiting) {
    let mut joints: Vec<(Joint, [RelayDirection; 2])> =
        joints.into_iter().map(|joint| (joint, Default::default())).collect();
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..ROUNDS {
            match round(&mut joints, &mut pool) {
                Ok(true) => {}
                Ok(false) => waiting.wait(),
                Err(_) => return,
            }
        }
    }
}

fn round(joints: &mut [(Joint, [RelayDirection; 2])], pool: &mut FramePool) -> Result<bool, PortError> {
    let mut moved = false;
    for ((wire, ring), [inward, outward]) in joints {
        moved |= inward.pass(wire.as_mut(), ring.as_mut(), pool)?;
        moved |= outward.pass(ring.as_mut(), wire.as_mut(), pool)?;
    }
    Ok(moved)
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic has already been reported on standard error.
            let _ = thread.join();
        }
    }
}
