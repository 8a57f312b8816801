//! The pool that frames come from and go back to.

#![allow(unsafe_code)]

use std::mem;
use std::ptr::NonNull;

use crate::Offload;
use crate::frame::{Frame, FrameSize, Metadata};
use crate::prefetch::prefetch;
use crate::region::{self, Region, RegionError};
use crate::return_queue::{ReturnQueue, Returning};

/// The frames of one size that are free.
struct FreeList {
    return_queue: NonNull<ReturnQueue>,
    free: Vec<Frame>,
    total: usize,
    /// The lowest link of its frames, and how far above it others are.
    first: u32,
    span: u32,
}

// SAFETY: `return_queue` is only reached by this free list and, through its atomic word, by frames.
unsafe impl Send for FreeList {}

impl FreeList {
    fn new(size: FrameSize, total: usize) -> Result<Self, RegionError> {
        let region = Region::of_process();
        let chunks = region.take((total * size.chunks()).try_into().unwrap_or(u32::MAX))?;
        let return_queue = ReturnQueue::new(chunks);
        let mut free = Vec::with_capacity(total);
        for at in (0..total).rev() {
            let chunk = chunks.first + (at * size.chunks()) as u32;
            let start = region.chunk(chunk);
            let metadata = Metadata {
                packet: start,
                len: 0,
                capacity: size.bytes() as u32,
                start,
                received_ns: 0,
                return_queue,
                next: 0,
                offload: Offload::None,
                interface: 0,
                #[cfg(convoy_loom)]
                witness: loom::cell::UnsafeCell::new(()),
            };
            // SAFETY: there is a region, whose array has an entry for each chunk; this chunk is of
            // this list alone, and there is no frame of it.
            unsafe { region::metadata().add(chunk as usize).write(metadata) };
            // SAFETY: its entry was just written, and this is the first frame of it.
            free.push(unsafe { Frame::of_chunk(chunk) });
        }
        let entry = size_of::<Metadata>() as u32;
        Ok(Self { return_queue, free, total, first: chunks.first * entry, span: chunks.count * entry })
    }

    #[inline]
    fn has(&self, frame: &Frame) -> bool {
        frame.id().wrapping_sub(self.first) < self.span
    }

    fn return_queue(&self) -> &ReturnQueue {
        // SAFETY: the queue is closed in `drop` only.
        unsafe { self.return_queue.as_ref() }
    }

    fn reclaim(&mut self) {
        // SAFETY: as in `return_queue`; a separate borrow, since `free` is written.
        let return_queue = unsafe { self.return_queue.as_ref() };
        return_queue.empty_into(&mut self.free);
    }

    #[inline]
    fn take(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let mut frame = self.free.pop()?;
        // Anyone who takes one soon takes the next.
        if let Some(next) = self.free.last() {
            prefetch(next.metadata());
        }
        frame.clear();
        Some(frame)
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        let out = self.total - self.free.len();
        self.free.drain(..).for_each(mem::forget);
        #[cfg(convoy_loom)]
        if std::thread::panicking() {
            return;
        }
        // SAFETY: all but these are forgotten, and the list is gone after this.
        unsafe { ReturnQueue::close(self.return_queue, out) };
    }
}

/// The frames of one worker, in all sizes. Bounded: nothing is allocated later.
///
/// ```
/// use convoy_packet::{FramePool, FrameSize};
/// let mut pool = FramePool::new(64, 4);
/// let mut frame = pool.take(FrameSize::Small).expect("a fresh pool has frames");
/// frame.fill(b"payload").expect("fits");
/// frame.prepend(8).expect("headroom").copy_from_slice(b"8 bytes,");
/// assert_eq!(&frame[..], b"8 bytes,payload");
/// pool.give_back(frame);
/// assert_eq!(pool.available(FrameSize::Small), 64);
/// ```
pub struct FramePool {
    small: FreeList,
    jumbo: FreeList,
    huge: FreeList,
}

impl FramePool {
    /// A pool of `small` frames of 2 KiB and `jumbo` frames of 10 KiB, and of no huge ones.
    ///
    /// # Panics
    /// If the process's packet memory has no room for them; [`in_region`](Self::in_region) says so
    /// instead.
    pub fn new(small: usize, jumbo: usize) -> Self {
        made(Self::in_region(small, jumbo, 0))
    }

