//! Policies with which the gateway's own are compared. None of them is in the gateway: the
//! simulator, the demonstration, `convoy-lab run` and `cargo bench --bench policies` run them in
//! the gateway's scheduler, as [heuristics](convoy_scheduler::Heuristic).
//!
//! The baselines, what gateways do without finishing times:
//! - `cpu-only`: the CPU alone; other engines only if no available CPU supports the algorithm.
//! - `round-robin`: the engines with room in turns.
//! - `packet-size`: multi-packets of fewer than 128 bytes to the CPU, others to an accelerator,
//!   like DPDK's cryptodev scheduler with two workers.
//! - `first-capable`: the first capable accelerator, like the OpenBSD Cryptographic Framework.
//! - `least-loaded`: the lowest wait among engines with room, whatever the multi-packet costs
//!   there.
//!
//! Rules from the literature:
//! - `met`: the engine with the shortest processing time, whatever waits there (Braun et al. 2001).
//! - `olb`: the engine that becomes idle first, whatever the processing time (the same).
//! - `kpb`: the lowest finishing time among the k % of engines with the shortest processing time
//!   (Maheswaran et al. 1999).
//! - `min-min`, `max-min`: over the whole window, see [`BatchRule`] (the same). Their third rule,
//!   sufferage, is the gateway's own
//!   [`SchedulingPolicy::Sufferage`](convoy_scheduler::SchedulingPolicy::Sufferage).
//! - `overtake`: the finishing time, where others pass a multi-packet that waits for room.
//! - `jsq`, `jsq-2`: the shortest queue, of all engines or of two drawn at random (Winston 1977;
//!   Mitzenmacher 2001).
//! - `sed`: the shortest expected delay, which is the length of the queue plus one, times the mean
//!   service time (Weber 1978).
//! - `whittle`: the lowest index of admission to each queue (Niño-Mora 2002; Argon et al. 2009).
//! - `late-binding`: one queue, from which engines with credits pull (Lin et al., PANIC, OSDI
//!   2020).
//! - `prequal`: few requests in flight first, then the lowest latency (Wydrowski et al., NSDI
//!   2024).
//! - `nba`: fixed fractions that climb towards the highest throughput (Kim et al., NBA, EuroSys
//!   2015).
//!
//! The finishing time itself, packet by packet, is *minimum completion time* (MCT) of Maheswaran
//! et al. and `dm` of StarPU (Augonnet et al. 2011).

mod baselines;
mod batch;
mod immediate;
mod latency;
mod overtake;
mod pulled;
mod queues;
mod split;
mod whittle;

use convoy_scheduler::{Heuristic, HeuristicFactory as Rival};

pub use batch::BatchRule;

/// All rivals, the baselines first.
pub const ALL: [Rival; 18] = [
    Rival { name: "cpu-only", make: || Box::new(baselines::CpuOnly) },
    Rival { name: "round-robin", make: || Box::new(baselines::RoundRobin::default()) },
    Rival { name: PACKET_SIZE, make: || Box::new(baselines::PacketSize::DEFAULT) },
    Rival { name: "first-capable", make: || Box::new(baselines::FirstCapable) },
    Rival { name: "least-loaded", make: || Box::new(baselines::LeastLoaded) },
    Rival { name: "met", make: || Box::new(immediate::MinimumExecutionTime) },
    Rival { name: "olb", make: || Box::new(immediate::OpportunisticLoadBalancing) },
    Rival { name: "kpb", make: || Box::new(immediate::KPercentBest) },
    Rival { name: "min-min", make: || Box::new(batch::Batch(BatchRule::MinMin)) },
    Rival { name: "max-min", make: || Box::new(batch::Batch(BatchRule::MaxMin)) },
    Rival { name: "overtake", make: || Box::new(overtake::Overtake) },
    Rival { name: "jsq", make: || Box::new(queues::ShortestQueue) },
    Rival { name: "jsq-2", make: || Box::new(queues::ShortestOfTwo::default()) },
    Rival { name: "sed", make: || Box::new(queues::ShortestExpectedDelay::default()) },
    Rival { name: "whittle", make: || Box::new(whittle::WhittleIndex::default()) },
    Rival { name: "late-binding", make: || Box::new(pulled::LateBinding) },
    Rival { name: "prequal", make: || Box::new(latency::Prequal::default()) },
    Rival { name: "nba", make: || Box::new(split::HillClimbedSplit::default()) },
];

/// The baseline that divides multi-packets by size.
pub const PACKET_SIZE: &str = "packet-size";

/// The baselines.
pub fn baselines() -> impl Iterator<Item = Rival> {
    ALL.into_iter().take(BASELINES)
}

/// The rules from the literature.
pub fn from_literature() -> impl Iterator<Item = Rival> {
    ALL.into_iter().skip(BASELINES)
}

/// How many of [`ALL`] are baselines.
const BASELINES: usize = 5;

/// `packet-size` with a threshold in bytes.
pub fn packet_size(threshold: u32) -> Box<dyn Heuristic> {
    Box::new(baselines::PacketSize { threshold })
}

/// The rival of this name; `None` if there is none.
pub fn by_name(name: &str) -> Option<Rival> {
    ALL.into_iter().find(|rival| rival.name == name)
}

#[cfg(test)]
mod tests;
