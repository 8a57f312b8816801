//! The payload header of RFC 4175 section 4.3: the upper 16 bits of the sequence number, then a
//! header for each run of pixels.

use crate::format::Format;

/// Bytes of the extended sequence number.
pub(crate) const EXTENSION_BYTES: usize = 2;
/// Bytes of the header of one run.
pub(crate) const LINE_HEADER_BYTES: usize = 6;

/// Header of one run of pixels of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineHeader {
    /// Length of the run in bytes.
    pub bytes: u16,
    /// The field that the line belongs to: 0 in a progressive frame.
    pub field: u8,
    /// The line's number, counted as [`LineNumbers`](crate::LineNumbers) says.
    pub line: u16,
    /// Offset of the first pixel in the line.
    pub pixel: u16,
    /// Whether another run's header follows.
    pub has_more: bool,
}

impl LineHeader {
    /// The header in wire format.
    pub fn to_bytes(self) -> [u8; LINE_HEADER_BYTES] {
        let bytes = self.bytes.to_be_bytes();
        let line = (u16::from(self.field) << 15 | self.line).to_be_bytes();
        let pixel = (u16::from(self.has_more) << 15 | self.pixel).to_be_bytes();
        [bytes[0], bytes[1], line[0], line[1], pixel[0], pixel[1]]
    }

    fn read(bytes: &[u8; LINE_HEADER_BYTES]) -> Self {
        let [bytes, line, pixel] = [0, 2, 4].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]));
        Self {
            bytes,
            field: (line >> 15) as u8,
            line: line & 0x7fff,
            pixel: pixel & 0x7fff,
            has_more: pixel >> 15 == 1,
        }
    }
}

/// Why a payload is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// The payload header is truncated.
    #[error("the packet ends within its payload header")]
    HeaderCut,
    /// The pixels are truncated.
    #[error("the packet carries fewer bytes than its payload header announces")]
    DataCut,
    /// A run is outside of the picture, or splits a pixel group.
    #[error("the packet's line, offset or length does not fit the picture's format")]
    Outside,
}

/// A run of bytes of a frame, and its place in the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadRun {
    /// Offset of its first byte in the frame in memory.
    pub frame: usize,
    /// Offset of its first byte in the payload.
    pub payload: usize,
    /// Length in bytes.
    pub bytes: usize,
    /// The field that it belongs to.
    pub field: u8,
}

/// A checked payload.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    bytes: &'a [u8],
    format: Format,
    data_start: usize,
}

impl<'a> Payload<'a> {
    /// Checks that headers and data are complete and that all runs are within a picture of this
    /// format.
    ///
    /// # Errors
    /// See [`PayloadError`].
    pub fn parse(format: &Format, bytes: &'a [u8]) -> Result<Self, PayloadError> {
        let headers = bytes.get(EXTENSION_BYTES..).ok_or(PayloadError::HeaderCut)?;
        let (mut count, mut data_bytes) = (0, 0);
        for header in headers.as_chunks().0 {
            let header = LineHeader::read(header);
            run_start(format, &header).ok_or(PayloadError::Outside)?;
            count += 1;
            data_bytes += usize::from(header.bytes);
            if !header.has_more {
                let data_start = EXTENSION_BYTES + count * LINE_HEADER_BYTES;
                let data = bytes.get(data_start..).unwrap_or_default();
                let whole = data.len() >= data_bytes;
                return if whole {
                    Ok(Self { bytes, format: *format, data_start })
                } else {
                    Err(PayloadError::DataCut)
                };
            }
        }
        Err(PayloadError::HeaderCut)
    }

    /// Upper 16 bits of the sequence number.
    pub fn extension(&self) -> u16 {
        u16::from_be_bytes([self.bytes[0], self.bytes[1]])
    }

    /// Bytes of the payload header.
    pub fn header_bytes(&self) -> usize {
        self.data_start
    }

    /// The runs, in the order of the packet.
    pub fn runs(&self) -> impl Iterator<Item = PayloadRun> + '_ {
        let headers = self.bytes[EXTENSION_BYTES..self.data_start].as_chunks().0;
        let mut payload = self.data_start;
        headers.iter().filter_map(move |header| {
            let header = LineHeader::read(header);
            let bytes = usize::from(header.bytes);
            let run =
                PayloadRun { frame: run_start(&self.format, &header)?, payload, bytes, field: header.field };
            payload += bytes;
            Some(run)
        })
    }

    /// The single range of the frame that all runs cover, if they are contiguous there.
    pub fn one_range(&self) -> Option<std::ops::Range<usize>> {
        let mut runs = self.runs();
        let first = runs.next()?;
        runs.try_fold(first.frame..first.frame + first.bytes, |range, run| {
            (run.frame == range.end).then(|| range.start..run.frame + run.bytes)
        })
    }
}

