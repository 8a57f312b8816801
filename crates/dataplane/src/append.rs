//! Appending one vector to another.

/// Appends the elements of `from` to `to`, and leaves `from` empty.
///
/// If `to` is empty, the two vectors are swapped, so that no element is copied.
#[inline]
pub(crate) fn append<T>(from: &mut Vec<T>, to: &mut Vec<T>) {
    if to.is_empty() { std::mem::swap(from, to) } else { to.append(from) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_moves_in_order_whether_there_was_anything_before_or_not() {
        let (mut from, mut to) = (vec![1, 2], Vec::with_capacity(8));
        append(&mut from, &mut to);
        assert_eq!((&from[..], &to[..]), (&[][..], &[1, 2][..]));
        assert_eq!(from.capacity(), 8, "its memory is used again");
        from.push(3);
        append(&mut from, &mut to);
        assert_eq!((&from[..], &to[..]), (&[][..], &[1, 2, 3][..]));
    }
}
