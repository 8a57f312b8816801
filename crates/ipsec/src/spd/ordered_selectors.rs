//! Selectors in order of evaluation, to find those that no packet ever reaches.

use crate::ip::flow::FlowKey;
use crate::spd::index::AddressIndex;
use crate::spd::selector::Selector;

/// Selectors in order of evaluation. Among ten thousand tunnels each is compared with few others.
pub struct OrderedSelectors {
    selectors: Vec<Selector>,
    index: AddressIndex<u32>,
}

impl OrderedSelectors {
    /// These, in their order.
    pub fn new(selectors: Vec<Selector>) -> Self {
        let mut index = AddressIndex::default();
        (0..).zip(&selectors).for_each(|(place, selector)| index.insert(selector, place));
        Self { selectors, index }
    }

    /// All of them.
    pub fn selectors(&self) -> &[Selector] {
        &self.selectors
    }

    /// The first among the first `count` selectors that admits every flow admitted by `selector`.
    /// One whose sides are of two families admits none, and is ignored.
    pub fn first_covering(&self, selector: &Selector, count: usize) -> Option<usize> {
        let [local, remote] = [selector.local.addresses.first(), selector.remote.addresses.first()];
        if local.is_ipv6() != remote.is_ipv6() {
            return None;
        }
        // A selector that covers all of it covers its first addresses.
        let flow = FlowKey::new(local, remote, 0, None);
        let covers = |place: usize| place < count && self.selectors[place].covers(selector);
        self.index.first(&flow, |place| covers(place as usize)).map(|place| place as usize)
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    use proptest::prelude::*;

    use super::*;
    use crate::spd::selector::{AddressRange, Ports, TrafficSelector};

    fn side(is_v6: bool, a: u8, b: u8, protocol: Option<u8>) -> TrafficSelector {
        let address = |number: u8| -> IpAddr {
            if is_v6 {
                Ipv6Addr::from_bits(number.into()).into()
            } else {
                Ipv4Addr::from_bits(number.into()).into()
            }
        };
        let addresses = AddressRange::new(address(a.min(b)), address(a.max(b))).expect("in order");
        TrafficSelector { addresses, protocol, ports: Ports::Any }
    }

    prop_compose! {
        fn any_selector()(is_v6: bool, ends in [0u8..12, 0u8..12, 0u8..12, 0u8..12], protocol in proptest::option::of(Just(6))) -> Selector {
            let [a, b, c, d] = ends;
            Selector { local: side(is_v6, a, b, protocol), remote: side(is_v6, c, d, None) }
        }
    }

    proptest! {
        #[test]
        fn the_first_that_covers_is_found_as_by_holding_each_against_it(
            selectors in proptest::collection::vec(any_selector(), 1..30),
        ) {
            let ordered = OrderedSelectors::new(selectors.clone());
            for (count, selector) in selectors.iter().enumerate() {
                let expected = selectors[..count].iter().position(|earlier| earlier.covers(selector));
                prop_assert_eq!(ordered.first_covering(selector, count), expected);
            }
        }
    }

    #[test]
    fn sides_of_two_families_admit_nothing() {
        let mixed = Selector { local: side(false, 0, 1, None), remote: side(true, 0, 1, None) };
        assert_eq!(OrderedSelectors::new(vec![mixed]).first_covering(&mixed, 1), None);
    }
}
