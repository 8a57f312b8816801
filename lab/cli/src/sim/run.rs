//! `convoy-lab sim run`.

use comfy_table::Table;
use convoy_capture::Unread;
use convoy_sim::{Arrivals, Capture, Load, Percentiles, Report, SaCacheReport, Setting};
use serde::Serialize;

use super::args::{ArrivalArgs, RunArgs, SaBy};
use super::traffic::TrackedTraffic;
use super::{failure, platform};
use convoy_cli::Failure;
use convoy_cli::output::warn_of;
use convoy_cli::table::new_table;

/// The report as JSON, with its input.
#[derive(Serialize)]
struct RunOutput<'a> {
    platform: &'a str,
    setting: &'a Setting,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// Packets of a capture that were left out: unprotected and unusable ones.
    skipped: u64,
    without_sa: u64,
    unreadable: Unread,
    /// Where the capture is truncated or damaged, if it is; the rest was not read.
    damage: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    if args.traffic.sa_by == SaBy::Destination && args.traffic.config.is_some() {
        return Err(Failure::Config("--config is only for --sa-by policies".to_owned()));
    }
    let setting = args.setting();
    let base = platform(&args.platform)?;
    let mut simulation = setting.simulation(&base).map_err(failure)?;
    simulation.arrivals = arrivals(&args.arrivals);
    simulation.packets = args.traffic.packets;
    let mut traffic = TrackedTraffic::open(args, &setting)?;
    let report = simulation.run(&mut traffic).map_err(failure)?;
    let output = output_of(&base.name, &setting, args, &traffic, &report);
    warn_of(output.damage.as_deref());
    if let (0, Some(trace)) = (report.packets, &output.trace) {
        let reasons: Vec<String> = left_out(&output).map(|(count, why)| format!("{count} {why}")).collect();
        let reasons = if reasons.is_empty() { "it has none".to_owned() } else { reasons.join(", ") };
        let what = format!("it has no usable packet; {} were left out: {reasons}", output.skipped);
        return Err(Failure::Failed(format!("{trace}: {what}")));
    }
    if args.json {
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&output, simulation.platform.source.is_lossy());
    }
    Ok(())
}

fn output_of<'a>(
    platform: &'a str,
    setting: &'a Setting,
    args: &RunArgs,
    traffic: &TrackedTraffic,
    report: &'a Report,
) -> RunOutput<'a> {
    let capture = traffic.capture();
    let unreadable = capture.map(|capture| capture.unread().clone()).unwrap_or_default();
    let without_sa = capture.map_or(0, Capture::without_sa);
    RunOutput {
        platform,
        setting,
        trace: args.traffic.trace.as_ref().map(|path| path.display().to_string()),
        skipped: unreadable.total() + without_sa,
        without_sa,
        unreadable,
        damage: capture.and_then(Capture::damage),
        report,
    }
}

/// Numbers of packets of a capture that were left out, with the reasons.
fn left_out<'a>(output: &'a RunOutput<'_>) -> impl Iterator<Item = (u64, String)> + 'a {
    let without_sa = (output.without_sa, "no SA protects them".to_owned());
    let unreadable = output.unreadable.iter().map(|(reason, count)| (count, reason.to_string()));
    std::iter::once(without_sa).filter(|(count, _)| *count > 0).chain(unreadable)
}

fn arrivals(args: &ArrivalArgs) -> Arrivals {
    match args.rate_pps {
        Some(rate) if args.poisson => Arrivals::Poisson(rate),
        Some(rate) => Arrivals::Paced(rate),
        None if args.as_captured => Arrivals::Captured,
        None => Arrivals::BackToBack,
    }
}

