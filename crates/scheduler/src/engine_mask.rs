//! Sets of engines, one bit each: "no engine has room" is one comparison, and a choice visits only
//! members.

/// The most engines of a scheduler.
pub const ENGINES: usize = u64::BITS as usize;

/// A set of engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EngineMask(u64);

impl EngineMask {
    /// Every engine that there may be.
    #[inline]
    pub(crate) fn all() -> Self {
        Self(u64::MAX)
    }

    /// The set of the first member alone.
    #[inline]
    pub(crate) fn first_alone(self) -> Self {
        Self(self.0 & self.0.wrapping_neg())
    }

    #[inline]
    pub(crate) fn set(&mut self, engine: usize, is_in: bool) {
        self.0 = self.0 & !(1 << engine) | u64::from(is_in) << engine;
    }

    #[inline]
    pub(crate) fn contains(self, engine: usize) -> bool {
        self.0 >> engine & 1 != 0
    }

    #[inline]
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The intersection.
    #[inline]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The members that are not in `other`.
    #[inline]
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The set itself, or `other` if it is empty.
    #[inline]
    pub(crate) fn or_if_empty(self, other: Self) -> Self {
        if self.is_empty() { other } else { self }
    }

    /// The first.
    #[inline]
    pub(crate) fn first(self) -> Option<usize> {
        if self.is_empty() { None } else { Some(self.0.trailing_zeros() as usize) }
    }
}

impl Iterator for EngineMask {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        let first = self.first()?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_walked_in_order() {
        let mut set = EngineMask::default();
        for engine in [63, 0, 5] {
            set.set(engine, true);
        }
        assert!(set.eq([0, 5, 63]));
        set.set(5, false);
        assert!(!set.contains(5) && set.contains(63));
        assert_eq!((set.first(), EngineMask::default().first()), (Some(0), None));
    }
}
