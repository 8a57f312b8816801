//! A hint to the processor, for code that works on many packets at once.

#![allow(unsafe_code)]

/// Bytes that come into the processor's cache together.
const LINE_BYTES: usize = 64;

/// Prefetches the memory of `value` into the processor's cache. Does nothing on processors without
/// support here.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for offset in (0..size_of::<T>()).step_by(LINE_BYTES) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads and writes nothing that a program can see, whatever its address
        // is; this one lies inside `value`.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (value, LINE_BYTES);
}
