//! A fixed table from flow to policy decision, so that few packets search the policies.
//!
//! Set-associative: a flow may be in one of [`WAYS`] places of either of two sets, so a lookup
//! takes the same few steps whatever the traffic is; an attacker who fills the table causes misses
//! and nothing else. With one set alone a fifth of the flows would lack a place when two thirds of
//! the table are in use. Each family has a table of its own, since a flow of IPv4 takes half the
//! room, and two places of a set then share a cache line.

use convoy_packet::prefetch;

use crate::ip::flow::{FlowKey, interface_bits, upper_with_ports};

/// Places in a set.
const WAYS: usize = 4;

/// The part of a flow that is compared.
trait CacheKey: Copy + PartialEq {
    /// A hash to which all bits of the key contribute; `seed` is unknown outside.
    fn hash(&self, seed: u64) -> u64;
}

/// The key of an IPv4 flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct V4Key {
    /// Source, then destination.
    addresses: u64,
    /// As in [`FlowKey`].
    upper: u64,
}

impl V4Key {
    /// The key of no flow.
    pub(crate) const NONE: Self = Self { addresses: 0, upper: u64::MAX };

    /// The key of a packet with ports on an inside interface, by its addresses and ports, source
    /// before destination.
    #[inline]
    pub(crate) fn new(addresses: u64, protocol: u8, ports: u32, interface: u16) -> Self {
        Self { addresses, upper: upper_with_ports(protocol, ports) | interface_bits(interface) }
    }

    /// The flow of the key.
    pub(crate) const fn flow(self) -> FlowKey {
        let (source, destination) = ((self.addresses >> 32) as u128, self.addresses as u32 as u128);
        FlowKey { source, destination, upper: self.upper }
    }

    #[inline]
    pub(crate) const fn of(flow: &FlowKey) -> Self {
        Self { addresses: (flow.source as u64) << 32 | flow.destination as u64, upper: flow.upper }
    }
}

const ODD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];

/// A 64 x 64 bit product, folded.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

impl CacheKey for V4Key {
    #[inline]
    fn hash(&self, seed: u64) -> u64 {
        fold(self.addresses ^ ODD[0] ^ seed, self.upper ^ ODD[1] ^ seed.rotate_left(32))
    }
}

impl CacheKey for FlowKey {
    #[inline]
    fn hash(&self, seed: u64) -> u64 {
        let source = fold(self.source as u64 ^ ODD[0] ^ seed, (self.source >> 64) as u64 ^ ODD[1]);
        let destination =
            fold(self.destination as u64 ^ ODD[1] ^ source, (self.destination >> 64) as u64 ^ ODD[2]);
        fold(self.upper ^ destination ^ ODD[2], source ^ seed.rotate_left(32) ^ ODD[0])
    }
}

#[derive(Clone, Copy)]
struct CachedFlow<K, D> {
    key: K,
    /// The generation of `decision`; 0 is never current.
    generation: u32,
    decision: Option<D>,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct CacheSet<K, D>([CachedFlow<K, D>; WAYS]);

/// The flows of one family.
struct FlowTable<K, D>(Box<[CacheSet<K, D>]>);

impl<K: CacheKey, D: Copy> FlowTable<K, D> {
    fn new(flows: usize, none: K) -> Self {
        let empty = CachedFlow { key: none, generation: 0, decision: None };
        Self(vec![CacheSet([empty; WAYS]); flows.div_ceil(WAYS).next_power_of_two()].into_boxed_slice())
    }

    /// The first set in which a key may stand.
    #[inline]
    fn first(&self, place: FlowPlace) -> usize {
        place.0 as usize & (self.0.len() - 1)
    }

    /// The second one.
    #[inline]
    fn second(&self, place: FlowPlace) -> usize {
        (place.0 >> 32) as usize & (self.0.len() - 1)
    }

    #[inline(always)]
    fn find(&self, place: FlowPlace, key: &K, generation: u32) -> Option<EntryPlace> {
        let first = self.find_in(self.first(place), key, generation);
        first.or_else(|| self.find_in(self.second(place), key, generation))
    }

    #[inline(always)]
    fn find_in(&self, set: usize, key: &K, generation: u32) -> Option<EntryPlace> {
        let entries = &self.0[set].0;
        let way = entries.iter().position(|entry| entry.key == *key && entry.generation == generation)?;
        Some(EntryPlace { set, way })
    }

