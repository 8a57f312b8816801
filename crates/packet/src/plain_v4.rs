//! The common packet: IPv4 without options, unfragmented, with TCP, UDP or ESP. It is read by
//! words, which takes a fraction of a walk over any packet's headers.

use crate::field::{u32_at, u64_at};
use crate::ipv4::{DONT_FRAGMENT, HEADER_BYTES, MORE_FRAGMENTS, OFFSET_MASK, PROTOCOL_AT};
use crate::protocol::{ESP, TCP, UDP};

/// Version 4 and a header of five words.
const VERSION_AND_LENGTH: u64 = 0x45 << 56;
/// Where those stand in the first eight bytes, and whatever makes a packet a piece of another.
const FIXED: u64 = 0xff << 56 | (MORE_FRAGMENTS | OFFSET_MASK) as u64;
/// With the word behind the header.
const LEAST_BYTES: usize = HEADER_BYTES + 4;

/// The fields that classification needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainV4 {
    /// As the header says, in bytes; never more than there is.
    pub total_len: usize,
    /// Source, then destination.
    pub addresses: u64,
    /// The protocol behind the header.
    pub protocol: u8,
    /// The word behind the header: source port, then destination port, or the SPI.
    pub upper: u32,
    /// DSCP in the upper six bits and ECN in the lower two.
    pub traffic_class: u8,
    /// DF.
    pub dont_fragment: bool,
}

impl PlainV4 {
    /// Reads a packet with TCP or UDP; `None` if it is of any other kind, or malformed.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        Self::parse_if(packet, |protocol| protocol == UDP || protocol == TCP)
    }

    /// Reads a packet with ESP or UDP; `None` if it is of any other kind, or malformed.
    #[inline]
    pub fn parse_outer(packet: &[u8]) -> Option<Self> {
        Self::parse_if(packet, |protocol| protocol == ESP || protocol == UDP)
    }

    #[inline(always)]
    fn parse_if(packet: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<Self> {
        let header = packet.first_chunk::<LEAST_BYTES>()?;
        let first = u64_at(header, 0);
        let total_len = usize::from((first >> 32) as u16);
        let protocol = header[PROTOCOL_AT];
        let is_plain = first & FIXED == VERSION_AND_LENGTH
            && is_wanted(protocol)
            && (LEAST_BYTES..=packet.len()).contains(&total_len);
        is_plain.then(|| Self {
            total_len,
            addresses: u64_at(header, 12),
            protocol,
            upper: u32_at(header, HEADER_BYTES),
            traffic_class: (first >> 48) as u8,
            dont_fragment: first & u64::from(DONT_FRAGMENT) != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_read_by_words_is_what_the_layout_says(
            start in prop_oneof![3 => Just(0x45u8), 1 => any::<u8>()], class: u8, len in 0usize..60, says in 0u16..60,
            fragment in prop_oneof![Just(0u16), Just(0x4000), Just(0x2000), any::<u16>()],
            protocol in prop_oneof![Just(6u8), Just(17), Just(50), any::<u8>()], rest: [u8; 40],
        ) {
            let mut packet = vec![0; 60];
            packet[20..].copy_from_slice(&rest);
            (packet[0], packet[1], packet[9]) = (start, class, protocol);
            packet[2..4].copy_from_slice(&says.to_be_bytes());
            packet[6..8].copy_from_slice(&fragment.to_be_bytes());
            packet[12..20].copy_from_slice(&rest[32..]);
            packet.truncate(len);
            let layout = Layout::parse(&packet).ok();
            let is_plain = layout.is_some_and(|layout| {
                !layout.is_v6 && layout.payload == 20 && layout.fragment.is_none() && says >= 24
            });
            let plain = PlainV4::parse(&packet);
            prop_assert_eq!(plain.is_some(), is_plain && [6, 17].contains(&protocol));
            let outer = PlainV4::parse_outer(&packet);
            prop_assert_eq!(outer.is_some(), is_plain && [17, 50].contains(&protocol));
            if let Some(esp) = outer {
                prop_assert_eq!(&esp.upper.to_be_bytes(), &packet[20..24]);
            }
            if let (Some(plain), Some(layout)) = (plain, layout) {
                let (source, destination) = layout.address_numbers(&packet);
                let (upper, lower) = layout.ports(&packet).expect("of a protocol with ports");
                prop_assert_eq!(u128::from(plain.addresses), source << 32 | destination);
                prop_assert_eq!(plain.upper, u32::from(upper) << 16 | u32::from(lower));
                prop_assert_eq!((plain.total_len, plain.protocol), (layout.total_len, layout.protocol));
                prop_assert_eq!((plain.traffic_class, plain.dont_fragment), (layout.traffic_class, layout.dont_fragment));
            }
        }
    }
}
