//! Frames and the pool they come from.
//!
//! A [`Frame`] is one packet buffer with room before and behind the packet, so that ESP, UDP and outer
//! headers are written in place. It is a single pointer wide, owned by one stage at a time, and may
//! cross threads. A [`FramePool`] belongs to one worker; taking and giving back frames is a push or a
//! pop on a vector. A frame that is dropped instead of given back returns to its pool through a lock
//! (the slow path), so no code path can leak one.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::FrameError;

/// Bytes of a small frame, head- and tailroom included.
pub const SMALL_FRAME_BYTES: usize = 2048;
/// Bytes of a jumbo frame, head- and tailroom included: a 9,000-byte MTU with 728 bytes to spare.
pub const JUMBO_FRAME_BYTES: usize = 9728;
/// Bytes kept free before the packet in a fresh frame: an outer IPv6 header (40), UDP (8), ESP (8), the
/// longest IV (16), a virtio-net header (12), and slack that keeps the packet on a cache line.
pub const HEADROOM_BYTES: usize = 128;

/// Slots start on a page, so that a region can be handed to the kernel as a packet memory.
const REGION_ALIGN: usize = 4096;
/// The header takes one cache line before the bytes of its slot.
const SLOT_HEADER_BYTES: usize = 64;

/// The two sizes of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameSize {
    /// [`SMALL_FRAME_BYTES`].
    Small,
    /// [`JUMBO_FRAME_BYTES`].
    Jumbo,
}

impl FrameSize {
    /// The bytes of a frame of this size, head- and tailroom included.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Small => SMALL_FRAME_BYTES,
            Self::Jumbo => JUMBO_FRAME_BYTES,
        }
    }

    /// The smallest size that holds a packet of `len` bytes with full headroom and `tail` bytes behind
    /// it, or `None` if neither does.
    pub const fn for_packet(len: usize, tail: usize) -> Option<Self> {
        let need = HEADROOM_BYTES + len + tail;
        if need <= SMALL_FRAME_BYTES {
            Some(Self::Small)
        } else if need <= JUMBO_FRAME_BYTES {
            Some(Self::Jumbo)
        } else {
            None
        }
    }
}

/// What stands before the bytes of every slot.
#[repr(C, align(64))]
struct Slot {
    home: *const Home,
    /// Where the packet starts, in bytes from the start of the slot's bytes.
    head: u32,
    /// The packet's length in bytes.
    len: u32,
    /// The slot's bytes, head- and tailroom included.
    capacity: u32,
    /// The slot's place in its region.
    index: u32,
    /// When the packet was received, in ns of the owner's clock.
    received_ns: u64,
}

const _: () = assert!(size_of::<Slot>() == SLOT_HEADER_BYTES);

/// The memory of one frame size, and the frames that were dropped rather than given back.
struct Home {
    memory: NonNull<u8>,
    layout: Layout,
    strays: Mutex<Vec<Frame>>,
}

// SAFETY: `memory` is only reached through a `Frame`, of which one exists per slot; `strays` is locked.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// One packet buffer, owned by one stage at a time. Dereferences to the packet's bytes.
pub struct Frame(NonNull<Slot>);

// SAFETY: a frame is the only handle to its slot, so moving it to another thread moves all access to it.
unsafe impl Send for Frame {}
// SAFETY: a shared frame only reads.
unsafe impl Sync for Frame {}

impl Frame {
    fn slot(&self) -> &Slot {
        // SAFETY: the slot lives as long as its home, which outlives every frame (see `Shelf::drop`),
        // and this frame is the slot's only handle.
        unsafe { self.0.as_ref() }
    }

    fn slot_mut(&mut self) -> &mut Slot {
        // SAFETY: as in `slot`; `&mut self` makes the access exclusive.
        unsafe { self.0.as_mut() }
    }

    fn base(&self) -> *mut u8 {
        // SAFETY: the slot's bytes follow its header in the same allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(SLOT_HEADER_BYTES) }
    }

    /// The frame's bytes, head- and tailroom included.
    pub fn capacity(&self) -> usize {
        self.slot().capacity as usize
    }

    /// Free bytes before the packet.
    pub fn headroom(&self) -> usize {
        self.slot().head as usize
    }

    /// Free bytes behind the packet.
    pub fn tailroom(&self) -> usize {
        let slot = self.slot();
        (slot.capacity - slot.head - slot.len) as usize
    }

    /// When the packet was received, in ns of the clock that the receiving port was given; 0 if unset.
    pub fn received_ns(&self) -> u64 {
        self.slot().received_ns
    }

    /// Notes when the packet was received, in ns.
    pub fn set_received_ns(&mut self, now_ns: u64) {
        self.slot_mut().received_ns = now_ns;
    }

