//! The source (MODEL: source): one packet in hand, and the time until it arrives.

use crate::traffic::{Arrivals, Gaps, Packet, Traffic, TrafficError};

/// The packet that comes next.
#[derive(Clone, Copy)]
pub(crate) struct Hand {
    pub(crate) packet: Packet,
    /// `b`: payload and header, in bytes.
    pub(crate) bytes: u32,
    /// From the arrival of the packet before, in ticks.
    pub(crate) gap: u64,
}

pub(crate) struct Source<T> {
    traffic: T,
    gaps: Gaps,
    header_bytes: u32,
    left: u64,
    pub(crate) hand: Option<Hand>,
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
            hand: None,
            stands_since: 0,
            waited_ticks: 0,
        }
    }

    /// Takes the next packet in hand; none at the end.
    #[inline]
    pub(crate) fn fetch(&mut self) -> Result<(), TrafficError> {
        self.hand = None;
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        if let Some(packet) = self.traffic.next_packet()? {
            let bytes = packet.payload_bytes.saturating_add(self.header_bytes);
            let gap = self.gaps.next(&packet, bytes);
            self.hand = Some(Hand { packet, bytes, gap });
        }
        Ok(())
    }
}
