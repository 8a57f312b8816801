//! The common packet: IPv4 without options and unfragmented, or IPv6 without extension headers,
//! with TCP, UDP or ESP. It is read by words, which takes a fraction of a walk over any packet's
//! headers.

use crate::field::{u32_at, u64_at, u128_at};
use crate::ipv4::{self, DONT_FRAGMENT, MORE_FRAGMENTS, OFFSET_MASK};
use crate::ipv6;
use crate::protocol::{ESP, IPV4, IPV6, TCP, UDP};

/// Version 4 and a header of five words.
const VERSION_AND_LENGTH: u64 = 0x45 << 56;
/// Where those stand in the first eight bytes, and whatever makes a packet a piece of another.
const FIXED: u64 = 0xff << 56 | (MORE_FRAGMENTS | OFFSET_MASK) as u64;
/// Bytes of the word behind the header.
const UPPER_BYTES: usize = 4;

/// The fields that classification needs, with the addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plain<A> {
    /// As the header says, in bytes; never more than there is.
    pub total_len: usize,
    /// Source, then destination.
    pub addresses: A,
    /// The protocol behind the header.
    pub protocol: u8,
    /// The word behind the header: source port, then destination port, or the SPI.
    pub upper: u32,
    /// DSCP in the upper six bits and ECN in the lower two.
    pub traffic_class: u8,
    /// IPv4's DF; true for IPv6.
    pub dont_fragment: bool,
}

/// A plain packet of IPv4; its addresses are one number.
pub type PlainV4 = Plain<u64>;
/// A plain packet of IPv6.
pub type PlainV6 = Plain<[u128; 2]>;

/// The addresses of a plain packet, by which its family is known.
pub trait PlainFamily: Copy {
    /// Length of the IP header, in bytes.
    const HEADER_BYTES: usize;
    /// The protocol number of a packet of this family inside another.
    const PROTOCOL: u8;

    /// Reads a packet of the family if its protocol is wanted; `None` if it is not plain, or
    /// malformed.
    fn read(packet: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<Plain<Self>>;
}

impl<A: PlainFamily> Plain<A> {
    /// Reads a packet with TCP or UDP; `None` if it is of any other kind, or malformed.
    #[inline]
    pub fn parse(packet: &[u8]) -> Option<Self> {
        A::read(packet, |protocol| protocol == UDP || protocol == TCP)
    }

    /// Reads a packet with ESP or UDP; `None` if it is of any other kind, or malformed.
    #[inline]
    pub fn parse_outer(packet: &[u8]) -> Option<Self> {
        A::read(packet, |protocol| protocol == ESP || protocol == UDP)
    }
}

impl PlainFamily for u64 {
    const HEADER_BYTES: usize = ipv4::HEADER_BYTES;
    const PROTOCOL: u8 = IPV4;

    #[inline(always)]
    fn read(packet: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<Plain<Self>> {
        let header = packet.first_chunk::<{ ipv4::HEADER_BYTES + UPPER_BYTES }>()?;
        let first = u64_at(header, 0);
        let total_len = usize::from((first >> 32) as u16);
        let protocol = header[ipv4::PROTOCOL_AT];
        let is_plain = first & FIXED == VERSION_AND_LENGTH
            && is_wanted(protocol)
            && (header.len()..=packet.len()).contains(&total_len);
        is_plain.then(|| Plain {
            total_len,
            addresses: u64_at(header, 12),
            protocol,
            upper: u32_at(header, ipv4::HEADER_BYTES),
            traffic_class: (first >> 48) as u8,
            dont_fragment: first & u64::from(DONT_FRAGMENT) != 0,
        })
    }
}

impl PlainFamily for [u128; 2] {
    const HEADER_BYTES: usize = ipv6::HEADER_BYTES;
    const PROTOCOL: u8 = IPV6;

