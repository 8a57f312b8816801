//! The reader: the IP packets of a capture, one after the other.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use pcap_parser::parse_pcap_header;

use crate::framing::{Damage, Source, Step, Stop};
use crate::link;
use crate::pcap::{HEADER_BYTES, Pcap};
use crate::pcapng::{SECTION_HEADER, Section};
use crate::unread::Unread;

/// Bytes read from a file at a time.
const READ_BYTES: usize = 1 << 20;
/// Bytes by which a capture is told from anything else.
const MAGIC_BYTES: usize = 4;
/// How pcap begins: microseconds, nanoseconds, and what some Linux distributions once wrote, in a
/// machine's own order of bytes; and the first two in the other one.
const PCAP_MAGICS: [u32; 5] = [0xa1b2_c3d4, 0xa1b2_3c4d, 0xa1b2_cd34, 0xd4c3_b2a1, 0x4d3c_b2a1];

/// Whether a file that begins with `start` is pcap or pcapng.
pub fn is_capture(start: &[u8]) -> bool {
    let Some(magic) = start.first_chunk::<MAGIC_BYTES>() else { return false };
    *magic == SECTION_HEADER || PCAP_MAGICS.contains(&u32::from_le_bytes(*magic))
}

/// An IP packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What was captured of it, from its IP header on. Behind the packet there may be what fills up
    /// an Ethernet frame.
    pub bytes: &'a [u8],
    /// How many there were before a snap length cut them.
    pub original_len: usize,
    /// When it was captured, since 1970; Simple Packet Blocks do not say.
    pub time: Option<Duration>,
}

impl Packet<'_> {
    /// Whether the end of it was not captured.
    pub fn is_truncated(&self) -> bool {
        self.bytes.len() < self.original_len
    }
}

/// Why a capture cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The file cannot be opened, or not be read on.
    #[error("{name}: {source}")]
    Io {
        /// The file.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The file is something else.
    #[error("{name}: neither pcap nor pcapng: {what}")]
    NotACapture {
        /// The file.
        name: String,
        /// What was found, and what to do.
        what: String,
    },
}

enum Format {
    Pcap(Pcap),
    PcapNg(Section),
}

/// The IP packets of a capture.
pub struct Packets<R> {
    name: String,
    source: Source<R>,
    format: Format,
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
    /// Reads from `reader`, which should have a buffer; `name` is for errors.
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
            Format::PcapNg(Section::none())
        } else {
            read_to(HEADER_BYTES, &mut start)?;
            match parse_pcap_header(&start) {
                Ok((_, header)) => Format::Pcap(Pcap::new(&header)),
                Err(_) => return Err(CaptureError::NotACapture { name, what: found(&start) }),
            }
        };
        let mut source = Source::new(start, reader);
        let mut record = Vec::new();
        if let Format::Pcap(_) = format {
            // It has been read, whole.
            let _ = source.begin(HEADER_BYTES, &mut record);
        }
        Ok(Self { name, source, format, record, unread: Unread::default(), damage: None, is_ended: false })
    }

    /// The next IP packet; `None` at the end of the capture, be it the file's or that of what is
    /// readable of it. What cannot be used before it is counted.
    ///
    /// # Errors
    /// [`CaptureError::Io`] if the file cannot be read on.
    pub fn next_packet(&mut self) -> Result<Option<Packet<'_>>, CaptureError> {
        while !self.is_ended {
            let step = match &mut self.format {
                Format::Pcap(pcap) => pcap.next(&mut self.source, &mut self.record),
                Format::PcapNg(section) => section.next(&mut self.source, &mut self.record),
            };
            match step {
                Ok(Step::Frame(frame)) => match link::ip_start(frame.link, &self.record[frame.bytes.clone()])
                {
                    Ok(start) => {
                        let bytes = frame.bytes.start + start..frame.bytes.end;
                        let original_len =
                            (frame.original_len as usize).saturating_sub(start).max(bytes.len());
                        let bytes = &self.record[bytes];
                        return Ok(Some(Packet { bytes, original_len, time: frame.time }));
                    }
                    Err(reason) => self.unread.count(reason),
                },
                Ok(Step::Unread(reason)) => self.unread.count(reason),
                Ok(Step::Other) => {}
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

    /// Whether all has been read.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// What could not be used so far.
    pub fn unread(&self) -> &Unread {
        &self.unread
    }

    /// To count what the caller cannot use.
    pub fn unread_mut(&mut self) -> &mut Unread {
        &mut self.unread
    }

    /// What ended the capture before its end, if something did.
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }
}

/// What is said of a file that is no capture.
fn found(start: &[u8]) -> String {
    match start {
        [] => "it is empty; tcpdump -w makes one".to_owned(),
        [0x1f, 0x8b, ..] => "it is compressed by gzip; decompress it first".to_owned(),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => "it is compressed by zstd; decompress it first".to_owned(),
        [0xfd, b'7', b'z', b'X', ..] => "it is compressed by xz; decompress it first".to_owned(),
        start if is_capture(start) => "it ends inside its header; tcpdump -w makes one".to_owned(),
        start => {
            let bytes: Vec<String> =
                start.iter().take(MAGIC_BYTES).map(|byte| format!("{byte:02x}")).collect();
            format!("it begins with the bytes {}; tcpdump -w makes one", bytes.join(" "))
        }
    }
}
