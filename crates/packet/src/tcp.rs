//! TCP (RFC 9293), as far as a gateway looks at it: its checksum, which a NAT or an offload leaves wrong.

use crate::checksum;
use crate::field::put_u16;

/// Length of a header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
const CHECKSUM_AT: usize = 16;

/// Computes the checksum of `segment`, header and payload, on top of its `pseudo` header's sum and writes it. What is
/// cut short inside the header stays as it is.
pub fn fill_checksum(segment: &mut [u8], pseudo: u64) {
    if segment.len() >= HEADER_BYTES {
        put_u16(segment, CHECKSUM_AT, 0);
        let sum = checksum::of(segment, pseudo);
        put_u16(segment, CHECKSUM_AT, sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_checksum_sums_to_zero() {
        let mut segment: Vec<u8> = (0..33).collect();
        fill_checksum(&mut segment, 77);
        assert_eq!(checksum::of(&segment, 77), 0);
        assert_eq!(segment[15..19], [15, segment[16], segment[17], 18]);
    }

    #[test]
    fn a_stump_stays_as_it_is() {
        let mut segment = [1; 19];
        fill_checksum(&mut segment, 77);
        assert_eq!(segment, [1; 19]);
    }
}