    /// A cached decision, copied from memory to memory: merging a cached and a new value on the
    /// stack by parts, and then reading the whole, would stall on store forwarding.
    #[inline(always)]
    fn decision(&self, at: EntryPlace) -> Option<D> {
        self.0[at.set].0[at.way].decision
    }

    fn keep(&mut self, place: FlowPlace, entry: CachedFlow<K, D>, victim: &mut u8) -> EntryPlace {
        let sets = [self.first(place), self.second(place)];
        let is_stale = |present: &CachedFlow<K, D>| present.generation != entry.generation;
        let stale = |set: usize| Some(EntryPlace { set, way: self.0[set].0.iter().position(is_stale)? });
        let at = sets.into_iter().find_map(stale).unwrap_or_else(|| {
            *victim = victim.wrapping_add(1);
            EntryPlace { set: sets[usize::from(*victim) / WAYS % 2], way: usize::from(*victim) % WAYS }
        });
        self.0[at.set].0[at.way] = entry;
        at
    }

    fn forget(&mut self) {
        self.0.iter_mut().flat_map(|set| &mut set.0).for_each(|entry| entry.generation = 0);
    }
}

/// The position of an entry.
#[derive(Clone, Copy)]
struct EntryPlace {
    set: usize,
    way: usize,
}

/// Decisions by flow; `None` is one too. All are forgotten at once by [`FlowCache::invalidate`].
pub(crate) struct FlowCache<D> {
    v4: FlowTable<V4Key, D>,
    v6: FlowTable<FlowKey, D>,
    generation: u32,
    /// The way to overwrite next if all of a set are current.
    victim: u8,
    seed: u64,
    hits: u64,
    misses: u64,
}

/// The two sets in which a flow may stand, by the halves of its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowPlace(u64);

impl FlowPlace {
    /// Before any lookup.
    pub(crate) const NONE: Self = Self(0);
}

impl<D: Copy> FlowCache<D> {
    /// Room for `flows` of each family, rounded up to a power of two and at least [`WAYS`]; `seed`
    /// keeps outsiders from predicting which flows share a set.
    pub(crate) fn new(flows: usize, seed: u64) -> Self {
        Self {
            v4: FlowTable::new(flows, V4Key { addresses: 0, upper: 0 }),
            v6: FlowTable::new(flows, FlowKey { source: 0, destination: 0, upper: 0 }),
            generation: 1,
            victim: 0,
            seed,
            hits: 0,
            misses: 0,
        }
    }

    /// Forgets every decision, in O(1).
    pub(crate) fn invalidate(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.v4.forget();
            self.v6.forget();
            self.generation = 1;
        }
    }

    /// Where to look for `flow`. Its sets are being prefetched when this returns.
    #[inline]
    pub(crate) fn place(&self, flow: &FlowKey) -> FlowPlace {
        if flow.is_v6() {
            let place = FlowPlace(flow.hash(self.seed));
            prefetch(&self.v6.0[self.v6.first(place)]);
            place
        } else {
            self.place_v4(&V4Key::of(flow))
        }
    }

    /// Where to look for an IPv4 flow. Its sets are being prefetched when this returns.
    #[inline]
    pub(crate) fn place_v4(&self, key: &V4Key) -> FlowPlace {
        let place = FlowPlace(key.hash(self.seed));
        prefetch(&self.v4.0[self.v4.first(place)]);
        place
    }

    /// The decision for `flow` at its [`place`](Self::place); on a miss, `decide` makes it and it
    /// is cached.
    #[inline(never)]
    pub(crate) fn get_or_decide(
        &mut self,
        flow: &FlowKey,
        place: FlowPlace,
        decide: impl FnOnce(&FlowKey) -> Option<D>,
    ) -> Option<D> {
        if !flow.is_v6() {
            return self.get_or_decide_v4(&V4Key::of(flow), place, decide);
        }
        let found = self.v6.find(place, flow, self.generation);
        self.hits += u64::from(found.is_some());
        let at = found.unwrap_or_else(|| {
            let (decision, generation) = (decide(flow), self.generation);
            self.misses += 1;
            self.v6.keep(place, CachedFlow { key: *flow, generation, decision }, &mut self.victim)
        });
        self.v6.decision(at)
    }

    /// The decision for an IPv4 flow at its [`place_v4`](Self::place_v4); on a miss, `decide` makes
    /// it.
    #[inline(always)]
    pub(crate) fn get_or_decide_v4(
        &mut self,
        key: &V4Key,
        place: FlowPlace,
        decide: impl FnOnce(&FlowKey) -> Option<D>,
    ) -> Option<D> {
        let at = match self.v4.find(place, key, self.generation) {
            Some(at) => {
                self.hits += 1;
                at
            }
            None => {
                let decision = decide(&key.flow());
                self.keep_v4(key, place, decision)
            }
        };
        self.v4.decision(at)
    }

