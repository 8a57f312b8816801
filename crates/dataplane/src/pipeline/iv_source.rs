//! Random bytes for unpredictable IVs, which AES-CBC requires.

use rand::Rng;
use rand::rngs::StdRng;

/// Bytes generated at a time: as many as the generator makes in one go.
const BLOCK_BYTES: usize = 256;
/// The length of an AES-CBC IV.
const IV_BYTES: usize = 16;

/// A generator from which each IV takes 16 bytes by one load. The generator itself copies four
/// bytes at a time, and a 16-byte load right behind such stores would stall on them.
pub(super) struct IvSource {
    random: StdRng,
    block: [u8; BLOCK_BYTES],
    /// Bytes of the block that have been used.
    used: usize,
}

impl IvSource {
    pub(super) fn new(random: StdRng) -> Self {
        Self { random, block: [0; BLOCK_BYTES], used: BLOCK_BYTES }
    }

    /// A source seeded by the system.
    pub(super) fn from_system() -> Self {
        Self::new(rand::make_rng())
    }

    /// Fills `iv` with bytes that are used for nothing else.
    #[inline]
    pub(super) fn fill(&mut self, iv: &mut [u8]) {
        let next = self.block[self.used..].first_chunk::<IV_BYTES>();
        match (<&mut [u8; IV_BYTES]>::try_from(&mut *iv), next) {
            (Ok(iv), Some(next)) => {
                *iv = *next;
                self.used += IV_BYTES;
            }
            _ => self.fill_any(iv),
        }
    }

    #[inline(never)]
    fn fill_any(&mut self, iv: &mut [u8]) {
        if self.used + iv.len() > BLOCK_BYTES {
            self.random.fill_bytes(&mut self.block);
            self.used = 0;
        }
        match self.block.get(self.used..self.used + iv.len()) {
            Some(next) => {
                iv.copy_from_slice(next);
                self.used += iv.len();
            }
            None => self.random.fill_bytes(iv),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use rand::SeedableRng;

    use super::*;

    #[test]
    fn no_bytes_are_given_away_twice_whatever_the_lengths_are() {
        let mut source = IvSource::new(StdRng::seed_from_u64(1));
        let mut seen = HashSet::new();
        for len in [16, 8, 16, 300, 24, 256, 16].repeat(100) {
            let mut iv = vec![0; len];
            source.fill(&mut iv);
            for part in iv.as_chunks::<8>().0 {
                assert!(seen.insert(*part), "{len}");
            }
        }
    }
}
