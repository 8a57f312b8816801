//! A ring of AF_XDP: this process adds entries and the kernel takes them out, or the reverse.

#![allow(unsafe_code)]

#[cfg(all(test, convoy_loom))]
mod models;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

use convoy_sync::atomic::{AtomicU32, Ordering};

/// Entries of each ring, a power of two.
pub(super) const RING: u32 = if cfg!(convoy_loom) { 2 } else { 1024 };
/// The flag of a ring whose other side sleeps (`XDP_RING_NEED_WAKEUP`).
const NEEDS_WAKEUP: u32 = 1;

/// One ring: this side adds entries or takes them, and the kernel does the other.
pub(super) struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: NonNull<AtomicU32>,
    entries: NonNull<T>,
    /// This side's position: entries added or taken, and the last known position of the other side.
    own: u32,
    other: u32,
    mapping: (NonNull<libc::c_void>, usize),
    /// Each accessed with its entry, which loom does not see.
    #[cfg(convoy_loom)]
    witnesses: NonNull<loom::cell::UnsafeCell<()>>,
}

// SAFETY: the ring's memory is shared with the kernel alone, by atomic words, and a ring has one
// owner.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Copy> Ring<T> {
    pub(super) fn map(socket: BorrowedFd<'_>, offsets: &libc::xdp_ring_offset, at: i64) -> io::Result<Self> {
        let bytes = offsets.desc as usize + RING as usize * size_of::<T>();
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                socket.as_raw_fd(),
                at,
            )
        };
        let start = match NonNull::new(memory) {
            Some(start) if memory != libc::MAP_FAILED => start,
            _ => return Err(io::Error::last_os_error()),
        };
        // SAFETY: the kernel says where in the mapping each of them lies, aligned as its type
        // needs.
        let word = |offset: u64| unsafe { start.byte_add(offset as usize).cast::<AtomicU32>() };
        Ok(Self {
            producer: word(offsets.producer),
            consumer: word(offsets.consumer),
            flags: word(offsets.flags),
            entries: word(offsets.desc).cast(),
            own: 0,
            other: 0,
            mapping: (start, bytes),
            #[cfg(convoy_loom)]
            witnesses: NonNull::dangling(),
        })
    }

    fn word(&self, word: NonNull<AtomicU32>) -> &AtomicU32 {
        // SAFETY: it lies in the mapping, which lives as long as the ring, and is only read and
        // written atomically.
        unsafe { word.as_ref() }
    }

    /// What loom sees of the entry at this side's position.
    #[cfg(convoy_loom)]
    fn witness(&self) -> &loom::cell::UnsafeCell<()> {
        // SAFETY: a model has one for each entry, which lives as long as the ring.
        unsafe { self.witnesses.add((self.own % RING) as usize).as_ref() }
    }

    pub(super) fn needs_wakeup(&self) -> bool {
        self.word(self.flags).load(Ordering::Relaxed) & NEEDS_WAKEUP != 0
    }

    /// How many entries can be added; the kernel's position is only read if fewer than `wanted` are
    /// known.
    pub(super) fn room(&mut self, wanted: u32) -> u32 {
        let room = RING - self.own.wrapping_sub(self.other);
        if room >= wanted {
            return room;
        }
        self.other = self.word(self.consumer).load(Ordering::Acquire);
        RING - self.own.wrapping_sub(self.other)
    }

    /// Adds an entry; there must be room.
    pub(super) fn put(&mut self, entry: T) {
        #[cfg(convoy_loom)]
        self.witness().with_mut(|_| ());
        // SAFETY: the place is inside the mapping, and this side's until it is published.
        unsafe { self.entries.add((self.own % RING) as usize).write(entry) };
        self.own = self.own.wrapping_add(1);
    }

    pub(super) fn publish_put(&self) {
        // Release: the kernel finds the entries.
        self.word(self.producer).store(self.own, Ordering::Release);
    }

    /// Whether there is an entry to take.
    pub(super) fn is_filled(&self) -> bool {
        self.word(self.producer).load(Ordering::Relaxed) != self.own
    }

    /// How many entries can be taken.
    pub(super) fn filled(&mut self) -> u32 {
        // Acquire: the entries were written before.
        self.other = self.word(self.producer).load(Ordering::Acquire);
        self.other.wrapping_sub(self.own)
    }

    /// Takes an entry; there must be one.
    pub(super) fn take(&mut self) -> T {
        #[cfg(convoy_loom)]
        self.witness().with(|_| ());
        // SAFETY: the place is inside the mapping; the kernel has written it, and leaves it alone
        // until it is given back.
        let entry = unsafe { self.entries.add((self.own % RING) as usize).read() };
        self.own = self.own.wrapping_add(1);
        entry
    }

    pub(super) fn publish_taken(&self) {
        // Release: the entries were read before.
        self.word(self.consumer).store(self.own, Ordering::Release);
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: it is this ring's mapping, and nothing leads there any more.
        let _ = unsafe { libc::munmap(self.mapping.0.as_ptr(), self.mapping.1) };
    }
}
