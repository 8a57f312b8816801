//! The scheduler before a referee: a full window by sufferage, the rule as published and rivals
//! from the literature, on several platforms and under several loads, and bounds that no policy can
//! exceed.

mod bound;
mod charts;
mod claims;
mod runs;
mod scenarios;

use super::paper::Paper;
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let paper = Paper {
        title: "The scheduler before a referee, simulated",
        paper: "the comparisons of Maheswaran et al. (1999) and Braun et al. (2001), with multi-packets as tasks",
        chosen: "a window of 32, exact estimates, 4 credits",
        cases: scenarios::cases()?,
        keys: keys(),
        platform_of,
        run,
        runs: Runs,
        claims: claims::all(),
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
