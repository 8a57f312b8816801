//! The source (docs/simulator.md: arrival): packets in trace order, and the time until the next one arrives.

use crate::traffic::{Arrivals, Gaps, Packet, Traffic, TrafficError};

/// Packets that are read at a time.
const BATCH: usize = 256;

pub(crate) struct Source<T> {
    traffic: T,
    gaps: Gaps,
    header_bytes: u32,
    left: u64,
    /// Packets that were read, and the place of the next one to arrive.
    batch: Vec<Packet>,
    place: usize,
    /// Its clock stands still since then.
    pub(crate) stands_since: u64,
    pub(crate) waited_ticks: u64,
}

impl<T: Traffic> Source<T> {
    pub(crate) fn new(
        traffic: T,
        (arrivals, seed): (Arrivals, u64),
        (rate_mbps, header_bytes): (f64, u32),
        packets: u64,
    ) -> Self {
        Self {
            traffic,
            gaps: Gaps::new(arrivals, rate_mbps, seed),
            header_bytes,
            left: packets,
            batch: Vec::with_capacity(BATCH),
            place: 0,
            stands_since: 0,
            waited_ticks: 0,
        }
    }

    /// The packet that arrives next; `None` at the end. Its gap is from the last arrival to its own, in ticks; its payload
    /// has grown by the header to `b`.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Packet> {
        self.batch.get(self.place)
    }

    /// Goes on to the packet behind it.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), TrafficError> {
        self.place += 1;
        if self.place < self.batch.len() { Ok(()) } else { self.read() }
    }

    /// Reads the next packets.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(&mut self) -> Result<(), TrafficError> {
        self.place = 0;
        self.batch.clear();
        let most = self.left.min(BATCH as u64) as usize;
        self.traffic.fill(&mut self.batch, most)?;
        self.left -= (self.batch.len() as u64).min(self.left);
        for packet in &mut self.batch {
            packet.payload_bytes = packet.payload_bytes.saturating_add(self.header_bytes);
            packet.gap_ticks = self.gaps.next(packet);
        }
        Ok(())
    }
}
