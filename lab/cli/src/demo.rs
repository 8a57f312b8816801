//! `convoy-lab demo`.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::Duration;

use convoy_workbench::demo::{
    Comparison, DemoConfig, DemoEngine, DemoEngineReport, DemoReport, LiveView, ModeComparison, TrialReport,
    WorstCase, run,
};

use crate::args::DemoArgs;
use convoy_cli::Failure;
use convoy_cli::output::warn_of;
use convoy_cli::table::new_table;

/// Fraction of the time for the first, live part.
const LIVE_SHARE: f64 = 0.15;
/// Fraction of the time for tunnel mode beside IP-TFS; the comparisons of policies share the rest.
const IPTFS_SHARE: f64 = 0.08;
/// Duration of each run with the verilated card, which handles a few thousand packets per second.
const CARD: Duration = Duration::from_secs(3);

pub(crate) fn demo(args: &DemoArgs) -> Result<(), Failure> {
    let seconds = args.seconds.max(1.0);
    let share = |share| Duration::from_secs_f64(seconds * share);
    let config = DemoConfig {
        live: share(LIVE_SHARE),
        comparisons: share(1.0 - LIVE_SHARE - IPTFS_SHARE),
        iptfs: share(IPTFS_SHARE),
        card: CARD,
        capture: capture(args),
        fail: args.fail.clone(),
        seed: args.seed,
    };
    let is_live = std::io::stdout().is_terminal() && !args.json;
    let report = run(&config, &mut |view| {
        if is_live {
            show(view);
        }
    });
    let report = report.map_err(|error| Failure::Failed(error.to_string()))?;
    warn_of(report.capture_damage.as_deref());
    if args.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        if is_live {
            print!("\x1b[2J\x1b[H");
        }
        print(&report);
    }
    if report.is_perfect() {
        Ok(())
    } else {
        Err(Failure::Failed("not every packet arrived unchanged and in order".to_owned()))
    }
}

/// The given capture, or the one that comes with the source.
fn capture(args: &DemoArgs) -> Option<PathBuf> {
    let own = || PathBuf::from("demo/traffic.pcap");
    args.capture.clone().or_else(|| Some(own()).filter(|path| path.exists()))
}

fn show(view: &LiveView) {
    print!(
        "\x1b[2J\x1b[Htwo gateways, {}, window {}: {:.1} of {:.1} s, {} packets delivered, {:.0} Mbit/s\n{}\n",
        view.rule,
        view.window,
        view.elapsed_s,
        view.length_s,
        view.delivered,
        view.mbps,
        engines(&view.engines)
    );
    // Failures are ignored, for example when the terminal was closed.
    let _ = std::io::stdout().flush();
}

fn engines(engines: &[DemoEngineReport]) -> comfy_table::Table {
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

fn print(report: &DemoReport) {
    let live = &report.live;
    println!("Two gateways in one process, 8 tunnels in UDP between them, traffic in both directions:");
    println!("{} packets of real programs and generated IMIX, repeated.", report.capture_packets);
    for (reason, count) in report.capture_unreadable.iter() {
        println!("{count} packets of the capture were left out: {reason}");
    }
    println!("\nAll available engines in the first gateway; {}, window {}:", live.rule, live.window);
    println!("{}", engines(&live.engines));
    for event in &live.events {
        println!("  {event}");
    }
    println!("  {}\n", outcome(live));
    for comparison in &report.comparisons {
        print_comparison(comparison);
    }
    print_modes(&report.iptfs);
    print_card(&report.card);
    let (sent, good) = report.sent_and_good();
    println!("{good} of {sent} packets arrived unchanged, in the order of their SA.");
    println!("In this run, which another one may contradict on few cores:");
    for comparison in &report.comparisons {
        if let Some(verdict) = &comparison.verdict {
            println!("{}: {verdict}", comparison.about);
        }
    }
    let of = |worst: &WorstCase| format!("{} {:.2}", worst.rule, worst.ratio);
    let worst_cases: Vec<String> = report.worst_cases.iter().map(of).collect();
    if !worst_cases.is_empty() {
        println!(
            "Packets per second on the platform that suits a policy least, relative to the best one there: {}.",
            worst_cases.join("; ")
        );
    }
}

/// Prints each policy's throughput on one platform, and its latency under the same load.
fn print_comparison(comparison: &Comparison) {
    let Comparison { about, proposal, engines, offered_packets_per_second, .. } = comparison;
    println!("The first gateway with {about}, {proposal}:");
    println!("{}", costs(engines));
    let load = offered_packets_per_second / 1000.0;
    println!("  Latency is measured between the plaintext ports, at {load:.0} thousand packets/s:");
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
    println!("{table}\n");
}

fn costs(engines: &[DemoEngine]) -> comfy_table::Table {
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

/// Prints the same traffic in tunnel mode and with IP-TFS, and what that means.
fn print_modes(compared: &[ModeComparison]) {
    println!(
        "Two gateways without and with IP-TFS, which puts small packets into shared ESP packets; 8 tunnels, AES-GCM."
    );
    println!("Ethernet: outer IP packets with 38 bytes each. CPU: both gateways and the comparison.");
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
    println!("{table}");
    for comparison in compared {
        println!("  {comparison}");
    }
    println!();
}

fn all_or_not(is_perfect: bool) -> String {
    if is_perfect { "all" } else { "NOT ALL" }.to_owned()
}

/// Prints the runs of the verilated card, if it is built in.
fn print_card(runs: &[TrialReport]) {
    if runs.is_empty() {
        return;
    }
    println!(
        "The same traffic through the GRIP card only: its RTL, simulated cycle by cycle with Verilator. Times \
         are the card's."
    );
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
    println!("{table}");
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
