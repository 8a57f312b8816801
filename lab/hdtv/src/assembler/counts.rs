//! Counters of a receiver.

use serde::Serialize;

/// Counters of packets and frames of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets of the accepted source.
    pub packets: u64,
    /// Packets that were sent, by their sequence numbers, and did not arrive.
    pub lost: u64,
    /// Packets that arrived after one with a higher sequence number.
    pub reordered: u64,
    /// Packets without any new byte.
    pub duplicates: u64,
    /// Packets of frames that had ended.
    pub late: u64,
    /// Packets that are not RTP, or whose payload does not fit the format.
    pub malformed: u64,
    /// Packets with another source, address or payload type, and those of a source on probation.
    pub foreign: u64,
    /// Packets for which no frame memory was free.
    pub no_memory: u64,
    /// Frames released.
    pub frames: u64,
    /// Released frames that were complete.
    pub whole_frames: u64,
    /// Frames between released ones that were not released, since nothing or too little of them
    /// arrived.
    pub missing_frames: u64,
    /// Frames of which so little arrived that they were not released.
    pub scrap_frames: u64,
    /// Bytes missing in released frames.
    pub missing_bytes: u64,
    /// Bytes of pixels that the kernel wrote directly to their place in the frame.
    pub in_place_bytes: u64,
    /// Bytes of pixels that had to be copied to their place.
    pub copied_bytes: u64,
}
