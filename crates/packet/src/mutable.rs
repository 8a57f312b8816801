//! The fields of headers before AH that it does not cover: those that routers may change (RFC 4302
//! section 3.3.3.1).

use crate::field::length;
use crate::ipv4::{self, Ipv4Option};
use crate::ipv6::{self, Extension};
use crate::protocol::{DESTINATION_OPTIONS, HOP_BY_HOP, ROUTING};
use crate::{HeaderError, Ipv4};

/// Options of IPv4 that no router changes (RFC 4302 appendix A1); every other is left out whole.
const IMMUTABLE_OPTIONS: [u8; 5] = [130, 133, 134, 148, 149];

/// Length of a type 2 routing header, in bytes.
const TYPE_2_BYTES: usize = 24;

/// Zeroes the mutable fields of the IP headers in `headers`, which end where AH starts, and sets
/// fields that the receiver will see differently to that value.
///
/// # Errors
/// [`HeaderError`] if they are malformed, or if the receiver's view of them is unpredictable:
/// fragments, and routing headers with segments left that are not of type 2.
pub fn zero_mutable(headers: &mut [u8]) -> Result<(), HeaderError> {
    match headers.first() {
        Some(first) if first >> 4 == 6 => zero_ipv6(headers),
        _ => zero_ipv4(headers),
    }
}

fn zero_ipv4(header: &mut [u8]) -> Result<(), HeaderError> {
    let len = Ipv4::parse_quoted(header)?.header_len();
    header[1] = 0; // DSCP, ECN
    header[6..9].fill(0); // flags, fragment offset, TTL
    header[10..12].fill(0); // checksum
    let mut at = ipv4::HEADER_BYTES;
    while let Some(option) = Ipv4Option::parse(&header[..len], at)? {
        if !IMMUTABLE_OPTIONS.contains(&option.kind) {
            header[option.at..option.end].fill(0);
        }
        at = option.end;
    }
    Ok(())
}

fn zero_ipv6(headers: &mut [u8]) -> Result<(), HeaderError> {
    length("IPv6", headers.len(), ipv6::HEADER_BYTES, usize::MAX)?;
    headers[0] = 0x60; // version stays; class and flow label go
    headers[1..4].fill(0);
    ipv6::set_hop_limit(headers, 0);
    let (mut kind, mut at) = (headers[ipv6::NEXT_HEADER_AT], ipv6::HEADER_BYTES);
    while at < headers.len() {
        let extension = Extension::parse(headers, kind, at)?;
        let segments_left = headers[at + 3];
        match kind {
            HOP_BY_HOP | DESTINATION_OPTIONS => zero_options(&mut headers[at..extension.end])?,
            // Type 0, for which the RFC foretells the receiver's view, is deprecated (RFC 5095).
            ROUTING if segments_left == 0 => {}
            ROUTING if is_type_2(&headers[at..extension.end]) => arrive_at_home(headers, at),
            _ => return Err(HeaderError::Unpredictable(kind)),
        }
        (kind, at) = (extension.next_header, extension.end);
    }
    Ok(())
}

/// Whether a routing header is of type 2 with its one segment left (RFC 6275 section 6.4).
fn is_type_2(header: &[u8]) -> bool {
    header.len() == TYPE_2_BYTES && header[2..4] == [2, 1]
}

/// Changes the headers before a mobile node to what they are once it has passed them on to its home
/// address, which the type 2 routing header at `at` contains: that then has the care-of address,
/// and no segment is left.
fn arrive_at_home(headers: &mut [u8], at: usize) {
    let (before, routing) = headers.split_at_mut(at);
    routing[3] = 0;
    before[ipv6::DESTINATION].swap_with_slice(&mut routing[8..TYPE_2_BYTES]);
}

