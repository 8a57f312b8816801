//! From SPI to SA in a bounded number of steps, whatever SPI a packet carries.

use crate::job::SaIndex;

/// Steps that a lookup takes at most. An insertion that would need more makes the table larger.
const PROBES: usize = 8;

#[derive(Clone, Copy)]
struct Entry {
    key: u64,
    sa: SaIndex,
}

/// An open-addressing table; keys are SPI and protocol, and for outbound SAs the peer, in 64 bits.
pub(crate) struct SpiTable {
    /// A power of two of places.
    places: Vec<Option<Entry>>,
    len: usize,
}

impl Default for SpiTable {
    fn default() -> Self {
        Self { places: vec![None; 4 * PROBES], len: 0 }
    }
}

impl SpiTable {
    /// The SA under `key`.
    pub(crate) fn get(&self, key: u64) -> Option<SaIndex> {
        self.probe(key)
            .find_map(|place| self.places[place].filter(|entry| entry.key == key))
            .map(|entry| entry.sa)
    }

    /// Puts an SA under `key`.
    ///
    /// # Errors
    /// The SA that stands there already.
    pub(crate) fn insert(&mut self, key: u64, sa: SaIndex) -> Result<(), SaIndex> {
        if let Some(present) = self.get(key) {
            return Err(present);
        }
        while !self.place(Entry { key, sa }) {
            self.grow();
        }
        self.len += 1;
        Ok(())
    }

    /// Forgets what stands under `key`.
    pub(crate) fn remove(&mut self, key: u64) {
        let place = self.probe(key).find(|place| self.places[*place].is_some_and(|entry| entry.key == key));
        if let Some(place) = place {
            self.places[place] = None;
            self.len -= 1;
        }
    }

    /// Every lookup looks at all of these places, so a hole that a removal leaves does no harm.
    fn probe(&self, key: u64) -> impl Iterator<Item = usize> + use<> {
        let mask = self.places.len() - 1;
        let start = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize;
        (0..PROBES).map(move |step| (start + step) & mask)
    }

    fn place(&mut self, entry: Entry) -> bool {
        // At most a quarter full: runs of eight taken places stay rare.
        let free = self.probe(entry.key).find(|place| self.places[*place].is_none());
        match free {
            Some(place) if self.len * 4 < self.places.len() => {
                self.places[place] = Some(entry);
                true
            }
            _ => false,
        }
    }

    fn grow(&mut self) {
        let entries: Vec<Entry> = self.places.iter().flatten().copied().collect();
        let mut size = self.places.len();
        loop {
            size *= 2;
            self.places = vec![None; size];
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
        assert_eq!(table.insert(0x1001, SaIndex(3)), Ok(()));
        assert_eq!(table.insert(0x1001, SaIndex(4)), Err(SaIndex(3)));
        assert_eq!(table.get(0x1001), Some(SaIndex(3)));
    }

    #[test]
    fn consecutive_spis_need_little_memory() {
        let mut table = SpiTable::default();
        for spi in 0..10_000u32 {
            assert_eq!(table.insert(u64::from(0x1000 + spi), SaIndex(spi)), Ok(()));
        }
        assert!((0..10_000).all(|spi| table.get(u64::from(0x1000 + spi)) == Some(SaIndex(spi))));
        assert!(table.places.len() <= 131_072, "{} places", table.places.len());
    }

    proptest! {
        #[test]
        fn it_behaves_as_a_map(steps in proptest::collection::vec((any::<bool>(), 0u64..64, any::<u32>()), 0..400)) {
            let mut table = SpiTable::default();
            let mut map = HashMap::new();
            for (insert, key, sa) in steps {
                if insert {
                    let inserted = table.insert(key, SaIndex(sa)).is_ok();
                    prop_assert_eq!(inserted, !map.contains_key(&key));
                    map.entry(key).or_insert(SaIndex(sa));
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
