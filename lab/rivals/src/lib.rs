//! Policies from the literature with which the gateway's own is compared. None of them is in the
//! gateway: the simulator and `cargo bench --bench policies` run them in the gateway's scheduler,
//! as [heuristics](convoy_scheduler::Heuristic).
//!
//! - `met`: the engine with the shortest processing time, whatever waits there (Braun et al. 2001).
//! - `olb`: the engine that becomes idle first, whatever the processing time (the same).
//! - `kpb`: the lowest finishing time among the k % of engines with the shortest processing time
//!   (Maheswaran et al. 1999).
//! - `min-min`, `max-min`: over the whole window, see [`BatchRule`] (the same). Their third rule,
//!   sufferage, is the gateway's own [`Policy::Sufferage`](convoy_scheduler::Policy::Sufferage).
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

mod batch;
mod immediate;
mod latency;
mod overtake;
mod pulled;
mod queues;
mod split;
mod whittle;

use convoy_scheduler::HeuristicFactory as Rival;

pub use batch::BatchRule;

/// All rivals.
pub const ALL: [Rival; 13] = [
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

/// The rival of this name; `None` if there is none.
pub fn by_name(name: &str) -> Option<Rival> {
    ALL.into_iter().find(|rival| rival.name == name)
}

#[cfg(test)]
mod tests;
