//! The source (docs/lab/simulator.md: arrival): packets in the order of the trace, and the
//! time until the next one arrives.

use crate::platform::SourceSpec;
use crate::traffic::{Arrivals, Gaps, Packet, Traffic, TrafficError};

/// Number of packets read at a time.
const BATCH: usize = 256;

pub(crate) struct Source<T> {
    traffic: T,
    gaps: Gaps,
    header_bytes: u32,
    line_bytes: u32,
    left: u64,
    /// Packets and bytes read so far. At the end of a run, all of them have arrived.
    pub(crate) offered_packets: u64,
    pub(crate) offered_bytes: u64,
    /// Packets that have been read, and the index of the next one to arrive.
    batch: Vec<Packet>,
    place: usize,
    /// Time at which the source's clock stopped; if the source never waits, the time of the last
    /// arrival.
    pub(crate) stands_since: u64,
    pub(crate) waited_ticks: u64,
}

impl<T: Traffic> Source<T> {
    pub(crate) fn new(traffic: T, arrivals: Arrivals, seed: u64, spec: &SourceSpec, packets: u64) -> Self {
        Self {
            traffic,
            gaps: Gaps::new(arrivals, spec.rate_mbps, seed),
            header_bytes: spec.header_bytes,
            line_bytes: spec.line_bytes.unwrap_or(spec.header_bytes),
            left: packets,
            offered_packets: 0,
            offered_bytes: 0,
            batch: Vec::with_capacity(BATCH),
            place: 0,
            stands_since: 0,
            waited_ticks: 0,
        }
    }

    /// The packet that arrives next, or `None` at the end. Its gap is the time since the previous
    /// arrival, in ticks; its payload already includes the header, which makes it `b`.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Packet> {
        self.batch.get(self.place)
    }

    /// Moves on to the following packet.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), TrafficError> {
        self.place += 1;
        if self.place < self.batch.len() { Ok(()) } else { self.read() }
    }

    /// Reads the next batch of packets.
    #[cold]
    #[inline(never)]
    pub(crate) fn read(&mut self) -> Result<(), TrafficError> {
        self.place = 0;
        self.batch.clear();
        let most = self.left.min(BATCH as u64) as usize;
        self.traffic.fill(&mut self.batch, most)?;
        self.left -= (self.batch.len() as u64).min(self.left);
        for packet in &mut self.batch {
            let on_line = packet.payload_bytes.saturating_add(self.line_bytes);
            packet.payload_bytes = packet.payload_bytes.saturating_add(self.header_bytes);
            packet.gap_ticks = self.gaps.next(packet, on_line);
            self.offered_bytes += u64::from(packet.payload_bytes);
        }
        self.offered_packets += self.batch.len() as u64;
        Ok(())
    }
}
