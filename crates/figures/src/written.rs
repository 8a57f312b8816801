//! Writes the tables and the report.

use std::fmt::Write;

use convoy_sim::PAPER_PACKETS;

use super::claims::{NOISE, described};
use super::plots::Figure;
use super::runs::{LENGTH_NOISE, Runs};
use super::{ClaimVerdict, FiguresMade};

pub(super) const STYLE: &str = "body{font:15px/1.5 sans-serif;max-width:62em;margin:2em auto;padding:0 1em;color:#111}\
    table{border-collapse:collapse;font-size:13px}td,th{border-bottom:1px solid #ccc;padding:.3em .6em;text-align:left;\
    vertical-align:top}.yes{color:#05603a;font-weight:bold}.no{color:#a3260a;font-weight:bold}figure{margin:2em 0}\
    svg{max-width:100%;height:auto}pre{font-size:12px;overflow:auto}@media print{details{display:none}}";

/// The verdict as text.
fn verdict(claim: &ClaimVerdict) -> &'static str {
    if claim.shown { "shown" } else { "not shown" }
}

/// Description of the runs.
fn about(made: &FiguresMade) -> String {
    let FiguresMade { runs, packets, chosen, .. } = made;
    format!(
        "{} runs of {} packets each behind the figures, with convoy's choice of what the paper leaves open ({chosen}); {} \
         runs of {} packets each over the range: {}. \"By reading\" counts, of 100 combinations of the other open parameters each, \
         those that show a claim with full_queue wait and a depth in multi-packets, wait and packets, skip and multi-packets, skip and packets. Differences below {} % count as none, those of average lengths below {:.1} % and {:.1} %, which are chance.",
        runs.0,
        packets.0,
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
    let shown = made.claims.iter().filter(|claim| claim.shown).count();
    let (most, at) = &made.best;
    format!(
        "{shown} of {} claims are shown. In the short runs over the range most, {most}, are shown with {}.",
        made.claims.len(),
        at.join(", or ")
    )
}

/// How often a claim is shown under each reading, in the order of
/// [`claims::readings`](super::claims::readings).
fn readings(claim: &ClaimVerdict, between: &str) -> String {
    claim.readings.iter().map(|reading| reading.shown.to_string()).collect::<Vec<_>>().join(between)
}

/// A table with one row for each claim.
pub(super) fn claims_csv(claims: &[ClaimVerdict]) -> String {
    let names = super::claims::readings().map(|(full_queue, unit)| format!("{full_queue} {unit}"));
    let mut text =
        format!("number,source,claim,verdict,measured,range_shown,range_of,range,{}\n", names.join(","));
    for (number, claim) in claims.iter().enumerate() {
        let ClaimVerdict { source, claim: said, measured, range_shown, range_of, range, .. } = claim;
        let (verdict, readings) = (verdict(claim), readings(claim, ","));
        let number = number + 1;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{number},\"{source}\",\"{said}\",{verdict},\"{measured}\",{range_shown},{range_of},\"{range}\",{readings}"
        );
    }
    text
}

/// The claims as Markdown.
pub(super) fn claims_markdown(made: &FiguresMade) -> String {
    let mut text = format!("{} {}\n\n", about(made), summary(made));
    text.push_str(
        "| | claim | where | verdict | measured | by reading | over the range |\n| --- | --- | --- | --- | --- | --- | --- |\n",
    );
    for (number, claim) in made.claims.iter().enumerate() {
        let ClaimVerdict { source, claim: said, measured, range_shown, range_of, range, .. } = claim;
        let verdict = if claim.shown { "shown" } else { "**not shown**" };
        let (number, readings) = (number + 1, readings(claim, " "));
        let _ = writeln!(
            text,
            "| {number} | {said} | {source} | {verdict} | {measured} | {readings} | {range_shown} of {range_of}: {range} |"
        );
    }
    text
}

/// A table with one row for each run behind the figures.
pub(super) fn runs_csv(runs: &Runs) -> String {
    let mut rows: Vec<String> = runs
        .0
        .iter()
        .map(|(key, outcome)| {
            let report = &outcome.report;
            let at = |list: &[f64], place: usize| list.get(place).map(f64::to_string).unwrap_or_default();
            let lists = [&report.share, &report.average_length, &outcome.deviation];
            let lists = lists.map(|list| (0..3).map(|place| at(list, place)).collect::<Vec<_>>().join(","));
            format!(
                "{},{},{},{},{:?},{},{},{},{},{},{},{},{}\n",
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
        })
        .collect();
    rows.sort();
    let lists = ["share", "average_length", "deviation"];
    let lists = lists.map(|list| ["cpu", "1", "2"].map(|of| format!("{list}_{of}")).join(",")).join(",");
    format!(
        "pattern,accelerators,window,enc_ratio,variant,packets,{lists},average_length_scheduled,\
         packets_per_multipacket,throughput_mbps,latency_ms,sojourn_ms,bus_conflicts\n{}",
        rows.concat()
    )
}

/// The report, a single file without external resources.
pub(super) fn html(made: &FiguresMade, figures: &[Figure], svgs: &[String]) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Small packets, simulated</title>\n\
         <style>{STYLE}</style>\n<h1>Small packets, simulated</h1>\n<p>Figures 3 to 15 of <em>Scheduling Small Packets in \
         IPSec Multi-accelerator Based Systems</em> (Taddeo, Ferrante, Piuri), by <code>convoy sim figures</code>, which \
         runs the gateway's own scheduler under virtual time. The paper's trace is a synthetic one here, fitted to its \
         moments.</p>\n<p>{} The runs took {:.0} s.</p>\n<h2>Claims</h2>\n<p>{}</p>\n<table><tr><th><th>claim<th>where\
         <th>verdict<th>measured<th>by reading<th>over the range of open parameters</tr>\n",
        escaped(&about(made)),
        made.seconds,
        summary(made)
    );
    for (number, claim) in made.claims.iter().enumerate() {
        let class = if claim.shown { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "<tr><td>{}<td>{}<td>{}<td class=\"{class}\">{}<td>{}<td>{}<td>{} of {}: {}</tr>",
            number + 1,
            escaped(&claim.claim),
            escaped(&claim.source),
            verdict(claim),
            escaped(&claim.measured),
            readings(claim, " "),
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
