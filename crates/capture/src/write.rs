//! The writer: pcap with link type raw IP and microseconds.

use std::io::{self, Write};
use std::time::Duration;

use crate::link::RAW;

/// Snap length in the file header: that of the longest IP packet.
const SNAP_LEN: u32 = 65_535;

/// Writes a pcap file of raw IP packets.
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Writes the file's header.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn new(mut sink: W) -> io::Result<Self> {
        let mut header = 0xa1b2_c3d4u32.to_le_bytes().to_vec();
        let version = [2u16, 4].map(u16::to_le_bytes);
        header.extend(version.as_flattened());
        // Time zone and timestamp accuracy, which are always 0 in practice.
        header.extend([0; 8]);
        header.extend(SNAP_LEN.to_le_bytes());
        header.extend(u32::from(RAW).to_le_bytes());
        sink.write_all(&header)?;
        Ok(Self(sink))
    }

    /// Writes a complete IP packet; `time` is since 1970.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn write(&mut self, time: Duration, packet: &[u8]) -> io::Result<()> {
        let len = packet.len() as u32;
        let header = [time.as_secs() as u32, time.subsec_micros(), len, len].map(u32::to_le_bytes);
        self.0.write_all(header.as_flattened())?;
        self.0.write_all(packet)
    }

    /// Returns the sink, which may hold unflushed data.
    pub fn into_inner(self) -> W {
        self.0
    }

    /// Flushes the sink.
    ///
    /// # Errors
    /// Errors of the sink.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
