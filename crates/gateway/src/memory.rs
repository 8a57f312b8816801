//! Whether there is memory for a gateway, asked before it begins: an allocation that fails later ends the process, at an instant and in
//! words that nobody chose.

use convoy_packet::FrameSize;

use crate::assemble::POOL_FRAMES;

/// What a worker needs beside its frames, in bytes: its thread's stack, rings, tables.
const BESIDE_FRAMES: usize = 8 << 20;
/// What the rest of the gateway needs, in bytes: the other threads' stacks, the configuration, answers to clients.
const BESIDE_WORKERS: usize = 32 << 20;

/// There is not enough memory.
#[derive(Debug, thiserror::Error)]
#[error(
    "memory: cannot allocate {mib} MiB for {workers} workers; raise the limit (ulimit -v, LimitAS=) or configure fewer workers"
)]
pub struct MemoryError {
    mib: usize,
    workers: u16,
}

/// Whether what so many workers need can be had now.
///
/// # Errors
/// [`MemoryError`] says how much that is.
pub(crate) fn check(workers: u16) -> Result<(), MemoryError> {
    let frames = POOL_FRAMES.0 * FrameSize::Small.bytes() + POOL_FRAMES.1 * FrameSize::Jumbo.bytes();
    let bytes = usize::from(workers) * (frames + BESIDE_FRAMES) + BESIDE_WORKERS;
    // Reserved and given back: no page of it is touched.
    let mut whole = Vec::<u8>::new();
    whole.try_reserve_exact(bytes).map_err(|_| MemoryError { mib: bytes >> 20, workers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_had_is_good_and_what_cannot_is_told_with_how_much_it_is() {
        assert!(check(1).is_ok());
        let error = MemoryError { mib: 93, workers: 2 };
        assert!(
            error.to_string().starts_with("memory: cannot allocate 93 MiB for 2 workers; raise the limit")
        );
    }
}
