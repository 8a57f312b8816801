//! The demo's tables and sentences.

use std::fmt;

use comfy_table::Table;
use comfy_table::presets::UTF8_HORIZONTAL_ONLY;
use convoy_workbench::{
    Comparison, DemoEngine, DemoEngineReport, DemoReport, LiveView, ModeComparison, TrialReport, WorstCase,
};

/// Clears the terminal and moves the cursor to its first line.
pub(crate) const CLEAR: &str = "\x1b[2J\x1b[H";

/// What the demo shows while its first part runs.
pub(crate) struct DemoView<'a>(pub(crate) &'a LiveView);

impl fmt::Display for DemoView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.0;
        write!(
            f,
            "{CLEAR}two gateways, {}, window {}: {:.1} of {:.1} s, {} packets delivered, {:.0} Mbit/s\n{}\n",
            view.rule,
            view.window,
            view.elapsed_s,
            view.length_s,
            view.delivered,
            view.mbps,
            engines(&view.engines)
        )
    }
}

/// What the demo has measured, for a reader at a terminal.
pub(crate) struct DemoPage<'a>(pub(crate) &'a DemoReport);

impl fmt::Display for DemoPage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let live = &report.live;
        writeln!(
            f,
            "Two gateways in one process, 8 tunnels in UDP between them, traffic in both directions:"
        )?;
        match report.capture_packets {
            0 => writeln!(f, "Generated IMIX, repeated.")?,
            packets => writeln!(f, "{packets} packets of real programs and generated IMIX, repeated.")?,
        }
        for (reason, count) in report.capture_unreadable.iter() {
            writeln!(f, "{count} packets of the capture were left out: {reason}")?;
        }
        writeln!(f, "\nAll available engines in the first gateway; {}, window {}:", live.rule, live.window)?;
        writeln!(f, "{}", engines(&live.engines))?;
        for event in &live.events {
            writeln!(f, "  {event}")?;
        }
        writeln!(f, "  {}\n", outcome(live))?;
        for comparison in &report.comparisons {
            write_comparison(f, comparison)?;
        }
        write_modes(f, &report.iptfs)?;
        write_card(f, &report.card)?;
        let (sent, good) = report.sent_and_good();
        writeln!(f, "{good} of {sent} packets arrived unchanged, in the order of their SA.")?;
        writeln!(f, "In this run, which another one may contradict on few cores:")?;
        for comparison in &report.comparisons {
            if let Some(verdict) = &comparison.verdict {
                writeln!(f, "{}: {verdict}", comparison.about)?;
            }
        }
        let of = |worst: &WorstCase| format!("{} {:.2}", worst.rule, worst.ratio);
        let worst_cases: Vec<String> = report.worst_cases.iter().map(of).collect();
        if !worst_cases.is_empty() {
            writeln!(
                f,
                "Packets per second on the platform that suits a policy least, relative to the best one there: {}.",
                worst_cases.join("; ")
            )?;
        }
        Ok(())
    }
}

/// Writes each policy's throughput on one platform, and its latency under the same load.
fn write_comparison(f: &mut fmt::Formatter<'_>, comparison: &Comparison) -> fmt::Result {
    let Comparison { about, proposal, engines, offered_packets_per_second, .. } = comparison;
    writeln!(f, "The first gateway with {about}, {proposal}:")?;
    writeln!(f, "{}", costs(engines))?;
    let load = offered_packets_per_second / 1000.0;
    writeln!(f, "  Latency is measured between the plaintext ports, at {load:.0} thousand packets/s:")?;
    let mut table = new_table(&[
        "policy",
        "W = 1, packets/s",
        "W = 32, packets/s",
        "gain",
        "per multi-packet",
        "p50 us",
        "p99 us",
        "p99.9 us",
        "lost of the load",
        "unchanged",
    ]);
    let measured = comparison.saturated.iter().zip(&comparison.without_window).zip(&comparison.offered);
    for ((wide, narrow), offered) in measured {
        let is_perfect = [wide, narrow, offered].iter().all(|measured| measured.is_perfect);
        table.add_row([
            wide.rule.to_string(),
            format!("{:.0}", narrow.packets_per_second),
            format!("{:.0}", wide.packets_per_second),
            format!("{:.2}", wide.packets_per_second / narrow.packets_per_second.max(1.0)),
            format!("{:.2}", wide.packets_per_multi_packet),
            format!("{:.0}", offered.latency.p50_us),
            format!("{:.0}", offered.latency.p99_us),
            format!("{:.0}", offered.latency.p999_us),
            format!("{:.1} %", offered.refused * 100.0),
            all_or_not(is_perfect),
        ]);
    }
    writeln!(f, "{table}\n")
}

