//! What happens to each packet by itself, before and after cryptography.

use std::collections::VecDeque;

use super::Carried;
use crate::platform::StageSpec;
use crate::report::StageReport;

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
    /// Cores, which other stages have too.
    Cores(usize),
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
    /// Only packets above this go through it.
    above_bytes: u32,
    packets: u64,
    /// Of all packets: in service, and from their coming to their leaving.
    busy_ticks: u64,
    sojourn_ticks: u128,
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
            above_bytes: spec.above_bytes,
            packets: 0,
            busy_ticks: 0,
            sojourn_ticks: 0,
        }
    }

    /// Whether a packet has to go through it.
    pub(crate) fn concerns(&self, single: &Single) -> bool {
        single.carried.bytes > self.above_bytes || self.above_bytes == 0
    }

    /// Takes the next packet out of the queue to be served from now on, and how long that takes.
    pub(crate) fn take(&mut self, now: u64) -> Option<(Single, u64)> {
        let (since, single) = self.queue.pop_front()?;
        let ticks = self.ticks(&single);
        self.count(ticks, now + ticks - since);
        Some((single, ticks))
    }

    /// Counts a packet: in service for so long, and here for so long.
    pub(crate) fn count(&mut self, busy: u64, sojourn: u64) {
        self.packets += 1;
        self.busy_ticks += busy;
        self.sojourn_ticks += u128::from(sojourn);
    }

    /// What it has done until `end`; `servers` at once.
    pub(crate) fn report(&self, name: &str, servers: usize, end: u64) -> StageReport {
        let mean_us = |sum: f64| if self.packets == 0 { 0.0 } else { sum / self.packets as f64 / 1e6 };
        let all = servers as f64 * end as f64;
        StageReport {
            name: name.to_owned(),
            packets: self.packets,
            utilisation: if all == 0.0 { 0.0 } else { self.busy_ticks as f64 / all },
            service_us: mean_us(self.busy_ticks as f64),
            sojourn_us: mean_us(self.sojourn_ticks as f64),
        }
    }

    /// A packet's time, in ticks.
    pub(crate) fn ticks(&self, single: &Single) -> u64 {
        (self.packet + self.byte * f64::from(single.carried.bytes) + 0.5) as u64
    }
}
