//! Writes the tables and the report.

use std::fmt::Write;

use convoy_sim::PAPER_PACKETS;

use super::basis::counted;
use super::claims::{NOISE, described};
use super::plots::Figure;
use super::readings::Reading;
use super::runs::{Key, LENGTH_NOISE, Outcome, Runs};
use super::{ClaimVerdict, FiguresMade, ReadingVerdict};

pub(super) const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#111}\
    table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid #ccc;padding:.3em .6em;text-align:left;\
    vertical-align:top}.yes{color:#05603a;font-weight:bold}.no{color:#a3260a;font-weight:bold}figure{margin:2em 0}\
    svg{max-width:100%;height:auto}pre{font-size:12px;overflow:auto}@media print{details{display:none}}";

const SYNTHETIC: &str = "The paper's trace is a synthetic one here, fitted to its moments";

/// Description of the runs.
fn about(made: &FiguresMade) -> String {
    let FiguresMade { runs, packets, chosen, .. } = made;
    let trace = made.trace.as_ref().map_or(String::new(), |trace| {
        format!(" The trace is {trace}; only the runs of the claim about locality use the synthetic one.")
    });
    format!(
        "{} runs of {} packets each behind the figures, in {} readings of the paper ({chosen}); {} runs of {} packets each over \
         the range: {}. \"By reading\" says in which of the readings a claim is shown, in the same order. Differences below {} % \
         count as none, those of average lengths below {:.1} % and {:.1} %, which are chance.{trace}",
        runs.0,
        packets.0,
        Reading::ALL.len(),
        runs.1,
        packets.1,
        described(),
        NOISE * 100.0,
        length_noise(packets.0),
        length_noise(packets.1)
    )
}

/// The noise of average lengths in percent, for runs of this many packets.
fn length_noise(packets: u64) -> f64 {
    LENGTH_NOISE * (PAPER_PACKETS as f64 / packets.max(1) as f64).sqrt() * 100.0
}

fn summary(made: &FiguresMade) -> String {
    let shown = made.claims.iter().filter(|claim| claim.shown);
    let by_basis = counted(shown.clone().map(|claim| claim.basis.as_str()));
    let in_reading = |place: usize| made.claims.iter().filter(|it| it.readings[place].shown).count();
    let each = Reading::ALL.iter().enumerate();
    let each = each.map(|(place, reading)| format!("{} {}", reading.name(), in_reading(place)));
    let (most, at) = &made.best;
    format!(
        "{} of {} claims are shown, each in its reading ({by_basis}). All in one reading: {}. In the short runs over the range \
         most, {most}, are shown with {}.",
        shown.count(),
        made.claims.len(),
        each.collect::<Vec<_>>().join(", "),
        at.join(", or ")
    )
}

/// Whether a claim is shown in each reading, in the order of [`Reading::ALL`].
fn readings(claim: &ClaimVerdict) -> String {
    let each = claim.readings.iter().map(|reading| if reading.shown { "yes" } else { "no" });
    each.collect::<Vec<_>>().join(" ")
}

/// A table with one row for each claim and reading.
pub(super) fn readings_csv(claims: &[ClaimVerdict]) -> String {
    let mut text = String::from("number,reading,shown,measured\n");
    for (number, claim) in (1..).zip(claims) {
        for ReadingVerdict { reading, shown, measured } in &claim.readings {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{number},{reading},{shown},\"{measured}\"");
        }
    }
    text
}

/// The claims as Markdown.
pub(super) fn claims_markdown(made: &FiguresMade) -> String {
    let mut text = format!("{} {}\n\n", about(made), summary(made));
    text.push_str(
        "| | claim | where | verdict | measured | basis | read as | by reading | over the range |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (number, claim) in (1..).zip(&made.claims) {
        let ClaimVerdict {
            source, claim: said, measured, basis, read_as, range_shown, range_of, range, ..
        } = claim;
        let verdict = if claim.shown { "shown" } else { "**not shown**" };
        let readings = readings(claim);
        let _ = writeln!(
            text,
            "| {number} | {said} | {source} | {verdict} | {measured} | {basis} | {read_as} | {readings} | {range_shown} of {range_of}: {range} |"
        );
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

/// The report, a single file without external resources.
pub(super) fn html(made: &FiguresMade, figures: &[Figure], svgs: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Small packets, simulated</title>\n\
         <style>{STYLE}</style>\n<h1>Small packets, simulated</h1>\n<p>Figures 3 to 15 of <em>Scheduling Small Packets in \
         IPSec Multi-accelerator Based Systems</em> (Taddeo, Ferrante, Piuri), by <code>convoy-lab sim figures</code>, which \
         runs the gateway's own scheduler under virtual time. {}.</p>\n<p>{} The runs took {:.0} s.</p>\n<h2>Claims</h2>\n<p>{}</p>\n<table><tr><th><th>claim<th>where\
         <th>verdict<th>measured<th>basis<th>read as<th>by reading<th>over the range of open parameters</tr>\n",
        made.trace.as_ref().map_or(SYNTHETIC.to_owned(), |trace| format!("The trace is {}", escaped(trace))),
        escaped(&about(made)),
        made.seconds,
        summary(made)
    );
    for (number, claim) in (1..).zip(&made.claims) {
        let (class, verdict) = if claim.shown { ("yes", "shown") } else { ("no", "not shown") };
        let _ = writeln!(
            text,
            "<tr><td>{number}<td>{}<td>{}<td class=\"{class}\">{verdict}<td>{}<td>{}<td>{}<td>{}<td>{} of {}: {}</tr>",
            escaped(&claim.claim),
            escaped(&claim.source),
            escaped(&claim.measured),
            escaped(&claim.basis),
            escaped(&claim.read_as),
            readings(claim),
            claim.range_shown,
            claim.range_of,
            escaped(&claim.range)
        );
    }
    text.push_str("</table>\n<h2>Figures</h2>\n<p>Points of one T_enc ratio stand a little aside of each other, so that equal values do not hide each other.</p>\n");
    for (figure, svg) in figures.iter().zip(svgs) {
        let svg = svg.find("<svg").map_or("", |start| &svg[start..]);
        let (number, csv) = (figure.number, escaped(&figure.csv()));
        let _ = writeln!(
            text,
            "<figure id=\"figure-{number}\">{svg}<figcaption><details><summary>numbers of figure {number}</summary>\
             <pre>{csv}</pre></details></figcaption></figure>"
        );
    }
    text.push_str("</html>\n");
    text
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
