//! SPIs of inbound SAs, before and during their use.

use std::collections::HashSet;

use super::backend::Refusal;

/// The start of the range used by charon's own backends, so that others are free for manual keys.
const FIRST: u32 = 0xc000_0000;
/// The size of the range: a power of two.
const COUNT: u32 = 0x1000_0000;
/// Draws until one is free. While no more than [`LIMIT`] of [`COUNT`] are taken, it is practically
/// impossible that all of these fail.
const DRAWS: usize = 16;
/// The most that may be taken at a time; requests for more are a flood.
const LIMIT: usize = 1 << 17;

/// SPIs that are taken. One number serves ESP and AH alike.
#[derive(Default)]
pub(super) struct SpiPool {
    reserved: HashSet<u32>,
    used: HashSet<u32>,
}

impl SpiPool {
    /// Reserves an unused SPI.
    pub(super) fn reserve(&mut self, random: &mut dyn FnMut(&mut [u8])) -> Result<u32, Refusal> {
        if self.reserved.len() + self.used.len() >= LIMIT {
            return Err(Refusal(format!("all {LIMIT} SPIs are in use")));
        }
        for _ in 0..DRAWS {
            let mut bytes = [0; 4];
            random(&mut bytes);
            let spi = FIRST | (u32::from_le_bytes(bytes) % COUNT);
            if !self.used.contains(&spi) && self.reserved.insert(spi) {
                return Ok(spi);
            }
        }
        Err(Refusal("no free SPI was found".to_owned()))
    }

    /// Marks one as an SA's; returns whether it was free or reserved.
    pub(super) fn take(&mut self, spi: u32) -> bool {
        self.reserved.remove(&spi);
        self.used.insert(spi)
    }

    /// Frees an SA's.
    pub(super) fn give_back(&mut self, spi: u32) {
        self.used.remove(&spi);
    }

    /// Frees a reserved one; returns whether it was.
    pub(super) fn cancel(&mut self, spi: u32) -> bool {
        self.reserved.remove(&spi)
    }

    /// Frees all that are reserved and not used.
    pub(super) fn cancel_all(&mut self) {
        self.reserved.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Consecutive numbers.
    fn counting() -> impl FnMut(&mut [u8]) {
        let mut next = 0u32;
        move |bytes| {
            bytes.copy_from_slice(&next.to_le_bytes());
            next = next.wrapping_add(0x1000_0001);
        }
    }

    #[test]
    fn spis_are_unique_and_in_charons_range() {
        let (mut pool, mut random) = (SpiPool::default(), counting());
        let spis: HashSet<u32> = (0..1000).map(|_| pool.reserve(&mut random).expect("room")).collect();
        assert_eq!(spis.len(), 1000);
        assert!(spis.iter().all(|spi| (0xc000_0000..=0xcfff_ffff).contains(spi)));
    }

    #[test]
    fn exhaustion_is_an_error_and_ends_when_one_is_given_back() {
        let (mut pool, mut random) = (SpiPool::default(), counting());
        for _ in 0..LIMIT {
            pool.reserve(&mut random).expect("room");
        }
        assert!(pool.reserve(&mut random).expect_err("none is left").0.contains("in use"));
        assert!(pool.cancel(FIRST));
        pool.reserve(&mut random).expect("room again");
    }

    #[test]
    fn a_random_source_that_repeats_itself_is_an_error() {
        let mut pool = SpiPool::default();
        let mut stuck = |bytes: &mut [u8]| bytes.fill(7);
        let spi = pool.reserve(&mut stuck).expect("the first");
        assert!(pool.reserve(&mut stuck).is_err());
        assert!(pool.take(spi), "what is reserved becomes an SA's");
        assert!(!pool.take(spi), "once");
        assert!(pool.reserve(&mut stuck).is_err());
        pool.give_back(spi);
        assert_eq!(pool.reserve(&mut stuck), Ok(spi));
    }
}
