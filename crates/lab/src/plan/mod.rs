//! `convoy sim plan`: what this machine's engines would do with this traffic, by simulation: the
//! best window, and what each engine brings.
//!
//! The traffic is what the gateway itself would hand to its scheduler: the capture goes through the
//! configuration's policies and SAs. Engines cost what calibration measured; what a worker does to
//! each packet beside cryptography is measured by its own pipeline with an engine that does
//! nothing. The rest is [`convoy_sim`].

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

use convoy_gateway::assemble::AssembleError;
use convoy_sim::{Arrivals, Platform, Report, Simulation, SimulationError};
use serde::Serialize;

/// Windows that are tried, in packets.
const WINDOWS: [usize; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
/// A smaller window is better, in throughput that it may cost.
const TOLERANCE: f64 = 0.005;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The gateway could not be put together.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    /// The capture cannot be read.
    #[error(transparent)]
    Port(#[from] convoy_port::PortError),
    /// No packet of the capture is protected.
    #[error(
        "{0}: no policy of the configuration protects any of its {1} packets; compare local_ts and remote_ts with the addresses in the capture"
    )]
    Unprotected(String, u64),
    /// An engine could not be measured.
    #[error(transparent)]
    Engine(#[from] convoy_engine::EngineError),
    /// A platform that should be a card has no accelerator.
    #[error("{0} has no [[processor]] of kind \"accelerator\" that could be added to this machine")]
    Card(String),
    /// The simulation was refused.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
}

/// What one setting comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlanOutcome {
    /// What is different: a window, an engine more or less.
    pub change: String,
    /// The window, in packets.
    pub window: usize,
    /// Packets a second.
    pub packets_per_second: f64,
    /// Of the bytes that are ciphered, in Mbit/s.
    pub throughput_mbps: f64,
    /// Throughput over that of the configuration as it stands.
    pub gain: f64,
    /// Packets in a multi-packet, mean.
    pub packets_per_multipacket: f64,
    /// From dispatch to completion, mean, in ms.
    pub latency_ms: f64,
    /// From arrival until it has left, 99th percentile, in ms; of use where packets arrive at a
    /// rate.
    pub sojourn_p99_ms: f64,
    /// Each processor's name and share of the packets. All engines on the worker's core are one
    /// processor, `worker`.
    pub share: Vec<(String, f64)>,
}

/// A plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// Packets of the trace that a policy protects, and those that none does.
    pub packets: (u64, u64),
    /// What a worker does to a packet before and after cryptography, in ns.
    pub worker_ns: (f64, f64),
    /// What each engine costs.
    pub engines: Vec<EngineCost>,
    /// What the accelerators of the cards cost that are not there, as their platforms say.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub card_engines: Vec<EngineCost>,
    /// The configuration as it stands.
    pub as_configured: PlanOutcome,
    /// Each window.
    pub windows: Vec<PlanOutcome>,
    /// The smallest window within half a percent of the highest throughput.
    pub best_window: usize,
    /// An engine more or less, and cards that are not there, with the best window.
    pub changes: Vec<PlanOutcome>,
}

/// Makes a plan for `machine` under `trace`. `rate_mbps` is the rate at which packets arrive;
/// without it there are always more. `progress` is told how many of how many simulations are done.
///
/// # Errors
/// [`PlanError::Simulation`] if a cost makes no sense.
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

/// One run of the trace on a machine. What the worker does depends on where the packets go, so the
/// shares of a first run give its time in a second.
///
/// # Errors
/// [`PlanError::Simulation`] if the platform makes no sense.
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

/// The share of the packets that went to engines which are not on the worker's core.
fn lookaside_share(machine: &Machine, shares: &[(String, f64)]) -> f64 {
    let is_elsewhere =
        |name: &String| machine.engines.iter().any(|engine| !engine.is_inline && engine.name == *name);
    shares.iter().filter(|(name, _)| is_elsewhere(name)).map(|(_, share)| share).sum()
}

/// One run of the trace.
///
/// # Errors
/// [`PlanError::Simulation`] if the platform makes no sense.
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
