//! Frames: packet buffers that are written in place.
//!
//! A [`Frame`] is one packet buffer with room before and behind the packet, so that ESP, UDP and
//! outer headers are written in place. It is 32 bits, owned by one stage at a time, and may cross
//! threads. It comes from a [`FramePool`](crate::FramePool) of one worker, which takes it back by a
//! push on a vector. A frame that is dropped instead, wherever that is, goes back there by one
//! exchange of 64 bits, so no code path can leak one.

#![allow(unsafe_code)]

use std::num::NonZeroU32;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::{fmt, mem, slice};

use crate::region::{self, CHUNK_BYTES};
use crate::return_queue::{ReturnQueue, return_frame};
use crate::{FrameError, Offload};

/// Bytes of a small frame, head- and tailroom included.
pub const SMALL_FRAME_BYTES: usize = CHUNK_BYTES;
/// Bytes of a jumbo frame, head- and tailroom included: a 9,000-byte MTU with 1,240 bytes to spare.
pub const JUMBO_FRAME_BYTES: usize = 5 * CHUNK_BYTES;
/// Bytes of a huge frame, head- and tailroom included: the longest IP packet that a length field
/// tells, and 2,049 to spare.
pub const HUGE_FRAME_BYTES: usize = 33 * CHUNK_BYTES;
/// Bytes kept free before the packet in a fresh frame: an outer IPv6 header (40), UDP (8), ESP (8),
/// the longest IV (16), a virtio-net header (12), and slack that keeps the packet on a cache line.
pub const HEADROOM_BYTES: usize = 128;

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

    /// The chunks of a frame of this size.
    pub const fn chunks(self) -> usize {
        self.bytes() / CHUNK_BYTES
    }

    /// The smallest size that holds a packet of `len` bytes with full headroom and `tail` bytes
    /// behind it, or `None` if none does.
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

/// A frame's record, in the region's array at the index of the frame's first chunk.
#[repr(C, align(64))]
pub(crate) struct Metadata {
    /// The packet's first byte.
    pub(crate) packet: NonNull<u8>,
    /// The packet's length in bytes.
    pub(crate) len: u32,
    /// The frame's bytes, head- and tailroom included.
    pub(crate) capacity: u32,
    /// The frame's first byte.
    pub(crate) start: NonNull<u8>,
    /// When the packet was received, in ns of the owner's clock.
    pub(crate) received_ns: u64,
    /// The queue to which the frame returns when it is dropped.
    pub(crate) return_queue: NonNull<ReturnQueue>,
    /// The next frame of a chain of free ones, or 0.
    pub(crate) next: u32,
    /// What a port's device does to the packet, or did.
    pub(crate) offload: Offload,
    /// The inside interface of a packet in plain; 0 is the one that tunnels share.
    pub(crate) interface: u16,
    /// Accessed with the record and the bytes, which loom does not see.
    #[cfg(convoy_loom)]
    pub(crate) witness: loom::cell::UnsafeCell<()>,
}

#[cfg(not(convoy_loom))]
const _: () = assert!(size_of::<Metadata>() == 64);

/// One packet buffer, owned by one stage at a time. Dereferences to the packet's bytes.
///
/// It is the offset of its record, in bytes, so that finding that is one addition. The owner of a
/// frame has its record and its bytes exclusively; so it may be sent to another thread, and a
/// shared one is only read.
#[repr(transparent)]
pub struct Frame(NonZeroU32);

impl Frame {
    /// The frame whose first chunk this is.
    ///
    /// # Safety
    /// The chunk's metadata is written, and there is no other frame of it.
    pub(crate) unsafe fn of_chunk(chunk: u32) -> Self {
        let offset = chunk * size_of::<Metadata>() as u32;
        Self(NonZeroU32::new(offset).expect("chunk 0 has no owner"))
    }

    /// The frame that [`into_link`](Self::into_link) made a number of; `None` of 0.
    ///
    /// # Safety
    /// It was made there, and no frame was made of it since.
    pub(crate) unsafe fn from_link(link: u32) -> Option<Self> {
        NonZeroU32::new(link).map(Self)
    }