    #[inline(always)]
    fn read(packet: &[u8], is_wanted: impl Fn(u8) -> bool) -> Option<Plain<Self>> {
        let header = packet.first_chunk::<{ ipv6::HEADER_BYTES + UPPER_BYTES }>()?;
        let first = u64_at(header, 0);
        let total_len = ipv6::HEADER_BYTES + usize::from((first >> 16) as u16);
        let protocol = header[ipv6::NEXT_HEADER_AT];
        let is_plain =
            first >> 60 == 6 && is_wanted(protocol) && (header.len()..=packet.len()).contains(&total_len);
        is_plain.then(|| Plain {
            total_len,
            addresses: [u128_at(header, 8), u128_at(header, ipv6::DESTINATION.start)],
            protocol,
            upper: u32_at(header, ipv6::HEADER_BYTES),
            traffic_class: (first >> 52) as u8,
            dont_fragment: true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use proptest::prelude::*;

    /// Packets of a version, or now and then of any, that are whole or not, plain or not.
    fn packet(version: u8, header_len: usize) -> impl Strategy<Value = Vec<u8>> {
        let start = prop_oneof![3 => Just(version), 1 => any::<u8>()];
        let fragment = prop_oneof![Just(0u16), Just(0x4000), Just(0x2000), any::<u16>()];
        let protocol = prop_oneof![Just(TCP), Just(UDP), Just(ESP), any::<u8>()];
        let any_bytes = proptest::collection::vec(any::<u8>(), 80);
        (start, any::<u8>(), 0..80usize, 0..60u16, fragment, protocol, any_bytes).prop_map(
            move |(start, class, len, says, fragment, protocol, mut packet)| {
                if version >> 4 == 4 {
                    (packet[0], packet[1], packet[9]) = (start, class, protocol);
                    packet[2..4].copy_from_slice(&says.to_be_bytes());
                    packet[6..8].copy_from_slice(&fragment.to_be_bytes());
                } else {
                    (packet[0], packet[1], packet[6]) = (start, class, protocol);
                    packet[4..6].copy_from_slice(&says.saturating_sub(header_len as u16).to_be_bytes());
                }
                packet.truncate(len);
                packet
            },
        )
    }

    fn assert_as_laid_out<A: PlainFamily>(packet: &[u8], addresses: impl Fn(A) -> (u128, u128)) {
        let layout = Layout::parse(packet).ok().filter(|layout| {
            layout.is_v6 == (A::PROTOCOL == IPV6)
                && layout.payload == A::HEADER_BYTES
                && layout.fragment.is_none()
                && layout.total_len >= A::HEADER_BYTES + UPPER_BYTES
        });
        let has = |protocols: [u8; 2]| layout.is_some_and(|layout| protocols.contains(&layout.protocol));
        let (plain, outer) = (Plain::<A>::parse(packet), Plain::<A>::parse_outer(packet));
        assert_eq!((plain.is_some(), outer.is_some()), (has([TCP, UDP]), has([ESP, UDP])));
        for plain in [plain, outer].into_iter().flatten() {
            let layout = layout.expect("it is plain");
            assert_eq!(addresses(plain.addresses), layout.address_numbers(packet));
            assert_eq!(plain.upper.to_be_bytes(), packet[A::HEADER_BYTES..][..UPPER_BYTES]);
            assert_eq!((plain.total_len, plain.protocol), (layout.total_len, layout.protocol));
            assert_eq!(
                (plain.traffic_class, plain.dont_fragment),
                (layout.traffic_class, layout.dont_fragment)
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_read_by_words_is_what_the_layout_says(v4 in packet(0x45, 20), v6 in packet(0x60, 40)) {
            for packet in [v4, v6] {
                assert_as_laid_out::<u64>(&packet, |both| ((both >> 32).into(), (both as u32).into()));
                assert_as_laid_out::<[u128; 2]>(&packet, |[source, destination]| (source, destination));
            }
        }
    }
}
