//! Gateways in one process, whose packets are counted and compared one by one.
//!
//! Two gateways, connected by a link in memory, are set up from a configuration
//! ([`convoy_assembly::assemble`]) and fed with traffic; every packet that arrives is compared with
//! what was sent, and results are returned as plain data, which the caller prints.
//!
//! A [`Platform`] is a set of engines, a [`Rule`] a policy with its options, and a [`Trial`] runs
//! both under a load; [`Bench`] runs trials of several rules in turns and returns a [`Measurement`]
//! for each, whose [`Spread`] says what a difference is worth. The demonstration ([`run`]) and the
//! benches of policies and accelerators are built on these; a [`ModeComparison`] has the same
//! traffic in tunnel mode and with IP-TFS.
//!
//! `benches/throughput` measures engines and the whole path against ipsec-mb on its own. Gateways
//! that are measured only by the packets that they forward, as third-party ones are, belong to
//! `convoy-measure`.
//!
//! Nothing here prints or parses arguments, and no product crate depends on it.

mod arrivals;
mod capture;
mod classes;
mod comparison;
mod core_use;
mod cores;
mod cpu;
mod delivery;
mod demo;
mod error;
mod failing;
mod iptfs;
mod machine;
mod measure;
mod platform;
mod port;
mod report;
mod rule;
mod sites;
mod spread;
mod traffic;
mod trial;
mod turns;
mod verdict;

pub use arrivals::Load;
pub use capture::DemoCapture;
pub use classes::{ClassFigures, ClassTrial};
pub use comparison::Comparison;
pub use core_use::CoreUse;
pub use delivery::DeliveryLatency;
pub use demo::{DemoConfig, DemoReport, run};
pub use error::DemoError;
pub use iptfs::ModeComparison;
pub use machine::DemoMachine;
pub use measure::{Bench, Measurement, Plan, RoundFigures};
pub use platform::{DemoEngine, Platform, TunnelSet};
pub use report::{DemoEngineReport, LiveView, TrialReport};
pub use rule::{ClassCredits, Rule};
pub use spread::Spread;
pub use traffic::{IMIX, Traffic};
pub use trial::Trial;
pub use turns::Progress;
pub use verdict::{Against, Verdict, WorstCase};

use std::sync::Arc;

use sites::TUNNELS;
use traffic::{both_ways, mixed};

/// Packets per direction before they repeat.
const TRAFFIC_PACKETS: usize = 20_000;

/// The demo's traffic without a capture, for both directions.
pub fn imix(seed: u64) -> [Arc<Traffic>; 2] {
    both_ways(Vec::new(), TUNNELS, TRAFFIC_PACKETS, seed).map(Arc::new)
}

/// As [`imix`], with urgent packets: those of the first of the tunnels have the DSCP of expedited
/// forwarding, which a [rule with classes](Rule::with_classes) puts into the higher class.
pub fn urgent_imix(seed: u64) -> [Arc<Traffic>; 2] {
    both_ways(Vec::new(), TUNNELS, TRAFFIC_PACKETS, seed).map(|traffic| Arc::new(traffic.with_urgent()))
}

/// UDP packets between random hosts of `tunnels` tunnels, for both directions. `lengths` are
/// lengths in bytes, IP header included, with their weights. Lengths are limited to 1,400 bytes, so
/// that nothing is fragmented, and tunnels to 256.
pub fn lengths(lengths: &[(usize, u32)], tunnels: usize, seed: u64) -> [Arc<Traffic>; 2] {
    mixed(Vec::new(), lengths, tunnels, TRAFFIC_PACKETS, seed).map(Arc::new)
}