    /// Converts it to a number, never 0, which owns nothing: the frame is lost unless it is
    /// converted back.
    pub(crate) fn into_link(self) -> u32 {
        let link = self.0.get();
        mem::forget(self);
        link
    }

    /// Its number, which no other frame has and which does not change, not even while the frame is
    /// back in its pool.
    #[inline]
    pub fn id(&self) -> u32 {
        self.0.get()
    }

    #[inline(always)]
    fn entry(&self) -> *mut Metadata {
        // SAFETY: there is a region, since this frame lies in it, and its entry is at this offset.
        unsafe { region::metadata().byte_add(self.0.get() as usize) }
    }

    #[inline]
    pub(crate) fn metadata(&self) -> &Metadata {
        // SAFETY: the entry was written when the frame's pool was made, and stays until the frame
        // is back there; only this frame leads to it.
        let metadata = unsafe { &*self.entry() };
        #[cfg(convoy_loom)]
        metadata.witness.with(|_| ());
        metadata
    }

    #[inline]
    pub(crate) fn metadata_mut(&mut self) -> &mut Metadata {
        // SAFETY: as in `metadata`; `&mut self` makes the access exclusive.
        let metadata = unsafe { &mut *self.entry() };
        #[cfg(convoy_loom)]
        metadata.witness.with_mut(|_| ());
        metadata
    }

    /// Makes it an empty frame with [`HEADROOM_BYTES`] before the packet.
    #[inline]
    pub(crate) fn clear(&mut self) {
        let metadata = self.metadata_mut();
        // SAFETY: every frame is longer than that.
        metadata.packet = unsafe { metadata.start.add(HEADROOM_BYTES) };
        metadata.len = 0;
        metadata.received_ns = 0;
        metadata.offload = Offload::None;
        metadata.interface = 0;
    }

    /// Sets the packet's start to `head` bytes behind the frame's first, and its length to `len`
    /// bytes.
    #[inline]
    pub(crate) fn place(&mut self, head: usize, len: usize) {
        let metadata = self.metadata_mut();
        assert!(head + len <= metadata.capacity as usize, "a packet lies inside its frame");
        // SAFETY: just checked.
        metadata.packet = unsafe { metadata.start.add(head) };
        metadata.len = len as u32;
    }

    /// The frame's first chunk.
    #[inline]
    pub(crate) fn chunk(&self) -> usize {
        self.0.get() as usize / size_of::<Metadata>()
    }

    /// Where the packet begins, in bytes from [`Region::base`](crate::Region::base): its address
    /// for a device that knows the region.
    #[inline]
    pub fn offset(&self) -> usize {
        self.chunk() * CHUNK_BYTES + self.headroom()
    }

    /// The frame's bytes, head- and tailroom included.
    pub fn capacity(&self) -> usize {
        self.metadata().capacity as usize
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
        let metadata = self.metadata();
        metadata.packet.addr().get() - metadata.start.addr().get()
    }

    /// Free bytes behind the packet.
    #[inline]
    pub fn tailroom(&self) -> usize {
        let metadata = self.metadata();
        metadata.start.addr().get() + metadata.capacity as usize
            - metadata.packet.addr().get()
            - metadata.len as usize
    }

    /// When the packet was received, in ns of the clock that the receiving port was given; 0 if
    /// unset.
    pub fn received_ns(&self) -> u64 {
        self.metadata().received_ns
    }

    /// Records when the packet was received, in ns.
    pub fn set_received_ns(&mut self, now_ns: u64) {
        self.metadata_mut().received_ns = now_ns;
    }

    /// What a port's device is to do to the packet, or did.
    #[inline]
    pub fn offload(&self) -> Offload {
        self.metadata().offload
    }

    /// Sets what a port's device is to do to the packet, or did.
    #[inline]
    pub fn set_offload(&mut self, offload: Offload) {
        self.metadata_mut().offload = offload;
    }

    /// The inside interface by which a packet in plain came or leaves; 0 is the one that tunnels
    /// share.
    #[inline]
    pub fn interface(&self) -> u16 {
        self.metadata().interface
    }

