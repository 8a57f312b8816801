//! Writes the first paper's tables and describes its runs.

use std::fmt::Write;

use super::FiguresMade;
use super::claims::described;
use super::page::{Page, Picture};
use super::plan::Plan;
use super::plots::Figure;
use super::readings::Reading;
use super::runs::{Key, Outcome, Runs};
use super::verdict::{ClaimVerdict, ReadingVerdict, Verdict};

const SYNTHETIC: &str = "The paper's trace is a synthetic one here, fitted to its moments";

/// Description of the runs.
pub(super) fn about(made: &FiguresMade) -> String {
    let FiguresMade { runs, packets, chosen, repetitions, noise, .. } = made;
    let trace = made.trace.as_ref().map_or_else(
        || format!("{SYNTHETIC}."),
        |trace| {
            format!("The trace is {trace}; only the runs of the claim about locality use the synthetic one.")
        },
    );
    format!(
        "{} runs of {} packets each behind the figures, in {} readings of the paper ({chosen}); {} runs of {} packets each over \
         the range: {}. {} runs of {} packets with other seeds. {noise}. {trace} {}",
        runs.0,
        packets.0,
        Reading::ALL.len(),
        runs.1,
        packets.1,
        described(),
        repetitions.0,
        repetitions.1,
        by_reading(made)
    )
}

/// Description of the noise.
pub(super) fn noise(plan: &Plan) -> String {
    let [figures, range] = plan.noise();
    format!(
        "Noise, which is twice the standard deviation over seeds, is {} behind the figures, and {} over the range; a claim \
         whose effect is below it, or that another seed contradicts, is undecided",
        figures.described(),
        range.described()
    )
}

/// How many claims the runs agree with in each reading, and at best over the range.
fn by_reading(made: &FiguresMade) -> String {
    let shown =
        |place: usize| made.claims.iter().filter(|it| it.readings[place].verdict == Verdict::Shown).count();
    let each = Reading::ALL.iter().enumerate();
    let each = each.map(|(place, reading)| format!("{} {}", reading.name(), shown(place)));
    let (most, at) = &made.best;
    format!(
        "All in one reading, runs agree with: {}. In the short runs over the range they agree with most, {most}, with {}.",
        each.collect::<Vec<_>>().join(", "),
        at.join(", or ")
    )
}

/// A table with one row for each claim and reading.
pub(super) fn readings_csv(claims: &[ClaimVerdict]) -> String {
    let mut text = String::from("number,reading,verdict,measured\n");
    for (number, claim) in (1..).zip(claims) {
        for ReadingVerdict { reading, verdict, measured } in &claim.readings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number},{reading},{verdict},\"{measured}\"");
        }
    }
    text
}

/// A table with one row for each run behind the figures.
pub(super) fn runs_csv(runs_of: &dyn Fn(Reading) -> Runs) -> String {
    // The runs of the pool are the same wherever latency begins.
    let readings = [Reading::Queues, Reading::Pool, Reading::LocalMemory];
    let mut rows = Vec::new();
    for reading in readings {
        rows.extend(runs_of(reading).of.iter().map(|(key, outcome)| row(reading, key, outcome)));
    }
    rows.sort();
    let lists = ["share", "average_length", "deviation"];
    let lists = lists.map(|list| ["cpu", "1", "2"].map(|of| format!("{list}_{of}")).join(",")).join(",");
    format!(
        "reading,pattern,accelerators,window,enc_ratio,variant,packets,{lists},average_length_scheduled,\
         packets_per_multipacket,throughput_mbps,latency_ms,sojourn_ms,bus_conflicts\n{}",
        rows.concat()
    )
}

fn row(reading: Reading, key: &Key, outcome: &Outcome) -> String {
    let report = &outcome.report;
    let at = |list: &[f64], place: usize| list.get(place).map(f64::to_string).unwrap_or_default();
    let lists = [&report.share, &report.average_length, &outcome.deviation];
    let lists = lists.map(|list| (0..3).map(|place| at(list, place)).collect::<Vec<_>>().join(","));
    format!(
        "{},{},{},{},{},{:?},{},{},{},{},{},{},{},{}\n",
        reading.name(),
        key.pattern,
        key.accelerators,
        key.window,
        key.enc_ratio,
        key.variant,
        report.packets,
        lists.join(","),
        report.average_length_scheduled,
        report.packets_per_multipacket,
        report.throughput_mbps,
        report.latency_ms,
        report.sojourn_ms,
        report.bus_conflicts
    )
}

/// The page of the paper.
pub(super) fn page<'a>(
    made: &'a FiguresMade,
    figures: &[Figure],
    svgs: Vec<String>,
    pictured: &'a [Vec<u32>],
    readings: Vec<(&'static str, String)>,
) -> Page<'a> {
    let picture = |(figure, svg): (&Figure, String)| {
        Picture {
        number: figure.number,
        title: figure.title.clone(),
        reading: figure.reading(),
        note: "Points of one T_enc ratio stand a little aside of each other, so that equal values do not hide each other."
            .to_owned(),
        svg,
        csv: figure.csv(),
    }
    };
    Page {
        title: "Small packets, simulated",
        paper: "Scheduling Small Packets in IPSec Multi-accelerator Based Systems (Taddeo, Ferrante, Piuri)",
        about: format!("{} The runs took {:.0} s.", about(made), made.seconds),
        readings,
        pictures: figures.iter().zip(svgs).map(picture).collect(),
        claims: &made.claims,
        pictured,
    }
}
