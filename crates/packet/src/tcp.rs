//! TCP (RFC 9293), as far as a gateway looks at it: its checksum, which a NAT or an offload leaves
//! wrong, and where its payload starts.

use crate::checksum;
use crate::field::put_u16;

/// Length of a header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
/// Where the flags stand.
pub const FLAGS_AT: usize = 13;
/// Of the flags: no more data comes.
pub const FIN: u8 = 0x01;
/// Of the flags: what came is to be handed on.
pub const PSH: u8 = 0x08;
/// Of the flags: the acknowledgement number counts.
pub const ACK: u8 = 0x10;
/// Of the flags: congestion was met (RFC 3168).
pub const ECE: u8 = 0x40;
/// Of the flags: the sender has slowed down (RFC 3168).
pub const CWR: u8 = 0x80;
const CHECKSUM_AT: usize = 16;
const DATA_OFFSET_AT: usize = 12;

/// Length of the header that `segment` starts with, options included, in bytes; `None` where it
/// does not show, or is less than a header's.
pub fn header_len(segment: &[u8]) -> Option<usize> {
    let len = usize::from(*segment.get(DATA_OFFSET_AT)? >> 4) * 4;
    (len >= HEADER_BYTES).then_some(len)
}

/// Computes the checksum of `segment`, header and payload, on top of its `pseudo` header's sum and
/// writes it. What is cut short inside the header stays as it is.
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
    fn the_data_offset_tells_the_headers_length() {
        let mut segment = [0; 13];
        assert_eq!(header_len(&segment), None, "an offset of 0");
        segment[12] = 0x8f;
        assert_eq!(header_len(&segment), Some(32));
        assert_eq!(header_len(&segment[..12]), None, "cut short");
    }

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
