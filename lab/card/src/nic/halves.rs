//! A [`Nic`] on its own thread, split into two halves: one to install SAs, one for packets.
//!
//! The thread starts with the first use of either half, so that a program can drop its privileges
//! after it has opened the line.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use convoy_packet::{Frame, FramePool, FrameSize};
use nix::sys::eventfd::EventFd;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::thread::NicWork;
use super::{BUFFERS, Nic, NicCounters, NicSettings, Seal, receive_ring};
use crate::checks::Checks;
use crate::error::CardError;
use crate::line::{Line, event};
use crate::sa::{Inbound, Sa};

/// Capacity of the queues to and from the card, in packets.
const PACKETS: usize = 256;

/// Frames of the port's own: as many as the queue to the card and the card hold.
pub(super) const OWN_FRAMES: usize = PACKETS + BUFFERS;

/// Places in the queue to the card that a port reserves for its own frames, such as ARP: it accepts
/// other packets only while [`NicPort::room`] is larger.
pub const OWN_PLACES: usize = 16;

/// The queue is full; the packet was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A frame to be sent.
pub(super) struct NicDeparture {
    pub(super) frame: Frame,
    pub(super) seal: Option<Seal>,
}

/// A frame received from the line.
#[derive(Debug)]
pub struct Arrival {
    /// The number of the SA with which the packet was opened; its ICV and any bytes behind it are
    /// removed then.
    pub opened: Option<u32>,
    /// The frame, from destination address to payload, as the card wrote it. It returns to the
    /// card's pool when it is dropped, wherever that is.
    pub frame: Frame,
}

/// A request to the thread.
pub(super) enum Request {
    Install {
        number: u32,
        sa: Box<Sa>,
        inbound: Option<Inbound>,
        reply: SyncSender<Result<(), CardError>>,
    },
    Checks(Box<Checks>),
    /// Executed after this many packets have been given to the card.
    Remove {
        number: u32,
        after: u64,
    },
}

/// State shared by the two halves and the thread.
pub(super) struct SharedNic {
    /// The thread's state until it starts.
    waiting: Mutex<Option<NicWork>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    has_begun: AtomicBool,
    pub(super) is_stopping: AtomicBool,
    pub(super) is_sleeping: AtomicBool,
    /// Wakes the thread.
    pub(super) wake: EventFd,
    /// Readable while the host has packets to take.
    pub(super) arrived: EventFd,
    /// Number of packets that the host has queued, and that the card has taken.
    given: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) counters: Mutex<NicCounters>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedNic {
    fn begin(self: &Arc<Self>) {
        if self.has_begun.load(Ordering::Acquire) {
            return;
        }
        let Some(work) = lock(&self.waiting).take() else { return };
        let shared = Arc::clone(self);
        // If no thread can be started, the queues fill up and installations fail, as if the card
        // were absent.
        let spawned =
            std::thread::Builder::new().name("convoy-card".to_owned()).spawn(move || work.run(&shared));
        *lock(&self.thread) = spawned.ok();
        self.has_begun.store(true, Ordering::Release);
    }

    fn wake(&self) {
        // Fails only if the counter is at its limit, when the thread has been woken anyway.
        let _ = self.wake.write(1);
    }
}

/// Installs SAs on a card and reads its counters; usable from any thread.
#[derive(Clone)]
pub struct NicControl {
    shared: Arc<SharedNic>,
    requests: Sender<Request>,
}

/// Sends and receives packets through a card; has one owner. Dropping it ends the card's thread.
pub struct NicPort {
    shared: Arc<SharedNic>,
    departures: Producer<NicDeparture>,
    arrivals: Consumer<Arrival>,
    pool: FramePool,
    size: FrameSize,
}

/// Makes a card on a line, split into two halves.
///
/// # Errors
/// [`CardError`] if the card cannot be made.
pub fn pair(line: Box<dyn Line>, settings: &NicSettings) -> Result<(NicControl, NicPort), CardError> {
    let nic = Nic::with(line, settings)?;
    let size = receive_ring::size_for(settings.frame_bytes);
    let pool = receive_ring::pool(size, OWN_FRAMES)?;
    let (departures, departing) = RingBuffer::new(PACKETS);
    let (arriving, arrivals) = RingBuffer::new(PACKETS);
    let (requests, requested) = channel();
    let shared = Arc::new(SharedNic {
        waiting: Mutex::new(None),
        thread: Mutex::new(None),
        has_begun: AtomicBool::new(false),
        is_stopping: AtomicBool::new(false),
        is_sleeping: AtomicBool::new(false),
        wake: event().map_err(|_| CardError::Absent)?,
        arrived: event().map_err(|_| CardError::Absent)?,
        given: AtomicU64::new(0),
        taken: AtomicU64::new(0),
        counters: Mutex::default(),
    });
    let work = NicWork { nic, departing, next: None, arriving, requested, removals: Vec::new() };
    *lock(&shared.waiting) = Some(work);
    let port = NicPort { shared: Arc::clone(&shared), departures, arrivals, pool, size };
    Ok((NicControl { shared, requests }, port))
}

