//! The memory of a gateway, reserved at its start: an allocation that fails later would end the
//! process at an arbitrary moment with an arbitrary message.

use convoy_packet::{FramePool, Region, RegionError};

/// Frames of a worker: small, jumbo and huge. Reassembly leaves half of the huge ones to packets in
/// transit.
pub const POOL_FRAMES: (usize, usize, usize) = (8192, 512, 64);
/// What a worker needs beside its frames, in bytes: the thread's stack, rings, tables.
const BESIDE_FRAMES: usize = 8 << 20;
/// What the rest of the gateway needs, in bytes: stacks of the other threads, the configuration,
/// answers to clients.
const BESIDE_WORKERS: usize = 64 << 20;
/// Packet memory, in chunks, for users with pools of their own beside the workers: calibration.
const BESIDE_POOLS: usize = 512;

/// There is not enough memory.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// Memory of any kind.
    #[error(
        "memory: cannot allocate {mib} MiB (workers: {workers}); raise the limit (ulimit -v, LimitAS=) or configure fewer workers"
    )]
    TooLittle {
        /// The memory needed, in MiB.
        mib: usize,
        /// The number of workers it is for.
        workers: u16,
    },
    /// Packet memory.
    #[error("memory: {0}; configure fewer workers")]
    Packets(#[from] RegionError),
}

/// Reserves the packet memory of `workers` workers, and `beside` chunks for ports with frames of
/// their own, after checking that there is memory for everything else. Call it while the process is
/// privileged: the system may require that for huge pages.
///
/// # Errors
/// [`MemoryError`] says how much is needed.
pub fn make_region(workers: u16, beside: usize) -> Result<&'static Region, MemoryError> {
    let (small, jumbo, huge) = POOL_FRAMES;
    let chunks = usize::from(workers) * FramePool::chunks(small, jumbo, huge) + beside + BESIDE_POOLS;
    try_allocate(workers, beside_frames(workers) + chunks * convoy_packet::CHUNK_BYTES)?;
    let region = Region::make(chunks)?;
    tracing::info!("packet memory: {} MiB in {}", region.bytes() >> 20, region.pages());
    Ok(region)
}

/// Checks that the memory which `workers` workers need beside packet memory can be allocated now.
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
    // Reserved and released; none of its pages is touched.
    let mut whole = Vec::<u8>::new();
    whole.try_reserve_exact(bytes).map_err(|_| MemoryError::TooLittle { mib: bytes >> 20, workers })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_had_is_good_and_what_cannot_is_reported_with_how_much_it_is() {
        assert!(check(1).is_ok());
        let error = try_allocate(2, usize::MAX >> 1).expect_err("no machine has as much");
        assert!(
            error.to_string().starts_with("memory: cannot allocate 8796093022207 MiB (workers: 2); raise"),
            "{error}"
        );
    }
}
