//! AH (RFC 4302 section 2).

use crate::HeaderError;
use crate::field::{fixed, length, put_u32, u32_at};

/// Length of the fields before the ICV, in bytes.
pub const HEADER_BYTES: usize = 12;
/// The longest header that its length field can tell, in bytes.
pub const LONGEST_BYTES: usize = 4 * (255 + 2);
const NAME: &str = "AH";

/// A checked view of AH and what is behind it.
#[derive(Clone, Copy, Debug)]
pub struct Ah<'a>(&'a [u8]);

impl<'a> Ah<'a> {
    /// Checks the length field against the bytes.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`] or [`HeaderError::Length`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let header = fixed::<HEADER_BYTES>(NAME, bytes)?;
        length(NAME, 4 * (usize::from(header[1]) + 2), HEADER_BYTES, bytes.len())?;
        Ok(Self(bytes))
    }

    /// SPI, and sequence number where it is there, of what an ICMP error quotes: it may end
    /// anywhere behind the SPI.
    pub fn quoted(bytes: &[u8]) -> Option<(u32, Option<u32>)> {
        let field = |at: usize| bytes.get(at..at + 4).map(|field| u32_at(field, 0));
        Some((field(4)?, field(8)))
    }

    /// The protocol behind AH, see [`crate::protocol`].
    pub fn next_header(&self) -> u8 {
        self.0[0]
    }

    /// Length of the header with its ICV and padding, in bytes; the field "payload length" counts
    /// 4-byte words less 2.
    pub fn header_len(&self) -> usize {
        4 * (usize::from(self.0[1]) + 2)
    }

    /// The security parameters index.
    pub fn spi(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// The sequence number, or its lower half with ESN.
    pub fn sequence_number(&self) -> u32 {
        u32_at(self.0, 8)
    }

    /// The integrity check value with its padding.
    pub fn icv(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..self.header_len()]
    }

    /// What is behind AH.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[self.header_len()..]
    }
}

/// Writes the fields before the ICV to the front of `into` and zeroes to the rest, which is ICV and
/// padding.
///
/// # Panics
/// If the length of `into` is no multiple of 4 from [`HEADER_BYTES`] to [`LONGEST_BYTES`].
pub fn write(into: &mut [u8], next_header: u8, spi: u32, sequence_number: u32) {
    let len = into.len();
    assert!(len.is_multiple_of(4) && (HEADER_BYTES..=LONGEST_BYTES).contains(&len), "{len} bytes of AH");
    into.fill(0);
    into[0] = next_header;
    into[1] = (len / 4 - 2) as u8;
    put_u32(into, 4, spi);
    put_u32(into, 8, sequence_number);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = [9; 30];
        write(&mut bytes[..24], 17, 0x1001, 7);
        assert_eq!(bytes[..4], [17, 4, 0, 0]);
        let view = Ah::parse(&bytes).expect("whole");
        assert_eq!((view.next_header(), view.header_len()), (17, 24));
        assert_eq!((view.spi(), view.sequence_number()), (0x1001, 7));
        assert_eq!((view.icv(), view.payload()), (&[0; 12][..], &[9; 6][..]));
    }

    #[test]
    fn lengths_are_checked() {
        let parse = |field| Ah::parse(&[&[17, field][..], &[0; 22]].concat()).is_ok();
        assert_eq!([0, 1, 4, 5].map(parse), [false, true, true, false]);
        assert!(Ah::parse(&[1; 11]).is_err());
    }

    #[test]
    fn a_quote_may_end_behind_the_spi() {
        let mut bytes = [0; 24];
        write(&mut bytes, 17, 0x1001, 7);
        assert_eq!(Ah::quoted(&bytes[..12]), Some((0x1001, Some(7))));
        assert_eq!(Ah::quoted(&bytes[..8]), Some((0x1001, None)));
        assert_eq!(Ah::quoted(&bytes[..7]), None);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_view_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..1100)) {
            if let Ok(view) = Ah::parse(&bytes) {
                prop_assert_eq!(HEADER_BYTES + view.icv().len() + view.payload().len(), bytes.len());
            }
        }
    }
}
