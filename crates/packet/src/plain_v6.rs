//! The common packet of the other family: IPv6 without extension headers, with TCP, UDP or ESP,
//! read by words as [`PlainV4`](crate::PlainV4) is.

use crate::field::{u32_at, u64_at, u128_at};
use crate::ipv6::{DESTINATION, HEADER_BYTES, NEXT_HEADER_AT};
use crate::protocol::{ESP, TCP, UDP};

/// With the word behind the header.
const LEAST_BYTES: usize = HEADER_BYTES + 4;

/// The fields that classification needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainV6 {
    /// As the header says, in bytes; never more than there is.
    pub total_len: usize,
    /// The source address.
    pub source: u128,
    /// The destination address.
    pub destination: u128,
    /// The protocol behind the header.
    pub protocol: u8,
    /// The word behind the header: source port, then destination port, or the SPI.
    pub upper: u32,
    /// DSCP in the upper six bits and ECN in the lower two.
    pub traffic_class: u8,
}

impl PlainV6 {
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
        let total_len = HEADER_BYTES + usize::from((first >> 16) as u16);
        let protocol = header[NEXT_HEADER_AT];
        let is_plain =
            first >> 60 == 6 && is_wanted(protocol) && (LEAST_BYTES..=packet.len()).contains(&total_len);
        is_plain.then(|| Self {
            total_len,
            source: u128_at(header, DESTINATION.start - 16),
            destination: u128_at(header, DESTINATION.start),
            protocol,
            upper: u32_at(header, HEADER_BYTES),
            traffic_class: (first >> 52) as u8,
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
            start in prop_oneof![3 => Just(0x60u8), 1 => any::<u8>()], class: u8, len in 0usize..80, says in 0u16..40,
            protocol in prop_oneof![Just(6u8), Just(17), Just(50), any::<u8>()], rest: [u8; 32], upper: [u8; 32],
        ) {
            let mut packet = vec![0; 80];
            (packet[0], packet[1], packet[6]) = (start | class >> 4, class << 4, protocol);
            packet[4..6].copy_from_slice(&says.to_be_bytes());
            packet[8..40].copy_from_slice(&rest);
            packet[40..72].copy_from_slice(&upper);
            packet.truncate(len);
            let layout = Layout::parse(&packet).ok();
            let is_plain = layout.is_some_and(|layout| {
                layout.is_v6 && layout.payload == 40 && layout.fragment.is_none() && says >= 4
            });
            let plain = PlainV6::parse(&packet);
            prop_assert_eq!(plain.is_some(), is_plain && [6, 17].contains(&protocol));
            let outer = PlainV6::parse_outer(&packet);
            prop_assert_eq!(outer.is_some(), is_plain && [17, 50].contains(&protocol));
            if let Some(esp) = outer {
                prop_assert_eq!(&esp.upper.to_be_bytes(), &packet[40..44]);
            }
            if let (Some(plain), Some(layout)) = (plain, layout) {
                let (upper, lower) = layout.ports(&packet).expect("of a protocol with ports");
                prop_assert_eq!((plain.source, plain.destination), layout.address_numbers(&packet));
                prop_assert_eq!(plain.upper, u32::from(upper) << 16 | u32::from(lower));
                prop_assert_eq!((plain.total_len, plain.protocol), (layout.total_len, layout.protocol));
                prop_assert_eq!(plain.traffic_class, layout.traffic_class);
            }
        }
    }
}
