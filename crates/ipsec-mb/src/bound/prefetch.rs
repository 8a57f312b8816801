//! Which part of a key the processor fetches ahead: with many SAs keys come from far.

use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
use std::ptr::NonNull;

use super::{Key, RawKey};
use crate::Cipher;

/// Bytes of a cache line.
const LINE: usize = 64;
/// Lines of the round keys of AES-128, with which an expanded key of AES-GCM begins.
const FIRST_LINES: usize = 3;
/// Powers of the hash key in a line. Such a key ends with them, the first one last.
const POWERS: usize = LINE / 16;
/// Lines of all its powers.
const MOST_LINES: usize = 48 / POWERS;
/// Bytes of the shim's structure that may hold keys that are read for every packet.
const BYTES: usize = 1_040;

/// Where the part of a key ends that is read for every packet. The library lays out the powers of
/// the hash key as the processor's instructions want them, the first power last, and the rest of
/// the structure is zero.
pub(super) fn end(key: NonNull<RawKey>) -> u16 {
    // SAFETY: the shim has made the key, which is alive, at least so large and initialised, and
    // nobody else has it yet.
    let expanded = unsafe { std::slice::from_raw_parts(key.as_ptr().cast::<u8>(), BYTES) };
    expanded.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u16 + 1)
}

impl Key {
    /// Has the processor fetch what a packet reads of the key that has so many bytes to encrypt or
    /// to authenticate: of AES-GCM as many powers of the hash key as it has blocks, and one for the
    /// lengths, as far as the library has them.
    #[inline]
    pub fn prefetch(&self, len: usize) {
        let key = self.raw.as_ptr().cast::<i8>();
        let end = usize::from(self.end);
        let mut last = key.wrapping_add(end).wrapping_sub(1);
        match self.cipher {
            Cipher::Gcm | Cipher::Gmac => {
                for line in 0..FIRST_LINES {
                    fetch(key.wrapping_add(line * LINE));
                }
                for _ in 0..1 + (len / 16 / POWERS).min(MOST_LINES - 1) {
                    fetch(last);
                    last = last.wrapping_sub(LINE);
                }
            }
            Cipher::ChaCha20Poly1305 => fetch(last),
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
    // SAFETY: a prefetch reads nothing that the program could see, whatever the address, and the
    // processor has it if it has SSE, as all of x86-64 do.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
}
