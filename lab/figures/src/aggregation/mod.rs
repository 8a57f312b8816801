//! Figures 6, 7 and 12 of *Scheduling Small Packets in IPSec Multi-accelerator Based Systems* with
//! and without aggregation on the wire (RFC 9347), on the paper's platform and on the GRIP card's.

mod cases;
mod charts;
mod claims;
mod runs;

use super::paper::{Chance, Paper, Repetition};
use super::{FigureError, FigureOptions, FiguresMade};
use runs::{Runs, keys, platform_of, run};

pub(super) fn make(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let paper = Paper {
        title: "Small packets with aggregation on the wire, simulated",
        paper: "the traffic and figures of Scheduling Small Packets in IPSec Multi-accelerator Based Systems (Taddeo, Ferrante, Piuri), with RFC 9347",
        chosen: "platforms/pci-accelerators.toml and platforms/grip.toml, a path MTU of 1500 bytes",
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
        pictured: |source, _| pictured(source),
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

/// The figures of a claim, whose source names the paper's figure and the platform.
fn pictured(source: &str) -> Vec<u32> {
    let of_paper: &[u32] = match source {
        of if of.starts_with("figure 6") => &[1],
        of if of.starts_with("figure 7") => &[2],
        of if of.starts_with("figure 12") => &[3, 4],
        _ => &[5],
    };
    let card = of_paper.iter().map(|number| number + 5);
    match source {
        of if of.ends_with("GRIP card") => card.collect(),
        of if of.ends_with("both") => of_paper.iter().copied().chain(card).collect(),
        _ => of_paper.to_vec(),
    }
}

#[cfg(test)]
mod tests;
