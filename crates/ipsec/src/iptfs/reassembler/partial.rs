//! An inner packet of which a payload had the beginning, and later ones have the rest.

use convoy_packet::aggfrag::LENGTH_BYTES;
use convoy_packet::{DataBlock, Frame, FramePool};

use crate::drops::DropReason;
use crate::esp::stage::LONGEST_BYTES;

/// The first bytes of a packet.
#[derive(Debug)]
pub(super) struct Partial {
    frame: Frame,
    /// Its length, in bytes; `None` while too few bytes are there to tell it.
    total: Option<usize>,
    /// Whether an outer packet of it met congestion.
    is_ce: bool,
}

/// What a further part made of it.
pub(super) enum Joined {
    /// The whole packet, and whether an outer one met congestion.
    Whole(Frame, bool),
    /// More is missing.
    Part(Partial),
    /// The packet is lost.
    Lost(Frame, DropReason),
}

/// The rest of a packet whose beginning was lost and counted, so that no further part of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LostRest {
    /// There is none.
    None,
    /// The next payload begins with it, if with any.
    Unknown,
    /// The next payload begins with the last so many bytes of it.
    Bytes(usize),
}

impl LostRest {
    /// What is behind a payload that has `part` bytes of the `rest` that it begins with.
    pub(super) fn behind(part: &[u8], rest: usize) -> Self {
        if rest > part.len() { Self::Bytes(rest - part.len()) } else { Self::None }
    }

    /// Whether the `rest` that a payload begins with is this one.
    pub(super) fn may_be(self, rest: usize) -> bool {
        self == Self::Unknown || self == Self::Bytes(rest)
    }
}

impl Partial {
    /// Begins with a data block that the payload's end cuts off; `None` if no frame is free.
    pub(super) fn begin(start: &[u8], block: DataBlock, is_ce: bool, pool: &mut FramePool) -> Option<Self> {
        let total = match block {
            DataBlock::Packet(len) => Some(len),
            DataBlock::Padding | DataBlock::Beginning => None,
        };
        let size = pool.size_for(total.unwrap_or(LENGTH_BYTES), 0)?;
        let mut frame = pool.take(size)?;
        frame.append(start.len()).ok()?.copy_from_slice(start);
        Some(Self { frame, total, is_ce })
    }

    /// Adds a part; `missing` is what the payload says is missing of the packet, which is more than
    /// `part` if the payload ends before the packet does.
    pub(super) fn join(self, part: &[u8], missing: usize, is_ce: bool, pool: &mut FramePool) -> Joined {
        let Self { mut frame, mut total, is_ce: was_ce } = self;
        let is_ce = is_ce || was_ce;
        let says = frame.len() + missing;
        if missing == 0 || says > LONGEST_BYTES || total.is_some_and(|total| total != says) {
            return Joined::Lost(frame, DropReason::IptfsMalformed);
        }
        if part.len() > frame.tailroom() {
            // A frame that was taken before the packet's length was known.
            let Some(mut larger) = pool.size_for(says, 0).and_then(|size| pool.take(size)) else {
                return Joined::Lost(frame, DropReason::NoFrame);
            };
            if larger.fill(&frame).is_ok() {
                pool.give_back(std::mem::replace(&mut frame, larger));
            }
        }
        match frame.append(part.len()) {
            Ok(tail) => tail.copy_from_slice(part),
            Err(_) => return Joined::Lost(frame, DropReason::NoRoom),
        }
        if total.is_none() {
            match DataBlock::of(&frame) {
                Ok(DataBlock::Packet(len)) if len == says => total = Some(len),
                Ok(DataBlock::Beginning) if frame.len() < says => {}
                _ => return Joined::Lost(frame, DropReason::IptfsMalformed),
            }
        }
        if frame.len() == says {
            Joined::Whole(frame, is_ce)
        } else {
            Joined::Part(Self { frame, total, is_ce })
        }
    }

    pub(super) fn into_frame(self) -> Frame {
        self.frame
    }
}