    /// This pool with `huge` frames of 66 KiB, for whatever IP packet there may be.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn with_huge(self, huge: usize) -> Self {
        Self { huge: made(FreeList::new(FrameSize::Huge, huge)), ..self }
    }

    /// A pool of this many frames in the process's packet memory.
    ///
    /// # Errors
    /// [`RegionError::Full`] if that has no room for them.
    pub fn in_region(small: usize, jumbo: usize, huge: usize) -> Result<Self, RegionError> {
        Ok(Self {
            small: FreeList::new(FrameSize::Small, small)?,
            jumbo: FreeList::new(FrameSize::Jumbo, jumbo)?,
            huge: FreeList::new(FrameSize::Huge, huge)?,
        })
    }

    /// The chunks of the [`Region`] that a pool of this many frames has.
    pub const fn chunks(small: usize, jumbo: usize, huge: usize) -> usize {
        small * FrameSize::Small.chunks()
            + jumbo * FrameSize::Jumbo.chunks()
            + huge * FrameSize::Huge.chunks()
    }

    fn free_list(&mut self, size: FrameSize) -> &mut FreeList {
        match size {
            FrameSize::Small => &mut self.small,
            FrameSize::Jumbo => &mut self.jumbo,
            FrameSize::Huge => &mut self.huge,
        }
    }

    /// The smallest size that holds a packet of `len` bytes and leaves `tail` bytes behind it, or
    /// `None` if this pool has no frame of that size at all: to wait for one would be to wait for
    /// ever.
    pub fn size_for(&self, len: usize, tail: usize) -> Option<FrameSize> {
        FrameSize::for_packet(len, tail).filter(|size| self.total(*size) > 0)
    }

    /// An empty frame with [`HEADROOM_BYTES`](crate::HEADROOM_BYTES) before it, or `None` when all
    /// are out.
    pub fn take(&mut self, size: FrameSize) -> Option<Frame> {
        self.free_list(size).take()
    }

    /// A frame that holds a copy of `bytes`, in the smallest size that also leaves `tail` bytes
    /// behind them; `None` when none is free or none is large enough.
    pub fn take_filled(&mut self, bytes: &[u8], tail: usize) -> Option<Frame> {
        let mut frame = self.take(FrameSize::for_packet(bytes.len(), tail)?)?;
        frame.fill(bytes).ok()?;
        Some(frame)
    }

    /// Appends up to `count` empty frames to `burst` and returns how many.
    pub fn take_burst(&mut self, size: FrameSize, count: usize, burst: &mut Vec<Frame>) -> usize {
        let before = burst.len();
        burst.extend((0..count).map_while(|_| self.free_list(size).take()));
        burst.len() - before
    }

    #[inline]
    fn list_of(&mut self, frame: &Frame) -> Option<&mut FreeList> {
        if self.small.has(frame) {
            Some(&mut self.small)
        } else if self.jumbo.has(frame) {
            Some(&mut self.jumbo)
        } else if self.huge.has(frame) {
            Some(&mut self.huge)
        } else {
            None
        }
    }

    /// Returns a frame. One of another pool goes there.
    #[inline]
    pub fn give_back(&mut self, frame: Frame) {
        if let Some(list) = self.list_of(&frame) {
            list.free.push(frame);
        }
    }

    /// Returns a burst and leaves `burst` empty. Consecutive frames of another pool go there
    /// together.
    pub fn give_back_burst(&mut self, burst: &mut Vec<Frame>) {
        let mut returning = Returning::default();
        for frame in burst.drain(..) {
            match self.list_of(&frame) {
                Some(list) => list.free.push(frame),
                None => returning.add(frame),
            }
        }
    }

    /// Whether more than `count` frames of this size can be taken now; what others have freed is
    /// only counted where it matters.
    pub fn has_more_than(&self, size: FrameSize, count: usize) -> bool {
        let free = match size {
            FrameSize::Small => &self.small.free,
            FrameSize::Jumbo => &self.jumbo.free,
            FrameSize::Huge => &self.huge.free,
        };
        free.len() > count || self.available(size) > count
    }

    /// Frames of this size that can be taken now.
    pub fn available(&self, size: FrameSize) -> usize {
        let free_list = match size {
            FrameSize::Small => &self.small,
            FrameSize::Jumbo => &self.jumbo,
            FrameSize::Huge => &self.huge,
        };
        free_list.free.len() + free_list.return_queue().waiting()
    }

    /// Frames of this size in all.
    pub fn total(&self, size: FrameSize) -> usize {
        match size {
            FrameSize::Small => self.small.total,
            FrameSize::Jumbo => self.jumbo.total,
            FrameSize::Huge => self.huge.total,
        }
    }
}

fn made<T>(made: Result<T, RegionError>) -> T {
    made.unwrap_or_else(|error| panic!("{error}"))
}

#[cfg(test)]
mod tests;
