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

/// Places among which SPIs are spread, so that a table of SAs that has one entry for each finds all
/// of them free: the simulated card's, and others that are as simple.
const PLACES: usize = 256;

/// The place of an SPI, as the card's parser computes it (docs/lab/card.md).
fn place(spi: u32) -> usize {
    usize::from(spi.to_le_bytes().into_iter().fold(0, std::ops::BitXor::bitxor))
}

/// SPIs that are taken. One number serves ESP and AH alike.
pub(super) struct SpiPool {
    reserved: HashSet<u32>,
    used: HashSet<u32>,
    /// How many of both have each place.
    at_place: [u32; PLACES],
}

impl Default for SpiPool {
    fn default() -> Self {
        Self { reserved: HashSet::new(), used: HashSet::new(), at_place: [0; PLACES] }
    }
}

impl SpiPool {
    /// Reserves an unused SPI, of a place that has no more than its share if one is drawn.
    pub(super) fn reserve(&mut self, random: &mut dyn FnMut(&mut [u8])) -> Result<u32, Refusal> {
        let taken = self.reserved.len() + self.used.len();
        if taken >= LIMIT {
            return Err(Refusal(format!("all {LIMIT} SPIs are in use")));
        }
        let mut drawn: Option<u32> = None;
        for _ in 0..DRAWS {
            let mut bytes = [0; 4];
            random(&mut bytes);
            let spi = FIRST | (u32::from_le_bytes(bytes) % COUNT);
            if self.used.contains(&spi) || self.reserved.contains(&spi) {
                continue;
            }
            if drawn.is_none_or(|other| self.crowd(spi) < self.crowd(other)) {
                drawn = Some(spi);
            }
            if self.crowd(spi) as usize <= taken / PLACES {
                break;
            }
        }
        let spi = drawn.ok_or_else(|| Refusal("no free SPI was found".to_owned()))?;
        self.reserved.insert(spi);
        self.at_place[place(spi)] += 1;
        Ok(spi)
    }

    /// How many that are taken have the place of this one.
    fn crowd(&self, spi: u32) -> u32 {
        self.at_place[place(spi)]
    }

    /// Marks one as an SA's; returns whether it was free or reserved.
    pub(super) fn take(&mut self, spi: u32) -> bool {
        let was_reserved = self.reserved.remove(&spi);
        let is_new = self.used.insert(spi);
        if is_new && !was_reserved {
            self.at_place[place(spi)] += 1;
        }
        is_new
    }

    /// Frees an SA's.
    pub(super) fn give_back(&mut self, spi: u32) {
        if self.used.remove(&spi) {
            self.at_place[place(spi)] -= 1;
        }
    }

    /// Frees a reserved one; returns whether it was.
    pub(super) fn cancel(&mut self, spi: u32) -> bool {
        let was_reserved = self.reserved.remove(&spi);
        if was_reserved {
            self.at_place[place(spi)] -= 1;
        }
        was_reserved
    }

    /// Frees all that are reserved and not used.
    pub(super) fn cancel_all(&mut self) {
        for spi in self.reserved.drain() {
            self.at_place[place(spi)] -= 1;
        }
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
    fn spis_spread_over_places_while_some_are_free() {
        let mut pool = SpiPool::default();
        let mut state = 1u32;
        let mut random = |bytes: &mut [u8]| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.copy_from_slice(&state.rotate_left(16).to_le_bytes());
        };
        let spis: Vec<u32> = (0..64).map(|_| pool.reserve(&mut random).expect("room")).collect();
        let places: HashSet<usize> = spis.iter().map(|spi| place(*spi)).collect();
        assert_eq!(places.len(), 64, "a quarter of the places is taken, and each draw may miss them");
        for (at, spi) in spis.iter().enumerate() {
            if at % 2 == 0 {
                assert!(pool.cancel(*spi));
            } else {
                assert!(pool.take(*spi));
                pool.give_back(*spi);
            }
        }
        assert_eq!(pool.at_place, [0; PLACES]);
        let many: Vec<u32> = (0..10_240).map(|_| pool.reserve(&mut random).expect("room")).collect();
        let most = pool.at_place.iter().max().expect("places");
        assert!(*most <= 41, "40 of {} would be a place's share, and {most} are at one", many.len());
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
