//! The three rings in the card's memory window (docs/internals/card.md, "Host side").

use crate::command::{Pipeline, STATUS_BYTES, Status};
use crate::device::{COMPLETION, CONTROL, Device, RECEIVE, TRANSMIT};
use crate::error::CardError;

/// Descriptors of the transmit ring, and of the receive ring.
pub(crate) const ENTRIES: usize = 256;
/// Each descriptor of both rings produces one completion.
const COMPLETIONS: usize = 2 * ENTRIES;
const ENTRY_BYTES: usize = 16;
const TRANSMIT_RING: usize = 0;
const RECEIVE_RING: usize = TRANSMIT_RING + ENTRIES * ENTRY_BYTES;
const COMPLETION_RING: usize = RECEIVE_RING + ENTRIES * ENTRY_BYTES;
/// End of the rings, where buffers may begin, in bytes.
pub(crate) const RINGS_BYTES: usize = COMPLETION_RING + COMPLETIONS * ENTRY_BYTES;

/// Of the control register: transmit and receive.
pub(crate) const BOTH_ON: u32 = 3;

/// Heads and tails; the counters run freely.
#[derive(Default)]
pub(crate) struct Rings {
    transmit_tail: u16,
    receive_tail: u16,
    completion_head: u16,
}

/// A completed descriptor.
pub(crate) enum Completion {
    /// The card has read the frame; with the descriptor's cookie.
    Transmitted(u32),
    /// The card has filled the buffer; with the descriptor's cookie.
    Received(u32, Answer),
}

/// A status and the position of its frame in the window.
pub(crate) struct Answer {
    pub(crate) status: Status,
    at: usize,
}

impl Answer {
    /// The frame that follows the status.
    pub(crate) fn frame<'a>(&self, device: &'a Device) -> &'a [u8] {
        &device.memory[self.at + STATUS_BYTES..][..self.status.len.into()]
    }
}

fn index(count: u16, entries: usize) -> usize {
    usize::from(count) % entries
}

impl Rings {
    /// Tells the card the addresses of the rings and enables it.
    pub(crate) fn start(device: &mut Device) -> Self {
        let rings = [
            (TRANSMIT, TRANSMIT_RING, ENTRIES),
            (RECEIVE, RECEIVE_RING, ENTRIES),
            (COMPLETION, COMPLETION_RING, COMPLETIONS),
        ];
        for (register, base, entries) in rings {
            device.write(register, base as u32);
            device.write(register + 4, entries as u32 - 1);
        }
        device.write(CONTROL, BOTH_ON);
        Self::default()
    }

    /// Sends the frame at `at` to a pipeline. The caller may have at most [`ENTRIES`] under way.
    pub(crate) fn transmit(
        &mut self,
        device: &mut Device,
        pipeline: Pipeline,
        at: usize,
        len: usize,
        cookie: u32,
    ) {
        let entry = TRANSMIT_RING + ENTRY_BYTES * index(self.transmit_tail, ENTRIES);
        describe(device, entry, at, len, cookie, pipeline as u32 + 1);
        self.transmit_tail = self.transmit_tail.wrapping_add(1);
    }

    /// Gives the card a buffer for an answer, with the buffer's address as cookie. The caller may
    /// have at most [`ENTRIES`] there.
    pub(crate) fn offer(&mut self, device: &mut Device, at: usize, len: usize) {
        let entry = RECEIVE_RING + ENTRY_BYTES * index(self.receive_tail, ENTRIES);
        describe(device, entry, at, len, at as u32, 0);
        self.receive_tail = self.receive_tail.wrapping_add(1);
    }

    /// Rings both doorbells.
    pub(crate) fn ring(&self, device: &mut Device) {
        device.write(RECEIVE + 8, self.receive_tail.into());
        device.write(TRANSMIT + 8, self.transmit_tail.into());
    }

    /// Reads the next completion, if there is one.
    pub(crate) fn next(&mut self, device: &Device) -> Result<Option<Completion>, CardError> {
        let at = COMPLETION_RING + ENTRY_BYTES * index(self.completion_head, COMPLETIONS);
        let entry: &[u8; ENTRY_BYTES] = device.memory[at..].first_chunk().ok_or(CardError::Strayed)?;
        let flags = entry[14];
        let lap = usize::from(self.completion_head) / COMPLETIONS;
        let (is_new, is_receive, is_bad) =
            (usize::from(flags & 1) == 1 - lap % 2, flags & 2 != 0, flags & 4 != 0);
        if !is_new {
            return Ok(None);
        }
        if is_bad {
            return Err(CardError::Completion(flags));
        }
        self.completion_head = self.completion_head.wrapping_add(1);
        let cookie = u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]);
        if !is_receive {
            return Ok(Some(Completion::Transmitted(cookie)));
        }
        let (at, written) = (cookie as usize, usize::from(u16::from_le_bytes([entry[12], entry[13]])));
        let received = device.memory.get(at..at + written).unwrap_or_default();
        let status =
            Status::parse(received).filter(|status| STATUS_BYTES + usize::from(status.len) <= written);
        let status = status.ok_or(CardError::Completion(flags))?;
        Ok(Some(Completion::Received(cookie, Answer { status, at })))
    }

    /// Tells the card how many completions were read.
    pub(crate) fn acknowledge(&self, device: &mut Device) {
        device.write(COMPLETION + 8, self.completion_head.into());
    }
}

fn describe(device: &mut Device, entry: usize, at: usize, len: usize, cookie: u32, target: u32) {
    let bytes = &mut device.memory[entry..entry + ENTRY_BYTES];
    bytes[..4].copy_from_slice(&(at as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    bytes[8..12].copy_from_slice(&cookie.to_le_bytes());
    bytes[12..].copy_from_slice(&target.to_le_bytes());
}
