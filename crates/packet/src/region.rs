//! The packet memory of a process: one range of addresses, of which every pool has a part.
//!
//! Chunks of [`CHUNK_BYTES`] are contiguous from [`Region::base`], so that the whole can be
//! registered once with a device or with the kernel (the UMEM of AF_XDP, a DMA mapping), where a
//! frame is identified by its offset. The records of frames are in an array of their own, one entry
//! of a cache line a chunk; a [`Frame`](crate::Frame) is its entry's offset in that array, 32 bits.
//!
//! A gateway creates its region with [`Region::make`], in the size that it needs, before it gives
//! up privileges. Otherwise the first pool creates a region of 16 GiB of address space, of which
//! memory is only taken when it is touched.

#![allow(unsafe_code)]

mod mapping;

use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::frame::Metadata;
pub use mapping::Pages;
use mapping::{HUGE_PAGE_BYTES, Mapping};

/// Bytes of a chunk: a small frame has one, larger frames several.
pub const CHUNK_BYTES: usize = 2048;
/// The addresses, in bytes, that are reserved for chunks where it is not set how many there should
/// be.
const UNSIZED_BYTES: usize = if cfg!(miri) { 2 << 20 } else { 16 << 30 };
/// Less is not worth beginning with, in bytes.
const LEAST_UNSIZED_BYTES: usize = 2 << 20;
/// A frame is 32 bits: the offset of its entry in bytes.
const MOST_CHUNKS: usize = (1 << 32) / size_of::<Metadata>();

/// Where entry 0 is. Written once, before there is any frame.
static mut METADATA: *mut Metadata = ptr::null_mut();
static REGION: OnceLock<Region> = OnceLock::new();
static MAKING: Mutex<()> = Mutex::new(());

