//! Ethernet II, and IEEE 802.1Q and 802.1ad tags as captures hold them.

use std::fmt;
use std::str::FromStr;

use crate::HeaderError;
use crate::field::{fixed, put_u16, u16_at};

/// Length of a header without tags, in bytes.
pub const HEADER_BYTES: usize = 14;
/// The EtherType of ARP.
pub const ARP: u16 = 0x0806;
/// Where the EtherType stands in an Ethernet header, in bytes.
pub const ETHERTYPE_AT: usize = 12;
/// The EtherType of IPv4.
pub const IPV4: u16 = 0x0800;
/// The EtherType of IPv6.
pub const IPV6: u16 = 0x86dd;
/// EtherTypes that announce a tag: 802.1Q, 802.1ad, and QinQ before it was standardised.
pub const TAGS: [u16; 3] = [0x8100, 0x88a8, 0x9100];
const TAG_BYTES: usize = 4;
/// Tags that are walked; two are in use.
const TAG_LIMIT: usize = 4;

/// A hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Everybody on the link.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// Whether it is a group of hosts, as broadcast is; no host has it as its own.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    pub(crate) fn at(bytes: &[u8], at: usize) -> Self {
        let mut address = [0; 6];
        address.copy_from_slice(&bytes[at..at + 6]);
        Self(address)
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

/// A text that is no hardware address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("six pairs of hexadecimal digits with colons between them are expected, such as 02:00:00:00:00:01")]
pub struct MacAddressError;

impl FromStr for MacAddress {
    type Err = MacAddressError;

    fn from_str(text: &str) -> Result<Self, MacAddressError> {
        let mut address = [0; 6];
        let mut pairs = text.split(':');
        for byte in &mut address {
            let pair = pairs.next().filter(|pair| pair.len() == 2 && !pair.starts_with('+'));
            *byte = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok()).ok_or(MacAddressError)?;
        }
        if pairs.next().is_some() { Err(MacAddressError) } else { Ok(Self(address)) }
    }
}

/// A checked view of a frame without FCS.
#[derive(Clone, Copy, Debug)]
pub struct Ethernet<'a>(&'a [u8]);

impl<'a> Ethernet<'a> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        fixed::<HEADER_BYTES>("Ethernet", bytes)?;
        Ok(Self(bytes))
    }

    /// Whom it is for.
    pub fn destination(&self) -> MacAddress {
        MacAddress::at(self.0, 0)
    }

    /// Who sent it.
    pub fn source(&self) -> MacAddress {
        MacAddress::at(self.0, 6)
    }

    /// What is in it; below 1536 a length.
    pub fn ethertype(&self) -> u16 {
        u16_at(self.0, ETHERTYPE_AT)
    }

    /// What is behind the header, with padding.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }
}

/// A header's bytes.
pub fn header(destination: MacAddress, source: MacAddress, ethertype: u16) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    put_u16(&mut bytes, ETHERTYPE_AT, ethertype);
    bytes
}

/// Where the IP packet starts behind the EtherType at `at` and its tags; `None` if it announces no
/// IP packet. For Ethernet ([`ETHERTYPE_AT`]) and for what else has an EtherType, such as Linux
/// "cooked" captures.
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

    #[test]
    fn a_header_is_written_and_read_back() {
        let (to, from) = (MacAddress([2, 0, 0, 0, 0, 9]), MacAddress([2, 0, 0, 0, 0, 1]));
        let frame = [&header(to, from, ARP)[..], &[7; 46]].concat();
        let view = Ethernet::parse(&frame).expect("whole");
        assert_eq!((view.destination(), view.source(), view.ethertype()), (to, from, ARP));
        assert_eq!(view.payload(), [7; 46]);
        assert!(Ethernet::parse(&frame[..13]).is_err());
        assert!(MacAddress::BROADCAST.is_multicast() && !to.is_multicast());
    }

    #[test]
    fn a_hardware_address_is_read_as_it_is_printed_and_nothing_else_is() {
        let address = MacAddress([2, 0xab, 0, 1, 0xff, 0x10]);
        assert_eq!(address.to_string(), "02:ab:00:01:ff:10");
        assert_eq!(address.to_string().parse(), Ok(address));
        for text in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "2:0:0:0:0:1",
            "02:00:00:00:00:+1",
            "0g:00:00:00:00:01",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(MacAddressError), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_start_inside_themselves_or_not_at_all(bytes in proptest::collection::vec(any::<u8>(), 0..80), at in 0usize..90) {
            prop_assert!(ip_start(&bytes, at).is_none_or(|start| start <= bytes.len()));
        }
    }
}
