//! One queue pair and what is at the device through it.

use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;

use convoy_packet::Frame;

use super::device::Device;
use super::ffi::*;
use super::job::Job;
use super::session::Session;

/// Packets asked for at a time.
const BURST: usize = 64;
/// How often in vain a queue that is given up is asked for what it still has.
const LAST_POLLS: usize = 10_000;

/// Frames that go to a device together. The queue has them until the last is done.
///
/// # Safety
/// The device reads and writes the frames' bytes from [`Queue::submit`] on until the queue gives
/// the batch back, and the queue relies on this meanwhile:
/// - `count` stays the same, and `frame` returns the same frame for the same place, at each call.
/// - A frame that `frame` has returned is not dropped, replaced, resized or handed to anybody else,
///   neither by the batch itself nor by the closure that `submit` lends it to, which has it while
///   earlier frames already wait for the device.
/// - To move the batch moves no byte of its frames.
pub unsafe trait Batch {
    /// How many frames there are.
    fn count(&self) -> usize;

    /// One of them.
    fn frame(&mut self, at: usize) -> &mut Frame;
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was not for this device: it does not lie inside its frame, or there was none. The packet
    /// is as it was.
    Left,
    /// The device failed at it; the packet's bytes may be anything.
    Failed,
    /// It was done.
    Done,
    /// The ICV is not the right one.
    Mismatch,
}

/// A digest that stood [aside](super::Icv::Aside); as many of its first bytes count as the ICV has.
pub type Digest = [u8; DIGEST_BYTES];

/// A batch on its way.
struct Flight<B> {
    batch: B,
    /// Freed when the last job is back, whoever removed their SAs.
    sessions: Vec<Arc<Session>>,
    /// Jobs that are not back.
    left: usize,
    ended: Vec<Ended>,
    /// By packet, or empty where every ICV is in its packet.
    digests: Vec<Digest>,
}

type Spare = (Vec<Arc<Session>>, Vec<Ended>, Vec<Digest>);

/// A queue pair of a device, for one thread at a time. What does not fit into the device's queue
/// waits here, and goes with the next [`poll`](Self::poll).
pub struct Queue<B: Batch> {
    device: &'static Device,
    raw: NonNull<RawQueue>,
    at: u16,
    flights: Vec<Option<Flight<B>>>,
    free_flights: Vec<u32>,
    /// Jobs for the device, from `sent` on.
    staged: Vec<RawJob>,
    sent: usize,
    at_device: usize,
    in_flight: usize,
    /// Batches without a job for the device.
    idle: Vec<u32>,
    /// What batches that are back had, empty, so that none allocates.
    spare: Vec<Spare>,
    done: [RawDone; BURST],
}

// SAFETY: the pointers are to DPDK's queue, which this has for itself, and into frames that
// `flights` owns.
unsafe impl<B: Batch + Send> Send for Queue<B> {}

impl<B: Batch> Queue<B> {
    pub(super) fn new(device: &'static Device, raw: NonNull<RawQueue>, at: u16) -> Self {
        Self {
            device,
            raw,
            at,
            flights: Vec::new(),
            free_flights: Vec::new(),
            staged: Vec::new(),
            sent: 0,
            at_device: 0,
            in_flight: 0,
            idle: Vec::new(),
            spare: Vec::new(),
            done: [RawDone { cookie: 0, digest: std::ptr::null(), ended: 0 }; BURST],
        }
    }

    /// Whose it is.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// Batches that were submitted and are not back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Jobs of theirs that the device has; the others wait here.
    pub fn at_device(&self) -> usize {
        self.at_device
    }

