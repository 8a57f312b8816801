//! The pcap format.

use std::io::Read;
use std::time::Duration;

use pcap_parser::PcapHeader;

use crate::framing::{ByteOrder, CapturedFrame, LONGEST_RECORD, NextRecord, RecordSource, Stop};

/// Length of the file header, in bytes.
pub(crate) const HEADER_BYTES: usize = 24;
/// Length of a record header: time (seconds and fraction), captured and original length.
const RECORD_HEADER_BYTES: usize = 16;
/// Length of a record header in the "modified" format, which adds interface, protocol and packet
/// type.
const MODIFIED_RECORD_HEADER_BYTES: usize = 24;
const CAPTURED_LEN_AT: usize = 8;

/// The file header's fields that apply to all records.
pub(crate) struct PcapFile {
    order: ByteOrder,
    record_header_bytes: usize,
    has_nanoseconds: bool,
    link: u16,
}

impl PcapFile {
    pub(crate) fn new(header: &PcapHeader) -> Self {
        let modified = header.is_modified_format();
        Self {
            order: if header.is_bigendian() { ByteOrder::Big } else { ByteOrder::Little },
            record_header_bytes: if modified { MODIFIED_RECORD_HEADER_BYTES } else { RECORD_HEADER_BYTES },
            has_nanoseconds: header.is_nanosecond_precision(),
            // The upper half holds the length of the frame check sequence.
            link: header.network.0 as u16,
        }
    }

    /// Reads the next record into `record`.
    pub(crate) fn next<R: Read>(
        &self,
        source: &mut RecordSource<R>,
        record: &mut Vec<u8>,
    ) -> Result<NextRecord, Stop> {
        source.begin(self.record_header_bytes, record)?;
        let number = |at| self.order.u32(record, at);
        let (seconds, fraction) = (number(0), number(4));
        let (captured_len, original_len) = (number(CAPTURED_LEN_AT), number(CAPTURED_LEN_AT + 4));
        if captured_len > LONGEST_RECORD {
            let what = format!("a record has {captured_len} bytes; at most {LONGEST_RECORD} are possible");
            return Err(source.damaged(what));
        }
        source.append(captured_len as usize, record)?;
        let fraction = u64::from(fraction);
        let fraction = if self.has_nanoseconds {
            Duration::from_nanos(fraction)
        } else {
            Duration::from_micros(fraction)
        };
        Ok(NextRecord::Frame(CapturedFrame {
            link: self.link,
            bytes: self.record_header_bytes..record.len(),
            original_len,
            time: Some(Duration::from_secs(seconds.into()) + fraction),
        }))
    }
}
