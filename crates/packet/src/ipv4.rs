//! IPv4 (RFC 791, RFC 2474 and RFC 3168 for the former type of service).

use std::net::Ipv4Addr;

use crate::field::{fixed, length, put_u16, u16_at, u32_at};
use crate::{Fragment, HeaderError, checksum};

/// Length of a header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
/// Length of the longest header, in bytes.
pub const LONGEST_BYTES: usize = 60;
const NAME: &str = "IPv4";
pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
pub(crate) const MORE_FRAGMENTS: u16 = 0x2000;
pub(crate) const OFFSET_MASK: u16 = 0x1fff;
/// Where the protocol's number stands, in bytes.
pub const PROTOCOL_AT: usize = 9;
const CHECKSUM_AT: usize = 10;

/// A checked view of an IPv4 packet. Bytes behind the total length, such as Ethernet's padding, are
/// not part of it.
#[derive(Clone, Copy, Debug)]
pub struct Ipv4<'a>(&'a [u8]);

impl<'a> Ipv4<'a> {
    /// Checks version, header length and total length; not the checksum, see
    /// [`Self::is_checksum_valid`].
    ///
    /// # Errors
    /// [`HeaderError`] says which of them is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let view = Self::parse_quoted(bytes)?;
        let total_length = length(NAME, view.total_length().into(), view.header_len(), bytes.len())?;
        Ok(Self(&bytes[..total_length]))
    }

    /// As [`Self::parse`], of a packet that an ICMP error quotes: it may end before its total
    /// length, though not inside its header.
    ///
    /// # Errors
    /// [`HeaderError`] says what is wrong.
    pub fn parse_quoted(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let header = fixed::<HEADER_BYTES>(NAME, bytes)?;
        if header[0] >> 4 != 4 {
            return Err(HeaderError::Version { header: NAME, found: header[0] >> 4 });
        }
        length("IPv4 header", header_len(header), HEADER_BYTES, bytes.len())?;
        Ok(Self(bytes))
    }

    /// Length of the header with its options (IHL), in bytes.
    pub fn header_len(&self) -> usize {
        header_len(self.0)
    }

    /// DSCP in the upper six bits and ECN in the lower two, the former type of service.
    pub fn traffic_class(&self) -> u8 {
        self.0[1]
    }

    /// Length of header and payload, in bytes.
    pub fn total_length(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// What the fragments of one datagram share.
    pub fn identification(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// Whether routers may not fragment it (DF).
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.0, 6) & DONT_FRAGMENT != 0
    }

    /// Identification, MF and fragment offset, if this is only a piece of a datagram.
    pub fn fragment(&self) -> Option<Fragment> {
        let word = u16_at(self.0, 6);
        (word & (MORE_FRAGMENTS | OFFSET_MASK) != 0).then(|| Fragment {
            identification: self.identification().into(),
            offset: 8 * usize::from(word & OFFSET_MASK),
            more: word & MORE_FRAGMENTS != 0,
        })
    }

    /// Routers that it may still pass.
    pub fn time_to_live(&self) -> u8 {
        self.0[8]
    }

    /// The protocol of the payload, see [`crate::protocol`].
    pub fn protocol(&self) -> u8 {
        self.0[PROTOCOL_AT]
    }

    /// Whether the header sums to its checksum.
    pub fn is_checksum_valid(&self) -> bool {
        checksum::of(&self.0[..self.header_len()], 0) == 0
    }

    /// The source address.
    pub fn source(&self) -> Ipv4Addr {
        source(self.0)
    }

    /// The destination address.
    pub fn destination(&self) -> Ipv4Addr {
        u32_at(self.0, 16).into()
    }

    /// What is behind the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }

    /// The whole packet, cut to its total length.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// One option (RFC 791 section 3.1) and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option {
    /// Copied flag, class and number.
    pub kind: u8,
    /// Where it starts, in bytes from the header's start.
    pub at: usize,
    /// Where the next one starts.
    pub end: usize,
}

