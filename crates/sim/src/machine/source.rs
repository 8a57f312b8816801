//! The source (MODEL: source): packets in trace order, and the time until the next one arrives.

use super::Carried;
use super::stage::Single;
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

    /// The packet that arrives next; `None` at the end.
    #[inline]
    pub(crate) fn next(&self) -> Option<&Packet> {
        self.batch.get(self.place)
    }

    /// Takes the next packet, which arrives now; [`restock`](Self::restock) then is due.
    #[inline]
    pub(crate) fn take(&mut self, now: u64) -> Option<Single> {
        let packet = self.batch.get(self.place)?;
        let carried = Carried { arrived_ticks: now, bytes: self.bytes(packet), class: packet.class };
        self.place += 1;
        Some(Single { sa: packet.sa, carried })
    }

    /// Makes sure that the next packet is known.
    #[inline]
    pub(crate) fn restock(&mut self) -> Result<(), TrafficError> {
        if self.place == self.batch.len() { self.read() } else { Ok(()) }
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
        Ok(())
    }

    /// `b`: payload and header, in bytes.
    #[inline]
    fn bytes(&self, packet: &Packet) -> u32 {
        packet.payload_bytes.saturating_add(self.header_bytes)
    }

    /// From the last arrival to the next one, in ticks, if there is one. To be asked once for each packet.
    #[inline]
    pub(crate) fn gap(&mut self) -> Option<u64> {
        let packet = self.batch.get(self.place)?;
        Some(self.gaps.next(packet, self.bytes(packet)))
    }
}
