//! What became of frames, noted while packets are traced.

use super::Tables;
use crate::drops::DropReason;
use crate::sa::id::SaIndex;

/// What became of one frame, by [`Frame::id`](convoy_packet::Frame::id).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameNote {
    /// Its packet was dropped.
    Dropped {
        /// The frame; `None` if it was back in the pool before the packet was counted.
        frame: Option<u32>,
        /// The packet's SA, if it was known.
        sa: Option<SaIndex>,
        /// Why.
        reason: DropReason,
    },
    /// Its packet was copied to another frame.
    Moved {
        /// The previous frame.
        from: u32,
        /// The new one.
        to: u32,
    },
}

/// The notes since they were last taken; none unless they are kept.
#[derive(Default)]
pub(super) struct FrameNotes(Option<Vec<FrameNote>>);

impl FrameNotes {
    #[inline]
    pub(super) fn add(&mut self, note: impl FnOnce() -> FrameNote) {
        if let Some(notes) = &mut self.0 {
            notes.push(note());
        }
    }
}

impl Tables {
    /// Sets whether notes are kept of what becomes of frames. Anyone who has them kept
    /// [takes](Self::take_frame_notes) them after each burst.
    pub fn keep_frame_notes(&mut self, are_kept: bool) {
        self.notes.0 = are_kept.then(Vec::new);
    }

    /// Takes the notes since the last call.
    pub fn take_frame_notes(&mut self) -> Vec<FrameNote> {
        self.notes.0.as_mut().map(std::mem::take).unwrap_or_default()
    }
}
