//! How the lines of a field are divided among packets, at most three lines to a packet (SMPTE
//! ST 2110-20 section 6.2).
//!
//! The kernel takes many packets as one message only if they have one length, and each line in a
//! packet takes a header. Packets of `m + 1/n` lines, for whole `m` and `n`, touch exactly `m + 1`
//! lines each, wherever they start; so all of them have one length without padding.

use crate::format::Format;
use crate::payload::LINE_HEADER_BYTES;

/// Most lines of which a packet carries pixels.
const MOST_RUNS: usize = 3;

/// A division of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    /// Pixel data per packet, in bytes.
    data_bytes: usize,
    /// Whether a packet ends where its line ends, although it has room for more.
    ends_at_line: bool,
}

impl Split {
    /// The division with the most pixels per packet where each packet has `room` bytes for the
    /// headers of its lines and their pixels. `None` if there is no room for one pixel group.
    pub(crate) fn of(format: &Format, room: usize) -> Option<Self> {
        (0..MOST_RUNS).rev().find_map(|whole_lines| Self::with(format, room, whole_lines))
    }

    fn with(format: &Format, room: usize, whole_lines: usize) -> Option<Self> {
        let group = format.pgroup();
        let line_groups = format.width / group.pixels;
        let fitting = room.checked_sub((whole_lines + 1) * LINE_HEADER_BYTES)? / group.bytes;
        let rest = fitting.checked_sub(whole_lines * line_groups).filter(|rest| *rest > 0)?;
        let least_parts = line_groups.div_ceil(rest);
        let parts = (least_parts..=line_groups).find(|parts| line_groups.is_multiple_of(*parts))?;
        let groups = whole_lines * line_groups + line_groups / parts;
        // Some widths have no divisor near: shorter packets at the ends of lines then cost less
        // than shorter packets throughout.
        if whole_lines == 0 && 3 * parts >= 4 * least_parts {
            let data_bytes = line_groups.div_ceil(least_parts) * group.bytes;
            return Some(Self { data_bytes, ends_at_line: true });
        }
        Some(Self { data_bytes: groups * group.bytes, ends_at_line: false })
    }

    /// The end of the packet whose pixels start at byte `start` of a frame in memory. It may lie
    /// behind the end of the field.
    pub(crate) fn end_of_packet(&self, format: &Format, start: usize) -> usize {
        let end = start + self.data_bytes;
        let line_end = (start / format.line_bytes() + 1) * format.line_bytes();
        if self.ends_at_line { end.min(line_end) } else { end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Depth, Sampling};

    fn data_bytes(format: Format, room: usize) -> Option<(usize, bool)> {
        Split::of(&format, room).map(|split| (split.data_bytes, split.ends_at_line))
    }

    #[test]
    fn the_formats_of_television_have_packets_of_one_length() {
        let hd: Format = "1080p50".parse().expect("a name");
        let uhd: Format = "3840x2160p50".parse().expect("a name");
        // A third and a quarter of a line; two and one and a half lines.
        assert_eq!(data_bytes(hd, 1438), Some((1280, false)));
        assert_eq!(data_bytes(hd.with_depth(Depth::Ten), 1438), Some((1200, false)));
        assert_eq!(data_bytes(hd, 8938), Some((7680 + 960, false)));
        assert_eq!(data_bytes(hd.with_depth(Depth::Ten), 8938), Some((4800 + 2400, false)));
        assert_eq!(data_bytes(uhd.with_depth(Depth::Ten), 8938), Some((4800, false)));
    }

    #[test]
    fn lines_without_a_divisor_near_end_in_a_shorter_packet() {
        let format: Format = "720p50".parse().expect("a name");
        // 640 groups of which 286 fit: thirds of 214, 214 and 212.
        assert_eq!(data_bytes(format.with_depth(Depth::Ten), 1438), Some((1070, true)));
        assert_eq!(data_bytes(format.with_sampling(Sampling::Rgb), 1438), Some((1281, true)));
        let split = Split::of(&format.with_depth(Depth::Ten), 1438).expect("fits");
        let format = format.with_depth(Depth::Ten);
        assert_eq!(split.end_of_packet(&format, 2140), 3200);
        let odd: Format = "854x480p25".parse().expect("a name");
        assert_eq!(data_bytes(odd, 1438), Some((214 * 4, true)));
    }

    #[test]
    fn no_room_for_a_group_is_no_split() {
        let format: Format = "64x8p50".parse().expect("a name");
        assert_eq!((data_bytes(format, 9), data_bytes(format, 5)), (None, None));
        assert_eq!(data_bytes(format, 10), Some((4, false)));
        // Three lines at most, however much room there is.
        assert_eq!(data_bytes(format, 8938), Some((3 * 128, false)));
    }
}
