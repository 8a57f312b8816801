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

/// Writes padding, its length and the next header, `len` bytes in all, to the start of `tail`.
/// Bytes behind them may be overwritten: the ICV comes there.
#[inline(always)]
pub(crate) fn write_trailer(tail: &mut [u8], len: usize, next: u8) {
    let pad_len = len - ESP_TRAILER;
    // Ciphers without blocks need at most one word.
    if let (Some(word), 0..=3) = (tail.first_chunk_mut::<8>(), pad_len) {
        let shift = 8 * pad_len as u32;
        let padding = 0x03_02_01 & ((1 << shift) - 1);
        *word = (padding | (pad_len as u64 | u64::from(next) << 8) << shift).to_le_bytes();
        return;
    }
    write_long_trailer(tail, pad_len, next);
}

/// By length: padding and its length, as far as one block has room for them.
static BLOCKS: [[u8; 16]; 16] = {
    let mut blocks = [[0; 16]; 16];
    let mut len = 0;
    while len < 16 {
        let mut at = 0;
        while at < len {
            blocks[len][at] = at as u8 + 1;
            at += 1;
        }
        blocks[len][len] = len as u8;
        len += 1;
    }
    blocks
};

#[inline(always)]
fn write_long_trailer(tail: &mut [u8], pad_len: usize, next: u8) {
    // All that a block cipher may need in one store, if there is room.
    match (tail.first_chunk_mut::<16>(), BLOCKS.get(pad_len)) {
        (Some(start), Some(block)) => *start = *block,
        _ => {
            tail[..pad_len].copy_from_slice(&PADDING[..pad_len]);
            tail[pad_len] = pad_len as u8;
        }
    }
    tail[pad_len + 1] = next;
}

/// Padding lengths that no block cipher needs more than, and that one word holds.
const SHORT_PADDING: usize = 16;

/// By length: the expected padding at the end of a word, and the mask of its bits.
const PADDED: [(u128, u128); SHORT_PADDING + 1] = {
    const COUNT: u128 = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    let mut padded = [(0, 0); SHORT_PADDING + 1];
    let mut len = 1;
    while len <= SHORT_PADDING {
        let before = 8 * (SHORT_PADDING - len);
        padded[len] = (COUNT >> before, u128::MAX >> before);
        len += 1;
    }
    padded
};

/// The length of the payload between IV and ICV, in bytes, and the next header; `None` if the
/// padding does not count up from one.
#[inline]
pub(crate) fn unpadded(body: &[u8]) -> Option<(usize, u8)> {
    let (padded, [pad_len, next]) = body.split_last_chunk::<ESP_TRAILER>()?;
    let pad_len = usize::from(*pad_len);
    let len = padded.len().checked_sub(pad_len)?;
    // A comparison of memory takes several times as long.
    let is_good = match (padded.last_chunk(), PADDED.get(pad_len)) {
        (Some(last), Some((expected, bits))) => (u128::from_be_bytes(*last) ^ expected) & bits == 0,
        _ => padded[len..] == PADDING[..pad_len],
    };
    is_good.then_some((len, *next))
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

    #[test]
    fn padding_is_a_count_from_one_and_any_other_byte_in_it_is_seen() {
        for (payload_len, pad_len) in
            (0..40).flat_map(|payload| (0..=40).chain([255]).map(move |pad| (payload, pad)))
        {
            let mut body = vec![0x5c; payload_len];
            body.extend_from_slice(&PADDING[..pad_len]);
            body.extend([pad_len as u8, IPV4]);
            assert_eq!(unpadded(&body), Some((payload_len, IPV4)), "{payload_len}, {pad_len}");
            for at in 0..payload_len + pad_len {
                let mut changed = body.clone();
                changed[at] ^= 0x80;
                assert_eq!(unpadded(&changed).is_some(), at < payload_len, "{payload_len}, {pad_len}: {at}");
            }
            if let Ok(more) = u8::try_from(payload_len + pad_len + 1) {
                body[payload_len + pad_len] = more;
                assert_eq!(unpadded(&body), None, "more than there is");
            }
        }
        assert_eq!((unpadded(&[]), unpadded(&[0])), (None, None));
    }
}
