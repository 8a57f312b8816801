//! The pool that frames come from and go back to.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::Offload;
use crate::frame::{Frame, FrameSize, HEADROOM_BYTES, Home, SLOT_HEADER_BYTES, Slot};

/// Slots start on a page, so that a region can be handed to the kernel as a packet memory.
const REGION_ALIGN: usize = 4096;

/// The frames of one size that are free.
struct FreeList {
    home: NonNull<Home>,
    free: Vec<Frame>,
    total: usize,
}

// SAFETY: `home` is only reached by this free list and, through its lock, by frames.
unsafe impl Send for FreeList {}

impl FreeList {
    fn new(size: FrameSize, total: usize) -> Self {
        let stride = SLOT_HEADER_BYTES + size.bytes();
        let layout = Layout::from_size_align((stride * total).max(stride), REGION_ALIGN)
            .expect("a pool's memory fits the address space");
        // SAFETY: the layout's size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // The list never outgrows `total`, so a drop never allocates under the lock.
        let remote_frees = Mutex::new(Vec::with_capacity(total));
        let home = Box::leak(Box::new(Home { memory, layout, remote_frees }));
        let home = NonNull::from(home);
        let mut free = Vec::with_capacity(total);
        for index in (0..total).rev() {
            // SAFETY: `index < total`, so the slot lies inside the allocation; it is aligned because
            // the region and the stride are multiples of 64.
            let slot = unsafe { memory.add(index * stride).cast::<Slot>() };
            // SAFETY: the slot is inside the allocation and nobody else has a pointer to it yet.
            unsafe {
                slot.write(Slot {
                    home: home.as_ptr(),
                    head: HEADROOM_BYTES as u32,
                    len: 0,
                    capacity: size.bytes() as u32,
                    index: index as u32,
                    received_ns: 0,
                    offload: Offload::None,
                });
            }
            free.push(Frame(slot));
        }
        Self { home, free, total }
    }

    fn home(&self) -> &Home {
        // SAFETY: the home is freed in `drop` only.
        unsafe { self.home.as_ref() }
    }

    fn reclaim(&mut self) {
        // SAFETY: as in `home`; a separate borrow, since `free` is written.
        let home = unsafe { self.home.as_ref() };
        let mut remote_frees = home.remote_frees.lock().unwrap_or_else(PoisonError::into_inner);
        self.free.append(&mut remote_frees);
    }

    fn take(&mut self) -> Option<Frame> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let mut frame = self.free.pop()?;
        let slot = frame.slot_mut();
        slot.head = HEADROOM_BYTES as u32;
        slot.len = 0;
        slot.received_ns = 0;
        slot.offload = Offload::None;
        Some(frame)
    }

    fn remote_frees(&self) -> usize {
        self.home().remote_frees.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        self.reclaim();
        let all_home = self.free.len() == self.total;
        for frame in self.free.drain(..) {
            std::mem::forget(frame);
        }
        // Frames still abroad keep their memory: it is leaked, which is safe, and happens at exit only.
        if all_home {
            // SAFETY: every frame is here and forgotten, so nothing points into the home any more; it
            // came from `Box::leak` and its memory from `alloc_zeroed` with this layout.
            unsafe {
                let home = Box::from_raw(self.home.as_ptr());
                dealloc(home.memory.as_ptr(), home.layout);
            }
        }
    }
}

/// The frames of one worker, in all sizes. Bounded: what is not there is not allocated.
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
    /// A pool of `small` frames of 2 KiB and `jumbo` frames of 9.5 KiB, and of no huge ones.
    pub fn new(small: usize, jumbo: usize) -> Self {
        let [small, jumbo, huge] =
            [(FrameSize::Small, small), (FrameSize::Jumbo, jumbo), (FrameSize::Huge, 0)]
                .map(|(size, total)| FreeList::new(size, total));
        Self { small, jumbo, huge }
    }

    /// The same with `huge` frames of 64.5 KiB, for whatever IP packet there may be.
    #[must_use]
    pub fn with_huge(self, huge: usize) -> Self {
        Self { huge: FreeList::new(FrameSize::Huge, huge), ..self }
    }

    fn free_list(&mut self, size: FrameSize) -> &mut FreeList {
        match size {
            FrameSize::Small => &mut self.small,
            FrameSize::Jumbo => &mut self.jumbo,
            FrameSize::Huge => &mut self.huge,
        }
    }

    /// The smallest size that holds a packet of `len` bytes and leaves `tail` bytes behind it, or `None` if this pool has no frame of
    /// that size at all: to wait for one would be to wait for ever.
    pub fn size_for(&self, len: usize, tail: usize) -> Option<FrameSize> {
        FrameSize::for_packet(len, tail).filter(|size| self.total(*size) > 0)
    }

    /// An empty frame with [`HEADROOM_BYTES`] before it, or `None` when all are out.
    pub fn take(&mut self, size: FrameSize) -> Option<Frame> {
        self.free_list(size).take()
    }

    /// A frame that holds a copy of `bytes`, in the smallest size that also leaves `tail` bytes behind
    /// them; `None` when none is free or none is large enough.
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

    /// Gives a frame back. One of another pool goes home through that pool's lock.
    pub fn give_back(&mut self, frame: Frame) {
        let home = frame.slot().home;
        if home == self.small.home.as_ptr() {
            self.small.free.push(frame);
        } else if home == self.jumbo.home.as_ptr() {
            self.jumbo.free.push(frame);
        } else if home == self.huge.home.as_ptr() {
            self.huge.free.push(frame);
        }
    }

    /// Gives a burst back and leaves `burst` empty.
    pub fn give_back_burst(&mut self, burst: &mut Vec<Frame>) {
        for frame in burst.drain(..) {
            self.give_back(frame);
        }
    }

    /// Whether more than `count` frames of this size can be taken now; what others have freed is only counted where it matters.
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
        free_list.free.len() + free_list.remote_frees()
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

#[cfg(test)]
mod tests;
