//! A queue pair, and the batches that are at the device through it.

use std::mem;
use std::ptr::NonNull;
use std::sync::Arc;

use convoy_packet::Frame;

use super::device::Device;
use super::ffi::*;
use super::job::DeviceJob;
use super::session::Session;

/// Results fetched at a time.
const BURST: usize = 64;
/// Consecutive empty polls after which a dropped queue stops waiting for the device.
const LAST_POLLS: usize = 10_000;

/// Frames that go to a device together. The queue owns them until the last one is done.
///
/// # Safety
/// The device reads and writes the frames' bytes from [`DeviceQueue::submit`] until the queue
/// returns the batch. Until then, the queue relies on the following:
/// - `count` is constant, and `frame` returns the same frame for the same index at each call.
/// - A frame that `frame` has returned is not dropped, replaced, resized or moved elsewhere,
///   neither by the batch nor by the closure that is passed to `submit`, which can access the batch
///   while earlier frames already wait for the device.
/// - Moving the batch does not move the bytes of its frames.
pub unsafe trait FrameBatch {
    /// Number of frames.
    fn count(&self) -> usize;

    /// The frame with index `at`.
    fn frame(&mut self, at: usize) -> &mut Frame;
}

/// Result of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobResult {
    /// The device had no job for the packet, or the job lies outside the frame. The packet is
    /// unchanged.
    Left,
    /// The device reported an error; the packet's bytes are undefined.
    Failed,
    /// Success.
    Done,
    /// The ICV is wrong.
    Mismatch,
}

/// An ICV that was kept [aside](super::Icv::Aside). Only as many of its first bytes count as the
/// ICV is long.
pub type Digest = [u8; DIGEST_BYTES];

/// A batch that was submitted and is not back.
struct Flight<B> {
    batch: B,
    /// Kept until the last job is back, even if their SAs are removed.
    sessions: Vec<Arc<Session>>,
    /// Jobs that are not back.
    left: usize,
    ended: Vec<JobResult>,
    /// By packet; empty if all ICVs are in the packets.
    digests: Vec<Digest>,
}

type Spare = (Vec<Arc<Session>>, Vec<JobResult>, Vec<Digest>);

/// A queue pair of a device, used by one thread at a time. Jobs that do not fit into the device's
/// queue are staged, and handed over by the next [`poll`](Self::poll).
pub struct DeviceQueue<B: FrameBatch> {
    device: &'static Device,
    raw: NonNull<RawQueue>,
    at: u16,
    flights: Vec<Option<Flight<B>>>,
    free_flights: Vec<u32>,
    /// Staged jobs; those before `sent` are at the device.
    staged: Vec<RawJob>,
    sent: usize,
    at_device: usize,
    in_flight: usize,
    /// Batches that have no job for the device.
    idle: Vec<u32>,
    /// Empty vectors of batches that are back, kept so that no batch allocates.
    spare: Vec<Spare>,
    done: [RawDone; BURST],
}

// SAFETY: the pointers lead to DPDK's queue, which this structure owns, and into frames that
// `flights` owns.
unsafe impl<B: FrameBatch + Send> Send for DeviceQueue<B> {}

impl<B: FrameBatch> DeviceQueue<B> {
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

    /// The device of this queue pair.
    pub fn device(&self) -> &'static Device {
        self.device
    }

    /// Number of batches that were submitted and are not back.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Number of jobs at the device; the others are staged.
    pub fn at_device(&self) -> usize {
        self.at_device
    }

    /// Takes a batch, and hands over as many jobs as the device accepts. `job` returns the job and
    /// the session for each frame; with `None`, or a session of another device, the frame is left
    /// unchanged. `job` may change that frame, but none before it ([`FrameBatch`]). Sessions may be
    /// mixed; consecutive jobs of one session clone its `Arc` once.
    pub fn submit<'s>(
        &mut self,
        batch: B,
        mut job: impl FnMut(&mut B, usize) -> Option<(DeviceJob, &'s Arc<Session>)>,
    ) {
        let number = self.free_flights.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        let (sessions, mut ended, digests) = self.spare.pop().unwrap_or_default();
        let count = batch.count();
        ended.resize(count, JobResult::Left);
        self.in_flight += 1;
        // Stored before any job is made, so that the frames outlive all pointers to them.
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

    /// Hands over staged jobs, as far as the device accepts them.
    fn push(&mut self) {
        let waiting = &self.staged[self.sent..];
        if waiting.is_empty() {
            return;
        }
        // SAFETY: `flights` owns each job's frame and session until the job is back, and the job's
        // parts lie inside the packet. This thread owns the queue.
        let taken = unsafe { convoy_dpdk_enqueue(self.raw.as_ptr(), waiting.as_ptr(), waiting.len() as u32) }
            as usize;
        self.sent += taken;
        self.at_device += taken;
        if self.sent == self.staged.len() {
            self.staged.clear();
            self.sent = 0;
        }
    }

    /// Hands over staged jobs, and passes each batch whose last job is done to `finish`, with the
    /// results and the ICVs that were kept aside. Returns the number of jobs that came back; does
    /// not wait.
    pub fn poll(&mut self, mut finish: impl FnMut(B, &[JobResult], &[Digest])) -> usize {
        self.push();
        while let Some(flight) = self.idle.pop() {
            self.land(flight, &mut finish);
        }
        let mut brought = 0;
        loop {
            // SAFETY: `done` has room for `BURST` results; this thread owns the queue.
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

    fn note(&mut self, done: RawDone, finish: &mut impl FnMut(B, &[JobResult], &[Digest])) {
        let (number, at) = ((done.cookie >> 32) as u32, (done.cookie & u64::from(u32::MAX)) as usize);
        let Some(Some(flight)) = self.flights.get_mut(number as usize) else { return };
        self.at_device -= 1;
        flight.left -= 1;
        flight.ended[at] = match done.ended {
            1 => JobResult::Done,
            2 => JobResult::Mismatch,
            _ => JobResult::Failed,
        };
        if let Some(digest) = flight.digests.get_mut(at) {
            // SAFETY: the digest is in the operation, which is reused only by a later job.
            *digest = unsafe { *done.digest.cast::<Digest>() };
        }
        if flight.left == 0 {
            self.land(number, finish);
        }
    }

    fn land(&mut self, number: u32, finish: &mut impl FnMut(B, &[JobResult], &[Digest])) {
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

impl<B: FrameBatch> Drop for DeviceQueue<B> {
    fn drop(&mut self) {
        // Staged jobs are dropped; jobs at the device are waited for.
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
        // The device may still write into these frames, so they are leaked.
        mem::forget(mem::take(&mut self.flights));
    }
}
