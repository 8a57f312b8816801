//! ESP's trailer (RFC 4303 section 2.4): padding, its length, the next header.

/// ESP trailer without padding: pad length and next header.
pub(crate) const ESP_TRAILER: usize = 2;

/// RFC 4303's padding: 1, 2, 3, …
pub(crate) static PADDING: [u8; 255] = {
    let mut bytes = [0; 255];
    let mut at = 0;
    while at < 255 {
        bytes[at] = at as u8 + 1;
        at += 1;
    }
    bytes
};

/// Writes padding, its length and the next header, which are `len` bytes, to the start of `tail`. What is behind them may be overwritten:
/// it is the ICV's place.
#[inline(always)]
pub(crate) fn write_trailer(tail: &mut [u8], len: usize, next: u8) {
    let pad_len = len - ESP_TRAILER;
    // As much as a cipher without blocks needs is one word.
    if let (Some(word), 0..=3) = (tail.first_chunk_mut::<8>(), pad_len) {
        let shift = 8 * pad_len as u32;
        let padding = 0x03_02_01 & ((1 << shift) - 1);
        *word = (padding | (pad_len as u64 | u64::from(next) << 8) << shift).to_le_bytes();
        return;
    }
    write_long_trailer(tail, pad_len, next);
}

fn write_long_trailer(tail: &mut [u8], pad_len: usize, next: u8) {
    // All of the padding that a block cipher may need in one go, where there is room for it.
    match tail.first_chunk_mut::<16>() {
        Some(start) if pad_len <= 16 => start.copy_from_slice(&PADDING[..16]),
        _ => tail[..pad_len].copy_from_slice(&PADDING[..pad_len]),
    }
    tail[pad_len] = pad_len as u8;
    tail[pad_len + 1] = next;
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_packet::protocol::IPV4;

    #[test]
    fn a_trailer_is_padding_its_length_and_the_next_header() {
        for icv_len in [0, 8, 12, 16, 32] {
            for pad_len in 0..=18 {
                let mut tail = vec![0xee; pad_len + ESP_TRAILER + icv_len];
                write_trailer(&mut tail, pad_len + ESP_TRAILER, IPV4);
                assert_eq!(tail[..pad_len], PADDING[..pad_len]);
                assert_eq!(tail[pad_len..pad_len + ESP_TRAILER], [pad_len as u8, IPV4]);
            }
        }
    }
}
