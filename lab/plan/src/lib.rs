//! `convoy-lab sim plan`: simulates what this machine's engines would achieve with given traffic,
//! and finds the best window and the gain of each engine.
//!
//! The traffic is what the gateway itself would hand to its scheduler: the capture passes the
//! configuration's policies and SAs. Engine costs are those of calibration. The worker's time per
//! packet beside cryptography is measured with its own pipeline and an engine that does nothing.
//! The rest is [`convoy_sim`].

mod bus;
mod card;
mod drive;
mod measure;
mod overhead;
mod platform;
#[cfg(test)]
mod tests;
mod trace;

pub use measure::{Measured, measure};
pub use platform::{EngineCost, Machine};
pub use trace::Trace;

use convoy_assembly::assemble::AssembleError;
use convoy_sim::{Arrivals, Platform, Report, Simulation, SimulationError};
use serde::Serialize;

/// Windows to try, in packets.
const WINDOWS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// Throughput that may be given up for a smaller window, as a fraction.
const TOLERANCE: f64 = 0.005;

/// Why planning failed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The gateway could not be set up.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The capture cannot be read.
    #[error(transparent)]
    Port(#[from] convoy_port::PortError),
    /// No policy protects any packet of the capture.
    #[error(
        "{0}: no policy of the configuration protects any of its {1} packets; compare local_ts and remote_ts with the addresses in the capture"
    )]
    Unprotected(String, u64),
    /// An engine could not be calibrated.
    #[error(transparent)]
    Engine(#[from] convoy_engine::EngineError),
    /// A platform given as a card has no accelerator.
    #[error("{0} has no [[processor]] of kind \"accelerator\" that could be added to this machine")]
    Card(String),
    /// The simulation's input is invalid.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// Simulated result of one variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanOutcome {
    /// What is changed: a window, or an engine added or removed.
    pub change: String,
    /// The window, in packets.
    pub window: usize,
    /// Packets per second.
    pub packets_per_second: f64,
    /// Throughput of the encrypted bytes, in Mbit/s.
    pub throughput_mbps: f64,
    /// Throughput relative to the configuration as it stands.
    pub gain: f64,
    /// Mean packets per multi-packet.
    pub packets_per_multipacket: f64,
    /// Mean time from dispatch to completion, in ms.
    pub latency_ms: f64,
    /// 99th percentile of the time from arrival to departure, in ms; meaningful only where packets
    /// arrive at a given rate.
    pub sojourn_p99_ms: f64,
    /// Name of each processor and its share of the packets. All engines on the worker's core count
    /// as one processor, `worker`.
    pub share: Vec<(String, f64)>,
}

/// Result of planning.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Packets of the trace that a policy protects, and those that none does.
    pub packets: (u64, u64),
    /// Worker's time per packet before and after cryptography, in ns.
    pub worker_ns: (f64, f64),
    /// Costs of the engines.
    pub engines: Vec<EngineCost>,
    /// Costs of the hypothetical cards' accelerators, by their platforms.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub card_engines: Vec<EngineCost>,
    /// The configuration as it stands.
    pub as_configured: PlanOutcome,
    /// The variants by window.
    pub windows: Vec<PlanOutcome>,
    /// The smallest window whose throughput is within half a percent of the highest.
    pub best_window: usize,
    /// Variants with an engine added or removed and with hypothetical cards, at the best window.
    pub changes: Vec<PlanOutcome>,
}

