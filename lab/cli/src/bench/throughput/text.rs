//! The report of `convoy-lab bench throughput` in a terminal.

use convoy_measure::{BackToBack, Found, LatencyAt, LengthReport, Lengths, Placement, Recovery, Ways};

use super::output::{LeftOut, ThroughputOutput, WhyLeftOut};
use convoy_cli::table::{number, table_of, word, words};

/// Results at one length, one for each round.
struct Row<'a>(Vec<&'a LengthReport>);

impl Row<'_> {
    fn last(&self) -> &LengthReport {
        self.0[self.0.len() - 1]
    }

    /// The median over the rounds, with the range where there are several.
    fn spread(&self, value: impl Fn(&LengthReport) -> Option<f64>, text: impl Fn(f64) -> String) -> String {
        let mut values: Vec<f64> = self.0.iter().filter_map(|report| value(report)).collect();
        values.sort_by(f64::total_cmp);
        match values[..] {
            [] => "none".to_owned(),
            [one] => text(one),
            [least, .., most] => {
                format!("{} ({} to {})", text(values[values.len() / 2]), text(least), text(most))
            }
        }
    }

    fn kpps(&self, found: fn(&LengthReport) -> &Found) -> String {
        let is_least = |found: &Found| found.is_limited_by_tester && found.packets_per_second.is_some();
        let is_open = self.0.iter().any(|report| !found(report).is_settled);
        let mark = if is_open {
            "~ "
        } else if self.0.iter().any(|report| is_least(found(report))) {
            "≥ "
        } else {
            ""
        };
        let kpps = |value: f64| format!("{:.1}", value / 1000.0);
        mark.to_owned() + &self.spread(|report| found(report).packets_per_second, kpps)
    }

    fn mbps(&self, found: fn(&LengthReport) -> &Found) -> String {
        let mbps = |report: &LengthReport| found(report).packets_per_second.map(|rate| report.mbps(rate));
        self.spread(mbps, |value| format!("{value:.0}"))
    }
}

pub(super) fn print(output: &ThroughputOutput) {
    println!("Device: {}", output.device);
    println!("Lengths: {}", output.lengths_are);
    if let Some(placement) = &output.placement {
        println!("{}", cores(placement));
    }
    let ThroughputOutput { trial_s, trials_judge, may_exceed, resolution, .. } = output;
    println!(
        "A rate is judged by {trials_judge:.0} trials of {trial_s} s, of which {:.0} % may lose more; resolution {} %; n = {}",
        may_exceed * 100.0,
        resolution * 100.0,
        output.rounds.len()
    );
    print_left_out(&output.left_out);
    let count = output.rounds.first().map_or(0, Vec::len);
    let rows: Vec<Row<'_>> =
        (0..count).map(|at| Row(output.rounds.iter().map(|round| &round[at]).collect())).collect();
    if let Some(first) = rows.first() {
        println!("Rates are per direction; packets are sent {}.\n", ways(first.last()));
    }
    print_rates(&rows);
    print_latency(&rows);
    print_loss(&rows);
    print_rest(&rows);
}

/// Prints a line for each reason.
fn print_left_out(left_out: &[LeftOut]) {
    let mut printed: Vec<WhyLeftOut> = Vec::new();
    for LeftOut { why, .. } in left_out {
        if !printed.contains(why) {
            printed.push(*why);
            let of_it = left_out.iter().filter(|other| other.why == *why);
            let lengths: Vec<String> = of_it.map(|other| other.lengths.to_string()).collect();
            println!("Left out: {}, because {why}", lengths.join(", "));
        }
    }
}

fn cores(placement: &Placement) -> String {
    let Placement { tester, first, second, .. } = placement;
    let second = match second {
        Some(core) => format!("the second gateway on core {core}"),
        None => "the second gateway takes turns with the tester, so the tester's core may be the bottleneck"
            .to_owned(),
    };
    format!("Cores: the tester on core {tester}, the first gateway on core {first}, {second}")
}

fn ways(report: &LengthReport) -> &'static str {
    match report.ways {
        Ways::One => "in one direction",
        Ways::Both => "in both directions at once",
    }
}

