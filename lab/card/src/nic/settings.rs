//! What a [`Nic`](super::Nic) is made with.

use super::BUFFERS;
use super::halves::OWN_FRAMES;
use super::receive_ring::{FRAMES_BEYOND, size_for};
use crate::device::{Device, IRQ_COUNT, IRQ_TIME};
use crate::line::LINE_BYTES;

/// How a card that works as a network interface is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicSettings {
    /// The only function of its slots, by its id ([`crate::PROPOSALS`]); `None` for those of the
    /// first model, of which each direction has that of its first SA.
    pub function: Option<u8>,
    /// The longest frame from the line that the host takes, without FCS, in bytes; longer ones are
    /// dropped and counted.
    pub frame_bytes: usize,
    /// When the card interrupts.
    pub interrupts: Interrupts,
    /// The longest IP packet of the line, in bytes: the card sends longer ones in fragments if they
    /// are IPv4 without DF and without options, and all others as they are. `None` for no limit.
    pub line_mtu: Option<u16>,
}

impl Default for NicSettings {
    fn default() -> Self {
        Self { function: None, frame_bytes: LINE_BYTES, interrupts: Interrupts::default(), line_mtu: None }
    }
}

impl NicSettings {
    /// What a card takes of the process's packet memory ([`convoy_packet::Region`]), in chunks.
    pub fn packet_chunks(&self) -> usize {
        (BUFFERS + FRAMES_BEYOND + OWN_FRAMES) * size_for(self.frame_bytes).chunks()
    }
}

/// The mitigation of interrupts: the card reports several completions together. A frame that was
/// read, and one that was written, are a completion each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// Completions after which the card interrupts; at least 1.
    pub completions: u16,
    /// Cycles of the card after which it interrupts if there is any completion; 0 for never, which
    /// only `completions` = 1 allows.
    pub cycles: u32,
}

impl Default for Interrupts {
    /// As docs/lab/results/card.md, "Interrupts", has it: at most about 5 us of latency more.
    fn default() -> Self {
        Self { completions: 8, cycles: 400 }
    }
}

impl Interrupts {
    /// An interrupt for each completion.
    pub const EACH: Self = Self { completions: 1, cycles: 0 };

    pub(super) fn request(self, device: &mut Device) {
        device.write(IRQ_COUNT, self.completions.max(1).into());
        // Without it, the last completions would wait for others.
        let cycles = if self.completions > 1 { self.cycles.max(1) } else { self.cycles };
        device.write(IRQ_TIME, cycles);
    }
}
