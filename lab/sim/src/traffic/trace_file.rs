//! Trace files, whose format is detected by their first bytes.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use convoy_capture::{compression, is_capture};

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
    /// [`TrafficError`] if the file cannot be read, or is compressed.
    pub fn open(path: &Path, length: CaptureLength, classify: Classify) -> Result<Self, TrafficError> {
        let name = path.display().to_string();
        let unreadable =
            |error: std::io::Error| TrafficError { place: name.clone(), what: error.to_string() };
        let mut file = BufReader::with_capacity(READ_BYTES, File::open(path).map_err(unreadable)?);
        let start = file.fill_buf().map_err(unreadable)?;
        if let Some((compressed_by, program)) = compression(start) {
            let what = format!(
                "it is compressed by {compressed_by}; decompress it, or read it by a pipe: \
                 `{program} {name} | convoy-lab ... /dev/stdin`"
            );
            return Err(TrafficError { place: name.clone(), what });
        }
        if is_capture(start) {
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

#[cfg(test)]
mod tests {
    use super::super::by_destination;
    use super::*;

    #[test]
    fn a_compressed_trace_is_refused_with_the_compression_and_what_to_do() {
        let folder = tempfile::tempdir().expect("a folder");
        let starts: [(&[u8], &str, &str); 5] = [
            (b"\x1f\x8b\x08\0rest", "gzip", "zcat"),
            (b"\x1f\x9d\x90rest", "compress", "zcat"),
            (b"\x28\xb5\x2f\xfdrest", "zstd", "zstdcat"),
            (b"\xfd7zXZ\0rest", "xz", "xzcat"),
            (b"BZh9rest", "bzip2", "bzcat"),
        ];
        for (start, name, program) in starts {
            let path = folder.path().join("lbl.tcp.z");
            std::fs::write(&path, start).expect("writable");
            let opened = TraceFile::open(&path, CaptureLength::default(), by_destination());
            let Err(error) = opened else { panic!("{name} was read") };
            let text = error.to_string();
            assert!(text.contains(&format!("compressed by {name};")), "{text}");
            assert!(text.contains(&format!("`{program} {}", path.display())), "{text}");
        }
    }
}
