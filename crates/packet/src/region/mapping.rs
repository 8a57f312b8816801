//! The memory of a region, from the system.

#![allow(unsafe_code)]

use std::fmt;
#[cfg(not(miri))]
use std::num::NonZeroUsize;
use std::ptr::NonNull;

#[cfg(not(miri))]
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};

/// A huge page of x86-64, and of arm64 with pages of 4 KiB.
pub(super) const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The pages that packet memory lies in. One of 2 MiB takes one entry of the TLB instead of 512.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Pages of 2 MiB that the administrator set aside (`vm.nr_hugepages`).
    Huge,
    /// Pages of 2 MiB where the kernel finds them.
    Transparent,
    /// The system's usual ones.
    Usual,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "huge pages of 2 MiB",
            Self::Transparent => "transparent huge pages",
            Self::Usual => "the system's usual pages",
        })
    }
}

/// Memory that is never given back, filled with zeros, on a boundary of [`HUGE_PAGE_BYTES`].
pub(super) struct Mapping {
    pub(super) base: NonNull<u8>,
    pub(super) pages: Pages,
}

#[cfg(not(miri))]
impl Mapping {
    /// So many bytes, a multiple of [`HUGE_PAGE_BYTES`]. With `is_sized` all of them are to be
    /// used: huge pages are taken where enough were set aside, and a system that counts what it has
    /// promised counts them.
    pub(super) fn new(bytes: usize, is_sized: bool) -> Result<Self, String> {
        if is_sized && let Some(base) = huge(bytes) {
            return Ok(Self { base, pages: Pages::Huge });
        }
        let base = usual(bytes, is_sized)?;
        Ok(Self { base, pages: prefer_huge(base, bytes) })
    }
}

#[cfg(not(miri))]
fn anonymous(bytes: usize, flags: MapFlags) -> nix::Result<NonNull<u8>> {
    let length = NonZeroUsize::new(bytes).ok_or(nix::Error::EINVAL)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a new private mapping at an address of the kernel's choice touches nothing that
    // exists.
    unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_PRIVATE | flags) }.map(NonNull::cast)
}

/// From the pages that were set aside, if there are as many.
#[cfg(not(miri))]
fn huge(bytes: usize) -> Option<NonNull<u8>> {
    anonymous(bytes, MapFlags::MAP_HUGETLB | MapFlags::MAP_HUGE_2MB).ok()
}

/// On a boundary of a huge page: more is mapped, and what stands over is given back.
#[cfg(not(miri))]
fn usual(bytes: usize, is_sized: bool) -> Result<NonNull<u8>, String> {
    let flags = if is_sized { MapFlags::empty() } else { MapFlags::MAP_NORESERVE };
    let whole = anonymous(bytes + HUGE_PAGE_BYTES, flags).map_err(|error| error.desc().to_owned())?;
    let before = whole.align_offset(HUGE_PAGE_BYTES);
    // SAFETY: `before` is less than a huge page, by which the mapping is larger than `bytes`.
    let (base, end) = unsafe { (whole.add(before), whole.add(before + bytes)) };
    for (from, count) in [(whole, before), (end, HUGE_PAGE_BYTES - before)] {
        if count > 0 {
            // SAFETY: these bytes were mapped above, and nothing refers to them. If it fails they
            // stay, unused.
            let _ = unsafe { munmap(from.cast(), count) };
        }
    }
    Ok(base)
}

/// Asks for huge pages where the kernel finds them, and says what there will be.
#[cfg(not(miri))]
fn prefer_huge(base: NonNull<u8>, bytes: usize) -> Pages {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    // SAFETY: the mapping is this one's own, and the advice changes no byte of it.
    let is_taken = unsafe { madvise(base.cast(), bytes, MmapAdvise::MADV_HUGEPAGE) }.is_ok();
    let is_on = setting.contains("[always]") || setting.contains("[madvise]");
    if is_taken && is_on { Pages::Transparent } else { Pages::Usual }
}

/// Miri has no huge pages and knows no flag of mappings.
#[cfg(miri)]
impl Mapping {
    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(super) fn new(bytes: usize, _is_sized: bool) -> Result<Self, String> {
        let layout = std::alloc::Layout::from_size_align(bytes, HUGE_PAGE_BYTES).expect("a small constant");
        // SAFETY: it is not empty.
        let base = NonNull::new(unsafe { std::alloc::alloc_zeroed(layout) }).expect("Miri has memory");
        Ok(Self { base, pages: Pages::Usual })
    }
}