/// Zeroes the data of options that may change en route: bit 0x20 of their type.
fn zero_options(header: &mut [u8]) -> Result<(), HeaderError> {
    let mut at = 2;
    while at < header.len() {
        if header[at] == 0 {
            at += 1;
            continue;
        }
        let says = header.get(at + 1).map_or(usize::MAX, |len| usize::from(*len));
        let len = length("IPv6 option", says, 0, header.len().saturating_sub(at + 2))?;
        let end = at + 2 + len;
        if header[at] & 0x20 != 0 {
            header[at + 2..end].fill(0);
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::IpHeader;
    use crate::protocol::{AH, FRAGMENT};
    use proptest::prelude::*;

    fn headers(source: &str, destination: &str, next: u8, behind: &[u8]) -> Vec<u8> {
        let address = |text: &str| text.parse().expect("an address");
        let header = IpHeader {
            traffic_class: 0xb9,
            identification: 7,
            dont_fragment: true,
            ..IpHeader::new(next, address(source), address(destination))
        };
        let mut headers = [&vec![0; header.header_len()], behind].concat();
        header.write(&mut headers);
        headers
    }

    #[test]
    fn ipv4_keeps_what_no_router_changes() {
        // A no-operation, a record route (left out), a router alert (kept).
        let mut header = headers("10.0.0.1", "10.0.0.2", AH, &[1, 7, 3, 9, 0x94, 4, 5, 6]);
        ipv4::set_header_len(&mut header, 28);
        let before = header.clone();
        zero_mutable(&mut header).expect("well-formed");
        assert_eq!(header[..12], [0x47, 0, 0, 28, 0, 7, 0, 0, 0, AH, 0, 0]);
        assert_eq!(header[12..20], before[12..20]);
        assert_eq!(header[20..], [1, 0, 0, 0, 0x94, 4, 5, 6]);
    }

    #[test]
    fn ipv6_keeps_options_that_do_not_change_en_route() {
        let options = [AH, 1, 0x3e, 4, 1, 2, 3, 4, 0x1e, 4, 1, 2, 3, 4, 0, 0];
        let mut header = headers("::1", "::2", HOP_BY_HOP, &options);
        zero_mutable(&mut header).expect("well-formed");
        assert_eq!(header[..8], [0x60, 0, 0, 0, 0, 16, HOP_BY_HOP, 0]);
        assert_eq!(header[40..], [AH, 1, 0x3e, 4, 0, 0, 0, 0, 0x1e, 4, 1, 2, 3, 4, 0, 0]);
    }

    #[test]
    fn what_cannot_be_foretold_is_an_error() {
        let zero = |next, behind: &[u8]| zero_mutable(&mut headers("::1", "::2", next, behind));
        assert_eq!(zero(ROUTING, &[AH, 0, 0, 0, 0, 0, 0, 0]), Ok(()));
        assert_eq!(zero(ROUTING, &[AH, 0, 0, 1, 0, 0, 0, 0]), Err(HeaderError::Unpredictable(ROUTING)));
        assert_eq!(zero(FRAGMENT, &[AH, 0, 0, 0, 0, 0, 0, 0]), Err(HeaderError::Unpredictable(FRAGMENT)));
        assert!(zero(HOP_BY_HOP, &[AH, 1, 0, 0, 0, 0, 0, 0]).is_err(), "cut short");
        assert!(zero(HOP_BY_HOP, &[AH, 0, 0x3e, 9, 0, 0, 0, 0]).is_err(), "an option past the end");
    }

    #[test]
    fn a_type_2_routing_header_counts_as_the_mobile_node_sees_it_at_its_home_address() {
        let [care_of, home] = ["2001:db8:f::7", "2001:db8:1::7"];
        let address = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address").octets();
        let routing =
            |segments_left: u8, holds| [&[AH, 2, 2, segments_left, 0, 0, 0, 0], &address(holds)[..]].concat();
        let mut under_way = headers("2001:db8::1", care_of, ROUTING, &routing(1, home));
        let mut arrived = headers("2001:db8::1", home, ROUTING, &routing(0, care_of));
        for packet in [&mut under_way, &mut arrived] {
            assert_eq!(zero_mutable(packet), Ok(()));
        }
        assert_eq!(under_way, arrived);
        assert_eq!((&under_way[24..40], under_way[43]), (&address(home)[..], 0));
        let mut endless = headers("2001:db8::1", care_of, ROUTING, &routing(2, home));
        assert_eq!(zero_mutable(&mut endless), Err(HeaderError::Unpredictable(ROUTING)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_zeroed_or_refused(mut bytes in proptest::collection::vec(any::<u8>(), 0..120), first in prop_oneof![0x45u8..0x50, Just(0x60)], next in prop_oneof![Just(0u8), Just(43), Just(60)]) {
            if let Some(byte) = bytes.first_mut() { *byte = first; }
            if let Some(byte) = bytes.get_mut(6) { *byte = next; }
            let _ = zero_mutable(&mut bytes);
        }
    }
}
