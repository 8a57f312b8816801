//! ICMP (RFC 792, RFC 1191) and ICMPv6 (RFC 4443), as far as errors and echo go: both have the same
//! first eight bytes.

use crate::field::{fixed, put_u16, put_u32, u16_at, u32_at};
use crate::{HeaderError, checksum};

/// Length of the header, in bytes.
pub const HEADER_BYTES: usize = 8;
const NAME: &str = "ICMP";

/// Types and codes of ICMP.
pub mod v4 {
    /// Echo reply: identifier and sequence number stand in the last four bytes of the header.
    pub const ECHO_REPLY: u8 = 0;
    /// Echo, which asks for a reply.
    pub const ECHO: u8 = 8;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Code of [`UNREACHABLE`]: fragmentation needed and DF set; the MTU stands in the last two
    /// bytes of the header.
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// Source quench, deprecated.
    pub const SOURCE_QUENCH: u8 = 4;
    /// Redirect.
    pub const REDIRECT: u8 = 5;
    /// Time exceeded; code 0 is in transit.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;

    /// Whether messages of this type are errors: no error may answer them (RFC 1122 section 3.2.2).
    pub const fn is_error(kind: u8) -> bool {
        matches!(kind, UNREACHABLE | SOURCE_QUENCH | REDIRECT | TIME_EXCEEDED | PARAMETER_PROBLEM)
    }
}

/// Types of ICMPv6.
pub mod v6 {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big; the MTU stands in the last four bytes of the header.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded; code 0 is in transit.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request, which asks for a reply.
    pub const ECHO: u8 = 128;
    /// Echo reply: identifier and sequence number stand in the last four bytes of the header.
    pub const ECHO_REPLY: u8 = 129;
    /// Redirect.
    pub const REDIRECT: u8 = 137;

    /// Whether no error may answer messages of this type (RFC 4443 section 2.4(e)): errors, known
    /// or not, and redirects.
    pub const fn is_error(kind: u8) -> bool {
        kind < 128 || kind == REDIRECT
    }
}

/// A checked view of an ICMP or ICMPv6 message.
#[derive(Clone, Copy, Debug)]
pub struct Icmp<'a>(&'a [u8]);

impl<'a> Icmp<'a> {
    /// Checks that the header is there.
    ///
    /// # Errors
    /// [`HeaderError::TooShort`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, HeaderError> {
        fixed::<HEADER_BYTES>(NAME, bytes)?;
        Ok(Self(bytes))
    }

    /// The type.
    pub fn message_type(&self) -> u8 {
        self.0[0]
    }

    /// The code.
    pub fn code(&self) -> u8 {
        self.0[1]
    }

    /// Whether the message sums to its checksum, on top of a `pseudo` header's sum: 0 for ICMP,
    /// [`checksum::pseudo_header`] for ICMPv6.
    pub fn is_checksum_valid(&self, pseudo: u64) -> bool {
        checksum::of(self.0, pseudo) == 0
    }

    /// The last four bytes of the header, which differ by type.
    pub fn rest_of_header(&self) -> u32 {
        u32_at(self.0, 4)
    }

    /// The MTU that ICMP's "fragmentation needed" tells, in bytes; 0 from routers older than RFC
    /// 1191, `None` for other messages.
    pub fn fragmentation_needed_mtu(&self) -> Option<u16> {
        let is_it = self.message_type() == v4::UNREACHABLE && self.code() == v4::FRAGMENTATION_NEEDED;
        is_it.then(|| u16_at(self.0, 6))
    }

    /// The MTU that ICMPv6's "packet too big" tells, in bytes; `None` for other messages.
    pub fn packet_too_big_mtu(&self) -> Option<u32> {
        (self.message_type() == v6::PACKET_TOO_BIG).then(|| self.rest_of_header())
    }

    /// What is behind the header; of an error, the start of the packet in question.
    pub fn body(&self) -> &'a [u8] {
        &self.0[HEADER_BYTES..]
    }
}

/// Writes a header to the front of `message`, whose body is in place, with the checksum of both on
/// top of a `pseudo` header's sum: 0 for ICMP, [`checksum::pseudo_header`] for ICMPv6.
///
/// # Panics
/// If `message` is shorter than [`HEADER_BYTES`].
pub fn write(message: &mut [u8], message_type: u8, code: u8, rest_of_header: u32, pseudo: u64) {
    message[..4].copy_from_slice(&[message_type, code, 0, 0]);
    put_u32(message, 4, rest_of_header);
    let sum = checksum::of(message, pseudo);
    put_u16(message, 2, sum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_error_is_written_and_its_mtu_read_back() {
        let mut message = [9; 36];
        write(&mut message, v4::UNREACHABLE, v4::FRAGMENTATION_NEEDED, 1400, 0);
        let view = Icmp::parse(&message).expect("whole");
        assert!(view.is_checksum_valid(0));
        assert_eq!((view.fragmentation_needed_mtu(), view.packet_too_big_mtu()), (Some(1400), None));
        assert_eq!(view.body(), [9; 28]);
        write(&mut message, v6::PACKET_TOO_BIG, 0, 70_000, 77);
        let view = Icmp::parse(&message).expect("whole");
        assert!(view.is_checksum_valid(77) && !view.is_checksum_valid(78));
        assert_eq!((view.fragmentation_needed_mtu(), view.packet_too_big_mtu()), (None, Some(70_000)));
    }

    #[test]
    fn errors_are_distinguished_from_questions() {
        assert_eq!([0, 3, 8, 11, 13].map(v4::is_error), [false, true, false, true, false]);
        assert_eq!([1, 2, 100, 128, 135, 137].map(v6::is_error), [true, true, true, false, false, true]);
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_view_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(view) = Icmp::parse(&bytes) {
                let _ = (view.is_checksum_valid(0), view.fragmentation_needed_mtu(), view.packet_too_big_mtu());
                prop_assert_eq!(view.body().len() + HEADER_BYTES, bytes.len());
            }
        }
    }
}
