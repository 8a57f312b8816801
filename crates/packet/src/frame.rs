//! Frames: packet buffers that are written in place.
//!
//! A [`Frame`] is one packet buffer with room before and behind the packet, so that ESP, UDP and outer
//! headers are written in place. It is a single pointer wide, owned by one stage at a time, and may
//! cross threads. A [`FramePool`] belongs to one worker; taking and giving back frames is a push or a
//! pop on a vector. A frame that is dropped instead of given back returns to its pool through a lock
//! (the slow path), so no code path can leak one.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

use crate::{FrameError, Offload};

/// Bytes of a small frame, head- and tailroom included.
pub const SMALL_FRAME_BYTES: usize = 2048;
/// Bytes of a jumbo frame, head- and tailroom included: a 9,000-byte MTU with 728 bytes to spare.
pub const JUMBO_FRAME_BYTES: usize = 9728;
/// Bytes of a huge frame, head- and tailroom included: the longest IP packet that a length field tells, and 513 to spare.
pub const HUGE_FRAME_BYTES: usize = 66_048;
/// Bytes kept free before the packet in a fresh frame: an outer IPv6 header (40), UDP (8), ESP (8), the
/// longest IV (16), a virtio-net header (12), and slack that keeps the packet on a cache line.
pub const HEADROOM_BYTES: usize = 128;

/// The header takes one cache line before the bytes of its slot.
pub(crate) const SLOT_HEADER_BYTES: usize = 64;

/// The sizes of frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameSize {
    /// [`SMALL_FRAME_BYTES`].
    Small,
    /// [`JUMBO_FRAME_BYTES`].
    Jumbo,
    /// [`HUGE_FRAME_BYTES`].
    Huge,
}

impl FrameSize {
    /// All of them, smallest first.
    pub const ALL: [Self; 3] = [Self::Small, Self::Jumbo, Self::Huge];

    /// The bytes of a frame of this size, head- and tailroom included.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Small => SMALL_FRAME_BYTES,
            Self::Jumbo => JUMBO_FRAME_BYTES,
            Self::Huge => HUGE_FRAME_BYTES,
        }
    }

    /// The smallest size that holds a packet of `len` bytes with full headroom and `tail` bytes behind
    /// it, or `None` if none does.
    pub const fn for_packet(len: usize, tail: usize) -> Option<Self> {
        let need = HEADROOM_BYTES + len + tail;
        if need <= SMALL_FRAME_BYTES {
            Some(Self::Small)
        } else if need <= JUMBO_FRAME_BYTES {
            Some(Self::Jumbo)
        } else if need <= HUGE_FRAME_BYTES {
            Some(Self::Huge)
        } else {
            None
        }
    }
}

/// What stands before the bytes of every slot.
#[repr(C, align(64))]
pub(crate) struct Slot {
    pub(crate) home: *const Home,
    /// Where the packet starts, in bytes from the start of the slot's bytes.
    pub(crate) head: u32,
    /// The packet's length in bytes.
    pub(crate) len: u32,
    /// The slot's bytes, head- and tailroom included.
    pub(crate) capacity: u32,
    /// The slot's place in its region.
    pub(crate) index: u32,
    /// When the packet was received, in ns of the owner's clock.
    pub(crate) received_ns: u64,
    /// What a port's device does to the packet, or did.
    pub(crate) offload: Offload,
}

const _: () = assert!(size_of::<Slot>() == SLOT_HEADER_BYTES);

/// The memory of one frame size, and the frames that were dropped rather than given back.
pub(crate) struct Home {
    pub(crate) memory: NonNull<u8>,
    pub(crate) layout: Layout,
    pub(crate) remote_frees: Mutex<Vec<Frame>>,
}

// SAFETY: `memory` is only reached through a `Frame`, of which one exists per slot; `remote_frees` is locked.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// One packet buffer, owned by one stage at a time. Dereferences to the packet's bytes.
pub struct Frame(pub(crate) NonNull<Slot>);

// SAFETY: a frame is the only handle to its slot, so moving it to another thread moves all access to it.
unsafe impl Send for Frame {}
// SAFETY: a shared frame only reads.
unsafe impl Sync for Frame {}

impl Frame {
    #[inline]
    pub(crate) fn slot(&self) -> &Slot {
        // SAFETY: the slot lives as long as its home, which outlives every frame (see `FreeList::drop`),
        // and this frame is the slot's only handle.
        unsafe { self.0.as_ref() }
    }

    #[inline]
    pub(crate) fn slot_mut(&mut self) -> &mut Slot {
        // SAFETY: as in `slot`; `&mut self` makes the access exclusive.
        unsafe { self.0.as_mut() }
    }

    #[inline]
    fn base(&self) -> *mut u8 {
        // SAFETY: the slot's bytes follow its header in the same allocation.
        unsafe { self.0.as_ptr().cast::<u8>().add(SLOT_HEADER_BYTES) }
    }

    /// The frame's bytes, head- and tailroom included.
    pub fn capacity(&self) -> usize {
        self.slot().capacity as usize
    }

    /// Which size of frame it is.
    pub fn size(&self) -> FrameSize {
        match self.capacity() {
            SMALL_FRAME_BYTES => FrameSize::Small,
            JUMBO_FRAME_BYTES => FrameSize::Jumbo,
            _ => FrameSize::Huge,
        }
    }

    /// Free bytes before the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        self.slot().head as usize
    }

    /// Free bytes behind the packet.
    #[inline]
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

    /// What a port's device is to do to the packet, or did.
    #[inline]
    pub fn offload(&self) -> Offload {
        self.slot().offload
    }

    /// Notes what a port's device is to do to the packet, or did.
    #[inline]
    pub fn set_offload(&mut self, offload: Offload) {
        self.slot_mut().offload = offload;
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

    /// Grows the packet by `front` bytes before and `back` bytes behind it, and returns all of it; the content of the new bytes is what
    /// stood there.
    ///
    /// # Errors
    /// [`FrameError`] if fewer bytes are free; the packet is as it was then.
    #[inline]
    pub fn grow(&mut self, front: usize, back: usize) -> Result<&mut [u8], FrameError> {
        let (head, tail) = (self.headroom(), self.tailroom());
        if front > head {
            return Err(FrameError::NoHeadroom { need: front, have: head });
        }
        if back > tail {
            return Err(FrameError::NoTailroom { need: back, have: tail });
        }
        let slot = self.slot_mut();
        slot.head -= front as u32;
        slot.len += (front + back) as u32;
        Ok(&mut self[..])
    }

    /// Cuts `count` bytes off the front.
    ///
    /// # Errors
    /// [`FrameError::TooShort`] if the packet is shorter.
    #[inline]
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
    #[inline]
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
        slot.offload = Offload::None;
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

    #[inline]
    fn deref(&self) -> &[u8] {
        let slot = self.slot();
        // SAFETY: head + len <= capacity is kept by every method, and the slot's bytes are initialised
        // (the region is allocated zeroed).
        unsafe { std::slice::from_raw_parts(self.base().add(slot.head as usize), slot.len as usize) }
    }
}

impl DerefMut for Frame {
    #[inline]
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
        // SAFETY: the home outlives its frames (see `FreeList::drop`).
        let home = unsafe { &*self.slot().home };
        home.remote_frees.lock().unwrap_or_else(PoisonError::into_inner).push(Frame(self.0));
    }
}
