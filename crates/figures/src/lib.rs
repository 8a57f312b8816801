//! The figures of the papers and the check of their claims, by simulation: SVG, PNG and CSV for
//! each figure, a table of claims, and a report in one HTML file.
//!
//! [`make_figures`] makes all of this for one [`Paper`]. Each paper has a folder or file with its
//! cases and runs (what to simulate), charts or plots (what each figure shows) and claims (the
//! statements of the paper, each with its check). `plan.rs`, `runs.rs`, `claims/` and `plots.rs`
//! belong to the first paper; the others share `paper.rs`. A claim is checked with convoy's choice
//! of the open parameters, and over their range: a [`ClaimVerdict`] has both results.
//!
//! A figure is data until it is drawn: `draw.rs` and `chart_draw.rs` make the same picture as SVG
//! and PNG. [`Drawing`] draws a figure from any data, and `convoy bench` and `convoy hdtv` use it.
//!
//! This crate has no simulation of its own: runs are [`convoy_sim::Setting`]s on the platforms that
//! come with the simulator. It writes files into the folder that it is given, and prints nothing.

mod accelerators;
mod aggregation;
mod axes;
mod bars;
mod chart;
mod chart_draw;
mod claims;
mod draw;
mod drawing;
mod grip;
mod ixp425;
mod marks;
mod paper;
mod plan;
mod plots;
mod runs;
mod written;

pub use drawing::{Drawing, DrawingForm};

use std::path::{Path, PathBuf};
use std::time::Instant;

use convoy_sim::parallel::for_each;
use convoy_sim::{Platform, PlatformError, SimulationError};
use serde::Serialize;

use claims::Range;
use plan::Plan;

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
}

/// Options of [`make_figures`].
#[derive(Clone, Debug)]
pub struct FigureOptions {
    /// The paper whose figures are made.
    pub paper: Paper,
    /// Folder of the files; it is created if it does not exist.
    pub out: PathBuf,
    /// Packets of each run behind a figure; the paper uses 500,000.
    pub packets: u64,
    /// Packets of each run over the range of open parameters; there are thousands of these runs.
    pub range_packets: u64,
    /// Number of threads.
    pub threads: usize,
}

/// How often a claim is shown under one reading of the rule for full queues.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reading {
    /// What happens to a multi-packet if the queue of its best processor is full: `wait` or `skip`.
    pub full_queue: String,
    /// Unit of the depth: `multi-packets` or `packets`.
    pub depth_unit: String,
    /// Number of combinations of the other open parameters with which it is shown.
    pub shown: usize,
    /// Number of combinations that were tried.
    pub of: usize,
}

/// The result of a claim.
#[derive(Clone, Debug, Serialize)]
pub struct ClaimVerdict {
    /// Section and figure of the paper.
    pub source: String,
    /// The claim.
    pub claim: String,
    /// Whether it is shown with convoy's choice of open parameters.
    pub shown: bool,
    /// The numbers that show it.
    pub measured: String,
    /// Number of combinations of open parameters with which it is shown.
    pub range_shown: usize,
    /// Number of combinations of open parameters that were tried.
    pub range_of: usize,
    /// The values of open parameters that decide it.
    pub range: String,
    /// How often it is shown under each reading of the rule for full queues.
    pub readings: Vec<Reading>,
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
    /// Description of convoy's choice of open parameters.
    pub chosen: String,
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
    std::fs::create_dir_all(&options.out).map_err(|error| FigureError::Io(options.out.clone(), error))?;
    match options.paper {
        Paper::SmallPackets => small_packets(options, began, progress),
        Paper::Ixp425 => ixp425::make(options, progress),
        Paper::Grip => grip::make(options, progress),
        Paper::Accelerators => accelerators::make(options, progress),
        Paper::Aggregation => aggregation::make(options, progress),
    }
}

