//! The scheduler before a referee: its rules, the rule as published and rivals from the literature,
//! all with the same rights, on several platforms, under several loads and with disturbances, and a
//! bound that no policy can exceed.

mod bound;
mod charts;
mod claims;
mod rows;
mod runs;
mod scenarios;
mod statistic;

use super::paper::{Chance, Paper};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let paper = Paper {
        title: "The scheduler before a referee, simulated",
        paper: "the comparisons of Maheswaran et al. (1999) and Braun et al. (2001), with multi-packets as tasks",
        chosen: "a window of 32, exact estimates, ten seeds",
        cases: scenarios::cases()?,
        keys: keys(),
        platform_of,
        run,
        runs: Runs,
        chance: Chance::WithinRuns(
            "each comparison is made seed by seed; a claim whose bound is within the 95 % interval is undecided",
        ),
        claims: claims::all(),
        pictured: |_, text| match text {
            text if text.starts_with("p99") => vec![2],
            text if text.contains("disturbance") => Vec::new(),
            _ => vec![1],
        },
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
