//! Ancillary data of messages in the kernel's layout: before each value its length, level and type;
//! all aligned to words.

use super::buffer::Buffer;

const WORD_BYTES: usize = size_of::<usize>();
const HEADER_BYTES: usize = (WORD_BYTES + 8).next_multiple_of(WORD_BYTES);
/// Room for all that is asked for at once: packet info, traffic class, hop limit, segment size.
const CONTROL_BYTES: usize = 192;

/// The ancillary data of one message.
pub(crate) type Control = Buffer<CONTROL_BYTES>;

impl Control {
    /// Adds a value; one without room is left out.
    pub(crate) fn push(&mut self, level: i32, kind: i32, value: &[u8]) {
        let start = self.len;
        let len = HEADER_BYTES + value.len();
        let end = start + len.next_multiple_of(WORD_BYTES);
        debug_assert!(end <= CONTROL_BYTES, "CONTROL_BYTES is the room for all that is pushed");
        let Some(place) = self.bytes.get_mut(start..end) else { return };
        place[..WORD_BYTES].copy_from_slice(&len.to_ne_bytes());
        place[WORD_BYTES..WORD_BYTES + 4].copy_from_slice(&level.to_ne_bytes());
        place[WORD_BYTES + 4..WORD_BYTES + 8].copy_from_slice(&kind.to_ne_bytes());
        place[HEADER_BYTES..len].copy_from_slice(value);
        place[len..].fill(0);
        self.len = end;
    }

    /// Each value with its level and type. Ends at the first one that is not whole.
    pub(crate) fn values(&self) -> impl Iterator<Item = (i32, i32, &[u8])> {
        let mut rest = &self.bytes[..self.len.min(CONTROL_BYTES)];
        std::iter::from_fn(move || {
            let header = rest.get(..HEADER_BYTES)?;
            let (len, kinds) = header.split_first_chunk::<WORD_BYTES>()?;
            let (level, kind) = kinds.split_first_chunk::<4>()?;
            let (kind, _) = kind.split_first_chunk::<4>()?;
            let len = usize::from_ne_bytes(*len);
            let value = rest.get(HEADER_BYTES..len)?;
            rest = rest.get(len.next_multiple_of(WORD_BYTES)..).unwrap_or_default();
            Some((i32::from_ne_bytes(*level), i32::from_ne_bytes(*kind), value))
        })
    }
}

/// A number, which the kernel gives as a byte (`IP_TOS`) or as an `int`.
pub(crate) fn number(value: &[u8]) -> Option<i32> {
    match value {
        [byte] => Some(i32::from(*byte)),
        _ => value.first_chunk().map(|bytes| i32::from_ne_bytes(*bytes)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn values_come_back_with_level_and_type() {
        let mut control = Control::EMPTY;
        control.push(0, 1, &[46]);
        control.push(41, 67, &2_i32.to_ne_bytes());
        control.push(17, 103, &1400_u16.to_ne_bytes());
        let values: Vec<_> = control.values().collect();
        assert_eq!(values[0], (0, 1, &[46][..]));
        assert_eq!((values[1].0, values[1].1, number(values[1].2)), (41, 67, Some(2)));
        assert_eq!(values[2].2, 1400_u16.to_ne_bytes());
        assert_eq!(values.len(), 3);
        assert_eq!((number(&[46]), number(&[1, 2])), (Some(46), None));
    }

    #[test]
    fn the_layout_is_that_of_libc() {
        assert_eq!(HEADER_BYTES, size_of::<libc::cmsghdr>());
        assert_eq!(std::mem::offset_of!(libc::cmsghdr, cmsg_level), WORD_BYTES);
        assert_eq!(std::mem::offset_of!(libc::cmsghdr, cmsg_type), WORD_BYTES + 4);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), CONTROL_BYTES), len in 0..400_usize) {
            let mut control = Control::EMPTY;
            control.bytes.copy_from_slice(&bytes);
            control.set_len(len);
            for (_, _, value) in control.values() {
                prop_assert!(value.len() < CONTROL_BYTES);
            }
        }
    }
}
