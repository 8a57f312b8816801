//! The memory of a gateway, had before it begins: an allocation that fails later ends the process,
//! at an instant and in words that nobody chose.

use convoy_packet::{FramePool, Region, RegionError};

/// How many frames a worker has: small, jumbo and huge. Reassembly leaves half of the huge ones to
/// what is on its way.
pub const POOL_FRAMES: (usize, usize, usize) = (8192, 512, 64);
/// What a worker needs beside its frames, in bytes: its thread's stack, rings, tables.
const BESIDE_FRAMES: usize = 8 << 20;
/// What the rest of the gateway needs, in bytes: the other threads' stacks, the configuration,
/// answers to clients.
const BESIDE_WORKERS: usize = 32 << 20;
/// Packet memory, in chunks, for what has frames of its own beside the workers: calibration.
const BESIDE_POOLS: usize = 512;

/// There is not enough memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Of any kind.
    #[error(
        "memory: cannot allocate {mib} MiB for {workers} workers; raise the limit (ulimit -v, LimitAS=) or configure fewer workers"
    )]
    TooLittle {
        /// How much is needed, in MiB.
        mib: usize,
        /// For how many workers.
        workers: u16,
    },
    /// For packets.
    #[error("memory: {0}; configure fewer workers")]
    Packets(#[from] RegionError),
}

/// Makes the packet memory of so many workers, after a look whether there is memory for all else.
/// To be called while the process has its privileges, which the system may want to see where huge
/// pages are given out.
///
/// # Errors
/// [`MemoryError`] says how much is needed.
pub fn make_region(workers: u16) -> Result<&'static Region, MemoryError> {
    let (small, jumbo, huge) = POOL_FRAMES;
    let chunks = usize::from(workers) * FramePool::chunks(small, jumbo, huge) + BESIDE_POOLS;
    try_allocate(workers, beside_frames(workers) + chunks * convoy_packet::CHUNK_BYTES)?;
    let region = Region::make(chunks)?;
    tracing::info!("packet memory: {} MiB in {}", region.bytes() >> 20, region.pages());
    Ok(region)
}

/// Whether what so many workers need beside packet memory can be had now.
///
/// # Errors
/// [`MemoryError`] says how much that is.
pub fn check(workers: u16) -> Result<(), MemoryError> {
    try_allocate(workers, beside_frames(workers))
}

fn beside_frames(workers: u16) -> usize {
    usize::from(workers) * BESIDE_FRAMES + BESIDE_WORKERS
}

fn try_allocate(workers: u16, bytes: usize) -> Result<(), MemoryError> {
    // Reserved and given back: no page of it is touched.
    let mut whole = Vec::<u8>::new();
    whole.try_reserve_exact(bytes).map_err(|_| MemoryError::TooLittle { mib: bytes >> 20, workers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_had_is_good_and_what_cannot_is_told_with_how_much_it_is() {
        assert!(check(1).is_ok());
        let error = try_allocate(2, usize::MAX >> 1).expect_err("nobody has as much");
        assert!(
            error.to_string().starts_with("memory: cannot allocate 8796093022207 MiB for 2 workers; raise"),
            "{error}"
        );
    }
}
