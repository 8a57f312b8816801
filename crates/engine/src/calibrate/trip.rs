//! One multi-packet's round trip to an engine, and its cost for the engine and the caller's core.

use std::hint::black_box;
use std::time::Instant;

use convoy_ipsec::{CryptoPacket, CryptoStatus, Direction};
use convoy_packet::FramePool;
use rustix::time::{ClockId, clock_gettime};

use super::{CALIBRATION_SA, TIMEOUT, next_ticket};
use crate::{Completion, Engine, EngineError, Outcome, Placement, Submission, keep_input};

/// Bytes transferred between cores at once.
const CACHE_LINE: usize = 64;
/// Readings of the clock from which its own cost is computed.
const CLOCK_READINGS: usize = 64;

/// The times of one multi-packet.
pub(super) struct Trip {
    /// The engine's time, as measured by itself if it can, in ns.
    pub(super) ns: u64,
    /// The time of the caller's core for an engine elsewhere, in ns: everything except waiting, and
    /// except what the kernel ran on that core meanwhile, such as the engine's thread that it woke.
    pub(super) handover_ns: u64,
}

/// Takes multi-packets to an engine and back, as a worker does.
pub(super) struct Traveller {
    pub(super) pool: FramePool,
    /// Copies of the engine's input.
    kept: Vec<CryptoPacket>,
    completions: Vec<Completion>,
    /// What a measured time contains of the clock's own, in ns.
    clock_ns: u64,
}

impl Traveller {
    /// With frames for multi-packets of this many packets, and for their copies.
    pub(super) fn new(packets: usize) -> Self {
        let reading = |_| timed(|| ());
        Self {
            pool: FramePool::new(2 * packets, 0),
            kept: Vec::with_capacity(packets),
            completions: Vec::with_capacity(1),
            clock_ns: (0..CLOCK_READINGS).map(reading).min().unwrap_or(0),
        }
    }

    /// Lets the engine process `packets` once, in place if it is on the caller's core, as it gets
    /// them from a worker; returns its time in ns.
    pub(super) fn in_place(
        &mut self,
        engine: &mut dyn Engine,
        packets: &mut Vec<CryptoPacket>,
    ) -> Result<u64, EngineError> {
        packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Pending);
        let is_inline = engine.description().placement == Placement::Inline;
        if let Some(in_place) = if is_inline { engine.in_place() } else { None } {
            let start = Instant::now();
            in_place.process(packets);
            return Ok(start.elapsed().as_nanos() as u64);
        }
        Ok(self.go(engine, packets)?.ns)
    }

    /// Lets the engine process `packets` once.
    pub(super) fn go(
        &mut self,
        engine: &mut dyn Engine,
        packets: &mut Vec<CryptoPacket>,
    ) -> Result<Trip, EngineError> {
        let is_elsewhere = engine.description().placement == Placement::Lookaside;
        // The clock may have been slow when it was first measured.
        self.clock_ns = self.clock_ns.min(timed(|| ()));
        let fetched = if is_elsewhere { fetch_by_writing(packets) } else { 0 };
        let ticket = next_ticket();
        let begun = CoreTime::now();
        if engine.description().needs_input_kept {
            let copies = packets.iter().map(|packet| keep_input(packet, &mut self.pool));
            self.kept.extend(copies.map(|copy| copy.expect("as many frames as packets and their copies")));
        }
        let submission = Submission::new(ticket, CALIBRATION_SA, Direction::Seal, std::mem::take(packets));
        let start = Instant::now();
        engine.submit(submission).map_err(|refused| refused.reason)?;
        let given = begun.elapsed_ns();
        loop {
            let polled = if is_elsewhere { CoreTime::now() } else { begun };
            engine.poll(&mut self.completions);
            let elapsed = start.elapsed();
            if let Some(done) = self.completions.drain(..).find(|done| done.submission.ticket == ticket) {
                if done.outcome == Outcome::Failed {
                    return Err(failure(engine, "it failed during calibration"));
                }
                *packets = done.submission.packets;
                let ns = done.service_ns.unwrap_or(elapsed.as_nanos() as u64).max(1);
                look_at(packets);
                self.kept.drain(..).for_each(|packet| self.pool.give_back(packet.frame));
                let taken = fetched + given + polled.elapsed_ns();
                let handover_ns = taken.saturating_sub(2 * self.clock_ns);
                return Ok(Trip { ns, handover_ns: if is_elsewhere { handover_ns } else { 0 } });
            }
            if elapsed > TIMEOUT {
                return Err(failure(engine, "it did not answer during calibration"));
            }
            std::hint::spin_loop();
        }
    }
}

/// Writes packets as a worker does before it hands them over, and returns how much longer that
/// takes because another core wrote them last: the same memory serves one multi-packet after the
/// other.
fn fetch_by_writing(packets: &mut [CryptoPacket]) -> u64 {
    let first = timed(|| write_again(packets));
    first.saturating_sub(timed(|| write_again(packets)))
}

/// This thread's time for some work, in ns.
fn timed(work: impl FnOnce()) -> u64 {
    let start = CoreTime::now();
    work();
    start.elapsed_ns()
}

/// A moment in the time that this thread has spent on a core, in ns: it stands still while the
/// kernel runs another thread there.
#[derive(Clone, Copy)]
pub(super) struct CoreTime(u64);

impl CoreTime {
    pub(super) fn now() -> Self {
        let spent = clock_gettime(ClockId::ThreadCPUTime);
        Self(spent.tv_sec as u64 * 1_000_000_000 + spent.tv_nsec as u64)
    }

    pub(super) fn elapsed_ns(self) -> u64 {
        Self::now().0.saturating_sub(self.0)
    }
}

fn write_again(packets: &mut [CryptoPacket]) {
    for packet in packets {
        packet.frame[..].fill(0x5c);
        packet.job = black_box(packet.job);
        packet.status = CryptoStatus::Pending;
    }
}

/// What the core reads of every packet that comes back: its result, and all of its bytes when the
/// port sends it, which the kernel or the port copies on the same core.
fn look_at(packets: &[CryptoPacket]) {
    for packet in packets {
        black_box(packet.status);
        for line in packet.frame.chunks(CACHE_LINE) {
            black_box(line.first());
        }
    }
}

fn failure(engine: &dyn Engine, reason: &str) -> EngineError {
    EngineError::Device { engine: engine.description().name.clone(), reason: reason.to_owned() }
}
