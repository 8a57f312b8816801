//! What a pipeline takes from its machine: time, random numbers, frames and the directory of SAs. A
//! simulation supplies all of them.

use std::sync::Arc;

use convoy_ipsec::Directory;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::clock::{Clock, VirtualTime};
use crate::memory::POOL_FRAMES;

/// What a pipeline takes from its machine. A [`Clock`] alone converts into this with the system's
/// random numbers, the default number of frames and no other workers.
pub struct PipelineResources {
    /// The time.
    pub clock: Clock,
    /// Generates the IVs of CBC, which must be unpredictable, and seeds the flow cache, whose slots
    /// outsiders must not be able to predict.
    pub random: StdRng,
    /// Frames of the pipeline: small, jumbo and huge.
    pub frames: (usize, usize, usize),
    /// Locates the SAs of all workers of the process.
    pub directory: Arc<Directory>,
}

impl PipelineResources {
    /// The resources of a simulation: the same seed gives the same numbers. Never for real traffic,
    /// since its IVs can be guessed.
    pub fn simulated(time: &VirtualTime, seed: u64) -> Self {
        Self {
            clock: time.clock(),
            random: StdRng::seed_from_u64(seed),
            frames: POOL_FRAMES,
            directory: alone(),
        }
    }
}

impl From<Clock> for PipelineResources {
    fn from(clock: Clock) -> Self {
        Self { clock, random: rand::make_rng(), frames: POOL_FRAMES, directory: alone() }
    }
}

/// The directory of the only pipeline of a process.
fn alone() -> Arc<Directory> {
    Arc::new(Directory::new(1))
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_again_and_the_system_others() {
        let time = VirtualTime::new();
        let of = |mut resources: PipelineResources| resources.random.next_u64();
        assert_eq!(of(PipelineResources::simulated(&time, 3)), of(PipelineResources::simulated(&time, 3)));
        assert_ne!(of(PipelineResources::simulated(&time, 3)), of(PipelineResources::simulated(&time, 4)));
        assert_ne!(of(Clock::start().into()), of(Clock::start().into()));
    }
}
