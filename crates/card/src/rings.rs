//! The three rings, and the buffers that their descriptors point to (docs/card.md, "Host side").
//!
//! A batch at a time: commands are posted with a buffer each for the answer, the doorbells rung, and the card left alone until
//! its interrupt says that all is done.

use zeroize::Zeroize;

use crate::command::{STATUS_BYTES, Status};
use crate::device::{COMPLETION, CONTROL, Device, IRQ_ACK, IRQ_COUNT, RECEIVE, TRANSMIT};
use crate::driver::CardError;

/// Descriptors of a ring.
const ENTRIES: usize = 256;
/// Each descriptor of both rings ends in one.
const COMPLETIONS: usize = 2 * ENTRIES;
const ENTRY_BYTES: usize = 16;
const TRANSMIT_RING: usize = 0;
const RECEIVE_RING: usize = TRANSMIT_RING + ENTRIES * ENTRY_BYTES;
const COMPLETION_RING: usize = RECEIVE_RING + ENTRIES * ENTRY_BYTES;
const COMMANDS: usize = COMPLETION_RING + COMPLETIONS * ENTRY_BYTES;
const AREA_BYTES: usize = 1 << 20;
const ANSWERS: usize = COMMANDS + AREA_BYTES;
/// The card's window of memory.
pub(crate) const WINDOW_BYTES: usize = ANSWERS + AREA_BYTES;
/// Cycles in which a batch must be done: far beyond what the slowest function needs.
const PATIENCE_CYCLES: u64 = 200_000;
const PATIENCE_CYCLES_PER_BYTE: u64 = 64;

/// What came back for a command.
pub(crate) struct Answer {
    pub(crate) status: Status,
    /// Where the frame lies in the window.
    at: usize,
}

impl Answer {
    /// The frame behind the status.
    pub(crate) fn frame<'a>(&self, device: &'a Device) -> &'a [u8] {
        &device.memory[self.at + STATUS_BYTES..][..self.status.len.into()]
    }
}

/// Heads and tails, and what the batch at hand has taken.
#[derive(Default)]
pub(crate) struct Rings {
    transmit_tail: u16,
    receive_tail: u16,
    completion_head: u16,
    posted: usize,
    command_bytes: usize,
    answer_bytes: usize,
}

fn index(count: u16, entries: usize) -> usize {
    usize::from(count) % entries
}

impl Rings {
    /// Tells the card where they lie and turns it on.
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
        device.write(CONTROL, 3);
        Self::default()
    }

    /// Whether a command and its answer fit into the batch at hand; both always fit into an empty one.
    pub(crate) fn has_room(&self, command: usize, answer: usize) -> bool {
        self.posted < ENTRIES
            && self.command_bytes + command <= AREA_BYTES
            && self.answer_bytes + answer + STATUS_BYTES <= AREA_BYTES
    }

    /// Writes a command and its descriptors. The answer has at most `answer` bytes behind its status.
    pub(crate) fn post(&mut self, device: &mut Device, pipeline: usize, parts: &[&[u8]], answer: usize) {
        let (command_at, mut at) = (COMMANDS + self.command_bytes, COMMANDS + self.command_bytes);
        for part in parts {
            device.memory[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let cookie = self.posted as u32;
        let target = pipeline as u32 + 1;
        let entry = TRANSMIT_RING + ENTRY_BYTES * index(self.transmit_tail, ENTRIES);
        describe(device, entry, command_at, at - command_at, cookie, target);
        let answer_at = ANSWERS + self.answer_bytes;
        let entry = RECEIVE_RING + ENTRY_BYTES * index(self.receive_tail, ENTRIES);
        describe(device, entry, answer_at, answer + STATUS_BYTES, answer_at as u32, 0);
        self.transmit_tail = self.transmit_tail.wrapping_add(1);
        self.receive_tail = self.receive_tail.wrapping_add(1);
        self.posted += 1;
        self.command_bytes = (at - COMMANDS).next_multiple_of(8);
        self.answer_bytes = (self.answer_bytes + answer + STATUS_BYTES).next_multiple_of(8);
    }

    /// The number of the next command, which its prefix carries.
    pub(crate) fn cookie(&self) -> u32 {
        self.posted as u32
    }

    /// Lets the card do the batch; its answers, by cookie. What was sent, keys among it, is wiped.
    pub(crate) fn ring(&mut self, device: &mut Device) -> Result<Vec<Option<Answer>>, CardError> {
        let bytes = (self.command_bytes + self.answer_bytes) as u64;
        let completions = 2 * self.posted;
        device.write(IRQ_COUNT, completions as u32);
        device.write(RECEIVE + 8, self.receive_tail.into());
        device.write(TRANSMIT + 8, self.transmit_tail.into());
        let ran = device.run(PATIENCE_CYCLES + PATIENCE_CYCLES_PER_BYTE * bytes);
        device.memory[COMMANDS..COMMANDS + self.command_bytes].zeroize();
        ran?;
        device.write(IRQ_ACK, 1);
        let mut answers: Vec<Option<Answer>> = (0..self.posted).map(|_| None).collect();
        for _ in 0..completions {
            self.complete(device, &mut answers)?;
        }
        device.write(COMPLETION + 8, self.completion_head.into());
        (self.posted, self.command_bytes, self.answer_bytes) = (0, 0, 0);
        Ok(answers)
    }

    /// Reads the next completion; one of the receive ring brings an answer.
    fn complete(&mut self, device: &Device, answers: &mut [Option<Answer>]) -> Result<(), CardError> {
        let at = COMPLETION_RING + ENTRY_BYTES * index(self.completion_head, COMPLETIONS);
        let entry: &[u8; ENTRY_BYTES] = device.memory[at..].first_chunk().ok_or(CardError::Strayed)?;
        let flags = entry[14];
        let lap = usize::from(self.completion_head) / COMPLETIONS;
        let (is_new, is_receive, is_bad) =
            (usize::from(flags & 1) == 1 - lap % 2, flags & 2 != 0, flags & 4 != 0);
        if !is_new || is_bad {
            return Err(CardError::Completion(flags));
        }
        self.completion_head = self.completion_head.wrapping_add(1);
        if !is_receive {
            return Ok(());
        }
        let at = u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]) as usize;
        let written = usize::from(u16::from_le_bytes([entry[12], entry[13]]));
        let received = device.memory.get(at..at + written).unwrap_or_default();
        let status =
            Status::parse(received).filter(|status| STATUS_BYTES + usize::from(status.len) <= written);
        let status = status.ok_or(CardError::Completion(flags))?;
        let slot = answers.get_mut(status.cookie as usize).ok_or(CardError::Cookie(status.cookie))?;
        *slot = Some(Answer { status, at });
        Ok(())
    }
}

fn describe(device: &mut Device, entry: usize, at: usize, len: usize, cookie: u32, target: u32) {
    let bytes = &mut device.memory[entry..entry + ENTRY_BYTES];
    bytes[..4].copy_from_slice(&(at as u32).to_le_bytes());
    bytes[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    bytes[8..12].copy_from_slice(&cookie.to_le_bytes());
    bytes[12..].copy_from_slice(&target.to_le_bytes());
}
