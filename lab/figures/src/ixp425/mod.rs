//! Figures 6 and 8 to 15 of *VPN Gateways over Network Processors: Implementation and Evaluation*
//! (Lin), and the check of its claims.

mod cases;
mod charts;
mod claims;
mod runs;

use super::page::figures_named;
use super::paper::{Chance, Paper};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let paper = Paper {
        title: "A gateway on the IXP425, simulated",
        paper: "VPN Gateways over Network Processors: Implementation and Evaluation (Chiuan-Hung Lin, National Chiao Tung University)",
        chosen: "platforms/ixp425.toml and platforms/pentium3.toml",
        cases: cases::all()?,
        keys: keys(),
        platform_of,
        run,
        runs: Runs,
        chance: Chance::None(
            "all packets of a run have one length and arrive evenly, and no time depends on their SA",
        ),
        claims: claims::all(),
        pictured: |source, _| figures_named(source),
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
