//! What happens to each packet by itself, before and after cryptography.

use std::collections::VecDeque;

use super::Carried;
use crate::platform::StageSpec;

/// A packet outside of multi-packets.
#[derive(Clone, Copy)]
pub(crate) struct Single {
    pub(crate) sa: u32,
    pub(crate) carried: Carried,
}

/// Who does it.
pub(crate) enum Server {
    /// Its own servers, by what each has; the event of the first is at this slot, the others' follow.
    Own { slot: usize, packets: Vec<Option<Single>> },
    /// A processor.
    Processor(usize),
    /// A bus, one request at a time.
    Bus(usize),
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    /// Packets that wait, and since when.
    pub(crate) queue: VecDeque<(u64, Single)>,
    /// The packet that the processor or the bus has.
    pub(crate) current: Option<Single>,
    /// In ticks.
    packet: f64,
    byte: f64,
}

impl Stage {
    pub(crate) fn new(spec: &StageSpec, server: Server, frames: usize) -> Self {
        Self {
            server,
            queue: VecDeque::with_capacity(frames),
            current: None,
            packet: spec.packet_us * 1e6,
            byte: spec.byte_ns * 1e3,
        }
    }

    /// A packet's time, in ticks.
    pub(crate) fn ticks(&self, single: &Single) -> u64 {
        (self.packet + self.byte * f64::from(single.carried.bytes) + 0.5) as u64
    }
}