/// Offset of a run in the frame; `None` if it is outside of the picture or does not consist of
/// whole pixel groups.
fn run_start(format: &Format, header: &LineHeader) -> Option<usize> {
    let group = format.pgroup();
    let (pixel, bytes) = (usize::from(header.pixel), usize::from(header.bytes));
    let is_whole = pixel.is_multiple_of(group.pixels) && bytes.is_multiple_of(group.bytes) && bytes > 0;
    let start = pixel / group.pixels * group.bytes;
    let field = usize::from(header.field);
    let line = format.numbered_line(field, usize::from(header.line))?;
    (is_whole && start + bytes <= format.line_bytes()).then(|| format.line_start(field, line) + start)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::LineNumbers;

    fn format() -> Format {
        "64x8i50".parse().expect("a name")
    }

    fn payload(headers: &[LineHeader], data: usize) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34];
        headers.iter().for_each(|header| bytes.extend(header.to_bytes()));
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    const HEADER: LineHeader = LineHeader { bytes: 8, field: 1, line: 3, pixel: 60, has_more: false };

    #[test]
    fn a_header_stands_as_rfc_4175_has_it() {
        let header = LineHeader { bytes: 0x0102, field: 1, line: 0x0304, pixel: 0x0506, has_more: true };
        assert_eq!(header.to_bytes(), [0x01, 0x02, 0x83, 0x04, 0x85, 0x06]);
        assert_eq!(LineHeader::read(&header.to_bytes()), header);
    }

    #[test]
    fn runs_are_placed_by_field_line_and_pixel() {
        let first = LineHeader { bytes: 12, field: 0, line: 0, pixel: 2, has_more: true };
        let bytes = payload(&[first, HEADER], 20);
        let format = format();
        let read = Payload::parse(&format, &bytes).expect("whole");
        assert_eq!((read.extension(), read.header_bytes(), read.one_range()), (0x1234, 14, None));
        let runs: Vec<_> = read.runs().map(|run| (run.frame, run.payload, run.bytes)).collect();
        assert_eq!(runs, [(4, 14, 12), (7 * 128 + 120, 26, 8)]);
    }

    #[test]
    fn lines_that_are_counted_from_the_top_of_the_frame_are_placed_by_their_field() {
        let format = format().with_line_numbers(LineNumbers::Frame);
        let place = |field, line| {
            let bytes = payload(&[LineHeader { field, line, ..HEADER }], 8);
            Payload::parse(&format, &bytes).ok().and_then(|read| read.one_range()).map(|range| range.start)
        };
        assert_eq!([place(0, 0), place(0, 6)], [Some(120), Some(3 * 128 + 120)]);
        assert_eq!([place(1, 1), place(1, 7)], [Some(4 * 128 + 120), Some(7 * 128 + 120)]);
        // The wrong field, or below the picture.
        assert_eq!([place(0, 1), place(1, 0), place(0, 8), place(1, 9)], [None; 4]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let format = format();
        let refused = |header, data| Payload::parse(&format, &payload(&[header], data)).err();
        assert_eq!(refused(HEADER, 8), None);
        assert_eq!(refused(HEADER, 7), Some(PayloadError::DataCut));
        assert_eq!(refused(LineHeader { has_more: true, ..HEADER }, 5), Some(PayloadError::HeaderCut));
        for wrong in [
            LineHeader { line: 4, ..HEADER },
            LineHeader { pixel: 61, ..HEADER },
            LineHeader { pixel: 62, ..HEADER },
            LineHeader { bytes: 6, ..HEADER },
            LineHeader { bytes: 0, ..HEADER },
        ] {
            assert_eq!(refused(wrong, 64), Some(PayloadError::Outside), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic_and_stay_within_the_frame(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let format = format();
            if let Ok(payload) = Payload::parse(&format, &bytes) {
                for run in payload.runs() {
                    prop_assert!(run.frame + run.bytes <= format.frame_bytes() && run.payload + run.bytes <= bytes.len());
                }
            }
        }
    }
}
