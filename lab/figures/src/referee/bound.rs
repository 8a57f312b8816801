//! Bounds on the throughput of any policy, by linear programmes over the multi-packets that a run
//! has formed.
//!
//! Every engine, the bus and a stage after cryptography work for at most the whole time. A policy
//! that knew all multi-packets in advance and could divide them at will would need the least time
//! in which all of them can be distributed: the clairvoyant bound. A split by fixed fractions,
//! whatever the size of a multi-packet, needs more.

use std::collections::HashMap;

use convoy_sim::{Platform, ProcessorSpec, Served};
use microlp::{ComparisonOp, OptimizationDirection, Problem, SolveOutcome};

/// Multi-packets that are alike: sums over them.
#[derive(Clone, Copy, Default)]
struct Alike {
    multi_packets: f64,
    packets: f64,
    blocks: f64,
    bytes: f64,
}

/// The multi-packets of a run.
#[derive(Default)]
pub(super) struct Formed {
    /// By their size in blocks, coarsely, and whether their SA is one of those with the lowest
    /// numbers, which an engine's cache holds.
    alike: HashMap<(u32, bool), Alike>,
    cached: u32,
    packets: f64,
}

impl Formed {
    /// Of a run on a platform.
    pub(super) fn new(platform: &Platform) -> Self {
        let cached = platform.processors.iter().filter_map(|of| of.cache).map(|cache| cache.sas as u32).max();
        Self { cached: cached.unwrap_or(0), ..Self::default() }
    }

    /// Adds a multi-packet.
    pub(super) fn add(&mut self, served: &Served<'_>) {
        let blocks: u32 = served.packets.iter().map(|packet| packet.bytes.div_ceil(16)).sum();
        // Eight sizes for each power of two.
        let size = (f64::from(blocks.max(1)).log2() * 8.0) as u32;
        let alike = self.alike.entry((size, served.sa < self.cached)).or_default();
        alike.multi_packets += 1.0;
        alike.packets += served.packets.len() as f64;
        alike.blocks += f64::from(blocks);
        alike.bytes += served.packets.iter().map(|packet| f64::from(packet.bytes)).sum::<f64>();
        self.packets += served.packets.len() as f64;
    }

    /// Packets per second that no policy exceeds with these multi-packets, and that no split by
    /// fixed fractions exceeds; 0 if there are none.
    pub(super) fn bounds(&self, platform: &Platform) -> (f64, f64) {
        // In the order of size, so that the result does not depend on that of a hash table.
        let mut keys: Vec<&(u32, bool)> = self.alike.keys().collect();
        keys.sort_unstable();
        let all: Vec<(Alike, bool)> = keys.into_iter().map(|key| (self.alike[key], key.1)).collect();
        let each: Vec<Vec<(Alike, bool)>> = all.iter().map(|one| vec![*one]).collect();
        let rate = |parts: &[Vec<(Alike, bool)>]| self.packets / makespan(platform, parts);
        if all.is_empty() { (0.0, 0.0) } else { (rate(&each), rate(&[all])) }
    }
}

/// The least time in seconds in which all parts can be distributed over a platform's engines, each
/// in any fractions.
fn makespan(platform: &Platform, parts: &[Vec<(Alike, bool)>]) -> f64 {
    let engines: Vec<&ProcessorSpec> =
        platform.processors.iter().flat_map(|spec| std::iter::repeat_n(spec, spec.count)).collect();
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let time = problem.add_var(1.0, (0.0, f64::INFINITY));
    let mut of_engine = vec![Vec::new(); engines.len()];
    let mut of_bus = Vec::new();
    for part in parts {
        let fractions: Vec<_> = engines.iter().map(|_| problem.add_var(0.0, (0.0, 1.0))).collect();
        problem.add_constraint(
            fractions.iter().map(|fraction| (*fraction, 1.0)).collect::<Vec<_>>(),
            ComparisonOp::Eq,
            1.0,
        );
        for ((engine, fraction), row) in engines.iter().zip(&fractions).zip(&mut of_engine) {
            let sum = |of: fn(&Platform, &ProcessorSpec, &Alike, bool) -> f64| {
                part.iter().map(|(alike, is_cached)| of(platform, engine, alike, *is_cached)).sum::<f64>()
            };
            let (work, transfers) = (sum(processing), sum(transfers));
            let overlaps = engine.prefetch && engine.write_buffer;
            row.push((*fraction, if overlaps { work } else { work + transfers }));
            of_bus.push((*fraction, transfers));
        }
    }
    for mut row in of_engine.into_iter().chain([of_bus]) {
        row.push((time, -1.0));
        problem.add_constraint(row, ComparisonOp::Le, 0.0);
    }
    let after: f64 = parts.iter().flatten().map(|(alike, _)| afterwards(platform, alike)).sum();
    problem.add_constraint([(time, 1.0)], ComparisonOp::Ge, after);
    match problem.solve() {
        Ok(SolveOutcome::Solution(solution)) => solution.objective(),
        // Neither happens: the problem is feasible and bounded, and has no limit of time.
        Ok(SolveOutcome::Interrupted(_)) | Err(_) => f64::INFINITY,
    }
}