/// Where the entry of chunk 0 is.
///
/// # Safety
/// There is a region, which the caller knows since it has a frame or a [`Region`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
pub(crate) unsafe fn metadata() -> *mut Metadata {
    let entries;
    // Other crates would reach the variable by the table of global offsets, with one load more at
    // each access to a frame: 24 instructions of the 1,010 that a packet of 64 bytes takes. SAFETY:
    // the variable was written before the region was published, from which the caller's frame
    // comes, and is never written again.
    unsafe {
        std::arch::asm!(
            "mov {entries}, qword ptr [rip + {variable}]",
            entries = lateout(reg) entries,
            variable = sym METADATA,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    entries
}

/// Where the entry of chunk 0 is.
///
/// # Safety
/// There is a region, which the caller knows since it has a frame or a [`Region`].
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
#[inline(always)]
pub(crate) unsafe fn metadata() -> *mut Metadata {
    // SAFETY: it was written before the region was published, from which the caller's frame comes,
    // and is never written again.
    unsafe { METADATA }
}

/// Why there is no packet memory, or no more of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegionError {
    /// The system refused.
    #[error("cannot allocate {mib} MiB of packet memory: {reason}")]
    Refused {
        /// How much, in MiB.
        mib: usize,
        /// In the system's words.
        reason: String,
    },
    /// A frame is known by 32 bits.
    #[error("{mib} MiB of packet memory were requested, and a process can have at most {most} MiB")]
    TooLarge {
        /// How much, in MiB.
        mib: usize,
        /// How much there can be, in MiB.
        most: usize,
    },
    /// This process made its packet memory before, in another size.
    #[error("the packet memory already exists with {have} MiB, but {need} MiB are needed")]
    Made {
        /// What there is, in MiB.
        have: usize,
        /// What was asked for, in MiB.
        need: usize,
    },
    /// All of it is in pools.
    #[error("the packet memory of {have} MiB has no free block of {need} KiB")]
    Full {
        /// What was asked for, in KiB.
        need: usize,
        /// What there is, used or not, in MiB.
        have: usize,
    },
}

/// The packet memory of this process.
pub struct Region {
    base: NonNull<u8>,
    chunks: u32,
    pages: Pages,
    free: Mutex<FreeRanges>,
}

// SAFETY: `base` is only handed out as a number and a pointer; what lies there is reached through
// frames.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Makes this process's packet memory with room for so many chunks, in huge pages where the
    /// system has any. What was made before is returned if it is large enough.
    ///
    /// # Errors
    /// [`RegionError`] if the system refuses, or if the packet memory that there is already is
    /// smaller.
    pub fn make(chunks: usize) -> Result<&'static Self, RegionError> {
        // The first chunk is never given out, so that no frame is 0.
        let bytes = ((chunks + 1) * CHUNK_BYTES).next_multiple_of(HUGE_PAGE_BYTES);
        let region = Self::made_with(|| Self::map(bytes, true))?;
        if (region.chunks as usize) <= chunks {
            return Err(RegionError::Made { have: region.bytes() >> 20, need: bytes >> 20 });
        }
        Ok(region)
    }

    /// The packet memory of this process; it is made without a size if that was not done before.
    ///
    /// # Panics
    /// If the system refuses even a little.
    pub fn of_process() -> &'static Self {
        if let Some(region) = REGION.get() {
            return region;
        }
        let largest_possible = || {
            let mut bytes = UNSIZED_BYTES;
            loop {
                match Self::map(bytes, false) {
                    Err(_) if bytes > LEAST_UNSIZED_BYTES => bytes /= 2,
                    made => return made,
                }
            }
        };
        match Self::made_with(largest_possible) {
            Ok(region) => region,
            Err(error) => panic!("{error}"),
        }
    }

    fn made_with(make: impl FnOnce() -> Result<Self, RegionError>) -> Result<&'static Self, RegionError> {
        let _making = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(region) = REGION.get() {
            return Ok(region);
        }
        let region = make()?;
        Ok(REGION.get_or_init(|| region))
    }

    /// Maps entries and chunks and publishes where the entries are. The caller holds `MAKING` and
    /// there is no region.
    fn map(bytes: usize, is_sized: bool) -> Result<Self, RegionError> {
        let chunks = bytes / CHUNK_BYTES;
        if chunks > MOST_CHUNKS {
            let most = (MOST_CHUNKS * CHUNK_BYTES) >> 20;
            return Err(RegionError::TooLarge { mib: bytes >> 20, most });
        }
        let entries = (chunks * size_of::<Metadata>()).next_multiple_of(HUGE_PAGE_BYTES);
        let mapping = Mapping::new(entries + bytes, is_sized)
            .map_err(|reason| RegionError::Refused { mib: (entries + bytes) >> 20, reason })?;
        // SAFETY: the mapping has `entries + bytes` bytes.
        let base = unsafe { mapping.base.add(entries) };
        // SAFETY: there is no region and so no frame, and `MAKING` is held: no thread reads or
        // writes it. The mapping is aligned to more than an entry.
        unsafe { METADATA = mapping.base.as_ptr().cast::<Metadata>() };
        let free = Mutex::new(FreeRanges(vec![Chunks { first: 1, count: chunks as u32 - 1 }]));
        Ok(Self { base, chunks: chunks as u32, pages: mapping.pages, free })
    }

    /// Where chunk 0 begins, on a page. A frame's [`offset`](crate::Frame::offset) counts from
    /// here.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// How many bytes of chunks there are.
    pub fn bytes(&self) -> usize {
        self.chunks as usize * CHUNK_BYTES
    }

    /// The pages that it lies in.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// How many chunks are in no pool.
    pub fn free_chunks(&self) -> usize {
        self.free_ranges().0.iter().map(|range| range.count as usize).sum()
    }

    fn free_ranges(&self) -> MutexGuard<'_, FreeRanges> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `count` chunks in one piece for a pool.
    pub(crate) fn take(&self, count: u32) -> Result<Chunks, RegionError> {
        self.free_ranges().take(count).ok_or_else(|| RegionError::Full {
            need: (count as usize * CHUNK_BYTES) >> 10,
            have: self.bytes() >> 20,
        })
    }

    /// Takes back a pool's chunks.
    ///
    /// # Safety
    /// They came from [`take`](Self::take), come back once, and no frame in them is in use.
    pub(crate) unsafe fn give_back(&self, chunks: Chunks) {
        self.free_ranges().give_back(chunks);
    }

    /// Where a chunk begins.
    pub(crate) fn chunk(&self, index: u32) -> NonNull<u8> {
        assert!(index < self.chunks, "chunk {index} of {}", self.chunks);
        // SAFETY: it lies inside the region.
        unsafe { self.base.add(index as usize * CHUNK_BYTES) }
    }
}

/// Chunks that lie one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunks {
    pub(crate) first: u32,
    pub(crate) count: u32,
}

/// The chunks in no pool, by address, in as few pieces as possible.
struct FreeRanges(Vec<Chunks>);

impl FreeRanges {
    /// The lowest addresses that do, so that memory which was touched is used again.
    fn take(&mut self, count: u32) -> Option<Chunks> {
        if count == 0 {
            return Some(Chunks { first: 1, count });
        }
        let at = self.0.iter().position(|range| range.count >= count)?;
        let range = &mut self.0[at];
        let taken = Chunks { first: range.first, count };
        *range = Chunks { first: range.first + count, count: range.count - count };
        if range.count == 0 {
            self.0.remove(at);
        }
        Some(taken)
    }

    fn give_back(&mut self, back: Chunks) {
        if back.count == 0 {
            return;
        }
        let mut at = self.0.partition_point(|range| range.first < back.first);
        self.0.insert(at, back);
        if at > 0 && self.0[at - 1].first + self.0[at - 1].count == back.first {
            self.0.remove(at);
            at -= 1;
            self.0[at].count += back.count;
        }
        let end = self.0[at].first + self.0[at].count;
        if let Some(next) = self.0.get(at + 1).filter(|next| next.first == end).copied() {
            self.0.remove(at + 1);
            self.0[at].count += next.count;
        }
    }
}

#[cfg(test)]
mod tests;
