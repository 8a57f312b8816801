//! Figures 3 to 15 of *Scheduling Small Packets in IPSec Multi-accelerator Based Systems*, and the
//! check of its claims, each under the reading with which its section's figures are possible.

use std::path::PathBuf;
use std::time::Instant;

use convoy_sim::Platform;
use convoy_sim::parallel::for_each;

use super::basis::Basis;
use super::claims::{self, Claim, Range, Scope, TRACE_LOCALITY};
use super::finding::{Evidence, described_seeds};
use super::page::figures_named;
use super::plan::Plan;
use super::readings::Reading;
use super::runs::Runs;
use super::verdict::{ClaimVerdict, ReadingVerdict, Verdict};
use super::{FigureError, FigureOptions, FiguresMade, draw, plots, tables, write, written};

pub(super) fn make(
    options: &FigureOptions,
    began: Instant,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FiguresMade, FigureError> {
    let platform = Platform::open("pci-accelerators")?;
    let mut plan = Plan::new(&platform, options)?;
    plan.carry_out(&platform, options.threads, progress)?;
    let Verdicts { claims, ranges_csv, best } = verdicts(&plan);
    let mut made = FiguresMade {
        claims,
        runs: plan.counts(),
        packets: (options.packets, options.range_packets),
        repetitions: plan.repetitions(),
        noise: written::noise(&plan),
        chosen: plan.described(),
        trace: plan.trace(),
        best,
        seconds: began.elapsed().as_secs_f64(),
        files: Vec::new(),
    };
    let figures = plots::all(&|reading| plan.runs(reading));
    let svgs = draw_all(&figures, options, &mut made.files)?;
    let pictured: Vec<Vec<u32>> = made.claims.iter().map(|claim| figures_named(&claim.source)).collect();
    let page = written::page(&made, &figures, svgs, &pictured, plan.readings()).html();
    for (name, text) in [
        ("runs.csv", written::runs_csv(&|reading| plan.runs(reading))),
        ("claims.csv", tables::csv(&made.claims)),
        ("claims-readings.csv", written::readings_csv(&made.claims)),
        ("claims-range.csv", ranges_csv),
        ("claims.md", tables::markdown(&written::about(&made), &made.claims)),
        ("index.html", page),
    ] {
        write(&options.out.join(name), &text, &mut made.files)?;
    }
    made.files.sort();
    Ok(made)
}

/// Draws all figures, writes their numbers, and returns the SVGs.
fn draw_all(
    figures: &[plots::Figure],
    options: &FigureOptions,
    files: &mut Vec<PathBuf>,
) -> Result<Vec<String>, FigureError> {
    let stem = |number: u32| options.out.join(format!("figure-{number:02}"));
    let drawn = |figure: &plots::Figure| draw::draw(figure, &stem(figure.number));
    for_each(figures, options.threads, drawn, |_, drawn| drawn)?;
    let mut svgs = Vec::with_capacity(figures.len());
    for figure in figures {
        let path = stem(figure.number).with_extension("svg");
        svgs.push(std::fs::read_to_string(&path).map_err(|error| FigureError::Io(path.clone(), error))?);
        files.extend([path, stem(figure.number).with_extension("png")]);
        write(&stem(figure.number).with_extension("csv"), &figure.csv(), files)?;
    }
    Ok(svgs)
}

/// Every claim, in its reading, in all readings and over the range.
pub(super) struct Verdicts {
    pub(super) claims: Vec<ClaimVerdict>,
    /// A table of all combinations.
    pub(super) ranges_csv: String,
    /// See [`FiguresMade::best`].
    pub(super) best: (usize, Vec<String>),
}

pub(super) fn verdicts(plan: &Plan) -> Verdicts {
    let mut table =
        String::from("claim,limit,full_queue,transfers,latency,t_init_us,locality,evidence,measured\n");
    let readings = Reading::ALL.map(|reading| InReading {
        reading,
        runs: plan.runs(reading),
        repeated: plan.repeated(reading),
    });
    let range = plan.range();
    let mut counts = vec![0; range.len()];
    let verdicts = claims::all().into_iter().enumerate().map(|(number, claim)| {
        let mut found = Vec::with_capacity(range.len());
        let combinations = if claim.scope == Scope::Range { &range[..] } else { &[] };
        for ((open, runs), count) in combinations.iter().zip(&mut counts) {
            let finding = (claim.check)(runs);
            *count += usize::from(finding.evidence == Evidence::For);
            table.push_str(&format!(
                "{},{},{},{},{},{},{},{},\"{}\"\n",
                number + 1,
                open.limit,
                open.full_queue,
                open.transfers,
                open.latency,
                open.t_init_us,
                open.locality,
                Verdict::new(finding.evidence, &Basis::MODEL),
                finding.measured
            ));
            found.push((*open, finding.evidence));
        }
        verdict(&claim, &readings, plan.has_trace(), Range::new(&found))
    });
    let claims = verdicts.collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let best = range.iter().zip(&counts).filter(|(_, count)| **count == most);
    let best = (most, best.map(|((open, _), _)| open.to_string()).collect());
    Verdicts { claims, ranges_csv: table, best }
}

/// The runs in a reading.
struct InReading {
    reading: Reading,
    runs: Runs,
    /// Those with other seeds.
    repeated: Vec<Runs>,
}

/// The result of a claim in its reading and in all readings.
fn verdict(claim: &Claim, readings: &[InReading], has_trace: bool, range: Range) -> ClaimVerdict {
    let own = readings.iter().find(|it| it.reading == claim.reading);
    let own = own.expect("the reading of a claim is one of all readings");
    let finding = (claim.check)(&own.runs);
    let repeated: Vec<Evidence> = own.repeated.iter().map(|runs| (claim.check)(runs).evidence).collect();
    let each = readings.iter().map(|it| {
        let finding = (claim.check)(&it.runs);
        ReadingVerdict {
            reading: it.reading.name().to_owned(),
            verdict: Verdict::new(finding.evidence, &Basis::MODEL),
            measured: finding.measured,
        }
    });
    // A trace file has a locality of its own, to which nothing was fitted.
    let basis = if has_trace && claim.basis == TRACE_LOCALITY { Basis::MODEL } else { claim.basis };
    let words = basis.reading();
    let between = if words.is_empty() { "" } else { "; " };
    ClaimVerdict {
        source: claim.source.to_owned(),
        claim: claim.text.to_owned(),
        verdict: Verdict::new(finding.evidence.repeated(repeated.iter().copied()), &basis),
        measured: finding.measured,
        compared: claim.compared.to_owned(),
        noise: described_seeds(finding.evidence, &repeated),
        basis: basis.describe(),
        read_as: format!("reading {}{between}{words}", claim.reading.name()),
        range_shown: range.shown,
        range_undecided: range.undecided,
        range_of: range.of,
        range: range.text,
        readings: each.collect(),
    }
}
