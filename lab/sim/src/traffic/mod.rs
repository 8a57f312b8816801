//! Sources of packets: patterns, captures and text traces. Packets are read as they are needed, so
//! memory does not grow with the length of a trace.

mod arrivals;
mod capture;
mod discrete;
mod header;
mod hosts;
mod pattern;
mod synthetic;
mod text;
mod trace_file;

pub use arrivals::Arrivals;
pub(crate) use arrivals::Gaps;
pub use capture::{Capture, CaptureLength, Classify, ToSa, by_destination};
pub use header::Header;
pub use hosts::Hosts;
pub use pattern::{Pattern, PatternError};
pub use synthetic::{FITTED_TRACE_LOCALITY, Synthetic, SyntheticSpec};
pub use text::TextTrace;
pub use trace_file::TraceFile;

/// One packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// `L`: its payload in bytes, without the header that the platform adds.
    pub payload_bytes: u32,
    /// Its SA, a small number because tables are indexed by it.
    pub sa: u32,
    /// Its traffic class, 0 being the highest.
    pub class: u8,
    /// Time since the capture of the previous packet, in ticks; 0 if unknown.
    pub gap_ticks: u64,
}

/// A stream of packets.
pub trait Traffic {
    /// The next packet; `None` at the end.
    ///
    /// # Errors
    /// [`TrafficError`] if the input is not a valid trace.
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError>;

    /// Appends up to `most` packets, and none at the end. For synthetic traffic this takes half the
    /// time of single calls.
    ///
    /// # Errors
    /// As for [`next_packet`](Self::next_packet).
    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        for _ in 0..most {
            let Some(packet) = self.next_packet()? else { break };
            packets.push(packet);
        }
        Ok(())
    }
}

/// A reference to traffic is traffic, so that the caller can read its counters after a run.
impl<T: Traffic + ?Sized> Traffic for &mut T {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        (**self).next_packet()
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        (**self).fill(packets, most)
    }
}

impl<T: Traffic + ?Sized> Traffic for Box<T> {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        (**self).next_packet()
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        (**self).fill(packets, most)
    }
}

/// Packets from a list, for tests and small examples.
impl Traffic for std::vec::IntoIter<Packet> {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        Ok(self.next())
    }
}

/// Why a trace cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct TrafficError {
    /// The file, and the line or packet.
    pub place: String,
    /// The error, and what was expected.
    pub what: String,
}