/// Writes the same traffic in tunnel mode and with IP-TFS, and what that means.
fn write_modes(f: &mut fmt::Formatter<'_>, compared: &[ModeComparison]) -> fmt::Result {
    writeln!(
        f,
        "Two gateways without and with IP-TFS, which puts small packets into shared ESP packets; 8 tunnels, AES-GCM."
    )?;
    writeln!(f, "Ethernet: outer IP packets with 38 bytes each. CPU: both gateways and the comparison.")?;
    let mut table = new_table(&[
        "traffic",
        "mode",
        "packets",
        "ESP packets",
        "Ethernet bytes per packet",
        "packets/s",
        "CPU ns per packet",
        "in order, unchanged",
    ]);
    for comparison in compared {
        // Gateways that wait for packets poll, so that their processor time says nothing.
        let cpu = |ns: f64| if comparison.is_offered { "-".to_owned() } else { format!("{ns:.0}") };
        for (mode, measured) in comparison.modes() {
            table.add_row([
                comparison.traffic.clone(),
                mode.to_owned(),
                measured.good.to_string(),
                measured.esp_packets.to_string(),
                format!("{:.0}", measured.ethernet_bytes_per_packet()),
                format!("{:.0}", measured.packets_per_second),
                cpu(measured.cpu_ns_per_packet),
                all_or_not(measured.is_perfect),
            ]);
        }
    }
    writeln!(f, "{table}")?;
    for comparison in compared {
        writeln!(f, "  {comparison}")?;
    }
    writeln!(f)
}

/// Writes the runs of the verilated card, if it is built in.
fn write_card(f: &mut fmt::Formatter<'_>, runs: &[TrialReport]) -> fmt::Result {
    if runs.is_empty() {
        return Ok(());
    }
    writeln!(
        f,
        "The same traffic through the GRIP card only: its RTL, simulated cycle by cycle with Verilator. Times \
         are the card's."
    )?;
    let mut table = new_table(&[
        "window",
        "packets",
        "packets per multi-packet",
        "ns per packet on the card",
        "in order, unchanged",
    ]);
    for run in runs {
        table.add_row([
            run.window.to_string(),
            run.engines.iter().map(|engine| engine.packets).sum::<u64>().to_string(),
            format!("{:.2}", run.packets_per_multi_packet),
            run.engines.first().map_or_else(String::new, |card| format!("{:.0}", card.service_ns)),
            all_or_not(run.is_perfect),
        ]);
    }
    writeln!(f, "{table}")
}

fn engines(engines: &[DemoEngineReport]) -> Table {
    let mut table = new_table(&[
        "engine",
        "share",
        "packets",
        "queue",
        "packets per multi-packet",
        "predicted us",
        "error us",
    ]);
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

fn costs(engines: &[DemoEngine]) -> Table {
    let mut table = new_table(&[
        "engine",
        "cost",
        "per multi-packet, ns",
        "per block of 16 bytes, ns",
        "single packet, relative to this CPU",
    ]);
    for engine in engines {
        table.add_row([
            engine.name.clone(),
            if engine.is_model { "modelled" } else { "measured here" }.to_owned(),
            format!("{:.0}", engine.t_init_ns),
            format!("{:.1}", engine.t_block_ns),
            format!("{:.2}", engine.of_cpu),
        ]);
    }
    table
}

fn all_or_not(is_perfect: bool) -> String {
    if is_perfect { "all" } else { "NOT ALL" }.to_owned()
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

/// An empty table with this header.
fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_HORIZONTAL_ONLY).set_header(header.to_vec());
    table
}