    /// Sets the inside interface of a packet in plain.
    #[inline]
    pub fn set_interface(&mut self, interface: u16) {
        self.metadata_mut().interface = interface;
    }

    /// Grows the packet by `count` bytes at its front and returns them; their content is what stood
    /// there.
    ///
    /// # Errors
    /// [`FrameError::NoHeadroom`] if fewer bytes are free there.
    pub fn prepend(&mut self, count: usize) -> Result<&mut [u8], FrameError> {
        let have = self.headroom();
        if count > have {
            return Err(FrameError::NoHeadroom { need: count, have });
        }
        let metadata = self.metadata_mut();
        // SAFETY: so many bytes of the frame lie before the packet.
        metadata.packet = unsafe { metadata.packet.sub(count) };
        metadata.len += count as u32;
        Ok(&mut self[..count])
    }

    /// Grows the packet by `count` bytes at its end and returns them; their content is what stood
    /// there.
    ///
    /// # Errors
    /// [`FrameError::NoTailroom`] if fewer bytes are free there.
    pub fn append(&mut self, count: usize) -> Result<&mut [u8], FrameError> {
        let have = self.tailroom();
        if count > have {
            return Err(FrameError::NoTailroom { need: count, have });
        }
        let old = self.len();
        self.metadata_mut().len += count as u32;
        Ok(&mut self[old..])
    }

    /// Grows the packet by `front` bytes before and `back` bytes behind it, and returns all of it;
    /// the content of the new bytes is what stood there.
    ///
    /// # Errors
    /// [`FrameError`] if fewer bytes are free; the packet is as it was then.
    #[inline(always)]
    pub fn grow(&mut self, front: usize, back: usize) -> Result<&mut [u8], FrameError> {
        let (head, tail) = (self.headroom(), self.tailroom());
        if front > head {
            return Err(FrameError::NoHeadroom { need: front, have: head });
        }
        if back > tail {
            return Err(FrameError::NoTailroom { need: back, have: tail });
        }
        let metadata = self.metadata_mut();
        // SAFETY: so many bytes of the frame lie before the packet.
        metadata.packet = unsafe { metadata.packet.sub(front) };
        metadata.len += (front + back) as u32;
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
        let metadata = self.metadata_mut();
        // SAFETY: the packet has so many bytes.
        metadata.packet = unsafe { metadata.packet.add(count) };
        metadata.len -= count as u32;
        Ok(())
    }

    /// Cuts the packet to `len` bytes from its front; longer is left as it is.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        if len < self.len() {
            self.metadata_mut().len = len as u32;
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
        let metadata = self.metadata_mut();
        // SAFETY: the frame has so many bytes.
        metadata.packet = unsafe { metadata.start.add(headroom) };
        metadata.len = 0;
        metadata.received_ns = 0;
        metadata.offload = Offload::None;
        metadata.interface = 0;
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
        let metadata = self.metadata();
        // SAFETY: every method keeps the packet inside the frame, whose bytes are initialised (the
        // region begins as zeros) and this frame's alone.
        unsafe { slice::from_raw_parts(metadata.packet.as_ptr(), metadata.len as usize) }
    }
}

impl DerefMut for Frame {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        let metadata = self.metadata();
        #[cfg(convoy_loom)]
        metadata.witness.with_mut(|_| ());
        // SAFETY: as in `deref`; `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(metadata.packet.as_ptr(), metadata.len as usize) }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("len", &self.len()).field("headroom", &self.headroom()).finish()
    }
}

impl Drop for Frame {
    // By value and inlined: where what holds a frame is moved, its address must not be needed for
    // the sake of an unwinding that never comes, or it is built in memory and copied instead of
    // written where it goes.
    #[inline(always)]
    fn drop(&mut self) {
        // A model that has failed only unwinds.
        #[cfg(convoy_loom)]
        if std::thread::panicking() {
            return;
        }
        // The frame that is made here takes this one's place, of which nothing is left.
        return_frame(Self(self.0));
    }
}
