//! Frames of a pool that the card fills, with a status before each.

#![allow(unsafe_code)]

use convoy_packet::{Frame, FramePool, FrameSize, HEADROOM_BYTES};

use super::{BUFFERS, ETHERNET_BYTES};
use crate::command::STATUS_BYTES;
use crate::device::{Device, Segment};
use crate::error::CardError;
use crate::ffi::{MAPPED, SPAN_SHIFT, Span};
use crate::rings::Rings;

/// Frames of the pool beside those that the card has: in the host's queue, and behind it.
pub(super) const FRAMES_BEYOND: usize = 384;
/// Free bytes behind a received frame, so that the host can put the ICV back.
const TAIL_BYTES: usize = 32;
/// Free bytes before a status: the packet behind the frame's Ethernet header begins where those of
/// other ports do.
const HEAD_BYTES: usize = HEADROOM_BYTES - ETHERNET_BYTES as usize - STATUS_BYTES;

/// The frames that the card has, by their place in the ring.
pub(super) struct ReceiveRing {
    pool: FramePool,
    size: FrameSize,
    frames: Vec<Option<Frame>>,
}

/// The size of frames for what has at most this many bytes on the line.
pub(super) fn size_for(frame_bytes: usize) -> FrameSize {
    FrameSize::for_packet(frame_bytes.saturating_sub(ETHERNET_BYTES.into()), TAIL_BYTES)
        .unwrap_or(FrameSize::Huge)
}

/// A pool of frames of one size.
pub(super) fn pool(size: FrameSize, count: usize) -> Result<FramePool, CardError> {
    let of = |other| if other == size { count } else { 0 };
    let pool = FramePool::in_region(of(FrameSize::Small), of(FrameSize::Jumbo), of(FrameSize::Huge));
    pool.map_err(|error| CardError::Memory(error.to_string()))
}

impl ReceiveRing {
    /// # Errors
    /// [`CardError::Memory`] if the process has no packet memory left.
    pub(super) fn new(frame_bytes: usize) -> Result<Self, CardError> {
        let size = size_for(frame_bytes);
        let mut pool = pool(size, BUFFERS + FRAMES_BEYOND)?;
        let frames = (0..BUFFERS).map(|_| pool.take(size)).collect();
        Ok(Self { pool, size, frames })
    }

    /// Gives a card that was just reset all frames.
    pub(super) fn fill(&mut self, rings: &mut Rings, device: &mut Device) {
        for place in 0..BUFFERS {
            if let Some(frame) = self.frames[place].take() {
                self.offer(place, frame, rings, device);
            }
        }
    }

    /// The place of the descriptor with this cookie.
    ///
    /// # Errors
    /// [`CardError::Cookie`] if no descriptor has it.
    pub(super) fn place(cookie: u32) -> Result<usize, CardError> {
        let span = cookie.checked_sub(MAPPED).map(|at| (at >> SPAN_SHIFT) as usize);
        let place = span.and_then(|span| span.checked_sub(BUFFERS));
        place.filter(|place| *place < BUFFERS).ok_or(CardError::Cookie(cookie))
    }

    /// Takes back the frame at a place, with the first `len` bytes that the card wrote.
    pub(super) fn take(&mut self, place: usize, len: usize, device: &mut Device) -> Option<Frame> {
        device.unmap(BUFFERS + place);
        let mut frame = self.frames.get_mut(place)?.take()?;
        frame.trim_front(STATUS_BYTES).ok()?;
        frame.truncate(len);
        Some(frame)
    }

    /// A frame to have the card fill in place of one that is handed over, if any is left.
    pub(super) fn fresh(&mut self) -> Option<Frame> {
        self.pool.take(self.size)
    }

    /// Has the card fill a frame at a place.
    pub(super) fn offer(&mut self, place: usize, mut frame: Frame, rings: &mut Rings, device: &mut Device) {
        let room = frame.capacity() - HEAD_BYTES - TAIL_BYTES;
        frame.reset(HEAD_BYTES).and_then(|()| frame.append(room).map(|_| ())).expect("within its capacity");
        let segment = Segment::mapped(BUFFERS + place, &frame);
        // SAFETY: the frame stays in this ring, which does not access it, until `take` has unmapped
        // it or another card has replaced this one.
        device.map(BUFFERS + place, unsafe { Span::new(frame.as_mut_ptr(), frame.len()) });
        self.frames[place] = Some(frame);
        rings.offer(device, &[segment]);
    }
}