fn print(output: &RunOutput<'_>, has_queue: bool) {
    let report = output.report;
    let traffic = match (&output.trace, &output.setting.pattern) {
        (Some(trace), _) => trace.clone(),
        (None, pattern) => format!("pattern {}", pattern.as_deref().unwrap_or_default()),
    };
    println!(
        "{}, {traffic}: {} packets, seed {}",
        output.platform,
        report.packets,
        output.setting.seed.unwrap_or(1)
    );
    for (count, why) in left_out(output) {
        println!("{count} packets of the trace were left out: {why}");
    }
    println!();
    print_processors(report);
    print_stages(report);
    println!();
    for (what, value) in [
        ("throughput", format!("{:.1} Mbit/s", report.throughput_mbps)),
        (
            "multi-packets",
            format!("{} of {:.3} packets", report.multi_packets, report.packets_per_multipacket),
        ),
        ("outer packets", outer_packets(report)),
        ("average length", format!("{:.0} bytes", report.average_length_scheduled)),
        ("latency", times(report.latency_ms, &report.latency_percentiles_ms)),
        ("sojourn", times(report.sojourn_ms, &report.sojourn_percentiles_ms)),
        ("bus conflicts", format!("{:.1} % of requests", report.bus_conflicts * 100.0)),
        ("source waited", format!("{:.1} of {:.1} ms", report.source_waited_ms, report.end_ms)),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty())
    {
        println!("{what:<16}{value}");
    }
    if has_queue {
        let load = |of: &Load| format!("{} packets, {:.1} Mbit/s of payload", of.packets, of.mbps);
        println!("{:<16}{}", "offered", load(&report.offered));
        println!("{:<16}{}", "carried", load(&report.carried));
        let part = report.success_ratio * 100.0;
        println!(
            "{:<16}{} packets; {part:.2} % of those offered are carried",
            "dropped", report.dropped.packets
        );
    }
}

/// Formats the outer packets of aggregation; empty without it.
fn outer_packets(report: &Report) -> String {
    let Some(outer) = report.outer else { return String::new() };
    let of = |sum: u64| sum as f64 / outer.packets.max(1) as f64;
    let (inner, bytes) = (of(report.packets), of(outer.wire_bytes));
    format!("{} of {inner:.3} packets, {bytes:.0} bytes each on the wire", outer.packets)
}

/// Prints stages and cores, if there are any.
pub(super) fn print_stages(report: &Report) {
    if report.stages.is_empty() {
        return;
    }
    println!();
    let mut table = new_table(&["stage", "packets", "in service, us", "with waiting, us", "utilisation %"]);
    for stage in &report.stages {
        table.add_row([
            stage.name.clone(),
            stage.packets.to_string(),
            format!("{:.2}", stage.service_us),
            format!("{:.2}", stage.sojourn_us),
            format!("{:.1}", stage.utilisation * 100.0),
        ]);
    }
    for cores in &report.cores {
        let none = String::new;
        let utilisation = format!("{:.1}", cores.utilisation * 100.0);
        table.add_row([format!("{} x {}", cores.count, cores.name), none(), none(), none(), utilisation]);
    }
    println!("{}", to_the_right(table));
}

/// Prints processors and buses.
pub(super) fn print_processors(report: &Report) {
    let mut table =
        new_table(&["processor", "packets", "share %", "multi-packets", "average length", "utilisation %"]);
    let measured = report.share.iter().zip(&report.average_length);
    for (processor, (share, length)) in report.processors.iter().zip(measured) {
        table.add_row([
            processor.name.clone(),
            processor.packets.to_string(),
            format!("{:.2}", share * 100.0),
            processor.multi_packets.to_string(),
            format!("{length:.0} bytes"),
            format!("{:.1}", processor.utilisation * 100.0),
        ]);
    }
    for bus in &report.buses {
        let none = String::new;
        let utilisation = format!("{:.1}", bus.utilisation * 100.0);
        table.add_row([format!("bus {}", bus.name), none(), none(), none(), none(), utilisation]);
    }
    println!("{}", to_the_right(table));
    for processor in &report.processors {
        if let Some(SaCacheReport { sas, hits, misses }) = processor.cache {
            let missed = misses as f64 / (hits + misses).max(1) as f64 * 100.0;
            println!("{}: a cache of {sas} SAs; {missed:.1} % of its multi-packets miss it", processor.name);
        }
    }
}

/// Aligns numbers to the right.
fn to_the_right(mut table: Table) -> Table {
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(comfy_table::CellAlignment::Right);
    }
    table
}

fn times(mean: f64, percentiles: &Percentiles) -> String {
    let Percentiles { p50, p90, p99, p999 } = percentiles;
    format!("{mean:.4} ms; median {p50:.4}, 90 % {p90:.4}, 99 % {p99:.4}, 99.9 % {p999:.4}")
}
