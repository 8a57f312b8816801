//! Ethernet II with IEEE 802.1Q and 802.1ad tags, as captures hold it.

use crate::field::u16_at;

/// Where the EtherType stands in an Ethernet header, in bytes.
pub const ETHERTYPE_AT: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// EtherTypes that announce a tag: 802.1Q, 802.1ad, and QinQ before it was standardised.
const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAG_BYTES: usize = 4;
/// Tags that are walked; two are in use.
const TAG_LIMIT: usize = 4;

/// Where the IP packet starts behind the EtherType at `at` and its tags; `None` if it announces no IP packet. For
/// Ethernet ([`ETHERTYPE_AT`]) and for what else has an EtherType, such as Linux "cooked" captures.
pub fn ip_start(bytes: &[u8], at: usize) -> Option<usize> {
    for tags in 0..=TAG_LIMIT {
        let at = at + tags * TAG_BYTES;
        let ethertype = u16_at(bytes.get(at..at + 2)?, 0);
        if !TAGS.contains(&ethertype) {
            return [IPV4, IPV6].contains(&ethertype).then_some(at + 2);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(behind: &[u8]) -> Vec<u8> {
        [&[0; ETHERTYPE_AT][..], behind].concat()
    }

    #[test]
    fn ip_is_found_behind_tags() {
        assert_eq!(ip_start(&frame(&[0x86, 0xdd, 0x60]), ETHERTYPE_AT), Some(14));
        let tagged = frame(&[0x88, 0xa8, 0x60, 7, 0x81, 0, 0, 9, 8, 0, 0x45]);
        assert_eq!(ip_start(&tagged, ETHERTYPE_AT), Some(22));
        assert_eq!(ip_start(&tagged[..20], ETHERTYPE_AT), None, "ends inside a tag");
    }

    #[test]
    fn arp_and_a_tower_of_tags_are_not_ip() {
        assert_eq!(ip_start(&frame(&[8, 6, 0, 1]), ETHERTYPE_AT), None);
        let tower = [&[0x81, 0, 0, 1].repeat(9)[..], &[8, 0]].concat();
        assert_eq!(ip_start(&frame(&tower), ETHERTYPE_AT), None);
    }

    proptest! {
        #[test]
        fn any_bytes_start_inside_themselves_or_not_at_all(bytes in proptest::collection::vec(any::<u8>(), 0..80), at in 0usize..90) {
            prop_assert!(ip_start(&bytes, at).is_none_or(|start| start <= bytes.len()));
        }
    }
}
