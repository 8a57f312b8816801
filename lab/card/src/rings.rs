//! The three rings in the card's memory window (docs/lab/card.md, "Host side").

use crate::command::{Pipeline, STATUS_BYTES, Status};
use crate::device::{COMPLETION, CONTROL, Device, RECEIVE, Segment, TRANSMIT};
use crate::error::CardError;

/// Descriptors of the transmit ring, and of the receive ring.
pub(crate) const ENTRIES: usize = 256;
/// Each descriptor of both rings produces one completion.
const COMPLETIONS: usize = 2 * ENTRIES;
const ENTRY_BYTES: usize = 16;
const TRANSMIT_RING: usize = 0;
const RECEIVE_RING: usize = TRANSMIT_RING + ENTRIES * ENTRY_BYTES;
const COMPLETION_RING: usize = RECEIVE_RING + ENTRIES * ENTRY_BYTES;
const TABLES: usize = COMPLETION_RING + COMPLETIONS * ENTRY_BYTES;
/// Most segments of a frame.
pub(crate) const SEGMENTS: usize = 255;
/// A scatter-gather table, one for each descriptor of both rings.
const TABLE_BYTES: usize = (SEGMENTS * SEGMENT_BYTES).next_multiple_of(ENTRY_BYTES);
const SEGMENT_BYTES: usize = 8;
/// End of the rings and their tables, where buffers may begin, in bytes.
pub(crate) const RINGS_BYTES: usize = TABLES + 2 * ENTRIES * TABLE_BYTES;
/// In a descriptor: its address is that of a table.
const IS_TABLE: u32 = 1 << 24;

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
    /// The buffer was too short for the frame; with the descriptor's cookie, and the status that
    /// precedes the frame.
    Cut(u32, Status),
}

/// A status, and the bus address at which it stands.
pub(crate) struct Answer {
    pub(crate) status: Status,
    at: usize,
}

impl Answer {
    /// What follows a status in the window: the frame, if all of its buffer is there.
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

    /// Sends a frame, of at most [`SEGMENTS`] segments, to a pipeline. The caller may have at most
    /// [`ENTRIES`] under way.
    pub(crate) fn transmit(
        &mut self,
        device: &mut Device,
        pipeline: Pipeline,
        segments: &[Segment],
        cookie: u32,
    ) {
        let at = index(self.transmit_tail, ENTRIES);
        let entry = TRANSMIT_RING + ENTRY_BYTES * at;
        describe(device, entry, TABLES + TABLE_BYTES * at, segments, cookie, pipeline as u32 + 1);
        self.transmit_tail = self.transmit_tail.wrapping_add(1);
    }

    /// Gives the card a buffer for an answer, of at most [`SEGMENTS`] segments. The first has room
    /// for the status; its address is the cookie. The caller may have at most [`ENTRIES`] there.
    pub(crate) fn offer(&mut self, device: &mut Device, segments: &[Segment]) {
        let at = index(self.receive_tail, ENTRIES);
        let entry = RECEIVE_RING + ENTRY_BYTES * at;
        let table = TABLES + TABLE_BYTES * (ENTRIES + at);
        describe(device, entry, table, segments, segments[0].at, 0);
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
        let cookie = u32::from_le_bytes([entry[8], entry[9], entry[10], entry[11]]);
        let written = usize::from(u16::from_le_bytes([entry[12], entry[13]]));
        self.completion_head = self.completion_head.wrapping_add(1);
        if !is_receive {
            let done = Completion::Transmitted(cookie);
            return if is_bad { Err(CardError::Completion(flags)) } else { Ok(Some(done)) };
        }
        let status = device.written(cookie).filter(|_| written >= STATUS_BYTES);
        let status = status.and_then(|bytes| Status::parse(&bytes)).ok_or(CardError::Completion(flags))?;
        if is_bad {
            return Ok(Some(Completion::Cut(cookie, status)));
        }
        if STATUS_BYTES + usize::from(status.len) > written {
            return Err(CardError::Completion(flags));
        }
        Ok(Some(Completion::Received(cookie, Answer { status, at: cookie as usize })))
    }

    /// Tells the card how many completions were read.
    pub(crate) fn acknowledge(&self, device: &mut Device) {
        device.write(COMPLETION + 8, self.completion_head.into());
    }
}

/// Writes a descriptor, and its table at `table` if the frame has several segments.
fn describe(device: &mut Device, entry: usize, table: usize, segments: &[Segment], cookie: u32, target: u32) {
    assert!((1..=SEGMENTS).contains(&segments.len()), "a table has 1 to {SEGMENTS} entries");
    let (at, len_and_flags) = match segments {
        [whole] => (whole.at, whole.len as u32),
        several => {
            for (place, segment) in (table..).step_by(SEGMENT_BYTES).zip(several) {
                put(device, place, [segment.at, segment.len as u32]);
            }
            (table as u32, (several.len() as u32) << 16 | IS_TABLE)
        }
    };
    put(device, entry, [at, len_and_flags, cookie, target]);
}

fn put<const WORDS: usize>(device: &mut Device, at: usize, words: [u32; WORDS]) {
    for (place, word) in device.memory[at..].chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}
