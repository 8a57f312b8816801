//! The AGGFRAG payload of ESP: inner packets one behind the other, which may begin in one payload
//! and go on in the next (RFC 9347 section 6.1).

use crate::HeaderError;
use crate::field::{length, put_u16, u16_at};
use crate::ipv6;

/// Length of the header without congestion control, in bytes (section 6.1.1).
pub const HEADER_BYTES: usize = 4;
/// Length of the header with congestion control, in bytes (section 6.1.2).
pub const CONGESTION_HEADER_BYTES: usize = 24;
/// The bytes of a data block that tell its length, at most: as far as IPv6's payload length.
pub const LENGTH_BYTES: usize = 6;
const NAME: &str = "AGGFRAG";
/// Sub-type of the header without congestion control.
const BASIC: u8 = 0;
/// Sub-type of the header with congestion control.
const CONGESTION: u8 = 1;
const BLOCK_OFFSET_AT: usize = 2;

/// A checked view of an AGGFRAG payload, from its sub-type on.
#[derive(Clone, Copy, Debug)]
pub struct Aggfrag<'a>(&'a [u8]);

impl<'a> Aggfrag<'a> {
    /// Checks that the sub-type is known and its header is there.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`], or [`HeaderError::Version`] for an unknown sub-type.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let have = bytes.len();
        let need = match bytes.first() {
            None | Some(&BASIC) => HEADER_BYTES,
            Some(&CONGESTION) => CONGESTION_HEADER_BYTES,
            Some(&found) => return Err(HeaderError::Version { header: NAME, found }),
        };
        if have < need {
            return Err(HeaderError::TooShort { header: NAME, need, have });
        }
        Ok(Self(bytes))
    }

    /// Length of its header, in bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        if self.0[0] == CONGESTION { CONGESTION_HEADER_BYTES } else { HEADER_BYTES }
    }

    /// Where the first data block begins, in bytes behind the header; what stands before it is the
    /// rest of a packet that an earlier payload began. It may lie behind the payload's end.
    #[inline]
    pub fn block_offset(&self) -> usize {
        u16_at(self.0, BLOCK_OFFSET_AT).into()
    }

    /// What stands behind the header.
    #[inline]
    pub fn data(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

/// What a data block is (section 6.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataBlock {
    /// Padding up to the payload's end.
    Padding,
    /// An IP packet of this length in bytes, by its own header; the payload may end before it does.
    Packet(usize),
    /// An IP packet of which too few bytes are there to tell its length.
    Beginning,
}

impl DataBlock {
    /// What begins at the start of `bytes`, which must not be empty.
    ///
    /// # Errors
    /// [`HeaderError::Version`] if it is neither padding, IPv4 nor IPv6, and
    /// [`HeaderError::Length`] if an IPv4 packet's length is less than its header's.
    #[inline]
    pub fn of(bytes: &[u8]) -> Result<Self, HeaderError> {
        let first = bytes.first().copied().unwrap_or_default();
        match first >> 4 {
            0 => Ok(Self::Padding),
            4 if bytes.len() < 4 => Ok(Self::Beginning),
            4 => {
                let least = usize::from(first & 0xf).max(5) * 4;
                let len = u16_at(bytes, 2).into();
                length("IPv4", len, least, usize::from(u16::MAX)).map(Self::Packet)
            }
            6 if bytes.len() < LENGTH_BYTES => Ok(Self::Beginning),
            6 => Ok(Self::Packet(ipv6::HEADER_BYTES + usize::from(u16_at(bytes, 4)))),
            found => Err(HeaderError::Version { header: NAME, found }),
        }
    }
}

/// Writes a header without congestion control to the front of `into`.
///
/// # Panics
/// If `into` is shorter than [`HEADER_BYTES`].
#[inline]
pub fn write(into: &mut [u8], block_offset: u16) {
    let header = &mut into[..HEADER_BYTES];
    header[..BLOCK_OFFSET_AT].fill(0);
    put_u16(header, BLOCK_OFFSET_AT, block_offset);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_four_bytes_or_with_congestion_control_24() {
        let short = |need, have| Some(HeaderError::TooShort { header: NAME, need, have });
        assert_eq!(Aggfrag::parse(&[]).err(), short(4, 0));
        assert_eq!(Aggfrag::parse(&[0, 0, 0]).err(), short(4, 3));
        let mut bytes = [0; 30];
        bytes[0] = 1;
        assert_eq!(Aggfrag::parse(&bytes[..23]).err(), short(24, 23));
        let view = Aggfrag::parse(&bytes).expect("whole");
        assert_eq!((view.header_len(), view.data().len()), (24, 6));
        bytes[0] = 2;
        assert_eq!(Aggfrag::parse(&bytes).err(), Some(HeaderError::Version { header: NAME, found: 2 }));
    }

    #[test]
    fn a_block_is_padding_or_a_packet_by_its_own_length() {
        assert_eq!(DataBlock::of(&[0x0f]), Ok(DataBlock::Padding));
        assert_eq!(DataBlock::of(&[0x45, 0, 0]), Ok(DataBlock::Beginning));
        assert_eq!(DataBlock::of(&[0x45, 0, 0x05, 0xdc]), Ok(DataBlock::Packet(1500)));
        assert_eq!(DataBlock::of(&[0x60, 0, 0, 0, 0]), Ok(DataBlock::Beginning));
        assert_eq!(DataBlock::of(&[0x60, 0, 0, 0, 0xff, 0xff]), Ok(DataBlock::Packet(65_575)));
        assert_eq!(DataBlock::of(&[0x50]), Err(HeaderError::Version { header: NAME, found: 5 }));
    }

    #[test]
    fn an_ipv4_packet_shorter_than_its_header_is_none() {
        let refused = |says, least| {
            Err(HeaderError::Length { header: "IPv4", says, least, most: usize::from(u16::MAX) })
        };
        assert_eq!(DataBlock::of(&[0x45, 0, 0, 19]), refused(19, 20));
        assert_eq!(DataBlock::of(&[0x46, 0, 0, 20]), refused(20, 24));
        assert_eq!(DataBlock::of(&[0x40, 0, 0, 0]), refused(0, 20));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(offset: u16, data in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = [vec![0xff; HEADER_BYTES], data.clone()].concat();
            write(&mut bytes, offset);
            let view = Aggfrag::parse(&bytes).expect("whole");
            prop_assert_eq!((view.block_offset(), view.data()), (usize::from(offset), &data[..]));
        }

        #[test]
        fn any_bytes_give_a_view_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Aggfrag::parse(&bytes) {
                prop_assert_eq!(view.header_len() + view.data().len(), bytes.len());
            }
            let _ = DataBlock::of(&bytes);
        }
    }
}
