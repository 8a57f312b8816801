//! `convoy sim run`.

use comfy_table::Table;
use convoy_capture::Unread;
use convoy_sim::{Arrivals, Capture, Load, Percentiles, Report, SaCacheReport, Setting};
use serde::Serialize;

use super::args::{ArrivalArgs, RunArgs, SaBy};
use super::traffic::Watched;
use super::{failure, platform};
use crate::Failure;
use crate::output::warn_of;
use crate::table::new_table;

/// What is printed for machines: the report, and what it is about.
#[derive(Serialize)]
struct Output<'a> {
    platform: &'a str,
    setting: &'a Setting,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    /// Packets of a capture that are left out: those that no policy protects, and those that cannot
    /// be used.
    skipped: u64,
    without_sa: u64,
    unreadable: Unread,
    /// Where the capture is cut off or damaged, if it is; what follows was not read.
    damage: Option<String>,
    #[serde(flatten)]
    report: &'a Report,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    if args.traffic.sa_by == SaBy::Destination && args.traffic.config.is_some() {
        return Err(Failure::Config("--config is for --sa-by policies".to_owned()));
    }
    let setting = args.setting();
    let base = platform(&args.platform)?;
    let mut simulation = setting.simulation(&base).map_err(failure)?;
    simulation.arrivals = arrivals(&args.arrivals);
    simulation.packets = args.traffic.packets;
    let mut traffic = Watched::open(args, &setting)?;
    let report = simulation.run(&mut traffic).map_err(failure)?;
    let told = told(&base.name, &setting, args, &traffic, &report);
    warn_of(told.damage.as_deref());
    if let (0, Some(trace)) = (report.packets, &told.trace) {
        let reasons: Vec<String> = left_out(&told).map(|(count, why)| format!("{count} {why}")).collect();
        let reasons = if reasons.is_empty() { "it has none".to_owned() } else { reasons.join(", ") };
        let what = format!("no packet of it counts; {} were left out: {reasons}", told.skipped);
        return Err(Failure::Failed(format!("{trace}: {what}")));
    }
    if args.json {
        let text = serde_json::to_string_pretty(&told).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&told, simulation.platform.source.is_lossy());
    }
    Ok(())
}

fn told<'a>(
    platform: &'a str,
    setting: &'a Setting,
    args: &RunArgs,
    traffic: &Watched,
    report: &'a Report,
) -> Output<'a> {
    let capture = traffic.capture();
    let unreadable = capture.map(|capture| capture.unread().clone()).unwrap_or_default();
    let without_sa = capture.map_or(0, Capture::without_sa);
    Output {
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

/// How many packets of a capture were left out, and why.
fn left_out<'a>(told: &'a Output<'_>) -> impl Iterator<Item = (u64, String)> + 'a {
    let without_sa = (told.without_sa, "no SA protects them".to_owned());
    let unreadable = told.unreadable.iter().map(|(reason, count)| (count, reason.to_string()));
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

fn print(told: &Output<'_>, has_queue: bool) {
    let report = told.report;
    let traffic = match (&told.trace, &told.setting.pattern) {
        (Some(trace), _) => trace.clone(),
        (None, pattern) => format!("pattern {}", pattern.as_deref().unwrap_or_default()),
    };
    println!(
        "{}, {traffic}: {} packets, seed {}",
        told.platform,
        report.packets,
        told.setting.seed.unwrap_or(1)
    );
    for (count, why) in left_out(told) {
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

/// The outer packets of aggregation; empty without it.
fn outer_packets(report: &Report) -> String {
    let Some(outer) = report.outer else { return String::new() };
    let of = |sum: u64| sum as f64 / outer.packets.max(1) as f64;
    let (inner, bytes) = (of(report.packets), of(outer.wire_bytes));
    format!("{} of {inner:.3} packets, {bytes:.0} bytes each on the wire", outer.packets)
}

/// What stages and cores did, where there are any.
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

/// What processors and buses did.
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
            println!(
                "{}: a cache of {sas} SAs, missed by {missed:.1} % of its multi-packets",
                processor.name
            );
        }
    }
}

/// Numbers stand under each other.
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
