//! Batches of commands. The commands are posted, each with a buffer for its answer, the doorbells
//! are rung, and the card runs until its interrupt reports that all are done.

use zeroize::Zeroize;

use crate::command::{Pipeline, STATUS_BYTES};
use crate::device::{Device, IRQ_ACK, IRQ_COUNT};
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

/// The rings, and the space that the present batch uses.
pub(crate) struct Batch {
    rings: Rings,
    posted: usize,
    command_bytes: usize,
    answer_bytes: usize,
}

impl Batch {
    pub(crate) fn start(device: &mut Device) -> Self {
        Self { rings: Rings::start(device), posted: 0, command_bytes: 0, answer_bytes: 0 }
    }

    /// Whether a command and its answer fit into the present batch. They always fit into an empty
    /// one.
    pub(crate) fn has_room(&self, command: usize, answer: usize) -> bool {
        self.posted < ENTRIES
            && self.command_bytes + command <= AREA_BYTES
            && self.answer_bytes + answer + STATUS_BYTES <= AREA_BYTES
    }

    /// Writes a command and its descriptors; `answer` is the most bytes that follow the answer's
    /// status.
    pub(crate) fn post(&mut self, device: &mut Device, pipeline: Pipeline, parts: &[&[u8]], answer: usize) {
        let at = COMMANDS + self.command_bytes;
        let len = device.put(at, parts);
        self.rings.transmit(device, pipeline, at, len, self.cookie());
        let answer_at = ANSWERS + self.answer_bytes;
        self.rings.offer(device, answer_at, answer + STATUS_BYTES);
        self.posted += 1;
        self.command_bytes = (self.command_bytes + len).next_multiple_of(8);
        self.answer_bytes = (self.answer_bytes + answer + STATUS_BYTES).next_multiple_of(8);
    }

    /// The cookie for the next command's prefix.
    pub(crate) fn cookie(&self) -> u32 {
        self.posted as u32
    }

    /// Runs the batch and returns the answers, indexed by cookie. Wipes the commands, which contain
    /// keys.
    pub(crate) fn run(&mut self, device: &mut Device) -> Result<Vec<Option<Answer>>, CardError> {
        let bytes = (self.command_bytes + self.answer_bytes) as u64;
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