    /// Grows the packet by `count` bytes at its front and returns them; their content is what stood there.
    ///
    /// # Errors
    /// [`FrameError::NoHeadroom`] if fewer bytes are free there.
    pub fn prepend(&mut self, count: usize) -> Result<&mut [u8], FrameError> {
        let have = self.headroom();
        if count > have {
            return Err(FrameError::NoHeadroom { need: count, have });
        }
        let slot = self.slot_mut();
        slot.head -= count as u32;
        slot.len += count as u32;
        Ok(&mut self[..count])
    }

    /// Grows the packet by `count` bytes at its end and returns them; their content is what stood there.
    ///
    /// # Errors
    /// [`FrameError::NoTailroom`] if fewer bytes are free there.
    pub fn append(&mut self, count: usize) -> Result<&mut [u8], FrameError> {
        let have = self.tailroom();
        if count > have {
            return Err(FrameError::NoTailroom { need: count, have });
        }
        let old = self.len();
        self.slot_mut().len += count as u32;
        Ok(&mut self[old..])
    }

    /// Cuts `count` bytes off the front.
    ///
    /// # Errors
    /// [`FrameError::TooShort`] if the packet is shorter.
    pub fn trim_front(&mut self, count: usize) -> Result<(), FrameError> {
        let have = self.len();
        if count > have {
            return Err(FrameError::TooShort { need: count, have });
        }
        let slot = self.slot_mut();
        slot.head += count as u32;
        slot.len -= count as u32;
        Ok(())
    }

    /// Cuts the packet to `len` bytes from its front; longer is left as it is.
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.slot_mut().len = len as u32;
        }
    }

    /// Empties the frame and leaves `headroom` bytes before the next packet.
    ///
    /// # Errors
    /// [`FrameError::NoHeadroom`] if the frame is smaller than that.
    pub fn reset(&mut self, headroom: usize) -> Result<(), FrameError> {
        let capacity = self.capacity();
        if headroom > capacity {
            return Err(FrameError::NoHeadroom { need: headroom, have: capacity });
        }
        let slot = self.slot_mut();
        slot.head = headroom as u32;
        slot.len = 0;
        slot.received_ns = 0;
        Ok(())
    }

    /// Replaces the packet by `bytes`, with the usual headroom before it.
    ///
    /// # Errors
    /// [`FrameError::NoTailroom`] if they do not fit.
    pub fn fill(&mut self, bytes: &[u8]) -> Result<(), FrameError> {
        self.reset(HEADROOM_BYTES)?;
        self.append(bytes.len())?.copy_from_slice(bytes);
        Ok(())
    }
}

impl Deref for Frame {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: head + len <= capacity is kept by every method, and the slot's bytes are initialised
        // (the region is allocated zeroed).
        unsafe { std::slice::from_raw_parts(self.base().add(slot.head as usize), slot.len as usize) }
    }
}

impl DerefMut for Frame {
    fn deref_mut(&mut self) -> &mut [u8] {
        let (head, len) = (self.slot().head as usize, self.slot().len as usize);
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.base().add(head), len) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("len", &self.len()).field("headroom", &self.headroom()).finish()
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        // SAFETY: the home outlives its frames (see `Shelf::drop`).
        let home = unsafe { &*self.slot().home };
        home.strays.lock().unwrap_or_else(PoisonError::into_inner).push(Frame(self.0));
    }
}

/// The frames of one size that are free.
struct Shelf {
    home: NonNull<Home>,
    free: Vec<Frame>,
    total: usize,
}

// SAFETY: `home` is only reached by this shelf and, through its lock, by frames.
unsafe impl Send for Shelf {}

impl Shelf {
    fn new(size: FrameSize, total: usize) -> Self {
        let stride = SLOT_HEADER_BYTES + size.bytes();
        let layout = Layout::from_size_align((stride * total).max(stride), REGION_ALIGN)
            .expect("a pool's memory fits the address space");
        // SAFETY: the layout's size is not zero.
        let Some(memory) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // The strays never outgrow `total`, so a drop never allocates under the lock.
        let strays = Mutex::new(Vec::with_capacity(total));
        let home = Box::leak(Box::new(Home { memory, layout, strays }));
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
        let mut strays = home.strays.lock().unwrap_or_else(PoisonError::into_inner);
        self.free.append(&mut strays);
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
        Some(frame)
    }

