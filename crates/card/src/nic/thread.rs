//! A [`Nic`] on a thread of its own: one half to install SAs, one for packets.
//!
//! The thread begins with the first use of either half, so that a program may give up its privileges after it has opened the line.
//! It sleeps while nothing is under way.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::{Nic, NicCounters, Seal};
use crate::command::{Algorithm, Direction, Inbound, Sa};
use crate::error::CardError;
use crate::line::{Line, event};

/// Packets that wait for the card, and packets from it that wait for the host.
const PACKETS: usize = 256;
/// Cycles between two looks at rings and line: a fraction of what a packet takes.
const STEP_CYCLES: u64 = 256;
/// The longest sleep, in ms: a line that cannot wake the thread, or has no room, is asked that often.
const ASK_MS: u16 = 1;
/// The longest sleep where all can wake it, in ms.
const SLEEP_MS: u16 = 1_000;
/// The pause after an error of the line, such as an interface that is down, in ms.
const LINE_ERROR_MS: u16 = 50;

/// No room: the packet was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

struct Departure {
    frame: Vec<u8>,
    seal: Option<Seal>,
}

/// A frame from the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the SA that it was opened for; it has no ICV then, and nothing behind it.
    pub opened: Option<u32>,
    /// From destination address to payload.
    pub frame: Vec<u8>,
}

