//! ESP (RFC 4303 section 2): what stands before the IV.

use crate::HeaderError;
use crate::field::{fixed, put_u32, u16_at, u32_at};
use crate::udp;

/// Length of SPI and sequence number, in bytes.
pub const HEADER_BYTES: usize = 8;
const NAME: &str = "ESP";

/// A checked view of an ESP packet, from its SPI on.
#[derive(Clone, Copy, Debug)]
pub struct Esp<'a>(&'a [u8]);

impl<'a> Esp<'a> {
    /// Checks that SPI and sequence number are there.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        fixed::<HEADER_BYTES>(NAME, bytes)?;
        Ok(Self(bytes))
    }

    /// The security parameters index; 0 is never on the wire (section 2.1), and in UDP it marks IKE
    /// (RFC 3948 section 2.2).
    pub fn spi(&self) -> u32 {
        u32_at(self.0, 0)
    }

    /// The sequence number, or its lower half with ESN.
    pub fn sequence_number(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// IV, ciphertext with the trailer, and ICV.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }
}

/// Writes SPI and sequence number to the front of `into`.
///
/// # Panics
/// If `into` is shorter than [`HEADER_BYTES`].
pub fn write(into: &mut [u8], spi: u32, sequence_number: u32) {
    let header = &mut into[..HEADER_BYTES];
    put_u32(header, 0, spi);
    put_u32(header, 4, sequence_number);
}

/// The SPI of ESP in a UDP datagram (RFC 3948 section 2.1) that takes all of these bytes; `None` if
/// it is cut short, or carries IKE or a keep-alive.
#[inline]
pub fn spi_in_udp(datagram: &[u8]) -> Option<u32> {
    let headers = datagram.first_chunk::<{ udp::HEADER_BYTES + HEADER_BYTES }>()?;
    let spi = u32_at(headers, udp::HEADER_BYTES);
    // Behind four zero bytes is IKE.
    (usize::from(u16_at(headers, 4)) == datagram.len() && spi != 0).then_some(spi)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ike_keepalives_and_what_is_cut_short_are_no_esp_in_udp() {
        let datagram = |payload: &[u8]| {
            let mut datagram = [&[0; udp::HEADER_BYTES], payload].concat();
            udp::write(&mut datagram, 4500, 4500);
            datagram
        };
        let esp = datagram(&[0, 0, 0x10, 1, 0, 0, 0, 1, 9]);
        assert_eq!(spi_in_udp(&esp), Some(0x1001));
        assert_eq!(spi_in_udp(&[&esp[..], &[0]].concat()), None);
        assert_eq!(spi_in_udp(&esp[..16]), None);
        assert_eq!(spi_in_udp(&datagram(&[0, 0, 0, 0, 0, 0, 0, 1])), None);
        assert_eq!(spi_in_udp(&datagram(&[0xff])), None);
        assert_eq!(spi_in_udp(&datagram(&[0, 0, 0x10, 1, 0, 0, 0])), None);
    }

    #[test]
    fn too_few_bytes_are_no_header() {
        assert_eq!(
            Esp::parse(&[0; 7]).err(),
            Some(HeaderError::TooShort { header: "ESP", need: 8, have: 7 })
        );
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(spi: u32, sequence: u32, payload in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = [vec![0; HEADER_BYTES], payload.clone()].concat();
            write(&mut bytes, spi, sequence);
            let view = Esp::parse(&bytes).expect("whole");
            prop_assert_eq!((view.spi(), view.sequence_number(), view.payload()), (spi, sequence, &payload[..]));
        }

        #[test]
        fn any_bytes_give_a_view_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            prop_assert_eq!(Esp::parse(&bytes).is_ok(), bytes.len() >= HEADER_BYTES);
        }
    }
}