    fn strays(&self) -> usize {
        self.home().strays.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Drop for Shelf {
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

/// The frames of one worker, in both sizes. Bounded: what is not there is not allocated.
///
/// ```
/// use convoy_packet::{FramePool, FrameSize};
/// let mut pool = FramePool::new(64, 4);
/// let mut frame = pool.take(FrameSize::Small).expect("a fresh pool has frames");
/// frame.fill(b"payload").expect("fits");
/// frame.prepend(8).expect("headroom").copy_from_slice(b"8 octets");
/// assert_eq!(&frame[..], b"8 octetspayload");
/// pool.give_back(frame);
/// assert_eq!(pool.available(FrameSize::Small), 64);
/// ```
pub struct FramePool {
    small: Shelf,
    jumbo: Shelf,
}

impl FramePool {
    /// A pool of `small` frames of 2 KiB and `jumbo` frames of 9.5 KiB.
    pub fn new(small: usize, jumbo: usize) -> Self {
        Self { small: Shelf::new(FrameSize::Small, small), jumbo: Shelf::new(FrameSize::Jumbo, jumbo) }
    }

    fn shelf(&mut self, size: FrameSize) -> &mut Shelf {
        match size {
            FrameSize::Small => &mut self.small,
            FrameSize::Jumbo => &mut self.jumbo,
        }
    }

    /// An empty frame with [`HEADROOM_BYTES`] before it, or `None` when all are out.
    pub fn take(&mut self, size: FrameSize) -> Option<Frame> {
        self.shelf(size).take()
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
        burst.extend((0..count).map_while(|_| self.shelf(size).take()));
        burst.len() - before
    }

    /// Gives a frame back. One of another pool goes home through that pool's lock.
    pub fn give_back(&mut self, frame: Frame) {
        let home = frame.slot().home;
        if home == self.small.home.as_ptr() {
            self.small.free.push(frame);
        } else if home == self.jumbo.home.as_ptr() {
            self.jumbo.free.push(frame);
        }
    }

    /// Gives a burst back and leaves `burst` empty.
    pub fn give_back_burst(&mut self, burst: &mut Vec<Frame>) {
        for frame in burst.drain(..) {
            self.give_back(frame);
        }
    }

    /// Frames of this size that can be taken now.
    pub fn available(&self, size: FrameSize) -> usize {
        let shelf = match size {
            FrameSize::Small => &self.small,
            FrameSize::Jumbo => &self.jumbo,
        };
        shelf.free.len() + shelf.strays()
    }

    /// Frames of this size in all.
    pub fn total(&self, size: FrameSize) -> usize {
        match size {
            FrameSize::Small => self.small.total,
            FrameSize::Jumbo => self.jumbo.total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_grows_and_shrinks_at_both_ends() {
        let mut pool = FramePool::new(1, 0);
        let mut frame = pool.take(FrameSize::Small).expect("one frame");
        frame.fill(&[1, 2, 3]).expect("fits");
        frame.prepend(2).expect("headroom").copy_from_slice(&[8, 9]);
        frame.append(1).expect("tailroom").copy_from_slice(&[4]);
        assert_eq!(&frame[..], [8, 9, 1, 2, 3, 4]);
        frame.trim_front(3).expect("six bytes");
        frame.truncate(2);
        assert_eq!(&frame[..], [2, 3]);
        assert_eq!(frame.headroom() + frame.len() + frame.tailroom(), SMALL_FRAME_BYTES);
    }

    #[test]
    fn no_room_is_an_error_that_names_both_numbers() {
        let mut pool = FramePool::new(1, 0);
        let mut frame = pool.take(FrameSize::Small).expect("one frame");
        assert_eq!(frame.prepend(129).err(), Some(FrameError::NoHeadroom { need: 129, have: 128 }));
        assert_eq!(frame.append(1921).err(), Some(FrameError::NoTailroom { need: 1921, have: 1920 }));
        assert_eq!(frame.trim_front(1).err(), Some(FrameError::TooShort { need: 1, have: 0 }));
    }

    #[test]
    fn a_dropped_frame_comes_home() {
        let mut pool = FramePool::new(2, 1);
        let mut burst = Vec::new();
        assert_eq!(pool.take_burst(FrameSize::Small, 5, &mut burst), 2);
        assert!(pool.take(FrameSize::Small).is_none());
        drop(burst);
        assert_eq!(pool.available(FrameSize::Small), 2);
        assert!(pool.take(FrameSize::Small).is_some());
    }

    #[test]
    fn a_frame_given_to_another_pool_goes_to_its_own() {
        let mut first = FramePool::new(1, 0);
        let mut second = FramePool::new(1, 0);
        let frame = first.take(FrameSize::Small).expect("one frame");
        second.give_back(frame);
        assert_eq!(second.available(FrameSize::Small), 1);
        assert_eq!(first.available(FrameSize::Small), 1);
    }

    #[test]
    fn a_frame_may_outlive_its_pool() {
        let mut pool = FramePool::new(2, 0);
        let mut frame = pool.take(FrameSize::Small).expect("one frame");
        drop(pool);
        frame.fill(b"still here").expect("fits");
        assert_eq!(&frame[..], b"still here");
    }

    #[test]
    fn sizes_are_chosen_by_packet_and_tail() {
        assert_eq!(FrameSize::for_packet(1500, 300), Some(FrameSize::Small));
        assert_eq!(FrameSize::for_packet(1900, 100), Some(FrameSize::Jumbo));
        assert_eq!(FrameSize::for_packet(9000, 300), Some(FrameSize::Jumbo));
        assert_eq!(FrameSize::for_packet(9600, 300), None);
    }
}
