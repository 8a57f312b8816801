//! Figures 3 to 15 of *Scheduling Small Packets in IPSec Multi-accelerator Based Systems*, and the
//! check of its claims, each under the reading with which its section's figures are possible.

use std::time::Instant;

use convoy_sim::Platform;
use convoy_sim::parallel::for_each;

use super::basis::Basis;
use super::claims::{self, Claim, Range, TRACE_LOCALITY};
use super::plan::Plan;
use super::readings::Reading;
use super::runs::Runs;
use super::{
    ClaimVerdict, FigureError, FigureOptions, FiguresMade, ReadingVerdict, draw, paper, plots, write, written,
};

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
        chosen: plan.described(),
        trace: plan.trace(),
        best,
        seconds: began.elapsed().as_secs_f64(),
        files: Vec::new(),
    };
    let figures = plots::all(&|reading| plan.runs(reading));
    let stem = |number: u32| options.out.join(format!("figure-{number:02}"));
    let drawn = |figure: &plots::Figure| draw::draw(figure, &stem(figure.number));
    for_each(&figures, options.threads, drawn, |_, drawn| drawn)?;
    let mut svgs = Vec::with_capacity(figures.len());
    for figure in &figures {
        let path = stem(figure.number).with_extension("svg");
        svgs.push(std::fs::read_to_string(&path).map_err(|error| FigureError::Io(path.clone(), error))?);
        made.files.extend([path, stem(figure.number).with_extension("png")]);
        write(&stem(figure.number).with_extension("csv"), &figure.csv(), &mut made.files)?;
    }
    for (name, text) in [
        ("runs.csv", written::runs_csv(&|reading| plan.runs(reading))),
        ("claims.csv", paper::csv(&made.claims)),
        ("claims-readings.csv", written::readings_csv(&made.claims)),
        ("claims-range.csv", ranges_csv),
        ("claims.md", written::claims_markdown(&made)),
        ("report.html", written::html(&made, &figures, &svgs)),
    ] {
        write(&options.out.join(name), &text, &mut made.files)?;
    }
    made.files.sort();
    Ok(made)
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
        String::from("claim,limit,full_queue,transfers,latency,t_init_us,locality,shown,measured\n");
    let readings = Reading::ALL.map(|reading| (reading, plan.runs(reading)));
    let range = plan.range();
    let mut counts = vec![0; range.len()];
    let verdicts = claims::all().into_iter().enumerate().map(|(number, claim)| {
        let mut shown = Vec::with_capacity(range.len());
        for ((open, runs), count) in range.iter().zip(&mut counts) {
            let finding = (claim.check)(runs);
            *count += usize::from(finding.shown);
            table.push_str(&format!(
                "{},{},{},{},{},{},{},{},\"{}\"\n",
                number + 1,
                open.limit,
                open.full_queue,
                open.transfers,
                open.latency,
                open.t_init_us,
                open.locality,
                finding.shown,
                finding.measured
            ));
            shown.push((*open, finding.shown));
        }
        verdict(&claim, &readings, plan.has_trace(), Range::new(&shown))
    });
    let claims = verdicts.collect();
    let most = counts.iter().copied().max().unwrap_or(0);
    let best = range.iter().zip(&counts).filter(|(_, count)| **count == most);
    let best = (most, best.map(|((open, _), _)| open.to_string()).collect());
    Verdicts { claims, ranges_csv: table, best }
}

/// The result of a claim in its reading and in all readings.
fn verdict(claim: &Claim, readings: &[(Reading, Runs)], has_trace: bool, range: Range) -> ClaimVerdict {
    let mut own = None;
    let mut each = Vec::with_capacity(readings.len());
    for (reading, runs) in readings {
        let finding = (claim.check)(runs);
        each.push(ReadingVerdict {
            reading: reading.name().to_owned(),
            shown: finding.shown,
            measured: finding.measured.clone(),
        });
        if *reading == claim.reading {
            own = Some(finding);
        }
    }
    let own = own.expect("the reading of a claim is one of all readings");
    // A trace file has a locality of its own, to which nothing was fitted.
    let basis = if has_trace && claim.basis == TRACE_LOCALITY { Basis::MODEL } else { claim.basis };
    let words = basis.reading();
    let between = if words.is_empty() { "" } else { "; " };
    ClaimVerdict {
        source: claim.source.to_owned(),
        claim: claim.text.to_owned(),
        shown: own.shown,
        measured: own.measured,
        basis: basis.describe(),
        read_as: format!("reading {}{between}{words}", claim.reading.name()),
        range_shown: range.shown,
        range_of: range.of,
        range: range.text,
        readings: each,
    }
}
