//! The frames in progress.

use std::collections::VecDeque;

use crate::coverage::Coverage;
use crate::format::{Format, Scan};

/// A frame in progress.
pub(super) struct PendingFrame {
    pub(super) bytes: Vec<u8>,
    /// Timestamp of its first field; `None` before its first packet.
    pub(super) timestamp: Option<u32>,
    pub(super) coverage: Coverage,
}

impl PendingFrame {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, timestamp: None, coverage: Coverage::default() }
    }
}

/// Frames in the order of their timestamps. There are few, so searches are linear.
pub(super) struct Pending {
    format: Format,
    frames: VecDeque<PendingFrame>,
}

impl Pending {
    pub(super) fn new(format: Format) -> Self {
        Self { format, frames: VecDeque::new() }
    }

    /// The frame that a packet belongs to.
    pub(super) fn find(&mut self, timestamp: u32, field: usize) -> Option<&mut PendingFrame> {
        let format = self.format;
        self.frames
            .iter_mut()
            .find(|frame| frame.timestamp.is_some_and(|of| is_of(&format, of, timestamp, field)))
    }

    /// The frame with exactly this timestamp.
    pub(super) fn exactly(&mut self, timestamp: u32) -> Option<&mut PendingFrame> {
        self.frames.iter_mut().rev().find(|frame| frame.timestamp == Some(timestamp))
    }

    pub(super) fn insert(&mut self, frame: PendingFrame) {
        let Some(timestamp) = frame.timestamp else { return };
        let is_before = |other: &PendingFrame| {
            other.timestamp.is_some_and(|of| of.wrapping_sub(timestamp).cast_signed() < 0)
        };
        let at = self.frames.iter().rposition(is_before).map_or(0, |before| before + 1);
        self.frames.insert(at, frame);
    }

    /// Timestamp of the first frame.
    pub(super) fn first(&self) -> Option<u32> {
        self.frames.front()?.timestamp
    }

    pub(super) fn pop(&mut self) -> Option<PendingFrame> {
        self.frames.pop_front()
    }
}

/// Whether a packet with this timestamp and field belongs to the frame whose first field has the
/// timestamp `of`. The second field's timestamp is half a frame later; some senders give it the
/// first one's.
pub(super) fn is_of(format: &Format, of: u32, timestamp: u32, field: usize) -> bool {
    match (format.scan, field) {
        (Scan::Progressive, _) | (_, 0) => of == timestamp,
        _ => timestamp == of || timestamp.wrapping_sub(of).abs_diff(format.ticks(0, 1) as u32) <= 1,
    }
}

/// Timestamp of the first field of the frame that a packet belongs to.
pub(super) fn frame_time(format: &Format, timestamp: u32, field: usize) -> u32 {
    timestamp.wrapping_sub(format.ticks(0, field) as u32)
}