fn small_packets(
    options: &FigureOptions,
    began: Instant,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let platform = Platform::open("pci-accelerators")?;
    let mut plan = Plan::new(&platform, options);
    plan.carry_out(&platform, options.threads, progress)?;
    let Verdicts { claims, ranges_csv, best } = verdicts(&plan);
    let mut made = FiguresMade {
        claims,
        runs: plan.counts(),
        packets: (options.packets, options.range_packets),
        chosen: plan.choice(),
        best,
        seconds: began.elapsed().as_secs_f64(),
        files: Vec::new(),
    };
    let chosen = plan.chosen();
    let figures = plots::all(&chosen);
    let stem = |number: u32| options.out.join(format!("figure-{number:02}"));
    let drawn = |figure: &plots::Figure| draw::draw(figure, &stem(figure.number));
    for_each(&figures, options.threads, drawn, |_, drawn| drawn)?;
    let mut write = |name: &str, text: &str| write(&options.out.join(name), text, &mut made.files);
    for figure in &figures {
        write(&format!("figure-{:02}.csv", figure.number), &figure.csv())?;
    }
    write("runs.csv", &written::runs_csv(&chosen))?;
    write("claims-range.csv", &ranges_csv)?;
    let svgs = figures.iter().map(|figure| {
        let path = stem(figure.number).with_extension("svg");
        std::fs::read_to_string(&path).map_err(|error| FigureError::Io(path, error))
    });
    let svgs = svgs.collect::<Result<Vec<String>, _>>()?;
    let ends = ["svg", "png"];
    let pictures = figures.iter().flat_map(|figure| ends.map(|end| stem(figure.number).with_extension(end)));
    made.files.extend(pictures);
    let (table, list) = (written::claims_csv(&made.claims), written::claims_markdown(&made));
    let report = written::html(&made, &figures, &svgs);
    for (name, text) in [("claims.csv", table), ("claims.md", list), ("report.html", report)] {
        self::write(&options.out.join(name), &text, &mut made.files)?;
    }
    made.files.sort();
    Ok(made)
}

/// Every claim, with convoy's choice and over the range.
struct Verdicts {
    claims: Vec<ClaimVerdict>,
    /// A table of all combinations.
    ranges_csv: String,
    /// See [`FiguresMade::best`].
    best: (usize, Vec<String>),
}

fn verdicts(plan: &Plan) -> Verdicts {
    let mut table = String::from("claim,full_queue,depth_unit,depth,t_init_us,locality,shown,measured\n");
    let (chosen, range) = (plan.chosen(), plan.range());
    let mut counts = vec![0; range.len()];
    let verdicts = claims::all().into_iter().enumerate().map(|(number, claim)| {
        let finding = (claim.check)(&chosen);
        let mut shown = Vec::with_capacity(range.len());
        for ((open, runs), count) in range.iter().zip(&mut counts) {
            let finding = (claim.check)(runs);
            *count += usize::from(finding.shown);
            table.push_str(&format!(
                "{},{},{},{},{},{},{},\"{}\"\n",
                number + 1,
                open.full_queue,
                open.depth_unit,
                open.depth,
                open.t_init_us,
                open.locality,
                finding.shown,
                finding.measured
            ));
            shown.push((*open, finding.shown));
        }
        let range = Range::new(&shown);
        ClaimVerdict {
            source: claim.source.to_owned(),
            claim: claim.text.to_owned(),
            shown: finding.shown,
            measured: finding.measured,
            range_shown: range.shown,
            range_of: range.of,
            range: range.text,
            readings: range.readings,
        }
    });
    let claims = verdicts.collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let best = range.iter().zip(&counts).filter(|(_, count)| **count == most);
    let best = (most, best.map(|((open, _), _)| open.to_string()).collect());
    Verdicts { claims, ranges_csv: table, best }
}

fn write(path: &Path, text: &str, files: &mut Vec<PathBuf>) -> Result<(), FigureError> {
    std::fs::write(path, text).map_err(|error| FigureError::Io(path.to_owned(), error))?;
    files.push(path.to_owned());
    Ok(())
}

#[cfg(test)]
mod tests;
