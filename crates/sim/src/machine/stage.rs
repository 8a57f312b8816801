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
    /// Its own servers, by what each has.
    Own(Vec<Option<Single>>),
    /// A processor.
    Processor(usize),
    /// A bus, one request at a time.
    Bus(usize),
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    /// Where its event is, or that of the first of its own servers: the others' follow.
    pub(crate) slot: usize,
    /// Packets that wait, and since when.
    pub(crate) queue: VecDeque<(u64, Single)>,
    /// The packet that the processor or the bus has.
    pub(crate) current: Option<Single>,
    /// In ticks.
    packet: f64,
    byte: f64,
}

impl Stage {
    pub(crate) fn new(spec: &StageSpec, server: Server) -> Self {
        Self {
            server,
            slot: 0,
            queue: VecDeque::new(),
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
