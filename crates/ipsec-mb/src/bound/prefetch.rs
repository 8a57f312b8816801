//! Prefetches keys: with many SAs they are often not in the cache.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ptr::NonNull;

use super::{Key, RawKey};
use crate::LibraryCipher;

/// Length of a cache line, in bytes.
const LINE: usize = 64;
/// Cache lines of AES-128's round keys, with which an expanded AES-GCM key begins.
const FIRST_LINES: usize = 3;
/// Powers of the hash key in a cache line. An expanded AES-GCM key ends with them, the first power
/// last.
const POWERS: usize = LINE / 16;
/// Cache lines of all powers.
const MOST_LINES: usize = 48 / POWERS;
/// Size of the part of the shim's key structure that is read for every packet, in bytes.
const BYTES: usize = 1_040;

/// Offset behind the last byte that packets read. How many powers of the hash key the library
/// computes depends on the processor's instruction set. The first power comes last, and the rest of
/// the structure is zero.
pub(super) fn end(key: NonNull<RawKey>) -> u16 {
    // SAFETY: the shim has just made and initialised the key, which has at least so many bytes, and
    // nothing else refers to it yet.
    let expanded = unsafe { std::slice::from_raw_parts(key.as_ptr().cast::<u8>(), BYTES) };
    expanded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u16 + 1)
}

impl Key {
    /// Prefetches what a packet reads of the key, with `len` bytes to encrypt or to authenticate.
    /// AES-GCM needs as many powers of the hash key as the packet has blocks, and one for the
    /// lengths block, up to the number that the library uses.
    #[inline]
    pub fn prefetch(&self, len: usize) {
        let key = self.raw.as_ptr().cast::<i8>();
        let end = usize::from(self.end);
        let mut last = key.wrapping_add(end).wrapping_sub(1);
        match self.cipher {
            LibraryCipher::Gcm | LibraryCipher::Gmac => {
                for line in 0..FIRST_LINES {
                    fetch(key.wrapping_add(line * LINE));
                }
                for _ in 0..1 + (len / 16 / POWERS).min(MOST_LINES - 1) {
                    fetch(last);
                    last = last.wrapping_sub(LINE);
                }
            }
            LibraryCipher::ChaCha20Poly1305 => fetch(last),
            _ => {
                for line in 0..end.div_ceil(LINE) {
                    fetch(key.wrapping_add(line * LINE));
                }
            }
        }
    }
}

#[inline]
fn fetch(line: *const i8) {
    // SAFETY: a prefetch has no effect that a program could observe, whatever the address, and all
    // x86-64 processors have SSE.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
}
