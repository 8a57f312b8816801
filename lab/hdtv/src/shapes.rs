//! Learns how a sender splits its frames into packets. It splits every frame in the same way, so
//! the receiver knows where each packet's pixels belong before the packet arrives, and has the
//! kernel write them there.

use std::ops::Range;

use crate::layout::RTP_HEADER_BYTES;
use crate::payload::EXTENSION_BYTES;

/// Longest headers that are stored, in bytes: those of eight runs.
pub(crate) const LONGEST_HEADER: usize = 80;

/// Headers and place of one packet of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficShape {
    header: [u8; LONGEST_HEADER],
    /// Bytes of the RTP header and the payload header.
    pub header_bytes: usize,
    /// The bytes of the frame in memory that it carries.
    pub data: Range<usize>,
    /// Padding bytes after the data.
    pub padding: u8,
}

impl TrafficShape {
    /// The shape of a packet with these headers. `None` if it cannot be predicted: its headers are
    /// too long, or it has a header extension, whose length may vary.
    pub fn of(header: &[u8], data: Range<usize>, padding: u8) -> Option<Self> {
        let mut own = [0; LONGEST_HEADER];
        own.get_mut(..header.len())?.copy_from_slice(header);
        // Without contributing sources and extensions, the payload starts at a fixed offset.
        let is_plain = header.first()? & 0x1f == 0;
        is_plain.then_some(Self { header: own, header_bytes: header.len(), data, padding })
    }

    /// Bytes of the whole packet.
    pub fn packet_bytes(&self) -> usize {
        self.header_bytes + self.data.len() + usize::from(self.padding)
    }

    /// Whether headers match this packet in any frame: version, padding, payload type, source and
    /// runs must be equal. Sequence number, timestamp and marker may differ.
    pub fn is_of(&self, header: &[u8]) -> bool {
        const RUNS: usize = RTP_HEADER_BYTES + EXTENSION_BYTES;
        const SOURCE: usize = 8;
        let own = &self.header[..self.header_bytes];
        header.len() == own.len()
            && header[0] == own[0]
            && (header[1] ^ own[1]) & 0x7f == 0
            && header[SOURCE..RTP_HEADER_BYTES] == own[SOURCE..RTP_HEADER_BYTES]
            && header[RUNS..] == own[RUNS..]
    }
}

/// The packets of a frame, learnt from an earlier frame.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    known: Vec<TrafficShape>,
    /// Packets of the current frame, as long as each starts where the previous one ended.
    learning: Vec<TrafficShape>,
}

impl Shapes {
    /// Records a packet that was not predicted.
    pub(crate) fn note(&mut self, header: &[u8], data: Range<usize>, padding: u8) {
        if data.start == 0 {
            self.learning.clear();
        }
        if data.start != self.learning.last().map_or(0, |last| last.data.end) {
            self.learning.clear();
            return;
        }
        self.learning.extend(TrafficShape::of(header, data, padding));
    }

    /// Adopts the learnt packets if they cover a whole frame of this many bytes. Returns whether
    /// they do.
    pub(crate) fn learn(&mut self, frame_bytes: usize) -> bool {
        let is_whole = self.learning.last().is_some_and(|last| last.data.end == frame_bytes);
        if is_whole {
            std::mem::swap(&mut self.known, &mut self.learning);
            self.learning.clear();
        }
        is_whole
    }

    /// All packets of a frame; empty until one frame was complete.
    pub(crate) fn known(&self) -> &[TrafficShape] {
        &self.known
    }

    /// Index of the packet whose data starts at byte `start` of a frame.
    pub(crate) fn index_at(&self, start: usize) -> Option<usize> {
        self.known.binary_search_by_key(&start, |shape| shape.data.start).ok()
    }

    /// Forgets all packets, as another source splits frames differently.
    pub(crate) fn forget(&mut self) {
        self.known.clear();
        self.learning.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::layout::Layout;

    #[test]
    fn packets_of_a_later_frame_are_known_again() {
        let format: Format = "64x8p25".parse().expect("a name");
        let mut layout = Layout::new(&format, 200, 7).expect("fits");
        let mut shapes = Shapes::default();
        layout.number(0..layout.packets().len(), 65_530, [1, 1]);
        for plan in layout.packets() {
            shapes.note(layout.header(plan), plan.data.clone(), 0);
        }
        assert!(shapes.learn(format.frame_bytes()) && shapes.known().len() == layout.packets().len());
        layout.number(0..layout.packets().len(), 70_000, [3600, 3600]);
        for (plan, shape) in layout.packets().iter().zip(shapes.known()) {
            assert!(shape.is_of(layout.header(plan)) && shape.packet_bytes() == layout.len_of(plan));
        }
        assert!(!shapes.known()[1].is_of(layout.header(&layout.packets()[2])));
        let other = Layout::new(&format, 200, 8).expect("fits");
        assert!(!shapes.known()[0].is_of(other.header(&other.packets()[0])), "another source");
    }

    #[test]
    fn a_frame_with_a_gap_teaches_nothing() {
        let header = [0x80; 20];
        let mut shapes = Shapes::default();
        shapes.note(&header, 0..10, 0);
        shapes.note(&header, 20..30, 0);
        assert!(!shapes.learn(30));
        shapes.note(&header, 0..10, 0);
        shapes.note(&header, 10..30, 0);
        assert!(shapes.learn(30) && shapes.index_at(10) == Some(1) && shapes.index_at(11).is_none());
    }
}
