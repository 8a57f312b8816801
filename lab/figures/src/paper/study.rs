//! A paper's figures, tables and page, and how they are written.

use std::path::PathBuf;
use std::time::Instant;

use convoy_sim::parallel::for_each;

use crate::chart::Chart;
use crate::open::{self, Case};
use crate::page::{Page, Picture};
use crate::verdict::ClaimVerdict;
use crate::{FigureError, FigureOptions, FiguresMade, draw, tables, write};

/// The figures of a paper, before they are written.
pub(super) struct Study {
    pub(super) title: &'static str,
    pub(super) paper: &'static str,
    pub(super) chosen: &'static str,
    pub(super) charts: Vec<Chart>,
    pub(super) claims: Vec<ClaimVerdict>,
    /// The figures that each claim is about.
    pub(super) pictured: Vec<Vec<u32>>,
    /// A table of each claim in each case, and how many claims each case shows.
    pub(super) cases_csv: String,
    pub(super) shown_by_case: Vec<usize>,
    pub(super) runs_csv: String,
    /// Number of runs with convoy's choice, and in the other cases.
    pub(super) runs: (usize, usize),
    /// Number of runs with other seeds, and packets of each.
    pub(super) repetitions: (usize, u64),
    /// How the noise was measured.
    pub(super) noise: String,
}

/// Draws the charts and writes the tables and the report.
///
/// # Errors
/// [`FigureError`] says which file cannot be written.
pub(super) fn publish<P>(
    study: Study,
    cases: &[Case<P>],
    options: &FigureOptions,
    began: Instant,
) -> Result<FiguresMade, FigureError> {
    let stem = |chart: &Chart| options.out.join(format!("figure-{:02}", chart.number));
    for_each(&study.charts, options.threads, |chart| draw::draw(chart, &stem(chart)), |_, drawn| drawn)?;
    let mut files: Vec<PathBuf> = Vec::new();
    let mut svgs = Vec::with_capacity(study.charts.len());
    for chart in &study.charts {
        let svg = stem(chart).with_extension("svg");
        svgs.push(std::fs::read_to_string(&svg).map_err(|error| FigureError::Io(svg.clone(), error))?);
        files.extend([svg, stem(chart).with_extension("png")]);
        write(&stem(chart).with_extension("csv"), &chart.csv(), &mut files)?;
    }
    let about = about(&study, cases, options);
    let seconds = began.elapsed().as_secs_f64();
    for (name, text) in [
        ("claims.csv", tables::csv(&study.claims)),
        ("claims.md", tables::markdown(&about, &study.claims)),
        ("claims-range.csv", study.cases_csv.clone()),
        ("runs.csv", study.runs_csv.clone()),
        ("index.html", page(&study, &about, svgs).html()),
    ] {
        write(&options.out.join(name), text.as_str(), &mut files)?;
    }
    files.sort();
    Ok(FiguresMade {
        claims: study.claims,
        runs: study.runs,
        packets: (options.packets, options.range_packets),
        repetitions: study.repetitions,
        noise: study.noise,
        chosen: study.chosen.to_owned(),
        trace: None,
        best: open::best(cases, &study.shown_by_case),
        seconds,
        files,
    })
}

/// Description of the runs.
fn about<P>(study: &Study, cases: &[Case<P>], options: &FigureOptions) -> String {
    format!(
        "{} runs behind the figures, with convoy's choice of what the paper leaves open ({}), {} packets in each trial; {} runs \
         over the range, {} packets in each trial, in which one thing at a time is another (what that does not touch is not run again): {}. {}.",
        study.runs.0,
        study.chosen,
        options.packets,
        study.runs.1,
        options.range_packets,
        open::described(cases),
        study.noise
    )
}

fn page<'a>(study: &'a Study, about: &str, svgs: Vec<String>) -> Page<'a> {
    let picture = |(chart, svg): (&Chart, String)| Picture {
        number: chart.number,
        title: chart.title.clone(),
        reading: chart.reading.to_owned(),
        note: chart.note.clone(),
        svg,
        csv: chart.csv(),
    };
    Page {
        title: study.title,
        paper: study.paper,
        about: about.to_owned(),
        readings: Vec::new(),
        pictures: study.charts.iter().zip(svgs).map(picture).collect(),
        claims: &study.claims,
        pictured: &study.pictured,
    }
}