/// Makes a plan for `machine` under `trace`. Packets arrive at `rate_mbps`; without it, there are
/// always more. Calls `progress` with the number of finished and of all simulations.
///
/// # Errors
/// [`PlanError::Simulation`] if a cost is invalid.
pub fn plan(
    machine: &Machine,
    trace: &Trace,
    rate_mbps: Option<f64>,
    progress: &mut dyn FnMut(usize, usize),
) -> Result<Plan, PlanError> {
    let changes = machine.changes();
    let total = 1 + WINDOWS.len() + changes.len();
    let mut done = 0;
    let mut outcome = |change: String, machine: &Machine, window: usize| {
        let report = simulate_with_shares(machine, window, rate_mbps, trace)?;
        done += 1;
        progress(done, total);
        Ok::<_, PlanError>(outcome_of(change, window, &report))
    };
    let configured = outcome("as configured".to_owned(), machine, machine.window)?;
    let lookaside = lookaside_share(machine, &configured.share);
    let base = configured.packets_per_second;
    let relative = |outcome: PlanOutcome| PlanOutcome { gain: outcome.packets_per_second / base, ..outcome };
    let windows = WINDOWS
        .into_iter()
        .map(|window| outcome(format!("window = {window}"), machine, window).map(relative))
        .collect::<Result<Vec<_>, _>>()?;
    let best_window = best(&windows);
    let changes = changes
        .into_iter()
        .map(|(change, machine)| outcome(change, &machine, best_window).map(relative))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Plan {
        packets: (trace.packets.len() as u64, trace.unprotected),
        worker_ns: machine.worker_ns(machine.window, lookaside),
        engines: machine.engines.clone(),
        card_engines: machine.card_engines().cloned().collect(),
        as_configured: relative(configured),
        windows,
        best_window,
        changes,
    })
}

/// Simulates the trace on a machine. The worker's time per packet depends on the engines' shares,
/// so a first run finds the shares and a second one uses them.
///
/// # Errors
/// [`PlanError::Simulation`] if the platform is invalid.
fn simulate_with_shares(
    machine: &Machine,
    window: usize,
    rate_mbps: Option<f64>,
    trace: &Trace,
) -> Result<Report, PlanError> {
    let report = simulate(machine.platform(window, rate_mbps, 0.0), trace)?;
    let shares: Vec<_> =
        report.processors.iter().map(|it| it.name.clone()).zip(report.share.iter().copied()).collect();
    match lookaside_share(machine, &shares) {
        0.0 => Ok(report),
        share => simulate(machine.platform(window, rate_mbps, share), trace),
    }
}

/// Share of the packets that went to engines off the worker's core.
fn lookaside_share(machine: &Machine, shares: &[(String, f64)]) -> f64 {
    let is_elsewhere =
        |name: &String| machine.engines.iter().any(|engine| !engine.is_inline && engine.name == *name);
    shares.iter().filter(|(name, _)| is_elsewhere(name)).map(|(_, share)| share).sum()
}

/// Simulates the trace on a platform.
///
/// # Errors
/// [`PlanError::Simulation`] if the platform is invalid.
pub fn simulate(platform: Platform, trace: &Trace) -> Result<Report, PlanError> {
    let simulation = Simulation { arrivals: Arrivals::BackToBack, ..Simulation::new(platform) };
    Ok(simulation.run(trace.packets.clone().into_iter())?)
}

fn outcome_of(change: String, window: usize, report: &Report) -> PlanOutcome {
    let names = report.processors.iter().map(|processor| processor.name.clone());
    PlanOutcome {
        change,
        window,
        packets_per_second: report.packets as f64 / (report.end_ms * 1e-3),
        throughput_mbps: report.throughput_mbps,
        gain: 1.0,
        packets_per_multipacket: report.packets_per_multipacket,
        latency_ms: report.latency_ms,
        sojourn_p99_ms: report.sojourn_percentiles_ms.p99,
        share: names.zip(report.share.iter().copied()).collect(),
    }
}

fn best(windows: &[PlanOutcome]) -> usize {
    let most = windows.iter().map(|outcome| outcome.packets_per_second).fold(0.0, f64::max);
    let is_good = |outcome: &&PlanOutcome| outcome.packets_per_second >= most * (1.0 - TOLERANCE);
    windows.iter().find(is_good).map_or(1, |outcome| outcome.window)
}
