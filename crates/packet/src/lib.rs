//! Frames from a pool, header views and checksums.
//!
//! Pure: no socket, thread, clock or random source. Knows nothing of IPsec policy, engines or ports.

pub mod checksum;
mod frame;

pub use frame::{Frame, FramePool, FrameSize, HEADROOM_BYTES, JUMBO_FRAME_BYTES, SMALL_FRAME_BYTES};

/// Why a frame could not be changed as asked. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// More room before the packet was asked for than there is.
    #[error("{need} bytes of headroom needed, {have} free")]
    NoHeadroom {
        /// Asked for.
        need: usize,
        /// Free.
        have: usize,
    },
    /// More room behind the packet was asked for than there is.
    #[error("{need} bytes of tailroom needed, {have} free")]
    NoTailroom {
        /// Asked for.
        need: usize,
        /// Free.
        have: usize,
    },
    /// More bytes were to be cut off than there are.
    #[error("{need} bytes to be cut off, the packet has {have}")]
    TooShort {
        /// Asked for.
        need: usize,
        /// There.
        have: usize,
    },
}
