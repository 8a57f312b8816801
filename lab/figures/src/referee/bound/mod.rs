//! A bound on the throughput of any policy, even of one that knows all packets in advance: a linear
//! programme over all groups that a window of `W` packets can form from the traffic.
//!
//! The groups of an SA divide its packets into runs. The variables of the programme are the
//! fractions in which each SA is divided in each possible way, and each group goes to each engine.
//! The least time `T` is sought such that
//! - each engine works for at most `T`, less what it loses to stalls, and each bus for at most `T`;
//! - on average over all arrivals at most `W` packets stand in the window: a packet stands there
//!   from its own arrival to that of the last one of its group;
//! - and on average at most as many SAs are in an engine's cache as it holds.
//!
//! There are too many groups to list them. With prices on engines, buses, the window and the cache,
//! the cheapest groups of each SA are found by dynamic programming (`partition.rs`), and the prices
//! by cutting planes (`planes.rs`). Whatever the prices, the cheapest groups bound `T` from below,
//! so that the result is a bound even if the search ends early.

mod machine;
mod online;
mod partition;
mod planes;

use convoy_sim::Platform;

use machine::{Machine, Prices};
pub(super) use online::{Drawn, online_bound};
use planes::Planes;

/// A packet as the bound sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub(super) sa: u32,
    pub(super) bytes: u32,
}

/// Rounds of the search for the best prices.
const ROUNDS: usize = 80;
/// Where it ends: by which part better prices could still raise the bound.
const PRECISION: f64 = 5e-4;

/// Packets per second that no policy exceeds with this traffic in a run with this seed.
pub(super) fn bound(platform: &Platform, traffic: &[Packet], seed: u64) -> f64 {
    let machine = Machine::new(platform, traffic.len(), seed);
    let sas = partition::by_sa(traffic);
    let mut planes = Planes::new(&machine);
    let mut least_s = machine.after_s(traffic);
    // What stalls take depends on the time, which is not known yet. Those within a time that is
    // needed in any case are certain.
    for _ in 0..6 {
        let lost = machine.lost_s(least_s);
        let needed = least_time(&machine, &sas, &mut planes, &lost).max(least_s);
        let is_settled = needed <= least_s * (1.0 + PRECISION);
        least_s = needed;
        if is_settled || lost.iter().all(|lost| *lost == 0.0) && machine.never_stalls() {
            break;
        }
    }
    traffic.len() as f64 / least_s
}

/// The least time in seconds, from below, if engines lose this much of it.
fn least_time(machine: &Machine, sas: &[partition::Sa], planes: &mut Planes, lost: &[f64]) -> f64 {
    let mut best = 0.0f64;
    let mut prices = Prices::equal(machine);
    for _ in 0..ROUNDS {
        let plan = partition::cheapest(machine, sas, &prices);
        best = best.max(plan.time(&prices, lost));
        planes.add(plan);
        let Some((better, at_most)) = planes.best(lost) else { break };
        if at_most <= best * (1.0 + PRECISION) {
            break;
        }
        prices = better;
    }
    best
}

#[cfg(test)]
mod exact;
#[cfg(test)]
mod tests;
