//! A map of BPF's in this process' memory: it is written without a system call, which a process
//! that has given up its privileges may not make.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::bpf::{Map, MapKind};

/// The kernel aligns the values of a map to so many bytes.
const STRIDE: usize = 8;

/// Words that this process writes, and BPF programs read.
pub(crate) struct SharedWords {
    map: Map,
    start: NonNull<AtomicU32>,
    count: usize,
}

// SAFETY: the memory is only read and written atomically, and is unmapped by the owner alone.
unsafe impl Send for SharedWords {}
// SAFETY: as above.
unsafe impl Sync for SharedWords {}

impl SharedWords {
    /// So many words, all 0. Their bytes, with those between them, fill whole pages.
    ///
    /// # Errors
    /// The system's, before Linux 5.5 or without CAP_BPF.
    pub(crate) fn new(count: usize) -> io::Result<Self> {
        let map = Map::new(MapKind::Words, size_of::<u32>(), count)?;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let memory = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                count * STRIDE,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                map.as_fd().as_raw_fd(),
                0,
            )
        };
        match NonNull::new(memory) {
            Some(start) if memory != libc::MAP_FAILED => Ok(Self { map, start: start.cast(), count }),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The map, as programs name it.
    pub(crate) fn map(&self) -> &Map {
        &self.map
    }

    /// Sets a word.
    pub(crate) fn set(&self, index: usize, value: u32) {
        assert!(index < self.count, "there is such a word");
        // SAFETY: the index is inside the mapping, which lives as long as this.
        let word = unsafe { self.start.byte_add(index * STRIDE).as_ref() };
        word.store(value, Ordering::Relaxed);
    }
}

impl Drop for SharedWords {
    fn drop(&mut self) {
        // SAFETY: it is this one's mapping, and nothing leads there any more.
        let _ = unsafe { libc::munmap(self.start.as_ptr().cast(), self.count * STRIDE) };
    }
}
