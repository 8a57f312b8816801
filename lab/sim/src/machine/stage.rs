//! A stage: a step of each single packet before or after cryptography.

use std::collections::VecDeque;

use super::Carried;
use crate::platform::StageSpec;
use crate::report::StageReport;

/// A packet that is not part of a multi-packet.
#[derive(Clone, Copy)]
pub(crate) struct Single {
    pub(crate) sa: u32,
    pub(crate) carried: Carried,
}

/// What serves a stage.
pub(crate) enum Server {
    /// Its own servers, and the packet that each of them serves.
    Own(Vec<Option<Single>>),
    /// The processor of this index.
    Processor(usize),
    /// The cores of this index, which other stages may share.
    Cores(usize),
    /// The bus of this index, with one request of the stage at a time.
    Bus(usize),
}

pub(crate) struct Stage {
    pub(crate) server: Server,
    /// Slot of its event, or of its first own server; the slots of the other servers follow it.
    pub(crate) slot: usize,
    /// Waiting packets, each with the time since which it has waited.
    pub(crate) queue: VecDeque<(u64, Single)>,
    /// The packet that the processor or the bus is serving.
    pub(crate) current: Option<Single>,
    /// Service time for each packet and for each byte, in ticks.
    packet: f64,
    byte: f64,
    /// Packets up to this length skip the stage, unless it is 0.
    above_bytes: u32,
    packets: u64,
    /// Sums over all packets of the time in service, and of the time from entering to leaving the
    /// stage.
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

    /// Whether the packet passes through this stage.
    pub(crate) fn concerns(&self, single: &Single) -> bool {
        single.carried.bytes > self.above_bytes || self.above_bytes == 0
    }

    /// Takes the next packet from the queue, whose service begins now, and returns it with its
    /// service time.
    pub(crate) fn take(&mut self, now: u64) -> Option<(Single, u64)> {
        let (since, single) = self.queue.pop_front()?;
        let ticks = self.ticks(&single);
        self.count(ticks, now + ticks - since);
        Some((single, ticks))
    }

    /// Counts a packet with its time in service and its time at the stage.
    pub(crate) fn count(&mut self, busy: u64, sojourn: u64) {
        self.packets += 1;
        self.busy_ticks += busy;
        self.sojourn_ticks += u128::from(sojourn);
    }

    /// The report of the stage until `end`, where `servers` packets can be in service at once.
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

    /// A packet's service time, in ticks.
    pub(crate) fn ticks(&self, single: &Single) -> u64 {
        (self.packet + self.byte * f64::from(single.carried.bytes) + 0.5) as u64
    }
}
