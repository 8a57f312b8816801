//! From networks, which may contain each other, to ranges of addresses that do not overlap.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::Prefix;

/// The addresses of one family from the first to the last, as numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u128,
    pub(super) last: u128,
}

/// The highest address of a family.
pub(super) const fn highest(is_v6: bool) -> u128 {
    if is_v6 { u128::MAX } else { u32::MAX as u128 }
}

impl Range {
    fn of(Prefix { address, bits }: Prefix) -> Self {
        let number = match address {
            IpAddr::V4(v4) => v4.to_bits().into(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        let host_bits = highest(address.is_ipv6()).checked_shr(bits.into()).unwrap_or(0);
        Self { first: number & !host_bits, last: number | host_bits }
    }
}

/// The ranges of one family whose addresses are selected: for each address the longest prefix that
/// contains it decides, and of equal prefixes the last one. Addresses in no prefix are not
/// selected.
pub(super) fn select(prefixes: impl IntoIterator<Item = (Prefix, bool)>, is_v6: bool) -> Vec<Range> {
    let of_family = prefixes.into_iter().filter(|(prefix, _)| prefix.address.is_ipv6() == is_v6);
    let mut prefixes: Vec<(Prefix, bool)> = of_family.collect();
    prefixes.sort_by_key(|(prefix, _)| prefix.bits);
    // From each key on, up to the next one, addresses are selected or not.
    let mut from = BTreeMap::from([(0, false)]);
    for (prefix, is_selected) in prefixes {
        paint(&mut from, Range::of(prefix), is_selected);
    }
    let mut ranges: Vec<Range> = Vec::new();
    let ends = from.keys().skip(1).map(|next| next - 1).chain([highest(is_v6)]);
    for ((&first, _), last) in from.iter().zip(ends).filter(|((_, is_selected), _)| **is_selected) {
        match ranges.last_mut() {
            Some(before) if before.last + 1 == first => before.last = last,
            _ => ranges.push(Range { first, last }),
        }
    }
    ranges
}

fn paint(from: &mut BTreeMap<u128, bool>, Range { first, last }: Range, is_selected: bool) {
    let next = last.checked_add(1);
    let behind = next.and_then(|next| from.range(..=next).next_back().map(|(_, state)| (next, *state)));
    let within: Vec<u128> = from.range(first..=last).map(|(key, _)| *key).collect();
    for key in within {
        from.remove(&key);
    }
    from.insert(first, is_selected);
    from.extend(behind);
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;

    fn prefix(text: &str) -> Prefix {
        let (address, bits) = text.split_once('/').expect("a prefix");
        Prefix { address: address.parse().expect("an address"), bits: bits.parse().expect("a length") }
    }

    fn words(selected: &[&str], not: &[&str]) -> Vec<String> {
        let all = selected.iter().map(|text| (prefix(text), true));
        let all: Vec<_> = all.chain(not.iter().map(|text| (prefix(text), false))).collect();
        let v4 = select(all.iter().copied(), false).into_iter().map(|Range { first, last }| {
            format!("{}-{}", Ipv4Addr::from_bits(first as u32), Ipv4Addr::from_bits(last as u32))
        });
        let v6 = select(all.iter().copied(), true).into_iter().map(|Range { first, last }| {
            format!("{}-{}", Ipv6Addr::from_bits(first), Ipv6Addr::from_bits(last))
        });
        v4.chain(v6).collect()
    }

    #[test]
    fn the_longest_prefix_decides() {
        assert_eq!(
            words(&["10.0.0.0/8", "10.1.2.0/24", "fd00:2::/64"], &["10.1.0.0/16", "fe80::/10"]),
            [
                "10.0.0.0-10.0.255.255",
                "10.1.2.0-10.1.2.255",
                "10.2.0.0-10.255.255.255",
                "fd00:2::-fd00:2::ffff:ffff:ffff:ffff",
            ]
        );
        assert_eq!(words(&["10.2.0.0/24"], &["10.0.0.0/8"]), ["10.2.0.0-10.2.0.255"]);
        assert_eq!(words(&["192.0.2.7/32"], &["192.0.2.7/32"]), Vec::<String>::new());
    }

    #[test]
    fn neighbours_are_joined_and_the_ends_of_a_family_are_reached() {
        assert_eq!(words(&["10.2.0.0/25", "10.2.0.128/25"], &[]), ["10.2.0.0-10.2.0.255"]);
        assert_eq!(
            words(&["0.0.0.0/0", "::/0"], &["255.255.255.255/32"]),
            ["0.0.0.0-255.255.255.254", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]
        );
        assert_eq!(words(&["128.0.0.0/1"], &[]), ["128.0.0.0-255.255.255.255"]);
    }

    proptest! {
        #[test]
        fn every_address_is_what_its_longest_prefix_says(
            prefixes in prop::collection::vec((any::<u8>(), 24_u8..=32, any::<bool>()), 0..12),
        ) {
            let prefixes: Vec<(Prefix, bool)> = prefixes
                .into_iter()
                .map(|(last, bits, is)| (Prefix { address: [10, 0, 0, last].into(), bits }, is))
                .collect();
            let ranges = select(prefixes.iter().copied(), false);
            for last in 0..=255 {
                let address = IpAddr::from([10, 0, 0, last]);
                let number = u128::from(u32::from_be_bytes([10, 0, 0, last]));
                let has = |range: &&Range| (range.first..=range.last).contains(&number);
                let covering = prefixes.iter().filter(|(prefix, _)| prefix.contains(Prefix::host(address)));
                let expected = covering.max_by_key(|(prefix, _)| prefix.bits).is_some_and(|(_, is)| *is);
                prop_assert_eq!(ranges.iter().find(has).is_some(), expected, "{}", address);
            }
            prop_assert!(ranges.windows(2).all(|pair| pair[0].last + 1 < pair[1].first));
        }
    }
}
