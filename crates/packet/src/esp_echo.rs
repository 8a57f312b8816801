//! The encrypted ESP echo (draft-ietf-ipsecme-encrypted-esp-ping): a message to the other end of an
//! SA itself. It is a payload of the next header of AGGFRAG, with sub-types of its own.

use crate::HeaderError;
use crate::field::{fixed, put_u16, put_u32, u16_at, u32_at};

/// Length of the header without a return SPI, in bytes.
pub const HEADER_BYTES: usize = 8;
/// Length of the return SPI, in bytes.
pub const SPI_BYTES: usize = 4;
const NAME: &str = "ESP echo";
/// Sub-type of a request.
const REQUEST: u8 = 2;
/// Sub-type of a response.
const RESPONSE: u8 = 3;
/// The flag of a header that has a return SPI.
const HAS_SPI: u8 = 0x80;

/// A request or a response, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EspEcho {
    /// Whether it answers a request.
    pub is_response: bool,
    /// The SPI of the SA by which the response shall come.
    pub return_spi: Option<u32>,
    /// What tells the sender's requests of one kind from others.
    pub id: u16,
    /// What tells them from each other.
    pub sequence: u16,
    /// Bytes of data, which a response repeats.
    pub data_len: u16,
}

/// Whether a payload of AGGFRAG's next header is an echo, and none of inner packets.
#[inline]
pub fn is_echo(payload: &[u8]) -> bool {
    matches!(payload.first(), Some(&(REQUEST | RESPONSE)))
}

impl EspEcho {
    /// Reads a message from its sub-type on; what is behind its data is padding.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`], also if it has less data than it says, or
    /// [`HeaderError::Version`] for another sub-type.
    pub fn parse(bytes: &[u8]) -> Result<Self, HeaderError> {
        fixed::<HEADER_BYTES>(NAME, bytes)?;
        let found = bytes[0];
        if found != REQUEST && found != RESPONSE {
            return Err(HeaderError::Version { header: NAME, found });
        }
        let has_spi = bytes[1] & HAS_SPI != 0;
        let data_len = u16_at(bytes, 2);
        let header = HEADER_BYTES + if has_spi { SPI_BYTES } else { 0 };
        let (need, have) = (header + usize::from(data_len), bytes.len());
        if have < need {
            return Err(HeaderError::TooShort { header: NAME, need, have });
        }
        Ok(Self {
            is_response: found == RESPONSE,
            return_spi: has_spi.then(|| u32_at(bytes, HEADER_BYTES)),
            id: u16_at(bytes, 4),
            sequence: u16_at(bytes, 6),
            data_len,
        })
    }

    /// Length of its header, in bytes.
    pub fn header_len(&self) -> usize {
        HEADER_BYTES + self.return_spi.map_or(0, |_| SPI_BYTES)
    }

    /// Its data; nothing if `bytes` is not the message that it was read from.
    pub fn data<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let at = self.header_len();
        bytes.get(at..at + usize::from(self.data_len)).unwrap_or_default()
    }

    /// The header as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.header_len()];
        bytes[0] = if self.is_response { RESPONSE } else { REQUEST };
        put_u16(&mut bytes, 2, self.data_len);
        put_u16(&mut bytes, 4, self.id);
        put_u16(&mut bytes, 6, self.sequence);
        if let Some(spi) = self.return_spi {
            bytes[1] = HAS_SPI;
            put_u32(&mut bytes, HEADER_BYTES, spi);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_request_has_its_fields_in_the_drafts_order() {
        let (return_spi, id, sequence) = (Some(0x1122_3344), 0x5566, 0x7788);
        let echo = EspEcho { is_response: false, return_spi, id, sequence, data_len: 3 };
        let bytes = [echo.to_bytes(), vec![9; 5]].concat();
        let wanted = [2, 0x80, 0, 3, 0x55, 0x66, 0x77, 0x88, 0x11, 0x22, 0x33, 0x44, 9, 9, 9, 9, 9];
        assert_eq!(bytes, wanted);
        assert_eq!(EspEcho::parse(&bytes), Ok(echo));
        assert_eq!(echo.data(&bytes), [9; 3]);
    }

    #[test]
    fn other_sub_types_and_short_messages_are_errors() {
        let short = |need, have| Err(HeaderError::TooShort { header: NAME, need, have });
        assert_eq!(EspEcho::parse(&[2; 7]), short(8, 7));
        assert_eq!(EspEcho::parse(&[2, 0x80, 0, 0, 0, 0, 0, 0, 1, 1, 1]), short(12, 11));
        assert_eq!(EspEcho::parse(&[3, 0, 0, 2, 0, 0, 0, 0, 1]), short(10, 9));
        for found in [0, 1, 4] {
            assert_eq!(EspEcho::parse(&[found; 16]), Err(HeaderError::Version { header: NAME, found }));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(echo) = EspEcho::parse(&bytes) {
                prop_assert_eq!(echo.data(&bytes).len(), usize::from(echo.data_len));
                let again = [echo.to_bytes(), echo.data(&bytes).to_vec()].concat();
                prop_assert_eq!(EspEcho::parse(&again), Ok(echo));
            }
        }
    }
}
