//! TCP (RFC 9293), as far as a gateway looks at it: its checksum, which a NAT or an offload leaves
//! wrong, where its payload starts, and the maximum segment size that a SYN announces.

use crate::checksum;
use crate::field::{put_u16, u16_at};

/// Length of a header without options, in bytes.
pub const HEADER_BYTES: usize = 20;
/// Where the flags stand.
pub const FLAGS_AT: usize = 13;
/// Of the flags: a connection begins.
pub const SYN: u8 = 0x02;
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
/// Kinds of options: their end, and one byte of padding.
const END: u8 = 0;
const NO_OPERATION: u8 = 1;
/// Of options: the maximum segment size (RFC 9293 section 3.7.1), and its length in bytes.
const MAX_SEGMENT_SIZE: u8 = 2;
const MAX_SEGMENT_SIZE_BYTES: usize = 4;
/// Of options: authentication, which may cover the others (RFC 5925 section 2.2).
const AUTHENTICATION: u8 = 29;

/// Length of the header that `segment` starts with, options included, in bytes; `None` where it
/// does not show, or is less than a header's.
pub fn header_len(segment: &[u8]) -> Option<usize> {
    let len = usize::from(*segment.get(DATA_OFFSET_AT)? >> 4) * 4;
    (len >= HEADER_BYTES).then_some(len)
}

/// Whether `segment` begins a connection; only such segments announce a maximum segment size.
#[inline]
pub fn is_syn(segment: &[u8]) -> bool {
    segment.get(FLAGS_AT).is_some_and(|flags| flags & SYN != 0)
}

/// Lowers the maximum segment size that `segment` announces to `most` bytes, with its checksum, and
/// returns whether it was higher. A segment that announces none, is cut short, has malformed
/// options or is authenticated stays as it is.
pub fn clamp_mss(segment: &mut [u8], most: u16) -> bool {
    let Some(at) = mss_at(segment) else { return false };
    let announced = u16_at(segment, at);
    if announced <= most {
        return false;
    }
    put_u16(segment, at, most);
    // The sum's words are at even places: the bytes of a number at an odd one are exchanged in it.
    let in_sum = |number: u16| if at.is_multiple_of(2) { number } else { number.swap_bytes() };
    let checksum = checksum::update16(u16_at(segment, CHECKSUM_AT), in_sum(announced), in_sum(most));
    put_u16(segment, CHECKSUM_AT, checksum);
    true
}

/// Where the maximum segment size stands that `segment` announces.
fn mss_at(segment: &[u8]) -> Option<usize> {
    let options = segment.get(HEADER_BYTES..header_len(segment)?)?;
    let (mut at, mut found) = (0, None);
    while let Some(kind) = options.get(at).filter(|kind| **kind != END) {
        if *kind == NO_OPERATION {
            at += 1;
            continue;
        }
        let len = usize::from(*options.get(at + 1)?);
        let is_whole = len >= 2 && at + len <= options.len();
        if !is_whole || *kind == AUTHENTICATION {
            return None;
        }
        if *kind == MAX_SEGMENT_SIZE {
            found = (len == MAX_SEGMENT_SIZE_BYTES).then_some(HEADER_BYTES + at + 2);
        }
        at += len;
    }
    found
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
    use proptest::prelude::*;

    use super::*;

    /// A SYN with these options, padded to whole words, and its checksum over a pseudo header's sum
    /// of 77.
    fn syn(options: &[u8]) -> Vec<u8> {
        let mut segment: Vec<u8> = (0..20).collect();
        segment.extend(options);
        segment.resize(segment.len().next_multiple_of(4), 0);
        segment[DATA_OFFSET_AT] = (segment.len() as u8 / 4) << 4;
        segment[FLAGS_AT] = SYN;
        fill_checksum(&mut segment, 77);
        segment
    }

    #[test]
    fn a_higher_size_is_lowered_with_the_checksum_wherever_it_stands() {
        // 1460, behind an even and an odd number of bytes, and before and behind other options.
        for options in [
            &[2, 4, 0x05, 0xb4][..],
            &[1, 2, 4, 0x05, 0xb4],
            &[1, 1, 2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8],
            &[3, 3, 7, 2, 4, 0x05, 0xb4, 0, 9, 9],
        ] {
            let before = syn(options);
            let mut segment = before.clone();
            assert!(is_syn(&segment) && clamp_mss(&mut segment, 1398), "{options:?}");
            let at = mss_at(&segment).expect("it announces one");
            assert_eq!(u16_at(&segment, at), 1398);
            assert_eq!(checksum::of(&segment, 77), 0, "{options:?}");
            let others = |bytes: &[u8]| [&bytes[..16], &bytes[18..at], &bytes[at + 2..]].concat();
            assert_eq!(others(&segment), others(&before));
            assert!(!clamp_mss(&mut segment, 1398) && !clamp_mss(&mut segment, 1460), "it is never raised");
        }
    }

    #[test]
    fn segments_without_a_size_of_their_own_stay_as_they_are() {
        let truncated = |bytes: usize| syn(&[2, 4, 0x05, 0xb4])[..bytes].to_vec();
        for segment in [
            syn(&[]),
            syn(&[1, 1, 1, 1]),
            syn(&[0, 2, 4, 0x05, 0xb4]),
            syn(&[2, 3, 0x05, 0xb4]),
            syn(&[2, 0, 0x05, 0xb4]),
            syn(&[2, 9, 0x05, 0xb4]),
            syn(&[1, 1, 1, 2]),
            syn(&[2, 4, 0x05, 0xb4, 29, 16, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14]),
            truncated(23),
            truncated(19),
            truncated(12),
            Vec::new(),
        ] {
            let mut same = segment.clone();
            assert!(!clamp_mss(&mut same, 536) && same == segment, "{segment:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_clamped_or_stay(mut segment in prop::collection::vec(any::<u8>(), 0..70), most: u16) {
            let before = segment.clone();
            let sum = |bytes: &[u8]| checksum::of(bytes, 1);
            if clamp_mss(&mut segment, most) {
                prop_assert!(mss_at(&segment).is_some_and(|at| u16_at(&segment, at) == most));
                // 0 and 0xffff are the same in the sum.
                prop_assert!(sum(&segment) % u16::MAX == sum(&before) % u16::MAX);
            } else {
                prop_assert_eq!(segment, before);
            }
        }
    }

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
