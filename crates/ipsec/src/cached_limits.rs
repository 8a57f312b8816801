//! What limits and path are made into, so that a packet only compares.

/// What no time is.
pub(crate) const NEVER_NS: u64 = u64::MAX;

/// How far packets may go without a second look at limits and path. Behind it the SA renews it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CachedLimits {
    /// The first time at which it has ended, in ns; 0 is at once.
    pub(crate) until_ns: u64,
    /// Once so many bytes, or packets, are spent, a limit is reached.
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
}
