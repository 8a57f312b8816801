//! Figure 1 of the paper on network security with FPGAs ("FPGAs" in this folder) and figure 3 of
//! *IPsec-Protected Transport of HDTV over IP* ("HDTV"), both by Bellows and others, and the check
//! of their claims.

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
        title: "HDTV through the GRIP card, simulated",
        paper: "IPsec-Protected Transport of HDTV over IP (HDTV below), and the paper on network security with FPGAs (FPGAs below), both by Bellows \
                and others",
        chosen: "platforms/grip-inline.toml",
        cases: cases::all()?,
        keys: keys(),
        platform_of,
        run,
        runs: Runs,
        chance: Chance::None("all packets have one length and one SA, and arrive evenly"),
        claims: claims::all(),
        pictured: |source, _| figures_named(source),
        charts: charts::all,
        csv: Runs::csv,
    };
    paper.make(options, progress)
}

#[cfg(test)]
mod tests;
