//! The demo's tables and sentences.

mod compared;

use std::fmt;

use comfy_table::Table;
use convoy_workbench::{DemoEngineReport, DemoReport, Measurement, TrialReport, WorstCase};

use crate::text::{cell, new_table, paragraph};
use compared::{write_comparison, write_modes};

/// What the demo has measured, for a reader at a terminal.
pub(crate) struct DemoPage<'a>(pub(crate) &'a DemoReport);

impl fmt::Display for DemoPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        write_traffic(f, report)?;
        write_live(f, &report.live)?;
        for comparison in &report.comparisons {
            write_comparison(f, comparison)?;
        }
        write_modes(f, &report.iptfs)?;
        write_card(f, &report.card)?;
        write_conclusion(f, report)
    }
}

fn write_traffic(f: &mut fmt::Formatter<'_>, report: &DemoReport) -> fmt::Result {
    let traffic = match report.capture_packets {
        0 => "generated IMIX, repeated".to_owned(),
        packets => format!("{packets} packets of real programs and generated IMIX, repeated"),
    };
    let machine = &report.machine;
    let text = format!(
        "Two gateways in one process, 8 tunnels in UDP between them, traffic in both directions: {traffic}. \
         {machine}."
    );
    f.write_str(&paragraph(0, 0, &text))?;
    for (reason, count) in report.capture_unreadable.iter() {
        f.write_str(&paragraph(0, 0, &format!("{count} packets of the capture were left out: {reason}")))?;
    }
    Ok(())
}

fn write_live(f: &mut fmt::Formatter<'_>, live: &TrialReport) -> fmt::Result {
    writeln!(f, "\nAll available engines in the first gateway; {}, window {}:", live.rule, live.window)?;
    writeln!(f, "{}", engines(&live.engines).trim_fmt())?;
    for event in &live.events {
        f.write_str(&paragraph(2, 4, event))?;
    }
    f.write_str(&paragraph(2, 4, &outcome(live)))
}

/// Writes the runs of the verilated card, if it is built in.
fn write_card(f: &mut fmt::Formatter<'_>, runs: &[Measurement]) -> fmt::Result {
    if runs.is_empty() {
        return Ok(());
    }
    let text = "The same traffic through the GRIP card only: its RTL, simulated cycle by cycle with Verilator. \
                Times are the card's.";
    write!(f, "\n{}", paragraph(0, 0, text))?;
    let mut table =
        new_table(&["window", "packets", "packets per multi-packet", "ns per packet on the card"], 0);
    for run in runs {
        table.add_row([
            run.window.to_string(),
            run.good.to_string(),
            format!("{:.2}", run.packets_per_multi_packet),
            cell(run.spread(|round| round.service_ns), 0),
        ]);
    }
    writeln!(f, "{}", table.trim_fmt())
}

/// Writes what follows from all figures, and what they are worth.
fn write_conclusion(f: &mut fmt::Formatter<'_>, report: &DemoReport) -> fmt::Result {
    let (sent, good) = report.sent_and_good();
    writeln!(f, "\n{good} of {sent} packets arrived unchanged, in the order of their SA.")?;
    for warning in report.machine.warnings() {
        f.write_str(&paragraph(0, 2, &warning))?;
    }
    f.write_str(&paragraph(0, 2, &window_gain(report)))?;
    for comparison in &report.comparisons {
        if let Some(verdict) = &comparison.verdict {
            f.write_str(&paragraph(0, 2, &format!("With the {}: {verdict}", comparison.name)))?;
        }
    }
    let of = |worst: &WorstCase| format!("{} {:.2}", worst.rule.name(), worst.ratio);
    let worst_cases: Vec<String> = report.worst_cases.iter().map(of).collect();
    if !worst_cases.is_empty() {
        let text = "Median packets/s where a policy does worst, relative to the best policy there:";
        f.write_str(&paragraph(0, 2, &format!("{text} {}.", worst_cases.join(", "))))?;
    }
    Ok(())
}

/// What the window gained, in one sentence.
fn window_gain(report: &DemoReport) -> String {
    let rate = |comparison: &convoy_workbench::Comparison| {
        format!("{} with the {}", cell(comparison.window_gain(), 2), comparison.name)
    };
    let mut gains: Vec<String> = report.comparisons.iter().map(rate).collect();
    if let [narrow, wide] = &report.card[..] {
        let gain = narrow.relative_to(wide, |round| round.service_ns);
        gains.push(format!("{} on the card", cell(gain, 2)));
    }
    let gains = gains.join(", ");
    format!("What the window gained, times as many packets/s with 32 packets as with 1: {gains}.")
}

fn engines(engines: &[DemoEngineReport]) -> Table {
    let mut table = new_table(
        &["engine", "share", "packets", "queue", "per multi-\npacket", "predicted\nus", "error\nus"],
        1,
    );
    for engine in engines {
        let kind = if engine.is_model { " (modelled timing)" } else { "" };
        let state = if engine.is_up { "" } else { " DOWN" };
        table.add_row([
            format!("{}{kind}{state}", engine.name),
            format!("{:.1} %", engine.share * 100.0),
            engine.packets.to_string(),
            engine.queued.to_string(),
            format!("{:.2}", engine.packets_per_multi_packet),
            format!("{:.2}", engine.predicted_ns / 1000.0),
            format!("{:.2}", engine.prediction_error_ns / 1000.0),
        ]);
    }
    table
}

fn outcome(trial: &TrialReport) -> String {
    format!(
        "{} packets sent, {} received byte for byte and in order, {} out of order, {} wrong, {} lost; {:.0} \
         packets/s, {:.0} Mbit/s",
        trial.sent,
        trial.good,
        trial.out_of_order,
        trial.wrong,
        trial.lost,
        trial.packets_per_second,
        trial.mbps
    )
}
