//! A queue pair with the keys of one engine: trains in, the same with their results out.

use std::time::{Duration, Instant};

use convoy_dpdk::{Device, DeviceQueue, DpdkError, FrameBatch, JobResult};
use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction};
use convoy_packet::Frame;

use super::job::{ArrangedPacket, arrange, put_back};
use super::keys::DeviceSas;
use crate::software::KeyTable;
use crate::{Outcome, Submission};

/// How long a device that works when polled may return nothing before it counts as hung, if it was
/// polled often enough meanwhile: the polling thread may itself have been without its core for that
/// long.
const PATIENCE: Duration = Duration::from_millis(20);
const ASKED_AT_LEAST: u32 = 1_000;

/// A train at the device.
pub(super) struct OnItsWay {
    submission: Submission,
    /// By packet.
    arranged: Vec<ArrangedPacket>,
    /// By packet, as keys may be removed during the flight.
    icv_lens: Vec<u8>,
    began: Instant,
}

// SAFETY: the packets, each with its frame, are in a vector private to this module. It is not
// touched between `DeviceQueue::submit` and the batch's return, but for the packet that is next to
// be described, whose frame stays its own. A frame's bytes are in packet memory, wherever the
// vector is.
#[allow(unsafe_code)]
unsafe impl FrameBatch for OnItsWay {
    fn count(&self) -> usize {
        self.submission.packets.len()
    }

    fn frame(&mut self, at: usize) -> &mut Frame {
        &mut self.submission.packets[at].frame
    }
}

/// What came back.
pub(super) struct Back {
    pub(super) submission: Submission,
    pub(super) outcome: Outcome,
    pub(super) began: Instant,
}

/// Queue pair and keys.
pub(super) struct CryptodevState {
    pub(super) keys: DeviceSas,
    queue: DeviceQueue<OnItsWay>,
    spare: Vec<(Vec<ArrangedPacket>, Vec<u8>)>,
    /// Packets in no ESP or AH format of a device, which the reference processed.
    left: u64,
}

impl CryptodevState {
    pub(super) fn new(name: &str, device: &'static Device) -> Result<Self, DpdkError> {
        Ok(Self { keys: DeviceSas::new(name, device), queue: device.queue()?, spare: Vec::new(), left: 0 })
    }

    pub(super) fn device(&self) -> &'static Device {
        self.queue.device()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }

    /// Whether everything handed over is at the device.
    pub(super) fn has_room(&self) -> bool {
        self.queue.at_device() < self.device().depth()
    }

    /// Packets so far that the reference processed.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Hands a train over; packets of SAs without keys stay pending.
    pub(super) fn submit(&mut self, submission: Submission) {
        let (mut arranged, mut icv_lens) = self.spare.pop().unwrap_or_default();
        arranged.clear();
        icv_lens.clear();
        let keys = &self.keys;
        let batch = OnItsWay { submission, arranged, icv_lens, began: Instant::now() };
        self.queue.submit(batch, |batch, at| {
            let packet = &mut batch.submission.packets[at];
            let sa = keys.get(packet.sa);
            batch.icv_lens.push(sa.map_or(0, |sa| sa.suite.icv_len as u8));
            batch.arranged.push(ArrangedPacket::AsItStands);
            if let CryptoStatus::Refused(_) = packet.status {
                return None;
            }
            packet.status = CryptoStatus::Pending;
            let sa = sa?;
            let session = sa.of(packet.direction, packet.job.aad().len())?;
            let (job, arranged) = arrange(sa, packet)?;
            batch.arranged[at] = arranged;
            Some((job, session))
        });
    }

    /// Collects completions; returns how many packets the device completed.
    pub(super) fn poll(&mut self, mut back: impl FnMut(Back)) -> usize {
        let (keys, spare, left) = (&self.keys, &mut self.spare, &mut self.left);
        self.queue.poll(|batch, ended, digests| {
            let OnItsWay { mut submission, arranged, icv_lens, began } = batch;
            let mut outcome = Outcome::Done;
            for (at, packet) in submission.packets.iter_mut().enumerate() {
                let direction = packet.direction;
                put_back(&arranged[at], direction, icv_lens[at].into(), digests.get(at), packet);
                match ended[at] {
                    JobResult::Done => packet.status = CryptoStatus::Done,
                    JobResult::Mismatch => packet.status = CryptoStatus::IcvMismatch,
                    JobResult::Failed => outcome = Outcome::Failed,
                    JobResult::Left => *left += u64::from(do_left(&keys.reference, direction, packet)),
                }
            }
            spare.push((arranged, icv_lens));
            back(Back { submission, outcome, began });
        })
    }

    /// Polls until everything is back, or the device has returned nothing for some time.
    pub(super) fn finish(&mut self, mut back: impl FnMut(Back)) {
        let mut last = None;
        let mut asked = 0;
        while self.in_flight() > 0 {
            if self.poll(&mut back) > 0 {
                (last, asked) = (None, 0);
                continue;
            }
            asked += 1;
            let waited = last.get_or_insert_with(Instant::now).elapsed();
            if waited > PATIENCE && asked > ASKED_AT_LEAST {
                return;
            }
            std::hint::spin_loop();
        }
    }
}

/// Processes a packet that no device was given; returns whether it did.
#[cold]
fn do_left(reference: &KeyTable, direction: Direction, packet: &mut CryptoPacket) -> bool {
    let Some(keys) = reference.get(packet.sa).filter(|_| packet.status == CryptoStatus::Pending) else {
        return false;
    };
    keys.run(direction, std::slice::from_mut(packet));
    true
}