/// The time that an engine needs for multi-packets, in seconds, on average over its deviations.
fn processing(platform: &Platform, engine: &ProcessorSpec, alike: &Alike, is_cached: bool) -> f64 {
    let t_init = platform.reference.t_init_us * engine.init_ratio;
    let t_block = 128.0 / platform.reference.block_mbps * engine.enc_ratio;
    let miss = engine.cache.filter(|_| !is_cached).map_or(0.0, |cache| cache.miss_us);
    let deviation = engine.deviation.unwrap_or_default();
    let lost = deviation.stall_us / (deviation.stall_us + deviation.stall_every_us);
    let exact = (t_init + miss) * alike.multi_packets + t_block * alike.blocks;
    exact * deviation.ratio / (1.0 - lost) * 1e-6
}

/// The time that their transfers in and out occupy an engine's bus, in seconds.
fn transfers(platform: &Platform, engine: &ProcessorSpec, alike: &Alike, _: bool) -> f64 {
    let bus = platform.buses.iter().find(|bus| Some(&bus.name) == engine.bus.as_ref());
    bus.map_or(0.0, |bus| {
        let bytes = alike.bytes + f64::from(bus.packet_bytes) * alike.packets;
        let cycles = f64::from(bus.address_cycles) * alike.multi_packets + bytes / f64::from(bus.width_bytes);
        2.0 * cycles / (bus.clock_mhz * 1e6)
    })
}

/// The time of the slowest stage after cryptography, in seconds.
fn afterwards(platform: &Platform, alike: &Alike) -> f64 {
    let stages = platform.stages.iter().filter(|stage| stage.enabled);
    let time = |stage: &convoy_sim::StageSpec| {
        (stage.packet_us * 1e-6 * alike.packets + stage.byte_ns * 1e-9 * alike.bytes) / stage.servers as f64
    };
    stages.map(time).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use convoy_sim::Setting;

    #[test]
    fn one_engine_is_bounded_by_its_own_time() {
        let mut platform = Platform::open("pci-accelerators").expect("it comes with the program");
        platform.set_accelerators(0);
        let setting = Setting { pattern: Some("600".to_owned()), packets: Some(2_000), ..Setting::default() };
        let mut formed = Formed::new(&platform);
        let report =
            setting.run_observed(&platform, &mut |served: &Served<'_>| formed.add(served)).expect("it runs");
        let (bound, split) = formed.bounds(&platform);
        let reached = report.packets as f64 / report.end_ms * 1e3;
        assert!((reached / bound - 1.0).abs() < 0.01, "{reached} of {bound}");
        assert!((split / bound - 1.0).abs() < 1e-6);
    }

    #[test]
    fn sizes_matter_where_engines_differ_and_not_for_a_fixed_split() {
        let mut platform = Platform::open("pci-accelerators").expect("it comes with the program");
        platform.processors[0].init_ratio = 0.1;
        let setting =
            Setting { pattern: Some("imix".to_owned()), packets: Some(5_000), ..Setting::default() };
        let mut formed = Formed::new(&platform);
        setting.run_observed(&platform, &mut |served: &Served<'_>| formed.add(served)).expect("it runs");
        let (bound, split) = formed.bounds(&platform);
        assert!(bound > split * 1.01, "{bound} {split}");
    }
}
