//! Packet I/O on a thread of its own: it moves packets between a gateway's sockets and the rings of
//! its worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use convoy_packet::{Frame, FramePool};
use convoy_port::{Port, PortError};

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
}

impl Relay {
    /// Starts the thread on a core.
    ///
    /// # Errors
    /// [`MeasureError`] if there is no memory for frames, or if no thread can be started.
    pub(super) fn start(mut joints: Vec<Joint>, core: usize) -> Result<Self, MeasureError> {
        let pool = FramePool::in_region(FRAMES.0, FRAMES.1, 0);
        let mut pool = pool.map_err(|error| MeasureError::Invalid(error.to_string()))?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        let work = move || {
            cores::pin(core);
            let mut burst = Vec::with_capacity(BURST);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..ROUNDS {
                    if round(&mut joints, &mut pool, &mut burst).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("packet-io".to_owned())
            .spawn(work)
            .map_err(|source| MeasureError::Io { action: "start a thread".to_owned(), source })?;
        Ok(Self { is_stopping, thread: Some(thread) })
    }

    /// Whether it failed, because a port failed or it panicked.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished)
    }
}

fn pass(
    from: &mut dyn Port,
    to: &mut dyn Port,
    pool: &mut FramePool,
    burst: &mut Vec<Frame>,
) -> Result<(), PortError> {
    from.receive(pool, BURST, burst)?;
    to.send(pool, burst)?;
    // Packets that do not fit are dropped, as in a network card's ring.
    pool.give_back_burst(burst);
    Ok(())
}

fn round(joints: &mut [Joint], pool: &mut FramePool, burst: &mut Vec<Frame>) -> Result<(), PortError> {
    for (wire, ring) in joints {
        pass(wire.as_mut(), ring.as_mut(), pool, burst)?;
        pass(ring.as_mut(), wire.as_mut(), pool, burst)?;
    }
    Ok(())
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
