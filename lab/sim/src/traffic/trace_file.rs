//! Trace files, whose format is detected by their first bytes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use convoy_capture::is_capture;

use super::{Capture, CaptureLength, Classify, Packet, TextTrace, Traffic, TrafficError};

/// Number of bytes read at a time.
const READ_BYTES: usize = 1 << 20;

/// A trace in any supported format.
pub enum TraceFile {
    /// pcap or pcapng.
    Capture(Capture),
    /// Six columns of text.
    Text(TextTrace<BufReader<File>>),
}

impl TraceFile {
    /// Opens a trace in the format that its first bytes indicate; a file that does not start as a
    /// capture is read as text. The file is opened only once, so it may be a pipe. `length` and
    /// `classify` apply to captures, because a text trace has numbers for hosts and states payload
    /// lengths.
    ///
    /// # Errors
    /// [`TrafficError`] if the file cannot be read.
    pub fn open(path: &Path, length: CaptureLength, classify: Classify) -> Result<Self, TrafficError> {
        let name = path.display().to_string();
        let unreadable =
            |error: std::io::Error| TrafficError { place: name.clone(), what: error.to_string() };
        let mut file = BufReader::with_capacity(READ_BYTES, File::open(path).map_err(unreadable)?);
        if is_capture(file.fill_buf().map_err(unreadable)?) {
            return Capture::new(&name, file, length, classify).map(Self::Capture);
        }
        Ok(Self::Text(TextTrace::new(&name, file)))
    }
}

impl Traffic for TraceFile {
    fn next_packet(&mut self) -> Result<Option<Packet>, TrafficError> {
        match self {
            Self::Capture(capture) => capture.next_packet(),
            Self::Text(trace) => trace.next_packet(),
        }
    }

    fn fill(&mut self, packets: &mut Vec<Packet>, most: usize) -> Result<(), TrafficError> {
        match self {
            Self::Capture(capture) => capture.fill(packets, most),
            Self::Text(trace) => trace.fill(packets, most),
        }
    }
}
