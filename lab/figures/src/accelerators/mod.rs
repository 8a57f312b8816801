//! Commercial accelerators: published numbers of ConnectX-7, BlueField-3 and QAT, and the hybrid of
//! card and CPU by finishing time.

mod cases;
mod charts;
mod claims;
mod published;
mod runs;

use super::paper::{Chance, Paper, Repetition};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let paper = Paper {
        title: "Accelerators as people buy them, simulated",
        paper: "\"Nvidia ConnectX-7 by numbers\" (CX7 below) and \"Nvidia Bluefield-3 by numbers\" (BF3) of the project fastSwan, and messages of the Linux \
                kernel's mailing lists about QAT, June 2025",
        chosen: "platforms/connectx-7.toml, bluefield-3.toml, qat-gen4.toml",
        cases: cases::all()?,
        keys: keys(),
        platform_of,
        run,
        runs: Runs,
        chance: Chance::Seeds(Repetition {
            with_seed: runs::Platforms::with_seed,
            is_needed: runs::is_claimed,
        }),
        claims: claims::all(),
        pictured: |source, text| match source {
            of if of.starts_with("CX7") => vec![3],
            of if of.starts_with("BF3") => vec![4],
            "convoy" if text.contains("never more") || text.contains("unknown") => vec![1],
            "convoy" => vec![1, 2],
            _ => vec![5],
        },
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