    /// Takes a batch, and hands over as much as the device takes. `job` says what is to be done to
    /// each frame, by which session; for `None`, and by a session of another device, it is left as
    /// it is. It may change that frame, and none before it ([`Batch`]). Sessions may be mixed; what
    /// keeps them alive is counted once where one follows itself.
    pub fn submit<'s>(
        &mut self,
        batch: B,
        mut job: impl FnMut(&mut B, usize) -> Option<(Job, &'s Arc<Session>)>,
    ) {
        let number = self.free_flights.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        let (sessions, mut ended, digests) = self.spare.pop().unwrap_or_default();
        let count = batch.count();
        ended.resize(count, Ended::Left);
        self.in_flight += 1;
        // In its place before there is any job, so that no frame goes while a job points to it.
        let flight =
            self.flights[number as usize].insert(Flight { batch, sessions, left: 0, ended, digests });
        for at in 0..count {
            let Some((job, session)) = job(&mut flight.batch, at) else { continue };
            let frame = flight.batch.frame(at);
            let cookie = u64::from(number) << 32 | at as u64;
            let described = job.describe(session, frame.as_mut_ptr(), frame.len(), cookie);
            let Some(described) = described.filter(|_| std::ptr::eq(session.device(), self.device)) else {
                continue;
            };
            if flight.sessions.last().is_none_or(|last| !Arc::ptr_eq(last, session)) {
                flight.sessions.push(Arc::clone(session));
            }
            if matches!(job.icv, super::Icv::Aside(_)) && flight.digests.is_empty() {
                flight.digests.resize(count, [0; DIGEST_BYTES]);
            }
            self.staged.push(described);
            flight.left += 1;
        }
        if flight.left == 0 {
            self.idle.push(number);
        }
        self.push();
    }

    /// Hands over what waits here, as far as the device takes it.
    fn push(&mut self) {
        let waiting = &self.staged[self.sent..];
        if waiting.is_empty() {
            return;
        }
        // SAFETY: each job's packet lies in a frame that `flights` has until the job is back, its
        // session likewise; its parts lie inside the packet. The queue is this thread's.
        let taken = unsafe { convoy_dpdk_enqueue(self.raw.as_ptr(), waiting.as_ptr(), waiting.len() as u32) }
            as usize;
        self.sent += taken;
        self.at_device += taken;
        if self.sent == self.staged.len() {
            self.staged.clear();
            self.sent = 0;
        }
    }

    /// Hands over what waits, and gives `finish` each batch whose last job is done, with how each
    /// ended and the digests that stood aside. Returns how many jobs the device brought; never
    /// waits.
    pub fn poll(&mut self, mut finish: impl FnMut(B, &[Ended], &[Digest])) -> usize {
        self.push();
        while let Some(flight) = self.idle.pop() {
            self.land(flight, &mut finish);
        }
        let mut brought = 0;
        loop {
            // SAFETY: there is room for so many; the queue is this thread's.
            let count =
                unsafe { convoy_dpdk_dequeue(self.raw.as_ptr(), self.done.as_mut_ptr(), BURST as u32) }
                    as usize;
            for at in 0..count {
                self.note(self.done[at], &mut finish);
            }
            brought += count;
            if count < BURST {
                return brought;
            }
        }
    }

    fn note(&mut self, done: RawDone, finish: &mut impl FnMut(B, &[Ended], &[Digest])) {
        let (number, at) = ((done.cookie >> 32) as u32, (done.cookie & u64::from(u32::MAX)) as usize);
        let Some(Some(flight)) = self.flights.get_mut(number as usize) else { return };
        self.at_device -= 1;
        flight.left -= 1;
        flight.ended[at] = match done.ended {
            1 => Ended::Done,
            2 => Ended::Mismatch,
            _ => Ended::Failed,
        };
        if let Some(digest) = flight.digests.get_mut(at) {
            // SAFETY: the operation's own room, which is used again with the next job alone.
            *digest = unsafe { *done.digest.cast::<Digest>() };
        }
        if flight.left == 0 {
            self.land(number, finish);
        }
    }

    fn land(&mut self, number: u32, finish: &mut impl FnMut(B, &[Ended], &[Digest])) {
        let Some(flight) = self.flights[number as usize].take() else { return };
        let Flight { batch, mut sessions, mut ended, mut digests, .. } = flight;
        self.free_flights.push(number);
        self.in_flight -= 1;
        finish(batch, &ended, &digests);
        sessions.clear();
        ended.clear();
        digests.clear();
        self.spare.push((sessions, ended, digests));
    }
}

impl<B: Batch> Drop for Queue<B> {
    fn drop(&mut self) {
        // What only waits here goes with the queue; what the device has is waited for.
        let mut in_vain = 0;
        self.staged.clear();
        self.sent = 0;
        while self.at_device > 0 && in_vain < LAST_POLLS && !self.device.is_stopped() {
            in_vain = if self.poll(|_, _, _| ()) > 0 { 0 } else { in_vain + 1 };
        }
        if self.at_device == 0 {
            self.device.give_back(self.at);
            return;
        }
        // The device may write into these frames at any time, so nobody may have them again.
        mem::forget(mem::take(&mut self.flights));
    }
}
