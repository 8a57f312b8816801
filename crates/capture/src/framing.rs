//! Framing common to pcap and pcapng: a file is a sequence of records, each with its length in its
//! header.

use std::fmt;
use std::io::{self, Chain, Cursor, Read};
use std::ops::Range;
use std::time::Duration;

use crate::unread::Reason;

/// The longest record or block accepted, in bytes; the limit is libpcap's.
pub(crate) const LONGEST_RECORD: u32 = 16 << 20;

/// The first unreadable record of a capture, at which reading ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    file: String,
    /// Offset of this record from the start of the file, in bytes.
    pub offset: u64,
    what: String,
}

impl Damage {
    pub(crate) fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { file: String::new(), offset, what: what.into() }
    }

    /// The same damage, with the name of the file for its message.
    pub(crate) fn of(self, file: &str) -> Self {
        Self { file: file.to_owned(), ..self }
    }

    fn cut_off(offset: u64, end: u64) -> Self {
        Self::new(offset, format!("the file ends at byte {end}, inside the record that begins here"))
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, what } = self;
        write!(f, "{file}: byte {offset}: {what}; only the packets before it were read")
    }
}

/// The byte order of a file's integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The integer at offset `at`.
    ///
    /// # Panics
    /// If `bytes` is too short.
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let field = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }

    /// The integer at offset `at`.
    ///
    /// # Panics
    /// If `bytes` is too short.
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let field = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        }
    }
}

/// A captured frame of any link type.
#[derive(Clone, Debug)]
pub(crate) struct CapturedFrame {
    /// The link type, as in <https://www.tcpdump.org/linktypes.html>.
    pub(crate) link: u16,
    /// The frame's bytes within its record.
    pub(crate) bytes: Range<usize>,
    /// Length of the frame on the link, in bytes.
    pub(crate) original_len: u32,
    pub(crate) time: Option<Duration>,
}

/// What the next record holds.
pub(crate) enum NextRecord {
    Frame(CapturedFrame),
    /// A frame that is counted, but not handed out.
    Unread(Reason),
    /// Something other than a frame.
    Other,
}

/// Why there is no next record.
pub(crate) enum Stop {
    /// The file ends at a record boundary.
    End,
    Damaged(Damage),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Reads the records of a file. The caller has already read the first bytes to detect the format;
/// they are read again from memory.
pub(crate) struct RecordSource<R> {
    reader: Chain<Cursor<Vec<u8>>, R>,
    /// Bytes read so far.
    offset: u64,
    /// Offset at which the current record begins.
    record_at: u64,
}

impl<R: Read> RecordSource<R> {
    pub(crate) fn new(start: Vec<u8>, rest: R) -> Self {
        Self { reader: Cursor::new(start).chain(rest), offset: 0, record_at: 0 }
    }

    /// Starts a new record with its first `count` bytes.
    pub(crate) fn begin(&mut self, count: usize, record: &mut Vec<u8>) -> Result<(), Stop> {
        record.clear();
        self.record_at = self.offset;
        let read = self.append(count, record);
        if record.is_empty() && !matches!(read, Err(Stop::Io(_))) { Err(Stop::End) } else { read }
    }

    /// Appends `count` bytes to the record. Memory is allocated as bytes arrive, so a corrupt
    /// length field cannot make it grow.
    pub(crate) fn append(&mut self, count: usize, record: &mut Vec<u8>) -> Result<(), Stop> {
        let read = self.reader.by_ref().take(count as u64).read_to_end(record)?;
        self.offset += read as u64;
        if read < count {
            return Err(Stop::Damaged(Damage::cut_off(self.record_at, self.offset)));
        }
        Ok(())
    }

    /// Reports that the current record is corrupt, so that the start of the next one is unknown.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> Stop {
        Stop::Damaged(Damage::new(self.record_at, what))
    }
}