    #[cold]
    fn keep_v4(&mut self, key: &V4Key, place: FlowPlace, decision: Option<D>) -> EntryPlace {
        self.misses += 1;
        self.v4.keep(place, CachedFlow { key: *key, generation: self.generation, decision }, &mut self.victim)
    }

    /// Counts packets that reused the decision of the previous packet of their flow as hits.
    #[inline]
    pub(crate) fn note_hits(&mut self, packets: u32) {
        self.hits += u64::from(packets);
    }

    /// The numbers of hits and of misses.
    pub(crate) const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::num::NonZeroU32;

    /// Flows of both families in turn.
    fn key(number: u32) -> FlowKey {
        let address = |bits: u32| match number % 2 {
            0 => IpAddr::V4(Ipv4Addr::from_bits(bits)),
            _ => IpAddr::V6(Ipv6Addr::from_bits(u128::from(bits) << 64 | 9)),
        };
        FlowKey::new(address(number), address(!number), 17, Some((number as u16, 53)))
    }

    fn look(
        cache: &mut FlowCache<NonZeroU32>,
        number: u32,
        decide: impl FnOnce() -> Option<u32>,
    ) -> Option<u32> {
        let key = key(number);
        let place = cache.place(&key);
        let decide = || decide().map(|decision| NonZeroU32::new(decision).expect("not 0"));
        cache.get_or_decide(&key, place, |_| decide()).map(NonZeroU32::get)
    }

    #[test]
    fn two_places_for_ipv4_or_one_for_ipv6_are_a_cache_line() {
        type Decision = (u32, NonZeroU32);
        assert_eq!(size_of::<CachedFlow<V4Key, Decision>>(), 32);
        assert_eq!(size_of::<CachedFlow<FlowKey, Decision>>(), 64);
    }

    #[test]
    fn the_second_packet_of_a_flow_finds_the_decision() {
        let mut cache = FlowCache::new(64, 1);
        assert_eq!(look(&mut cache, 1, || Some(7)), Some(7));
        assert_eq!(look(&mut cache, 1, || unreachable!("cached")), Some(7));
        assert_eq!(look(&mut cache, 2, || None), None);
        assert_eq!(look(&mut cache, 2, || unreachable!("cached")), None);
        assert_eq!(cache.hits_and_misses(), (2, 2));
    }

    #[test]
    fn invalidation_forgets_everything_even_when_the_generation_wraps() {
        let mut cache = FlowCache::new(64, 1);
        look(&mut cache, 1, || Some(7));
        cache.invalidate();
        assert_eq!(look(&mut cache, 1, || Some(8)), Some(8));
        cache.generation = u32::MAX;
        cache.invalidate();
        assert_eq!(cache.generation, 1);
        assert_eq!(look(&mut cache, 1, || Some(9)), Some(9));
    }

    #[test]
    fn a_small_table_under_many_flows_never_answers_wrongly() {
        let mut cache = FlowCache::new(16, 42);
        for round in 0..3 {
            for number in 1..1_000u32 {
                assert_eq!(look(&mut cache, number, || Some(number)), Some(number), "round {round}");
            }
        }
    }

    #[test]
    fn few_flows_lack_a_place_when_two_thirds_of_the_table_are_in_use() {
        let mut cache = FlowCache::new(4_096, 5);
        let numbers = || (0..2_700u32).map(|number| 2 * number);
        for number in numbers() {
            look(&mut cache, number, || Some(1));
        }
        let (_, before) = cache.hits_and_misses();
        for number in numbers() {
            look(&mut cache, number, || Some(1));
        }
        let (_, after) = cache.hits_and_misses();
        assert!(after - before < 100, "{} misses", after - before);
    }

    #[test]
    fn sequential_addresses_spread_over_the_sets() {
        let hashes: [fn(u32) -> u64; 2] =
            [|number| V4Key::of(&key(2 * number)).hash(3), |number| key(2 * number + 1).hash(3)];
        for hash in hashes {
            let mut sets: HashMap<u64, usize> = HashMap::new();
            for number in 0..4_096 {
                *sets.entry(hash(number) & 1_023).or_default() += 1;
            }
            assert!(sets.len() > 900 && sets.values().all(|count| *count < 20), "{} sets", sets.len());
        }
    }
}
