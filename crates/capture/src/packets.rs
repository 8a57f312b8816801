//! The reader of captures.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use pcap_parser::parse_pcap_header;

use crate::framing::{Damage, NextRecord, RecordSource, Stop};
use crate::link;
use crate::pcap::{HEADER_BYTES, PcapFile};
use crate::pcapng::{PcapngSection, SECTION_HEADER};
use crate::unread::Unread;

/// Size of the read buffer.
const READ_BYTES: usize = 1 << 20;
/// Bytes needed to detect the format.
const MAGIC_BYTES: usize = 4;
/// Magic numbers of pcap, read as little-endian: microseconds, nanoseconds and the "modified"
/// format of some old Linux distributions; then the first two in big-endian files.
const PCAP_MAGICS: [u32; 5] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34, 0xd4c3_b2a1, 0x4d3c_b2a1];

/// Whether `start` begins with the magic number of pcap or pcapng.
pub fn is_capture(start: &[u8]) -> bool {
    let Some(magic) = start.first_chunk::<MAGIC_BYTES>() else { return false };
    *magic == SECTION_HEADER || PCAP_MAGICS.contains(&u32::from_le_bytes(*magic))
}

/// The compression of a file that begins with `start`, with the program that undoes it, if it is
/// one of the usual ones.
pub fn compression(start: &[u8]) -> Option<(&'static str, &'static str)> {
    match start {
        [0x1f, 0x8b, ..] => Some(("gzip", "zcat")),
        [0x1f, 0x9d, ..] => Some(("compress", "zcat")),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(("zstd", "zstdcat")),
        [0xfd, b'7', b'z', b'X', ..] => Some(("xz", "xzcat")),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Some(("bzip2", "bzcat")),
        _ => None,
    }
}

/// An IP packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedPacket<'a> {
    /// The captured bytes from the IP header on. Ethernet padding may follow the packet.
    pub bytes: &'a [u8],
    /// Length before truncation by a snap length, in bytes.
    pub original_len: usize,
    /// Time since 1970; `None` for Simple Packet Blocks, which have none.
    pub time: Option<Duration>,
}

impl CapturedPacket<'_> {
    /// Whether the capture lacks the end of the packet.
    pub fn is_truncated(&self) -> bool {
        self.bytes.len() < self.original_len
    }
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened or read.
    #[error("{name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// The file has another format.
    #[error("{name}: neither pcap nor pcapng: {what}")]
    NotACapture {
        /// The file.
        name: String,
        /// What the file seems to be, and what to do.
        what: String,
    },
}

enum CaptureFormat {
    Pcap(PcapFile),
    PcapNg(PcapngSection),
}

/// Reads the IP packets of a capture.
pub struct Packets<R> {
    name: String,
    source: RecordSource<R>,
    format: CaptureFormat,
    record: Vec<u8>,
    unread: Unread,
    damage: Option<Damage>,
    is_ended: bool,
}

impl Packets<BufReader<File>> {
    /// Opens a file.
    ///
    /// # Errors
    /// [`CaptureError`] if it cannot be read, or is neither pcap nor pcapng.
    pub fn open(path: &Path) -> Result<Self, CaptureError> {
        let name = path.display().to_string();
        match File::open(path) {
            Ok(file) => Self::new(&name, BufReader::with_capacity(READ_BYTES, file)),
            Err(source) => Err(CaptureError::Io { name, source }),
        }
    }
}

impl<R: Read> Packets<R> {
    /// Reads from `reader`, which should be buffered; `name` is for errors.
    ///
    /// # Errors
    /// [`CaptureError`] if it cannot be read, or is neither pcap nor pcapng.
    pub fn new(name: &str, mut reader: R) -> Result<Self, CaptureError> {
        let name = name.to_owned();
        let mut start = Vec::with_capacity(HEADER_BYTES);
        let mut read_to = |count: usize, start: &mut Vec<u8>| {
            let missing = count.saturating_sub(start.len()) as u64;
            match reader.by_ref().take(missing).read_to_end(start) {
                Ok(_) => Ok(()),
                Err(source) => Err(CaptureError::Io { name: name.clone(), source }),
            }
        };
        read_to(MAGIC_BYTES, &mut start)?;
        let format = if start == SECTION_HEADER {
            CaptureFormat::PcapNg(PcapngSection::none())
        } else {
            read_to(HEADER_BYTES, &mut start)?;
            match parse_pcap_header(&start) {
                Ok((_, header)) => CaptureFormat::Pcap(PcapFile::new(&header)),
                Err(_) => return Err(CaptureError::NotACapture { name, what: found(&start) }),
            }
        };
        let mut source = RecordSource::new(start, reader);
        let mut record = Vec::new();
        if let CaptureFormat::Pcap(_) = format {
            // The magic number was read together with the rest of the file header.
            let _ = source.begin(HEADER_BYTES, &mut record);
        }
        Ok(Self { name, source, format, record, unread: Unread::default(), damage: None, is_ended: false })
    }

    /// The next IP packet; `None` at the end of the file or at its first corrupt record. Records
    /// that cannot be used are counted and skipped.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if reading fails.
    pub fn next_packet(&mut self) -> Result<Option<CapturedPacket<'_>>, CaptureError> {
        while !self.is_ended {
            let step = match &mut self.format {
                CaptureFormat::Pcap(pcap) => pcap.next(&mut self.source, &mut self.record),
                CaptureFormat::PcapNg(section) => section.next(&mut self.source, &mut self.record),
            };
            match step {
                Ok(NextRecord::Frame(frame)) => {
                    match link::ip_start(frame.link, &self.record[frame.bytes.clone()]) {
                        Ok(start) => {
                            let bytes = frame.bytes.start + start..frame.bytes.end;
                            let original_len =
                                (frame.original_len as usize).saturating_sub(start).max(bytes.len());
                            let bytes = &self.record[bytes];
                            return Ok(Some(CapturedPacket { bytes, original_len, time: frame.time }));
                        }
                        Err(reason) => self.unread.count(reason),
                    }
                }
                Ok(NextRecord::Unread(reason)) => self.unread.count(reason),
                Ok(NextRecord::Other) => {}
                Err(Stop::End) => self.is_ended = true,
                Err(Stop::Damaged(damage)) => {
                    self.damage = Some(damage.of(&self.name));
                    self.is_ended = true;
                }
                Err(Stop::Io(source)) => {
                    self.is_ended = true;
                    return Err(CaptureError::Io { name: self.name.clone(), source });
                }
            }
        }
        Ok(None)
    }

    /// Whether the end of the readable part was reached.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Packets that could not be used so far, by reason.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    /// Lets the caller count packets that it cannot use.
    pub fn unread_mut(&mut self) -> &mut Unread {
        &mut self.unread
    }

    /// The corrupt record that ended the capture, if there was one.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }
}

/// Why the file is no capture, with advice.
fn found(start: &[u8]) -> String {
    if let Some((name, _)) = compression(start) {
        return format!("it is compressed by {name}; decompress it first");
    }
    match start {
        [] => "it is empty; tcpdump -w makes one".to_owned(),
        start if is_capture(start) => "it ends inside its header; tcpdump -w makes one".to_owned(),
        start => {
            let bytes: Vec<String> =
                start.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with the bytes {}; tcpdump -w makes one", bytes.join(" "))
        }
    }
}
