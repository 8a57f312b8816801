//! What both formats are made of: records, one behind the other, each with its length in front.

use std::fmt;
use std::io::{self, Chain, Cursor, Read};
use std::ops::Range;
use std::time::Duration;

use crate::unread::Reason;

/// The longest record or block that is believed, in bytes, as libpcap has it.
pub(crate) const LONGEST_RECORD: u32 = 16 << 20;

/// Where a capture ends before its end, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    file: String,
    /// Where the record begins that cannot be read, in bytes from the start of the file.
    pub offset: u64,
    what: String,
}

impl Damage {
    pub(crate) fn new(offset: u64, what: impl Into<String>) -> Self {
        Self { file: String::new(), offset, what: what.into() }
    }

    /// The same of a file with this name.
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
        write!(f, "{file}: byte {offset}: {what}; only what comes before it was read")
    }
}

/// In which order a file has the bytes of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteOrder {
    Little,
    Big,
}

impl ByteOrder {
    /// The number at `at`.
    ///
    /// # Panics
    /// If `bytes` end before it.
    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let field = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Self::Little => u32::from_le_bytes(field),
            Self::Big => u32::from_be_bytes(field),
        }
    }

    /// The number at `at`.
    ///
    /// # Panics
    /// If `bytes` end before it.
    pub(crate) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let field = [bytes[at], bytes[at + 1]];
        match self {
            Self::Little => u16::from_le_bytes(field),
            Self::Big => u16::from_be_bytes(field),
        }
    }
}

/// A captured frame, of whatever link.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The link type, as in <https://www.tcpdump.org/linktypes.html>.
    pub(crate) link: u16,
    /// Where it stands in its record.
    pub(crate) bytes: Range<usize>,
    /// Its length on the link, in bytes.
    pub(crate) original_len: u32,
    pub(crate) time: Option<Duration>,
}

/// What the next record turned out to be.
pub(crate) enum Step {
    Frame(Frame),
    /// A frame that cannot be used.
    Unread(Reason),
    /// A record that holds no frame.
    Other,
}

/// Why there is no next record.
pub(crate) enum Stop {
    /// The end of the file, where a record ends.
    End,
    Damaged(Damage),
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The bytes of a file, from its start, which has been looked at, on.
pub(crate) struct Source<R> {
    reader: Chain<Cursor<Vec<u8>>, R>,
    /// Bytes read so far.
    offset: u64,
    /// Where the present record begins.
    record_at: u64,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(start: Vec<u8>, rest: R) -> Self {
        Self { reader: Cursor::new(start).chain(rest), offset: 0, record_at: 0 }
    }

    /// Begins a record with its first `count` bytes.
    pub(crate) fn begin(&mut self, count: usize, record: &mut Vec<u8>) -> Result<(), Stop> {
        record.clear();
        self.record_at = self.offset;
        let read = self.append(count, record);
        if record.is_empty() && !matches!(read, Err(Stop::Io(_))) { Err(Stop::End) } else { read }
    }

    /// Reads `count` more bytes of the record. Memory grows as bytes come in, whatever a broken
    /// length says.
    pub(crate) fn append(&mut self, count: usize, record: &mut Vec<u8>) -> Result<(), Stop> {
        let read = self.reader.by_ref().take(count as u64).read_to_end(record)?;
        self.offset += read as u64;
        if read < count {
            return Err(Stop::Damaged(Damage::cut_off(self.record_at, self.offset)));
        }
        Ok(())
    }

    /// The present record makes no sense, and where the next one begins is unknown.
    pub(crate) fn damaged(&self, what: impl Into<String>) -> Stop {
        Stop::Damaged(Damage::new(self.record_at, what))
    }
}
