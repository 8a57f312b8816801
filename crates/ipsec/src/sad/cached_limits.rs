//! An SA's limits and path as plain numbers, so that a packet only compares.

/// Later than any time.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// How far an SA may go without checking limits and path again. Beyond it the SA renews them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CachedLimits {
    /// They expire at this time, in ns; 0 is at once.
    pub(crate) until_ns: u64,
    /// Once this many bytes, or packets, are used, a limit is reached.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}