fn print_rates(rows: &[Row<'_>]) {
    let columns = [
        word("bytes", |row: &Row<'_>| row.last().lengths.to_string()),
        number("NDR kpps", |row: &Row<'_>| row.kpps(|report| &report.ndr)),
        number("Mbit/s", |row: &Row<'_>| row.mbps(|report| &report.ndr)),
        number("PDR kpps", |row: &Row<'_>| row.kpps(|report| &report.pdr)),
        number("Mbit/s", |row: &Row<'_>| row.mbps(|report| &report.pdr)),
        number("carried under overload, kpps", |row: &Row<'_>| {
            row.spread(
                |report| Some(report.most_received_per_second),
                |value| format!("{:.1}", value / 1000.0),
            )
        }),
        number("trials", |row: &Row<'_>| row.last().trials.to_string()),
    ];
    println!("{}", table_of(&columns, rows, None));
    let cut: Vec<String> = rows
        .iter()
        .filter(|row| row.0.iter().any(|report| report.is_cut_short))
        .map(|row| row.last().lengths.to_string())
        .collect();
    if !cut.is_empty() {
        println!(
            "\nThe time limit was reached at {} bytes; ~ marks unfinished searches. Use a longer --within.",
            cut.join(", ")
        );
    }
    if rows.iter().flat_map(|row| &row.0).any(|report| report.ndr.is_limited_by_tester) {
        println!(
            "\n≥, or none although packets were carried: the tester could not sustain a higher rate, or --most \
             excluded one; the device may be faster."
        );
    }
}

/// A length, and the latency at one load.
type TextPoint<'a> = (Lengths, &'a LatencyAt);

fn print_latency(rows: &[Row<'_>]) {
    let all: Vec<TextPoint<'_>> =
        rows.iter().flat_map(|row| row.last().latency.iter().map(|at| (row.last().lengths, at))).collect();
    if all.is_empty() {
        return;
    }
    println!("\nEnd-to-end latency in us, at fractions of the NDR (or of the PDR if there is no NDR):");
    let us = |value: f64| format!("{value:.1}");
    let columns = [
        word("bytes", |(lengths, _): &TextPoint<'_>| lengths.to_string()),
        number("load", |(_, at): &TextPoint<'_>| format!("{:.0} %", at.part * 100.0)),
        number("p50", move |(_, at): &TextPoint<'_>| us(at.latency.p50_us)),
        number("p90", move |(_, at): &TextPoint<'_>| us(at.latency.p90_us)),
        number("p99", move |(_, at): &TextPoint<'_>| us(at.latency.p99_us)),
        number("p99.9", move |(_, at): &TextPoint<'_>| us(at.latency.p999_us)),
        number("most", move |(_, at): &TextPoint<'_>| us(at.latency.most_us)),
        number("lost", |(_, at): &TextPoint<'_>| percent(at.loss_ratio)),
    ];
    println!("{}", table_of(&columns, &all, None));
}

fn percent(ratio: f64) -> String {
    match ratio * 100.0 {
        0.0 => "0".to_owned(),
        percent if percent < 0.01 => "< 0.01 %".to_owned(),
        percent => format!("{percent:.2} %"),
    }
}

fn print_loss(rows: &[Row<'_>]) {
    let measured: Vec<&LengthReport> =
        rows.iter().map(Row::last).filter(|report| !report.loss.is_empty()).collect();
    if measured.is_empty() {
        return;
    }
    println!("\nLoss against load:");
    for report in measured {
        let points = report.loss.iter().map(|at| {
            let reordered = match at.reordered_ratio {
                0.0 => String::new(),
                ratio => format!(", {} reordered", percent(ratio)),
            };
            format!("{:.1} kpps: {}{reordered}", at.packets_per_second / 1000.0, percent(at.loss_ratio))
        });
        println!("  {} bytes: {}", report.lengths, points.collect::<Vec<_>>().join("; "));
    }
}

fn print_rest(rows: &[Row<'_>]) {
    let has_rest = |report: &&LengthReport| report.back_to_back.is_some() || report.recovery.is_some();
    let measured: Vec<&LengthReport> = rows.iter().map(Row::last).filter(has_rest).collect();
    if measured.is_empty() {
        return;
    }
    println!("\nBursts, and recovery after overload:");
    let columns = [
        word("bytes", |report: &&LengthReport| report.lengths.to_string()),
        words("longest burst without loss", |report: &&LengthReport| {
            report.back_to_back.as_ref().map_or_else(none, burst)
        }),
        words("recovery", |report: &&LengthReport| report.recovery.as_ref().map_or_else(none, recovery)),
    ];
    println!("{}", table_of(&columns, &measured, None));
}

fn none() -> String {
    "–".to_owned()
}

fn burst(found: &BackToBack) -> String {
    let mark = if found.is_longest_tried { "≥ " } else { "" };
    let kpps = found.packets_per_second / 1000.0;
    format!(
        "{mark}{} packets at {kpps:.0} kpps; the buffer holds {:.1} us of them",
        found.packets,
        found.buffer_s * 1e6
    )
}

fn recovery(found: &Recovery) -> String {
    let kpps = found.overload_packets_per_second / 1000.0;
    let lost = percent(found.overload_loss_ratio);
    format!("{:.1} ms after {kpps:.0} kpps, which lost {lost}", found.seconds * 1000.0)
}
