//! Memory that the kernel reads and writes.

/// Room for `N` bytes, of which some are in use; aligned as any structure of the kernel's.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub(crate) struct Buffer<const N: usize> {
    pub(super) bytes: [u8; N],
    pub(super) len: usize,
}

impl<const N: usize> Buffer<N> {
    pub(crate) const EMPTY: Self = Self { bytes: [0; N], len: 0 };

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Says how many bytes the kernel wrote.
    pub(super) fn set_len(&mut self, len: usize) {
        self.len = len.min(N);
    }

    pub(super) const fn capacity() -> usize {
        N
    }
}
