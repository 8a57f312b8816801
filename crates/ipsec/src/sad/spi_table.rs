//! From SPI to SA in a bounded number of steps, whatever SPI a packet carries.

use convoy_packet::prefetch;

/// Steps of a lookup, at most. An insertion that would need more enlarges the table.
const PROBES: usize = 8;

/// The index of no SA.
const NONE: u32 = u32::MAX;

/// Four of them are a cache line.
#[derive(Clone, Copy)]
struct SpiEntry {
    key: u64,
    /// The SA's index among the inbound ones, or [`NONE`].
    sa: u32,
}

const EMPTY: SpiEntry = SpiEntry { key: 0, sa: NONE };

/// An open-addressing table; keys are SPI and protocol in 64 bits.
pub(crate) struct SpiTable {
    /// A power of two of slots.
    places: Vec<SpiEntry>,
    len: usize,
}

impl Default for SpiTable {
    fn default() -> Self {
        Self { places: vec![EMPTY; 4 * PROBES], len: 0 }
    }
}

impl SpiTable {
    /// The SA under `key`.
    #[inline]
    pub(crate) fn get(&self, key: u64) -> Option<u32> {
        let mut entries = self.probe(key).map(|place| self.places[place]);
        entries.find(|entry| entry.key == key && entry.sa != NONE).map(|entry| entry.sa)
    }

    /// Prefetches what [`get`](Self::get) reads first.
    #[inline]
    pub(crate) fn prefetch(&self, key: u64) {
        if let Some(place) = self.probe(key).next() {
            prefetch(&self.places[place]);
        }
    }

    /// Inserts an SA under `key`.
    ///
    /// # Errors
    /// The SA that is there already.
    pub(crate) fn insert(&mut self, key: u64, sa: u32) -> Result<(), u32> {
        if let Some(present) = self.get(key) {
            return Err(present);
        }
        while !self.place(SpiEntry { key, sa }) {
            self.grow();
        }
        self.len += 1;
        Ok(())
    }

    /// Removes `key`.
    pub(crate) fn remove(&mut self, key: u64) {
        let place = self.probe(key).find(|place| {
            let entry = self.places[*place];
            entry.key == key && entry.sa != NONE
        });
        if let Some(place) = place {
            self.places[place] = EMPTY;
            self.len -= 1;
        }
    }

    /// Every lookup visits all of these slots, so a hole left by a removal does no harm.
    #[inline]
    fn probe(&self, key: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.places.len() - 1;
        let start = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..PROBES).map(move |step| (start + step) & mask)
    }

    fn place(&mut self, entry: SpiEntry) -> bool {
        // At most a quarter full: runs of eight used slots stay rare.
        let free = self.probe(entry.key).find(|place| self.places[*place].sa == NONE);
        match free {
            Some(place) if self.len * 4 < self.places.len() => {
                self.places[place] = entry;
                true
            }
            _ => false,
        }
    }

    fn grow(&mut self) {
        let entries: Vec<SpiEntry> = self.places.iter().copied().filter(|entry| entry.sa != NONE).collect();
        let mut size = self.places.len();
        loop {
            size *= 2;
            self.places = vec![EMPTY; size];
            if entries.iter().all(|entry| self.place(*entry)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_second_sa_under_one_spi_is_refused_and_the_first_named() {
        let mut table = SpiTable::default();
        assert_eq!(table.insert(0x1001, 3), Ok(()));
        assert_eq!(table.insert(0x1001, 4), Err(3));
        assert_eq!(table.get(0x1001), Some(3));
    }

    #[test]
    fn consecutive_spis_need_little_memory() {
        let mut table = SpiTable::default();
        for spi in 0..10_000u32 {
            assert_eq!(table.insert(u64::from(0x1000 + spi), spi), Ok(()));
        }
        assert!((0..10_000).all(|spi| table.get(u64::from(0x1000 + spi)) == Some(spi)));
        assert!(table.places.len() <= 131_072, "{} places", table.places.len());
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), 0u64..64, 0u32..1_000), 0..400)) {
            let mut table = SpiTable::default();
            let mut map = HashMap::new();
            for (insert, key, sa) in steps {
                if insert {
                    let inserted = table.insert(key, sa).is_ok();
                    prop_assert_eq!(inserted, !map.contains_key(&key));
                    map.entry(key).or_insert(sa);
                } else {
                    table.remove(key);
                    map.remove(&key);
                }
                prop_assert_eq!(table.len, map.len());
                for key in 0..64 {
                    prop_assert_eq!(table.get(key), map.get(&key).copied());
                }
            }
        }
    }
}