impl Ipv4Option {
    /// The first option of a whole `header` at or behind `at`, no-operations left out; `None` at
    /// the end of options. The first of all is at or behind [`HEADER_BYTES`].
    ///
    /// # Errors
    /// [`HeaderError::Length`] if its length is none.
    pub fn parse(header: &[u8], at: usize) -> Result<Option<Self>, HeaderError> {
        let Some(skipped) = header.get(at..).and_then(|rest| rest.iter().position(|kind| *kind != 1)) else {
            return Ok(None);
        };
        let at = at + skipped;
        if header[at] == 0 {
            return Ok(None);
        }
        let says = header.get(at + 1).map_or(0, |len| usize::from(*len));
        let len = length("IPv4 option", says, 2, header.len() - at)?;
        Ok(Some(Self { kind: header[at], at, end: at + len }))
    }

    /// Whether every fragment repeats it.
    pub const fn is_copied(&self) -> bool {
        self.kind & 0x80 != 0
    }
}

/// A header without options, to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Header {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Length of header and payload, in bytes.
    pub total_length: u16,
    /// What the fragments of one datagram share.
    pub identification: u16,
    /// DF.
    pub dont_fragment: bool,
    /// Routers that it may pass.
    pub time_to_live: u8,
    /// The protocol of the payload.
    pub protocol: u8,
    /// The source address.
    pub source: Ipv4Addr,
    /// The destination address.
    pub destination: Ipv4Addr,
}

impl Ipv4Header {
    /// Writes the header with its checksum to the front of `into`.
    ///
    /// # Panics
    /// If `into` is shorter than [`HEADER_BYTES`].
    pub fn write(&self, into: &mut [u8]) {
        let mut header = [0; HEADER_BYTES];
        header[0] = 0x45;
        header[1] = self.traffic_class;
        put_u16(&mut header, 2, self.total_length);
        put_u16(&mut header, 4, self.identification);
        put_u16(&mut header, 6, if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        header[8] = self.time_to_live;
        header[PROTOCOL_AT] = self.protocol;
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let sum = checksum::of(&header, 0);
        put_u16(&mut header, CHECKSUM_AT, sum);
        into[..HEADER_BYTES].copy_from_slice(&header);
    }
}

/// What the header's first byte says of its length, in bytes.
pub(crate) fn header_len(header: &[u8]) -> usize {
    4 * usize::from(header[0] & 15)
}

pub(crate) fn source(header: &[u8]) -> Ipv4Addr {
    u32_at(header, 12).into()
}

/// Sets IHL; `bytes` is a multiple of four up to [`LONGEST_BYTES`].
pub fn set_header_len(header: &mut [u8], bytes: usize) {
    header[0] = 0x40 | (bytes / 4) as u8;
}

/// Sets identification, MF and fragment offset and clears DF. The checksum is left to
/// [`fill_checksum`].
pub fn set_fragment(header: &mut [u8], fragment: Fragment) {
    let more = if fragment.more { MORE_FRAGMENTS } else { 0 };
    put_u16(header, 4, fragment.identification as u16);
    put_u16(header, 6, (fragment.offset / 8) as u16 | more);
}

/// Sets the total length, in bytes. The checksum is left to [`fill_checksum`].
pub fn set_total_length(header: &mut [u8], bytes: u16) {
    put_u16(header, 2, bytes);
}

/// Sets DSCP and ECN, and corrects the checksum.
pub(crate) fn set_traffic_class(header: &mut [u8], value: u8) {
    let word = u16_at(header, 0);
    update_word(header, 0, word & 0xff00 | u16::from(value));
}

/// Sets the time to live, and corrects the checksum.
pub(crate) fn set_time_to_live(header: &mut [u8], value: u8) {
    let word = u16_at(header, 8);
    update_word(header, 8, word & 0x00ff | u16::from(value) << 8);
}

fn update_word(header: &mut [u8], at: usize, new: u16) {
    let sum = checksum::update16(u16_at(header, CHECKSUM_AT), u16_at(header, at), new);
    put_u16(header, at, new);
    put_u16(header, CHECKSUM_AT, sum);
}

/// Computes the header's checksum again.
///
/// # Panics
/// If `packet` is shorter than its header.
pub fn fill_checksum(packet: &mut [u8]) {
    put_u16(packet, CHECKSUM_AT, 0);
    let sum = checksum::of(&packet[..header_len(packet)], 0);
    put_u16(packet, CHECKSUM_AT, sum);
}

#[cfg(test)]
#[path = "ipv4_tests.rs"]
mod tests;
