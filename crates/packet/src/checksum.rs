//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).

/// Adds `bytes` as 16-bit words to a running sum, which is not folded yet; an odd last byte is the upper half of a
/// word.
pub fn add(sum: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let sum = words
        .by_ref()
        .fold(sum, |sum, word| sum + u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]])));
    let rest = words.remainder();
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    sum + u64::from(u32::from_be_bytes(last))
}

/// Folds a running sum and takes its complement: what is written into a header.
pub fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
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

/// The checksum after one 16-bit word under it changed (RFC 1624 equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_gives_what_computing_anew_gives() {
        let mut bytes = [0x45, 0, 0, 60, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 1, 0, 1, 10, 2, 0, 9];
        for (at, new) in [(2, 0x0521_u16), (8, 0x3f06), (12, 0xffff), (12, 0), (4, 0x1234)] {
            let before = of(&bytes, 0);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            assert_eq!(update(before, old, new), of(&bytes, 0), "word at {at}");
        }
    }

    #[test]
    fn an_odd_byte_counts_as_the_upper_half_of_a_word() {
        assert_eq!(of(&[1, 2, 3], 0), of(&[1, 2, 3, 0], 0));
        assert_eq!(of(&[0xff; 5], 0), of(&[0xff, 0xff, 0xff, 0xff, 0xff, 0], 0));
    }
}
