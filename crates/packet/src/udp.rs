//! UDP (RFC 768, RFC 8200 section 8.1).

use crate::field::{fixed, length, put_u16, u16_at};
use crate::protocol::UDP;
use crate::{HeaderError, Layout, checksum};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 8;
const NAME: &str = "UDP";
const CHECKSUM_AT: usize = 6;

/// A checked view of a whole UDP datagram; not of a fragment of one.
#[derive(Clone, Copy, Debug)]
pub struct Udp<'a>(&'a [u8]);

impl<'a> Udp<'a> {
    /// Checks the length field against the bytes; those behind it are not part of the datagram.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`] or [`HeaderError::Length`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        let header = fixed::<HEADER_BYTES>(NAME, bytes)?;
        let length = length(NAME, u16_at(header, 4).into(), HEADER_BYTES, bytes.len())?;
        Ok(Self(&bytes[..length]))
    }

    /// The source port.
    pub fn source_port(&self) -> u16 {
        u16_at(self.0, 0)
    }

    /// The destination port.
    pub fn destination_port(&self) -> u16 {
        u16_at(self.0, 2)
    }

    /// Length of header and payload, in bytes.
    pub fn length(&self) -> u16 {
        u16_at(self.0, 4)
    }

    /// The checksum as it stands; 0 is none.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0, CHECKSUM_AT)
    }

    /// Whether the datagram sums to its checksum, on top of its `pseudo` header's sum (see
    /// [`checksum`]). None at all is not valid: who admits that asks [`Self::checksum`] first.
    pub fn is_checksum_valid(&self, pseudo: u64) -> bool {
        self.checksum() != 0 && checksum::of(self.0, pseudo) == 0
    }

    /// What the datagram carries.
    pub fn payload(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }
}

/// Writes a header without checksum to the front of `datagram`, over its whole length.
///
/// # Panics
/// If `datagram` is shorter than [`HEADER_BYTES`].
pub fn write(datagram: &mut [u8], source_port: u16, destination_port: u16) {
    let length = datagram.len() as u16;
    let header = &mut datagram[..HEADER_BYTES];
    put_u16(header, 0, source_port);
    put_u16(header, 2, destination_port);
    put_u16(header, 4, length);
    put_u16(header, 6, 0);
}

/// The source port of a datagram that was parsed before; `None` of fewer bytes.
#[inline]
pub fn source_port(datagram: &[u8]) -> Option<u16> {
    datagram.first_chunk::<2>().map(|port| u16::from_be_bytes(*port))
}

/// Computes the checksum of `datagram`, header and payload, on top of its `pseudo` header's sum and
/// writes it. A sum of 0 is written as 0xffff, since 0 means none.
///
/// # Panics
/// If `datagram` is shorter than [`HEADER_BYTES`].
pub fn fill_checksum(datagram: &mut [u8], pseudo: u64) {
    put_u16(datagram, CHECKSUM_AT, 0);
    let sum = match checksum::of(datagram, pseudo) {
        0 => 0xffff,
        sum => sum,
    };
    put_u16(datagram, CHECKSUM_AT, sum);
}

/// Gives an IPv6 packet's UDP datagram a checksum if it has none, as RFC 8200 section 8.1 demands
/// of all but some tunnels (RFC 6935). All else stays as it is: IPv4, where there need be none,
/// fragments, and what is malformed.
pub fn complete_checksum(packet: &mut [u8]) {
    let Ok(layout) = Layout::parse(packet) else { return };
    if !layout.is_v6 || layout.protocol != UDP || layout.fragment.is_some() {
        return;
    }
    let Ok(datagram) = Udp::parse(layout.body(packet)) else { return };
    if datagram.checksum() == 0 {
        let len = usize::from(datagram.length());
        let pseudo = checksum::pseudo_header(packet, UDP, len);
        fill_checksum(&mut packet[layout.payload..layout.payload + len], pseudo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = [9; 12];
        write(&mut bytes[..11], 4500, 53);
        let view = Udp::parse(&bytes).expect("whole");
        assert_eq!((view.source_port(), view.destination_port(), view.length()), (4500, 53, 11));
        assert_eq!((view.checksum(), view.payload()), (0, &[9; 3][..]));
        assert!(!view.is_checksum_valid(0), "there is none");
    }

    #[test]
    fn lengths_are_checked() {
        let length = |says| {
            let mut bytes = [0; 12];
            put_u16(&mut bytes, 4, says);
            Udp::parse(&bytes).is_ok()
        };
        assert_eq!([7, 8, 12, 13].map(length), [false, true, true, false]);
        assert!(Udp::parse(&[0; 7]).is_err());
    }

    #[test]
    fn a_sum_of_zero_is_written_as_all_ones() {
        let mut bytes = [0xff, 0xf7, 0, 0, 0, 8, 0, 0];
        fill_checksum(&mut bytes, 0);
        let view = Udp::parse(&bytes).expect("whole");
        assert_eq!((view.checksum(), view.is_checksum_valid(0)), (0xffff, true));
    }

    #[test]
    fn only_udp_over_ipv6_without_a_checksum_is_given_one() {
        let datagram = |checksum: u8| [0x11, 0x94, 0x11, 0x94, 0, 12, 0, checksum, 1, 2, 3, 4];
        let v6 = |checksum| {
            let header = [&[0x60, 0, 0, 0, 0, 12, 17, 64][..], &[7; 32]].concat();
            [&header[..], &datagram(checksum)].concat()
        };
        let mut packet = v6(0);
        complete_checksum(&mut packet);
        let pseudo = checksum::pseudo_header(&packet, UDP, 12);
        assert!(Udp::parse(&packet[40..]).expect("whole").is_checksum_valid(pseudo));
        assert_eq!(packet[..46], v6(0)[..46]);
        let v4 = [&[0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2][..], &datagram(0)]
            .concat();
        for untouched in [v6(1), v6(0)[..51].to_vec(), v4] {
            let mut packet = untouched.clone();
            complete_checksum(&mut packet);
            assert_eq!(packet, untouched);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_view_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(view) = Udp::parse(&bytes) {
                prop_assert_eq!(view.payload().len() + HEADER_BYTES, usize::from(view.length()));
            }
        }

        #[test]
        fn a_filled_checksum_is_valid_until_a_bit_flips(
            mut payload in proptest::collection::vec(any::<u8>(), 8..60), pseudo in 1u64..1 << 20, at: prop::sample::Index, bit in 0u8..8,
        ) {
            write(&mut payload, 1, 2);
            fill_checksum(&mut payload, pseudo);
            prop_assert!(Udp::parse(&payload).expect("whole").is_checksum_valid(pseudo));
            let at = at.index(payload.len());
            payload[at] ^= 1 << bit;
            prop_assert!(!Udp::parse(&payload).is_ok_and(|view| view.is_checksum_valid(pseudo)));
        }
    }
}
