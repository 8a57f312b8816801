//! The figures of the papers and the check of their claims, by simulation: SVG, PNG and CSV for
//! each figure, a table of claims, and `index.html`, one page without other files, which has the
//! figures, the readings behind them and the claims side by side.
//!
//! [`make_figures`] makes all of this for one [`Paper`]. Each paper has a folder or file with its
//! cases and runs (what to simulate), charts or plots (what each figure shows) and claims (the
//! statements of the paper, each with its check). `small_packets.rs`, `readings.rs`, `plan.rs`,
//! `runs.rs`, `claims/` and `plots.rs` belong to the first paper, of which each claim is checked
//! under one of several readings; the others share `paper/`. A claim is checked with convoy's
//! choice of the open parameters, with other seeds where traffic is drawn, and over the range of
//! the open parameters: a [`ClaimVerdict`] has all results. `finding.rs` is what runs say of a
//! claim, `verdict.rs` what follows: a [`Verdict`] is [`Verdict::Shown`] only if the runs could
//! have come out otherwise. All papers share `tables.rs` and `page.rs`.
//!
//! A figure is data until it is drawn: `draw.rs` and `chart_draw.rs` make the same picture as SVG
//! and PNG. [`Drawing`] draws a figure from any data, and `convoy-lab bench` and `convoy-lab hdtv`
//! use it.
//!
//! This crate has no simulation of its own: runs are [`convoy_sim::Setting`]s on the platforms that
//! come with the simulator. It writes files into the folder that it is given, and prints nothing.

mod accelerators;
mod aggregation;
mod axes;
mod bars;
mod basis;
mod chart;
mod chart_draw;
mod claims;
mod draw;
mod drawing;
mod finding;
mod grip;
mod ixp425;
mod marks;
mod noise;
mod open;
mod page;
mod paper;
mod plan;
mod plots;
mod readings;
mod referee;
mod runs;
mod small_packets;
mod tables;
mod trace;
mod verdict;
mod written;

pub use drawing::{Drawing, DrawingForm};
pub use verdict::{ClaimVerdict, ReadingVerdict, Verdict, count_verdicts};

use std::path::{Path, PathBuf};
use std::time::Instant;

use convoy_sim::{PlatformError, SimulationError, TrafficError};
use serde::Serialize;

/// The papers whose figures can be made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paper {
    /// *Scheduling Small Packets in IPSec Multi-accelerator Based Systems*: figures 3 to 15.
    #[default]
    SmallPackets,
    /// *VPN Gateways over Network Processors*: figures 6 and 8 to 15.
    Ixp425,
    /// *IPsec-Protected Transport of HDTV over IP*, figure 3, and the paper on network security
    /// with FPGAs, figure 1.
    Grip,
    /// Published numbers of ConnectX-7, BlueField-3 and QAT, and the hybrid of card and CPU.
    Accelerators,
    /// Figures 6, 7 and 12 of the first paper with and without aggregation on the wire (RFC 9347).
    Aggregation,
    /// The scheduler's policies, their rivals from the literature, and bounds.
    Referee,
}

/// Options of [`make_figures`].
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// The paper whose figures are made.
    pub paper: Paper,
    /// Folder of the files; it is created if it does not exist.
    pub out: PathBuf,
    /// A trace that takes the place of the synthetic one, as [`Paper::SmallPackets`] permits: six
    /// columns of the Internet Traffic Archive, or a capture.
    pub trace: Option<PathBuf>,
    /// Packets of each run behind a figure; the paper uses 500,000.
    pub packets: u64,
    /// Packets of each run over the range of open parameters; there are thousands of these runs.
    pub range_packets: u64,
    /// Number of threads.
    pub threads: usize,
}

/// Summary of what was made.
#[derive(Clone, Debug, Serialize)]
pub struct FiguresMade {
    /// All claims, in the paper's order.
    pub claims: Vec<ClaimVerdict>,
    /// Number of runs behind the figures, and over the range of open parameters.
    pub runs: (usize, usize),
    /// Packets of each run, in the same order.
    pub packets: (u64, u64),
    /// Number of runs that repeat others with another seed, and packets of each.
    pub repetitions: (usize, u64),
    /// The noise that was measured, and how.
    pub noise: String,
    /// Description of convoy's choice of open parameters.
    pub chosen: String,
    /// Description of the trace, if a file took the place of the synthetic one.
    pub trace: Option<String>,
    /// The largest number of claims that any combination of the range shows, and a description of
    /// the combinations that show it.
    pub best: (usize, Vec<String>),
    /// How long the runs took, in seconds.
    pub seconds: f64,
    /// Every file that was written.
    pub files: Vec<PathBuf>,
}

/// Why no figures were made.
#[derive(Debug, thiserror::Error)]
pub enum FigureError {
    /// A platform that comes with the program is invalid.
    #[error(transparent)]
    Platform(#[from] PlatformError),
    /// A run is out of range.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TrafficError),
    /// A trace was given for another paper.
    #[error("a trace can only take the place of that of small-packets")]
    NoTrace,
    /// A file cannot be written.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Io(PathBuf, std::io::Error),
    /// A picture cannot be drawn.
    #[error("{path}: {what}", path = .0.display(), what = .1)]
    Drawing(PathBuf, String),
}

/// Makes all figures, tables and the report of a paper. `progress` is called with the number of
/// packets simulated so far and in total.
///
/// # Errors
/// [`FigureError`] says which file cannot be written.
pub fn make_figures(
    options: &FigureOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let began = Instant::now();
    if options.trace.is_some() && options.paper != Paper::SmallPackets {
        return Err(FigureError::NoTrace);
    }
    std::fs::create_dir_all(&options.out).map_err(|error| FigureError::Io(options.out.clone(), error))?;
    match options.paper {
        Paper::SmallPackets => small_packets::make(options, began, progress),
        Paper::Ixp425 => ixp425::make(options, progress),
        Paper::Grip => grip::make(options, progress),
        Paper::Accelerators => accelerators::make(options, progress),
        Paper::Aggregation => aggregation::make(options, progress),
        Paper::Referee => referee::make(options, progress),
    }
}

fn write(path: &Path, text: &str, files: &mut Vec<PathBuf>) -> Result<(), FigureError> {
    std::fs::write(path, text).map_err(|error| FigureError::Io(path.to_owned(), error))?;
    files.push(path.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests;
