//! The Internet checksum (RFC 1071), its pseudo header, and its incremental update (RFC 1624).

use crate::ip;

/// Independent partial sums.
const LANES: usize = 8;

/// Adds `bytes` as 16-bit words to a running sum, which is not folded yet; an odd last byte is the
/// upper half of a word.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    // The sum does not depend on byte order (RFC 1071 section 2(B)): words are added as the machine
    // loads them, and only the result is swapped. Lanes that may wrap, which none does, become
    // vectors; with checks for overflow 1400 bytes take 430 ns instead of 56.
    let mut lanes = [0u64; LANES];
    let mut blocks = bytes.chunks_exact(4 * LANES);
    for block in blocks.by_ref() {
        // Places instead of iterators over them: it is to be inlined whatever the profile.
        for at in 0..LANES {
            lanes[at] = lanes[at].wrapping_add(native_word(&block[4 * at..]));
        }
    }
    let mut words = blocks.remainder().chunks_exact(4);
    let mut native = lanes.into_iter().fold(0, u64::wrapping_add);
    native = words.by_ref().fold(native, |sum, word| sum.wrapping_add(native_word(word)));
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    let native = folded(native.wrapping_add(native_word(&last)));
    sum + u64::from(u16::from_be_bytes(native.to_ne_bytes()))
}

/// Four bytes as the machine loads them.
#[inline]
fn native_word(bytes: &[u8]) -> u64 {
    u64::from(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// The ones' complement sum of the 16-bit words in `sum`.
fn folded(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Folds a running sum and takes its complement: what is written into a header.
pub fn fold(sum: u64) -> u16 {
    !folded(sum)
}

/// As [`fold`], of a sum of less than 2^32, without a loop.
pub(crate) const fn fold_twice(sum: u64) -> u16 {
    let once = (sum & 0xffff) + (sum >> 16);
    !((once & 0xffff) + (once >> 16)) as u16
}

/// The checksum of `bytes`, on top of a running sum `initial` (0, or a pseudo header's).
///
/// ```
/// use convoy_packet::checksum;
/// // A header with its checksum in place sums to zero.
/// let header = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
/// assert_eq!(checksum::of(&header, 0), 0);
/// ```
pub fn of(bytes: &[u8], initial: u64) -> u16 {
    fold(add(initial, bytes))
}

/// The running sum of the pseudo header (RFC 768, RFC 9293 section 3.1, RFC 8200 section 8.1) of
/// what `packet` carries; `len` is of the transport header and what is behind it, in bytes.
///
/// # Panics
/// If `packet` does not start with an IP header.
pub fn pseudo_header(packet: &[u8], protocol: u8, len: usize) -> u64 {
    let addresses = if ip::is_v6(packet) { &packet[8..40] } else { &packet[12..20] };
    add(u64::from(protocol) + len as u64, addresses)
}

/// The checksum after one 16-bit word under it changed (RFC 1624 equation 3). It is what computing
/// again gives, unless all that is summed up is zero, which no IP header is.
pub fn update16(checksum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 4.1, word by word.
    fn plain(bytes: &[u8]) -> u16 {
        let words =
            bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
        let mut sum = words.sum::<u32>();
        while sum >> 16 != 0 {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }

    #[test]
    fn the_example_of_rfc_1071_section_3_sums_to_ddf2() {
        assert_eq!(of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0), !0xddf2);
    }

    #[test]
    fn the_example_of_rfc_1624_section_4_gives_zero() {
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn an_odd_byte_counts_as_the_upper_half_of_a_word() {
        assert_eq!(of(&[1, 2, 3], 0), of(&[1, 2, 3, 0], 0));
        assert_eq!(of(&[0xff; 5], 0), of(&[0xff, 0xff, 0xff, 0xff, 0xff, 0], 0));
    }

    #[test]
    fn pseudo_headers_sum_as_their_bytes_do() {
        let addresses: [u8; 32] = std::array::from_fn(|at| 7 * at as u8);
        let v4 = [&[0x45; 12][..], &addresses[..8]].concat();
        let bytes = [&addresses[..8], &[0, 17, 0x12, 0x34]].concat();
        assert_eq!(fold(pseudo_header(&v4, 17, 0x1234)), plain(&bytes));
        let v6 = [&[0x60; 8][..], &addresses].concat();
        let bytes = [&addresses[..], &[0, 1, 0x12, 0x34, 0, 0, 0, 58]].concat();
        assert_eq!(fold(pseudo_header(&v6, 58, 0x1_1234)), plain(&bytes));
    }

    proptest! {
        #[test]
        fn the_sum_is_that_of_its_words(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..150) {
            prop_assert_eq!(of(&bytes, 0), plain(&bytes));
            let (head, tail) = bytes.split_at((2 * cut).min(bytes.len() & !1));
            prop_assert_eq!(of(tail, add(0, head)), plain(&bytes), "in two parts");
        }

        #[test]
        fn folding_twice_is_folding(sum in 0u64..1 << 32) {
            prop_assert_eq!(fold_twice(sum), fold(sum));
        }

        #[test]
        fn an_update_gives_what_computing_again_gives(
            mut words in proptest::collection::vec(any::<u16>(), 1..40), at: prop::sample::Index, new: u16,
        ) {
            // As an IP header's first byte.
            words.insert(0, 0x4500);
            let bytes = |words: &[u16]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
            let before = of(&bytes(&words), 0);
            let at = 1 + at.index(words.len() - 1);
            let old = std::mem::replace(&mut words[at], new);
            prop_assert_eq!(update16(before, old, new), of(&bytes(&words), 0));
        }
    }
}
