//! What a receiver counts.

use serde::Serialize;

/// Packets and frames of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Packets of the stream, whole or not.
    pub packets: u64,
    /// Packets that were sent, by their numbers, and did not come.
    pub lost: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Packets that brought nothing new.
    pub duplicates: u64,
    /// Packets of frames that had been handed out.
    pub late: u64,
    /// Packets that are no RTP, or whose payload does not fit the format.
    pub malformed: u64,
    /// Packets of other sources, addresses and payload types, and of a source that is not believed
    /// yet.
    pub foreign: u64,
    /// Packets for which no frame's memory was free.
    pub no_memory: u64,
    /// Frames handed out.
    pub frames: u64,
    /// Those of which every byte had arrived.
    pub whole_frames: u64,
    /// Frames of which nothing arrived.
    pub missing_frames: u64,
    /// Bytes that were missing in frames that were handed out.
    pub missing_bytes: u64,
    /// Bytes of pixels that the kernel wrote to their place in the frame.
    pub in_place_bytes: u64,
    /// Bytes of pixels that were copied once more, to their place.
    pub copied_bytes: u64,
}
