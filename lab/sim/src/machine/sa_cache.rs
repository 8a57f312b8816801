//! A device's cache of SAs, which replaces the least recently used SA.

use std::collections::HashMap;

use convoy_scheduler::CostModel;

use crate::platform::SaCacheSpec;
use crate::report::SaCacheReport;

/// Marks the ends of the list.
const NONE: u32 = u32::MAX;

/// An SA, and its neighbours in the list, which is ordered by last use.
#[derive(Clone, Copy)]
struct Entry {
    sa: u32,
    newer: u32,
    older: u32,
}

/// A device's cache of SAs.
pub(crate) struct SaCache {
    entries: Vec<Entry>,
    /// Index of each SA in `entries`.
    places: HashMap<u32, u32>,
    newest: u32,
    oldest: u32,
    spec: SaCacheSpec,
    hits: u64,
    misses: u64,
}

impl SaCache {
    /// A cache that holds the SAs with the lowest numbers.
    pub(crate) fn new(spec: SaCacheSpec) -> Self {
        let mut cache = Self {
            entries: Vec::with_capacity(spec.sas),
            places: HashMap::with_capacity(spec.sas),
            newest: NONE,
            oldest: NONE,
            spec,
            hits: 0,
            misses: 0,
        };
        for sa in 0..spec.sas as u32 {
            cache.entries.push(Entry { sa, newer: NONE, older: NONE });
            cache.places.insert(sa, sa);
            cache.put_newest(sa);
        }
        cache
    }

    pub(crate) fn holds(&self, sa: u32) -> bool {
        self.places.contains_key(&sa)
    }

    /// Uses an SA for a multi-packet of this many blocks, and returns the processing time in ticks;
    /// `hit` is the cost of a multi-packet whose SA is in the cache.
    pub(crate) fn use_for(&mut self, sa: u32, hit: CostModel, blocks: u64) -> u64 {
        if let Some(place) = self.places.get(&sa).copied() {
            self.hits += 1;
            self.take_out(place);
            self.put_newest(place);
            return hit.cost(blocks);
        }
        self.misses += 1;
        let place = self.oldest;
        self.take_out(place);
        let entry = &mut self.entries[place as usize];
        self.places.remove(&entry.sa);
        entry.sa = sa;
        self.places.insert(sa, place);
        self.put_newest(place);
        with_miss(&self.spec, hit).cost(blocks)
    }

    pub(crate) fn report(&self) -> SaCacheReport {
        SaCacheReport { sas: self.entries.len(), hits: self.hits, misses: self.misses }
    }

    fn take_out(&mut self, place: u32) {
        let Entry { newer, older, .. } = self.entries[place as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }

    fn put_newest(&mut self, place: u32) {
        let older = std::mem::replace(&mut self.newest, place);
        let entry = &mut self.entries[place as usize];
        (entry.newer, entry.older) = (NONE, older);
        match older {
            NONE => self.oldest = place,
            older => self.entries[older as usize].newer = place,
        }
    }
}

/// Cost of a multi-packet whose SA has to be fetched.
pub(crate) fn with_miss(spec: &SaCacheSpec, hit: CostModel) -> CostModel {
    CostModel { t_init: hit.t_init + spec.miss_us * 1e6, ..hit }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: u64 = 20;
    const MISS: u64 = 1_000_020;

    fn cache(sas: usize) -> SaCache {
        SaCache::new(SaCacheSpec { sas, miss_us: 1.0 })
    }

    fn times(cache: &mut SaCache, sas: &[u32]) -> Vec<u64> {
        let hit = CostModel { t_init: 10.0, t_block: 1.0 };
        sas.iter().map(|sa| cache.use_for(*sa, hit, 10)).collect()
    }

    #[test]
    fn the_sas_with_the_lowest_numbers_are_there_before_traffic_begins() {
        let mut cache = cache(3);
        assert_eq!(times(&mut cache, &[2, 0, 1, 2]), [HIT; 4]);
        assert!(cache.holds(0) && !cache.holds(3));
    }

    #[test]
    fn a_miss_replaces_the_sa_that_was_used_least_recently() {
        let mut cache = cache(3);
        // From the least to the most recently used: 1, 2, 0.
        times(&mut cache, &[1, 2, 0]);
        assert_eq!(times(&mut cache, &[7, 2, 0, 1, 7]), [MISS, HIT, HIT, MISS, MISS]);
        assert!(cache.holds(7) && !cache.holds(2));
        let SaCacheReport { sas, hits, misses } = cache.report();
        assert_eq!((sas, hits, misses), (3, 5, 3));
    }

    #[test]
    fn a_cache_of_one_holds_the_last() {
        let mut cache = cache(1);
        assert_eq!(times(&mut cache, &[0, 5, 5, 0]), [HIT, MISS, HIT, MISS]);
    }
}
