//! Figures 6 and 8 to 15 of *VPN Gateways over Network Processors: Implementation and Evaluation* (Lin), and what becomes of
//! its claims.

mod cases;
mod charts;
mod claims;
mod runs;

use std::time::Instant;

use super::paper::{Study, carry_out, publish, verdicts};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, run};

/// Makes all of it; `progress` hears how many packets have been simulated, and of how many.
///
/// # Errors
/// [`FigureError`] says which file cannot be written.
pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let began = Instant::now();
    let (cases, keys) = (cases::all()?, keys());
    let outcomes = carry_out(&cases, &keys, options, run, progress)?;
    let runs: Vec<Runs> = outcomes.into_iter().map(Runs).collect();
    let (claims, cases_csv) = verdicts(&claims::all(), &cases, &runs);
    let study = Study {
        title: "A gateway on the IXP425, simulated",
        paper: "VPN Gateways over Network Processors: Implementation and Evaluation (Chiuan-Hung Lin, National Chiao Tung University)",
        chosen: "platforms/ixp425.toml and platforms/pentium3.toml",
        charts: charts::all(&runs[0]),
        claims,
        cases_csv,
        runs_csv: runs[0].csv(),
        runs: (keys.len(), keys.len() * (cases.len() - 1)),
    };
    publish(study, &cases, options, began)
}

#[cfg(test)]
mod tests;
