//! IPv6 (RFC 8200) and a bounded walk over its extension headers.

use std::net::Ipv6Addr;

use crate::field::{fixed, length, put_u16, put_u32, u16_at, u32_at, u128_at};
use crate::protocol::{DESTINATION_OPTIONS, FRAGMENT, HOP_BY_HOP, ROUTING};
use crate::{Fragment, HeaderError};

/// Length of the header without extension headers, in bytes.
pub const HEADER_BYTES: usize = 40;
/// Length of a fragment header, in bytes.
pub const FRAGMENT_BYTES: usize = 8;
/// Extension headers that are walked; a packet with more is an error.
pub const EXTENSION_LIMIT: usize = 8;
const NAME: &str = "IPv6";
/// Where the header's destination address stands, in bytes.
pub(crate) const DESTINATION: std::ops::Range<usize> = 24..40;
/// Where the header's own next header field stands, in bytes.
pub const NEXT_HEADER_AT: usize = 6;

/// A checked view of an IPv6 packet. Bytes behind its payload length are not part of it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv6<'a>(&'a [u8]);

impl<'a> Ipv6<'a> {
    /// Checks version and payload length; extension headers are checked as they are walked.
    ///
    /// # Errors
    /// [`HeaderError`] says which of them is wrong. A jumbogram (RFC 2675) is refused.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let view = Self::parse_quoted(bytes)?;
        let payload_length = length(NAME, view.payload_length().into(), 0, bytes.len() - HEADER_BYTES)?;
        if payload_length == 0 && view.next_header() == HOP_BY_HOP {
            return Err(HeaderError::Jumbogram);
        }
        Ok(Self(&bytes[..HEADER_BYTES + payload_length]))
    }

    /// As [`Self::parse`], of a packet that an ICMP error quotes: it may end before its payload
    /// does.
    ///
    /// # Errors
    /// [`HeaderError`] says what is wrong.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let header = fixed::<HEADER_BYTES>(NAME, bytes)?;
        if header[0] >> 4 != 6 {
            return Err(HeaderError::Version { header: NAME, found: header[0] >> 4 });
        }
        Ok(Self(bytes))
    }

    /// DSCP in the upper six bits and ECN in the lower two.
    pub fn traffic_class(&self) -> u8 {
        traffic_class(self.0)
    }

    /// The flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32_at(self.0, 0) & 0x000f_ffff
    }

    /// Length of what is behind this header, extension headers included, in bytes.
    pub fn payload_length(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// What comes next: an extension header or a protocol, see [`crate::protocol`].
    pub fn next_header(&self) -> u8 {
        self.0[NEXT_HEADER_AT]
    }

    /// Routers that it may still pass.
    pub fn hop_limit(&self) -> u8 {
        self.0[7]
    }

    /// The source address.
    pub fn source(&self) -> Ipv6Addr {
        source(self.0)
    }

    /// The destination address.
    pub fn destination(&self) -> Ipv6Addr {
        u128_at(self.0, 24).into()
    }

    /// What is behind this header, extension headers included.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }

    /// The whole packet, cut to its payload length.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Finds the protocol behind the extension headers. AH and ESP end the walk: to selectors both
    /// are protocols (RFC 4301 section 4.4.1.1). So does a fragment other than the first: what
    /// follows there is the middle of something.
    ///
    /// # Errors
    /// [`HeaderError`] if an extension header is cut short, there are more than
    /// [`EXTENSION_LIMIT`], or two are fragment headers.
    pub fn upper_layer(&self) -> Result<UpperLayer, HeaderError> {
        let mut upper = UpperLayer {
            protocol: self.next_header(),
            at: HEADER_BYTES,
            fragment: None,
            unfragmentable: HEADER_BYTES,
            next_header_at: NEXT_HEADER_AT,
        };
        let mut number_at = NEXT_HEADER_AT;
        for _ in 0..=EXTENSION_LIMIT {
            let is_later = upper.fragment.is_some_and(|fragment| fragment.offset != 0);
            if is_later || !is_extension(upper.protocol) {
                return Ok(upper);
            }
            let extension = Extension::parse(self.0, upper.protocol, upper.at)?;
            upper.pass(&extension, number_at)?;
            number_at = extension.at;
        }
        Err(HeaderError::ExtensionLimit(EXTENSION_LIMIT))
    }
}

/// Where the protocol behind the extension headers stands. Places are in bytes from the packet's
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// The protocol.
    pub protocol: u8,
    /// Where its header starts; for a fragment other than the first, where the piece starts.
    pub at: usize,
    /// The fragment header's fields, if there is one.
    pub fragment: Option<Fragment>,
    /// End of the headers that every fragment repeats, which routers look at. A fragment header
    /// goes there, and ESP and AH in transport mode: before the last destination options (RFC 4303
    /// section 3.1.1).
    pub unfragmentable: usize,
    /// Where the number of the header that follows those stands.
    pub next_header_at: usize,
}

