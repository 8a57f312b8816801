//! Batches of commands. The commands are posted, each with a buffer for its answer, the doorbells
//! are rung, and the card runs until its interrupt reports that all are done.

use zeroize::Zeroize;

use crate::command::{Pipeline, STATUS_BYTES};
use crate::device::{Device, IRQ_ACK, IRQ_COUNT, Segment};
use crate::error::CardError;
use crate::rings::{Answer, Completion, ENTRIES, RINGS_BYTES, Rings};

const COMMANDS: usize = RINGS_BYTES;
const AREA_BYTES: usize = 1 << 20;
const ANSWERS: usize = COMMANDS + AREA_BYTES;
/// Size of the memory window that the card can access, in bytes.
pub(crate) const WINDOW_BYTES: usize = ANSWERS + AREA_BYTES;
/// Cycles after which a batch has failed: far more than the slowest function needs.
const TIMEOUT_CYCLES: u64 = 200_000;
const TIMEOUT_CYCLES_PER_BYTE: u64 = 64;

/// What of a command and its answer is elsewhere than in the window.
#[derive(Default)]
pub(crate) struct Beside<'a> {
    /// What is sent after the command's own bytes.
    pub(crate) sent: &'a [Segment],
    /// Bytes of the answer that are stored in the window behind the status.
    pub(crate) answer: usize,
    /// Where the rest of the answer is stored.
    pub(crate) received: &'a [Segment],
}

/// The rings, and the space that the present batch uses.
pub(crate) struct CardBatch {
    rings: Rings,
    posted: usize,
    command_bytes: usize,
    answer_bytes: usize,
}

impl CardBatch {
    pub(crate) fn start(device: &mut Device) -> Self {
        Self { rings: Rings::start(device), posted: 0, command_bytes: 0, answer_bytes: 0 }
    }

    /// Whether a command and its answer fit into the present batch, as far as they are in the
    /// window. They always fit into an empty one.
    pub(crate) fn has_room(&self, command: usize, answer: usize) -> bool {
        self.posted < ENTRIES
            && self.command_bytes + command <= AREA_BYTES
            && self.answer_bytes + answer + STATUS_BYTES <= AREA_BYTES
    }

    /// Writes a command and its descriptors. Its `parts` are copied into the window.
    pub(crate) fn post(
        &mut self,
        device: &mut Device,
        pipeline: Pipeline,
        parts: &[&[u8]],
        beside: &Beside<'_>,
    ) {
        let at = COMMANDS + self.command_bytes;
        let len = device.put(at, parts);
        let mut segments = vec![Segment::window(at, len)];
        segments.extend_from_slice(beside.sent);
        self.rings.transmit(device, pipeline, &segments, self.cookie());
        let answer = beside.answer + STATUS_BYTES;
        segments.clear();
        segments.push(Segment::window(ANSWERS + self.answer_bytes, answer));
        segments.extend_from_slice(beside.received);
        self.rings.offer(device, &segments);
        self.posted += 1;
        self.command_bytes = (self.command_bytes + len).next_multiple_of(8);
        self.answer_bytes = (self.answer_bytes + answer).next_multiple_of(8);
    }

    /// The cookie for the next command's prefix.
    pub(crate) fn cookie(&self) -> u32 {
        self.posted as u32
    }

    /// Runs the batch and returns the answers, indexed by cookie. Wipes the commands, which contain
    /// keys. `mapped_bytes` of packets are outside the window.
    pub(crate) fn run(
        &mut self,
        device: &mut Device,
        mapped_bytes: usize,
    ) -> Result<Vec<Option<Answer>>, CardError> {
        let bytes = (self.command_bytes + self.answer_bytes + mapped_bytes) as u64;
        let completions = 2 * self.posted;
        device.write(IRQ_COUNT, completions as u32);
        self.rings.ring(device);
        let timeout = TIMEOUT_CYCLES + TIMEOUT_CYCLES_PER_BYTE * bytes;
        let ran = device.run(timeout);
        device.memory[COMMANDS..COMMANDS + self.command_bytes].zeroize();
        if !ran? {
            return Err(CardError::Silent(timeout));
        }
        device.write(IRQ_ACK, 1);
        let mut answers: Vec<Option<Answer>> = (0..self.posted).map(|_| None).collect();
        for _ in 0..completions {
            match self.rings.next(device)?.ok_or(CardError::Unanswered)? {
                Completion::Transmitted(_) => {}
                Completion::Cut(_, status) => return Err(CardError::Refused(status.code)),
                Completion::Received(_, answer) => {
                    let cookie = answer.status.cookie;
                    *answers.get_mut(cookie as usize).ok_or(CardError::Cookie(cookie))? = Some(answer);
                }
            }
        }
        self.rings.acknowledge(device);
        (self.posted, self.command_bytes, self.answer_bytes) = (0, 0, 0);
        Ok(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Operation, PREFIX_BYTES, Route, prefix};
    use crate::ffi::Span;
    use crate::model::Model;
    use crate::rings::SEGMENTS;

    #[test]
    #[allow(unsafe_code)]
    fn a_frame_of_as_many_segments_as_a_table_has_passes_whole_into_as_many() {
        let mut device = Device::new(Model::with(None).expect("a model"), WINDOW_BYTES).expect("a card");
        let mut batch = CardBatch::start(&mut device);
        // The prefix and the status are a segment each.
        let pieces: Vec<Vec<u8>> =
            (1..SEGMENTS).map(|at| (0..1 + at % 37).map(|byte| (at * 3 + byte) as u8).collect()).collect();
        let mut rooms: Vec<Vec<u8>> = pieces.iter().rev().map(|piece| vec![0; piece.len()]).collect();
        let map = |device: &mut Device, first: usize, all: &mut [Vec<u8>]| -> Vec<Segment> {
            let places = all.iter_mut().zip(first..).map(|(bytes, number)| {
                // SAFETY: the bytes outlive the batch, and are not used before it is done.
                device.map(number, unsafe { Span::new(bytes.as_mut_ptr(), bytes.len()) });
                Segment::mapped(number, bytes)
            });
            places.collect()
        };
        let mut sources = pieces.clone();
        let sent = map(&mut device, 0, &mut sources);
        let received = map(&mut device, SEGMENTS, &mut rooms);
        let len: usize = pieces.iter().map(Vec::len).sum();
        let head = prefix(Operation::Pass(Route::Host), 0, len as u16, batch.cookie());
        assert_eq!(head.len(), PREFIX_BYTES);
        let beside = Beside { sent: &sent, answer: 0, received: &received };
        batch.post(&mut device, Pipeline::X1, &[&head], &beside);
        let answers = batch.run(&mut device, 2 * len).expect("the card works");
        device.unmap_all();
        let status = answers[0].as_ref().expect("an answer").status;
        assert_eq!(usize::from(status.len), len);
        assert!(rooms.concat() == pieces.concat(), "another frame came than was sent");
    }
}
