//! A fixed table from flow to policy decision, so that few packets search the policies.
//!
//! Set-associative: a flow may stand in one of [`WAYS`] places, so a lookup takes the same few steps
//! whatever the traffic is; an attacker who fills the table costs us misses and nothing else.

use crate::flow::FlowKey;

/// Places in which one flow may stand.
const WAYS: usize = 4;

/// What was decided for a flow: the policy's place in the SPD, or none.
pub(crate) type Decision = Option<u32>;

const NO_POLICY: u32 = u32::MAX;

/// One cache line.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Entry {
    key: FlowKey,
    /// The generation in which `policy` was decided; 0 is never current.
    generation: u32,
    policy: u32,
}

/// Decisions by flow. All are forgotten at once by [`FlowCache::invalidate`].
pub(crate) struct FlowCache {
    entries: Box<[[Entry; WAYS]]>,
    generation: u32,
    /// Which way is overwritten next where all of a set are current.
    victim: u8,
    seed: u64,
    hits: u64,
    misses: u64,
}

impl FlowCache {
    /// Room for `flows`, rounded up to a power of two and at least [`WAYS`]; `seed` keeps outsiders from
    /// predicting which flows share a set.
    pub(crate) fn new(flows: usize, seed: u64) -> Self {
        let sets = flows.div_ceil(WAYS).next_power_of_two();
        let key = FlowKey {
            source: 0,
            destination: 0,
            source_port: 0,
            destination_port: 0,
            protocol: 0,
            is_v6: false,
            ports_known: false,
        };
        let empty = Entry { key, generation: 0, policy: NO_POLICY };
        Self {
            entries: vec![[empty; WAYS]; sets].into_boxed_slice(),
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
            for entry in self.entries.as_flattened_mut() {
                entry.generation = 0;
            }
            self.generation = 1;
        }
    }

    /// The decision for `key`; on a miss, `decide` makes it and it is kept.
    pub(crate) fn get_or_decide(&mut self, key: &FlowKey, decide: impl FnOnce() -> Decision) -> Decision {
        let set = hash(key, self.seed) as usize & (self.entries.len() - 1);
        let set = &mut self.entries[set];
        let generation = self.generation;
        if let Some(entry) = set.iter().find(|entry| entry.generation == generation && entry.key == *key) {
            self.hits += 1;
            return (entry.policy != NO_POLICY).then_some(entry.policy);
        }
        self.misses += 1;
        let decision = decide();
        let way = set.iter().position(|entry| entry.generation != generation).unwrap_or_else(|| {
            self.victim = self.victim.wrapping_add(1);
            usize::from(self.victim) % WAYS
        });
        set[way] = Entry { key: *key, generation, policy: decision.unwrap_or(NO_POLICY) };
        decision
    }

    /// Lookups that found a decision, and that did not.
    pub(crate) const fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits, self.misses)
    }
}

/// Folded 64 x 64 bit products: two multiplications per address, no tables, no allocation.
fn hash(key: &FlowKey, seed: u64) -> u64 {
    const ODD: [u64; 3] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
    let fold = |a: u64, b: u64| {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    };
    let rest = u64::from(key.source_port) << 32
        | u64::from(key.destination_port) << 16
        | u64::from(key.protocol) << 8
        | u64::from(key.is_v6) << 1
        | u64::from(key.ports_known);
    let source = fold(key.source as u64 ^ ODD[0] ^ seed, (key.source >> 64) as u64 ^ ODD[1]);
    let destination = fold(key.destination as u64 ^ ODD[1] ^ source, (key.destination >> 64) as u64 ^ ODD[2]);
    fold(rest ^ destination ^ ODD[2], source ^ seed.rotate_left(32) ^ ODD[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::net::{IpAddr, Ipv4Addr};

    fn key(number: u32) -> FlowKey {
        let address = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
        FlowKey::new(address(number), address(!number), 17, Some((number as u16, 53)))
    }

    #[test]
    fn an_entry_is_one_cache_line() {
        assert_eq!(size_of::<Entry>(), 64);
    }

    #[test]
    fn the_second_packet_of_a_flow_finds_the_decision() {
        let mut cache = FlowCache::new(64, 1);
        assert_eq!(cache.get_or_decide(&key(1), || Some(7)), Some(7));
        assert_eq!(cache.get_or_decide(&key(1), || unreachable!("cached")), Some(7));
        assert_eq!(cache.get_or_decide(&key(2), || None), None);
        assert_eq!(cache.get_or_decide(&key(2), || unreachable!("cached")), None);
        assert_eq!(cache.hits_and_misses(), (2, 2));
    }

    #[test]
    fn invalidation_forgets_everything_even_when_the_generation_wraps() {
        let mut cache = FlowCache::new(64, 1);
        cache.get_or_decide(&key(1), || Some(7));
        cache.invalidate();
        assert_eq!(cache.get_or_decide(&key(1), || Some(8)), Some(8));
        cache.generation = u32::MAX;
        cache.invalidate();
        assert_eq!(cache.generation, 1);
        assert_eq!(cache.get_or_decide(&key(1), || Some(9)), Some(9));
    }

    #[test]
    fn a_small_table_under_many_flows_never_answers_wrongly() {
        let mut cache = FlowCache::new(16, 42);
        for round in 0..3 {
            for number in 0..1_000u32 {
                assert_eq!(cache.get_or_decide(&key(number), || Some(number)), Some(number), "round {round}");
            }
        }
    }

    #[test]
    fn sequential_addresses_spread_over_the_sets() {
        let mut sets: HashMap<u64, usize> = HashMap::new();
        for number in 0..4_096 {
            *sets.entry(hash(&key(number), 3) & 1_023).or_default() += 1;
        }
        assert!(sets.len() > 900 && sets.values().all(|count| *count < 20), "{} sets", sets.len());
    }
}
