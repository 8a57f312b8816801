//! The two halves of a [`Nic`] that works on a thread of its own: one to install SAs, one for
//! packets.
//!
//! The thread begins with the first use of either half, so that a program may give up its
//! privileges after it has opened the line.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::sys::eventfd::EventFd;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::thread::Work;
use super::{Nic, NicCounters, Seal};
use crate::error::CardError;
use crate::line::{Line, event};
use crate::sa::{Inbound, Sa};

/// Packets that wait for the card, and packets from it that wait for the host.
const PACKETS: usize = 256;

/// Places of the queue to the card that a port keeps for frames of its own, such as ARP's: it gives
/// others while [`NicPort::room`] is more than that.
pub const OWN_PLACES: usize = 16;

/// No room: the packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A frame to be sent.
pub(super) struct Departure {
    pub(super) frame: Vec<u8>,
    pub(super) seal: Option<Seal>,
}

/// A frame from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the SA that it was opened for; it has no ICV then, and nothing behind it.
    pub opened: Option<u32>,
    /// From destination address to payload.
    pub frame: Vec<u8>,
}

/// What the thread is asked to do.
pub(super) enum Request {
    Install {
        number: u32,
        sa: Box<Sa>,
        inbound: Option<Inbound>,
        reply: SyncSender<Result<(), CardError>>,
    },
    /// Once so many packets have been given to the card.
    Remove {
        number: u32,
        after: u64,
    },
}

/// What all three sides see.
pub(super) struct Shared {
    /// Until the thread begins.
    waiting: Mutex<Option<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    has_begun: AtomicBool,
    pub(super) is_stopping: AtomicBool,
    pub(super) is_sleeping: AtomicBool,
    /// Wakes the thread.
    pub(super) wake: EventFd,
    /// Readable while the host has packets to take.
    pub(super) arrived: EventFd,
    /// Packets that the host has given, and that the card has taken.
    given: AtomicU64,
    pub(super) taken: AtomicU64,
    pub(super) counters: Mutex<NicCounters>,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn begin(self: &Arc<Self>) {
        if self.has_begun.load(Ordering::Acquire) {
            return;
        }
        let Some(work) = lock(&self.waiting).take() else { return };
        let shared = Arc::clone(self);
        // Without a thread the rings fill and installations fail: the card is then as good as
        // absent.
        let spawned =
            std::thread::Builder::new().name("convoy-card".to_owned()).spawn(move || work.run(&shared));
        *lock(&self.thread) = spawned.ok();
        self.has_begun.store(true, Ordering::Release);
    }

    fn wake(&self) {
        // It fails only where so many wakes are unread that the thread is about to look anyway.
        let _ = self.wake.write(1);
    }
}

/// Installs SAs on a card and reads its counters. For any thread.
#[derive(Clone)]
pub struct NicControl {
    shared: Arc<Shared>,
    requests: Sender<Request>,
}

/// Packets to and from a card, for one owner. The card ends with it.
pub struct NicPort {
    shared: Arc<Shared>,
    departures: Producer<Departure>,
    arrivals: Consumer<Arrival>,
}

/// A card on a line, in two halves.
///
/// # Errors
/// [`CardError`] if there is no card.
pub fn pair(line: Box<dyn Line>) -> Result<(NicControl, NicPort), CardError> {
    let nic = Nic::new(line)?;
    let (departures, departing) = RingBuffer::new(PACKETS);
    let (arriving, arrivals) = RingBuffer::new(PACKETS);
    let (requests, requested) = channel();
    let shared = Arc::new(Shared {
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
    let work = Work { nic, departing, next: None, arriving, requested, removals: Vec::new() };
    *lock(&shared.waiting) = Some(work);
    let port = NicPort { shared: Arc::clone(&shared), departures, arrivals };
    Ok((NicControl { shared, requests }, port))
}

impl NicControl {
    /// Takes an SA under a number, in the place of what stood there: inbound with an SPI, else
    /// outbound. It holds for all packets that are transmitted after it. Waits until the card's
    /// thread has decided, some milliseconds at most.
    ///
    /// # Errors
    /// [`CardError::Unfit`] as for [`Nic::install`], [`CardError::Gone`] if the card has failed for
    /// good.
    pub fn install(&self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.shared.begin();
        let (reply, decided) = sync_channel(1);
        let request = Request::Install { number, sa: Box::new(sa), inbound, reply };
        self.requests.send(request).map_err(|_| CardError::Gone)?;
        self.shared.wake();
        decided.recv().map_err(|_| CardError::Gone)?
    }

    /// Forgets an SA soon, but not before the packets that were transmitted until now have been
    /// given to the card. Does not wait.
    pub fn remove(&self, number: u32) {
        let after = self.shared.given.load(Ordering::SeqCst);
        // A card that is gone has no SAs.
        let _ = self.requests.send(Request::Remove { number, after });
        self.shared.wake();
    }

    /// Packets that [`NicPort::transmit`] takes before the card takes one; an estimate on any
    /// thread but the port's own.
    pub fn room(&self) -> usize {
        room(&self.shared)
    }

    /// What has been counted, up to the card's last look.
    pub fn counters(&self) -> NicCounters {
        lock(&self.shared.counters).clone()
    }
}

fn room(shared: &Shared) -> usize {
    let (given, taken) = (shared.given.load(Ordering::SeqCst), shared.taken.load(Ordering::SeqCst));
    // A packet counts as given once it is in the queue, when the card may have it already.
    let waiting = given.saturating_sub(taken);
    PACKETS.saturating_sub(waiting as usize)
}

impl NicPort {
    /// Gives the card a frame, in parts, to be sent in order.
    ///
    /// # Errors
    /// [`Full`] if there is no room now.
    pub fn transmit(&mut self, parts: &[&[u8]], seal: Option<Seal>) -> Result<(), Full> {
        self.shared.begin();
        if self.departures.is_full() {
            return Err(Full);
        }
        let departure = Departure { frame: parts.concat(), seal };
        if let Err(PushError::Full(_)) = self.departures.push(departure) {
            return Err(Full);
        }
        self.shared.given.fetch_add(1, Ordering::SeqCst);
        if self.shared.is_sleeping.load(Ordering::SeqCst) {
            self.shared.wake();
        }
        Ok(())
    }

    /// Packets that [`Self::transmit`] takes at least.
    pub fn room(&self) -> usize {
        self.departures.slots()
    }

    /// The next frame from the line, if one is there.
    pub fn receive(&mut self) -> Option<Arrival> {
        self.shared.begin();
        self.arrivals.pop().ok().or_else(|| {
            // Cleared before the second look, so that a frame in between wakes once more.
            let _ = self.shared.arrived.read();
            self.arrivals.pop().ok()
        })
    }

    /// What is readable while `receive` has something.
    pub fn readable_fd(&self) -> BorrowedFd<'_> {
        self.shared.arrived.as_fd()
    }

    /// Whether the card has failed for good: nothing leaves or comes any more.
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
            // If it has panicked, there is nobody to tell.
            let _ = thread.join();
        }
    }
}