impl UpperLayer {
    /// Takes in one extension header, whose own number stands at `number_at`.
    fn pass(&mut self, extension: &Extension, number_at: usize) -> Result<(), HeaderError> {
        match extension.kind {
            FRAGMENT if self.fragment.is_some() => return Err(HeaderError::RepeatedFragment),
            FRAGMENT => {
                self.fragment = extension.fragment;
                (self.unfragmentable, self.next_header_at) = (extension.at, number_at);
            }
            HOP_BY_HOP | ROUTING if self.fragment.is_none() => {
                (self.unfragmentable, self.next_header_at) = (extension.end, extension.at);
            }
            _ => {}
        }
        (self.protocol, self.at) = (extension.next_header, extension.end);
        Ok(())
    }
}

pub(crate) const fn is_extension(protocol: u8) -> bool {
    matches!(protocol, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION_OPTIONS)
}

/// One extension header and its place, in bytes from the packet's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Which, see [`crate::protocol`].
    pub kind: u8,
    /// What comes next.
    pub next_header: u8,
    /// Where it starts.
    pub at: usize,
    /// Where the next header starts.
    pub end: usize,
    /// Its fields, if it is a fragment header.
    pub fragment: Option<Fragment>,
}

impl Extension {
    /// The extension header `kind` at `at`.
    ///
    /// # Errors
    /// [`HeaderError`] if it is cut short.
    pub fn parse(packet: &[u8], kind: u8, at: usize) -> Result<Self, HeaderError> {
        const NAME: &str = "IPv6 extension header";
        let rest = packet.get(at..).unwrap_or_default();
        let header = fixed::<FRAGMENT_BYTES>(NAME, rest)?;
        let says = if kind == FRAGMENT { FRAGMENT_BYTES } else { 8 * usize::from(header[1]) + 8 };
        let len = length(NAME, says, 8, rest.len())?;
        let fragment = (kind == FRAGMENT).then(|| Fragment {
            identification: u32_at(header, 4),
            offset: usize::from(u16_at(header, 2) & 0xfff8),
            more: header[3] & 1 != 0,
        });
        Ok(Self { kind, next_header: header[0], at, end: at + len, fragment })
    }
}

/// A header without extension headers, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow label; its lower 20 bits are written.
    pub flow_label: u32,
    /// Length of what is behind this header, in bytes.
    pub payload_length: u16,
    /// What comes next.
    pub next_header: u8,
    /// Routers that it may pass.
    pub hop_limit: u8,
    /// The source address.
    pub source: Ipv6Addr,
    /// The destination address.
    pub destination: Ipv6Addr,
}

impl Ipv6Header {
    /// Writes the header to the front of `into`.
    ///
    /// # Panics
    /// If `into` is shorter than [`HEADER_BYTES`].
    pub fn write(&self, into: &mut [u8]) {
        let header = &mut into[..HEADER_BYTES];
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0x000f_ffff;
        put_u32(header, 0, first);
        put_u16(header, 4, self.payload_length);
        header[NEXT_HEADER_AT] = self.next_header;
        header[7] = self.hop_limit;
        header[8..24].copy_from_slice(&self.source.octets());
        header[24..40].copy_from_slice(&self.destination.octets());
    }
}

/// Writes a fragment header to the front of `into`.
///
/// # Panics
/// If `into` is shorter than [`FRAGMENT_BYTES`].
pub fn write_fragment(into: &mut [u8], next_header: u8, fragment: Fragment) {
    into[..2].copy_from_slice(&[next_header, 0]);
    put_u16(into, 2, fragment.offset as u16 | u16::from(fragment.more));
    put_u32(into, 4, fragment.identification);
}

pub(crate) fn source(header: &[u8]) -> Ipv6Addr {
    u128_at(header, 8).into()
}

pub(crate) fn traffic_class(header: &[u8]) -> u8 {
    (u16_at(header, 0) >> 4) as u8
}

pub(crate) fn set_payload_length(header: &mut [u8], bytes: u16) {
    put_u16(header, 4, bytes);
}

pub(crate) fn set_traffic_class(header: &mut [u8], value: u8) {
    let word = u16_at(header, 0) & 0xf00f | u16::from(value) << 4;
    put_u16(header, 0, word);
}

pub(crate) fn set_hop_limit(header: &mut [u8], value: u8) {
    header[7] = value;
}

#[cfg(test)]
#[path = "ipv6_tests.rs"]
mod tests;