impl NicControl {
    /// Installs an SA, replacing an earlier one with this number: inbound if an SPI is given, else
    /// outbound. It applies to all packets that are transmitted afterwards. Waits for the card's
    /// thread, a few milliseconds at most.
    ///
    /// # Errors
    /// [`CardError::Unfit`] as for [`Nic::install`]; [`CardError::Gone`] if the card has failed
    /// permanently.
    pub fn install(&self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.shared.begin();
        let (reply, decided) = sync_channel(1);
        let request = Request::Install { number, sa: Box::new(sa), inbound, reply };
        self.requests.send(request).map_err(|_| CardError::Gone)?;
        self.shared.wake();
        decided.recv().map_err(|_| CardError::Gone)?
    }

    /// Removes an SA once all packets that were transmitted before this call have been given to the
    /// card. Does not wait.
    pub fn remove(&self, number: u32) {
        let after = self.shared.given.load(Ordering::SeqCst);
        // A card that has failed has no SAs.
        let _ = self.requests.send(Request::Remove { number, after });
        self.shared.wake();
    }

    /// Sets what the card does besides; see [`Nic::set_checks`]. Packets that were queued before
    /// may meet it. Does not wait, nor start the card's thread.
    pub fn set_checks(&self, checks: Checks) {
        // A card that has failed sends nothing.
        let _ = self.requests.send(Request::Checks(Box::new(checks)));
        self.shared.wake();
    }

    /// Packets that [`NicPort::transmit`] can accept now; an estimate on any thread but the port's.
    pub fn room(&self) -> usize {
        room(&self.shared)
    }

    /// Counters, as the card's thread last published them.
    pub fn counters(&self) -> NicCounters {
        lock(&self.shared.counters).clone()
    }
}

fn room(shared: &SharedNic) -> usize {
    let (given, taken) = (shared.given.load(Ordering::SeqCst), shared.taken.load(Ordering::SeqCst));
    // A packet is counted as given after it was queued, when the card may already have taken it.
    let waiting = given.saturating_sub(taken);
    PACKETS.saturating_sub(waiting as usize)
}

impl NicPort {
    /// Queues a frame to be sent in order. It returns to its pool once the card has read it.
    ///
    /// # Errors
    /// The frame, if the queue is full.
    pub fn transmit(&mut self, frame: Frame, seal: Option<Seal>) -> Result<(), Frame> {
        self.shared.begin();
        if let Err(PushError::Full(departure)) = self.departures.push(NicDeparture { frame, seal }) {
            return Err(departure.frame);
        }
        self.shared.given.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_sleeping.load(Ordering::SeqCst) {
            self.shared.wake();
        }
        Ok(())
    }

    /// Queues a frame that is in no frame of a pool yet, given in parts, to be sent unchanged.
    ///
    /// # Errors
    /// [`Full`] if the queue is full, so many such frames are queued already, or the frame is
    /// longer than the host takes.
    pub fn transmit_copy(&mut self, parts: &[&[u8]]) -> Result<(), Full> {
        let mut frame = self.pool.take(self.size).ok_or(Full)?;
        for part in parts {
            frame.append(part.len()).map_err(|_| Full)?.copy_from_slice(part);
        }
        self.transmit(frame, None).map_err(|_| Full)
    }

    /// Packets that [`Self::transmit`] is certain to accept.
    pub fn room(&self) -> usize {
        self.departures.slots()
    }

    /// The next frame from the line, if there is one.
    pub fn receive(&mut self) -> Option<Arrival> {
        self.shared.begin();
        self.arrivals.pop().ok().or_else(|| {
            // Cleared before the queue is checked again, so that a frame that arrives in between
            // sets it again.
            let _ = self.shared.arrived.read();
            self.arrivals.pop().ok()
        })
    }

    /// A descriptor that is readable while `receive` may have a frame.
    pub fn readable_fd(&self) -> BorrowedFd<'_> {
        self.shared.arrived.as_fd()
    }

    /// Whether the card has failed permanently, so that nothing is sent or received any more.
    pub fn is_gone(&self) -> bool {
        self.shared.has_begun.load(Ordering::Acquire)
            && lock(&self.shared.thread).as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for NicPort {
    fn drop(&mut self) {
        drop(lock(&self.shared.waiting).take());
        self.shared.is_stopping.store(true, Ordering::SeqCst);
        self.shared.wake();
        let thread = lock(&self.shared.thread).take();
        if let Some(thread) = thread {
            // A panic of the thread cannot be reported here.
            let _ = thread.join();
        }
    }
}
