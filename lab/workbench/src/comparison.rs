//! All rules on one platform: their throughput with and without a window, and their latency under
//! the same load.

use std::sync::Arc;
use std::time::Duration;

use convoy_dataplane::costs::Costs;
use serde::Serialize;

use super::arrivals::Load;
use super::error::DemoError;
use super::measure::{Bench, Measurement, Plan};
use super::platform::{DemoEngine, Platform};
use super::rule::Rule;
use super::traffic::Traffic;
use super::verdict::Verdict;
use super::{ROUNDS, WINDOWS};

/// Load under which latencies are compared, relative to the scheduler's throughput.
const LOAD: f64 = 0.8;

/// Comparison of all rules on one platform.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Description of the platform.
    pub about: String,
    /// The ESP proposal.
    pub proposal: &'static str,
    /// Costs of the platform's engines.
    pub engines: Vec<DemoEngine>,
    /// With a window of 1, when saturated.
    pub without_window: Vec<Measurement>,
    /// With the usual window, when saturated.
    pub saturated: Vec<Measurement>,
    /// With the usual window, under the same load for all rules.
    pub offered: Vec<Measurement>,
    /// That load, in packets per second.
    pub offered_packets_per_second: f64,
    /// The scheduler's gain.
    pub verdict: Option<Verdict>,
}

impl Comparison {
    pub(crate) fn measured(&self) -> impl Iterator<Item = &Measurement> {
        self.without_window.iter().chain(&self.saturated).chain(&self.offered)
    }
}

/// Compares all rules on a platform; each run lasts `length`.
///
/// # Errors
/// [`DemoError`] if something cannot be set up.
pub(crate) fn compare(
    platform: Platform,
    traffic: &[Arc<Traffic>; 2],
    costs: &mut Costs,
    length: Duration,
) -> Result<Comparison, DemoError> {
    let rules = Rule::compared();
    let mut bench = Bench { platform: &platform, traffic, costs };
    let [narrow, wide] =
        WINDOWS.map(|window| Plan { window, load: Load::Saturating, rounds: ROUNDS, length });
    let saturated = bench.measure(&rules, wide)?;
    let without_window = bench.measure(&rules, narrow)?;
    // The first rule is the scheduler's default.
    let offered_packets_per_second = LOAD * saturated[0].packets_per_second;
    let load = Load::Offered(offered_packets_per_second);
    let offered = bench.measure(&rules, Plan { load, ..wide })?;
    let verdict = Verdict::of(&saturated, &offered);
    let Platform { about, proposal, engines, .. } = platform;
    Ok(Comparison {
        about,
        proposal,
        engines,
        without_window,
        saturated,
        offered,
        offered_packets_per_second,
        verdict,
    })
}
