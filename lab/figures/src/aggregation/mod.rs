//! Figures 6, 7 and 12 of *Scheduling Small Packets in IPSec Multi-accelerator Based Systems* with
//! and without aggregation on the wire (RFC 9347), on the paper's platform and on the GRIP card's.

mod cases;
mod charts;
mod claims;
mod runs;

use super::paper::Paper;
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
        claims: claims::all(),
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