enum Request {
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
struct Shared {
    built: [u16; 2],
    /// Until the thread begins.
    waiting: Mutex<Option<Work>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    has_begun: AtomicBool,
    is_stopping: AtomicBool,
    is_sleeping: AtomicBool,
    /// Wakes the thread.
    wake: EventFd,
    /// Readable while the host has packets to take.
    arrived: EventFd,
    /// Packets that the host has given, and that the card has taken.
    given: AtomicU64,
    taken: AtomicU64,
    counters: Mutex<NicCounters>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn begin(self: &Arc<Self>) {
        if self.has_begun.load(Ordering::Acquire) {
            return;
        }
        let Some(work) = lock(&self.waiting).take() else { return };
        let shared = Arc::clone(self);
        // Without a thread the rings fill and installations fail: the card is then as good as absent.
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
    let mut nic = Nic::new(line)?;
    let (departures, departing) = RingBuffer::new(PACKETS);
    let (arriving, arrivals) = RingBuffer::new(PACKETS);
    let (requests, requested) = channel();
    let shared = Arc::new(Shared {
        built: nic.built(),
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
    /// Whether the card has a function to seal with this algorithm.
    pub fn seals(&self, algorithm: Algorithm) -> bool {
        self.function(Direction::Seal, algorithm).is_some()
    }

    /// Whether the card has a function to open with this algorithm.
    pub fn opens(&self, algorithm: Algorithm) -> bool {
        self.function(Direction::Open, algorithm).is_some()
    }

    /// The number of the function for an algorithm (docs/card.md, "Slot"); `None` if it is not built in.
    pub fn function(&self, direction: Direction, algorithm: Algorithm) -> Option<u8> {
        algorithm.function(self.shared.built[direction as usize], 0)
    }

    /// Takes an SA under a number, in the place of what stood there: inbound with an SPI, else outbound. It holds for all
    /// packets that are transmitted after it. Waits until the card's thread has decided, some milliseconds at most.
    ///
    /// # Errors
    /// [`CardError::Unfit`] as for [`Nic::install`], [`CardError::Gone`] if the card has failed for good.
    pub fn install(&self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.shared.begin();
        let (reply, decided) = sync_channel(1);
        let request = Request::Install { number, sa: Box::new(sa), inbound, reply };
        self.requests.send(request).map_err(|_| CardError::Gone)?;
        self.shared.wake();
        decided.recv().map_err(|_| CardError::Gone)?
    }

    /// Forgets an SA soon, but not before the packets that were transmitted until now have been given to the card. Does not wait.
    pub fn remove(&self, number: u32) {
        let after = self.shared.given.load(Ordering::SeqCst);
        // A card that is gone has no SAs.
        let _ = self.requests.send(Request::Remove { number, after });
        self.shared.wake();
    }

    /// Packets that [`NicPort::transmit`] takes before the card takes one; an estimate on any thread but the port's own.
    pub fn room(&self) -> usize {
        room(&self.shared)
    }

    /// What has been counted, up to the card's last look.
    pub fn counters(&self) -> NicCounters {
        lock(&self.shared.counters).clone()
    }
}

fn room(shared: &Shared) -> usize {
    let waiting = shared.given.load(Ordering::SeqCst) - shared.taken.load(Ordering::SeqCst);
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

/// What the thread has.
struct Work {
    nic: Nic,
    departing: Consumer<Departure>,
    /// A packet that the card had no room for.
    next: Option<Departure>,
    arriving: Producer<Arrival>,
    requested: Receiver<Request>,
    removals: Vec<(u32, u64)>,
}

impl Work {
    fn run(mut self, shared: &Shared) {
        let mut unread = 0;
        while !shared.is_stopping.load(Ordering::SeqCst) {
            self.take_requests(shared);
            self.transmit(shared);
            let (sent, line_errors) = (self.nic.counters().sent, self.nic.counters().line_errors);
            let mut has_arrived = false;
            let arriving = &mut self.arriving;
            let stepped = self.nic.step(STEP_CYCLES, &mut |opened, frame| {
                let arrival = Arrival { opened, frame: frame.to_vec() };
                has_arrived |= arriving.push(arrival).map_err(|_| unread += 1).is_ok();
            });
            if has_arrived {
                // It fails only where so many are unread that the host is about to look anyway.
                let _ = shared.arrived.write(1);
            }
            if stepped.is_err() && self.nic.reset().is_err() {
                return;
            }
            self.publish(shared, unread);
            let has_failed = self.nic.counters().line_errors != line_errors;
            let is_stuck = self.nic.is_line_full() && self.nic.counters().sent == sent;
            if has_failed || is_stuck || (self.nic.is_idle() && self.next.is_none()) {
                self.sleep(shared, has_failed, is_stuck);
            }
        }
    }

    fn take_requests(&mut self, shared: &Shared) {
        while let Ok(request) = self.requested.try_recv() {
            match request {
                Request::Install { number, sa, inbound, reply } => {
                    // What is due goes first: its place in the map may be the one that is wanted.
                    self.remove_due(shared);
                    self.removals.retain(|(removed, _)| *removed != number);
                    // Whoever asked may have given up.
                    let _ = reply.send(self.nic.install(number, *sa, inbound));
                }
                Request::Remove { number, after } => self.removals.push((number, after)),
            }
        }
    }

    fn remove_due(&mut self, shared: &Shared) {
        let taken = shared.taken.load(Ordering::SeqCst);
        let nic = &mut self.nic;
        self.removals.retain(|(number, after)| {
            let is_due = *after <= taken;
            if is_due {
                nic.remove(*number);
            }
            !is_due
        });
    }

    fn transmit(&mut self, shared: &Shared) {
        while let Some(departure) = self.next.take().or_else(|| self.departing.pop().ok()) {
            if !self.nic.transmit(&departure.frame, departure.seal) {
                self.next = Some(departure);
                break;
            }
            shared.taken.fetch_add(1, Ordering::SeqCst);
        }
        self.remove_due(shared);
    }

    fn publish(&self, shared: &Shared, unread: u64) {
        let mut counters = lock(&shared.counters);
        counters.clone_from(self.nic.counters());
        counters.overrun += unread;
    }

    fn sleep(&self, shared: &Shared, has_failed: bool, is_stuck: bool) {
        shared.is_sleeping.store(true, Ordering::SeqCst);
        let line = self.nic.line().readable_fd().filter(|_| !has_failed && !is_stuck);
        let timeout = match line {
            _ if has_failed => LINE_ERROR_MS,
            Some(_) => SLEEP_MS,
            None => ASK_MS,
        };
        // A packet given before the flag was seen has woken nobody.
        if self.departing.is_empty() || has_failed || is_stuck {
            let mut fds = vec![PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN)];
            fds.extend(line.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
            // An interrupted poll only means another look.
            let _ = poll(&mut fds, PollTimeout::from(timeout));
        }
        shared.is_sleeping.store(false, Ordering::SeqCst);
        let _ = shared.wake.read();
    }
}
