//! Figures 6 and 8 to 15 of *VPN Gateways over Network Processors: Implementation and Evaluation* (Lin), and what becomes of
//! its claims.

mod cases;
mod charts;
mod claims;
mod runs;

use std::time::Instant;

use super::paper::{Study, carry_out, publish, verdicts};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

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
    let (outcomes, made) = carry_out(&cases, &keys, options, (platform_of, run), progress)?;
    let runs: Vec<Runs> = outcomes.into_iter().map(Runs).collect();
    let (claims, cases_csv, shown_by_case) = verdicts(&claims::all(), &cases, &runs);
    let study = Study {
        title: "A gateway on the IXP425, simulated",
        paper: "VPN Gateways over Network Processors: Implementation and Evaluation (Chiuan-Hung Lin, National Chiao Tung University)",
        chosen: "platforms/ixp425.toml and platforms/pentium3.toml",
        charts: charts::all(&runs[0]),
        claims,
        cases_csv,
        shown_by_case,
        runs_csv: runs[0].csv(),
        runs: made,
    };
    publish(study, &cases, options, began)
}

#[cfg(test)]
mod tests;
