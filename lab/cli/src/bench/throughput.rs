//! `convoy-lab bench throughput`.

mod output;
mod text;

use convoy_figures::{Drawing, DrawingForm};
use convoy_measure::{
    DeviceUnderTest, EndSpec, Families, LengthReport, Lengths, Machine, MeasureError, Placement, Service,
    Tester, ThroughputPlan, test,
};

use super::args::ThroughputArgs;
use super::budget::Budget;
use super::page::Page;
use super::{failure, print_machine};
use crate::progress::LabProgress;
use convoy_cli::Failure;
use output::{LeftOut, ThroughputOutput, WhyLeftOut};
use text::print;

const LENGTHS_ARE: &str =
    "whole plaintext IP packets, in bytes, without the overhead of ESP and other tunnels";

/// The device under test, with its description.
struct BenchDevice {
    under_test: Box<dyn DeviceUnderTest>,
    name: String,
    placement: Option<Placement>,
}

fn device(args: &ThroughputArgs) -> Result<BenchDevice, MeasureError> {
    if let Some(link) = &args.link {
        let name = "a link in memory with known properties".to_owned();
        return Ok(BenchDevice { under_test: Box::new(link.start()?), name, placement: None });
    }
    if let (Some(near), Some(far)) = (&args.near, &args.far) {
        return outside(near, far);
    }
    let pair = args.pair();
    let what = match &pair.service {
        Service::Forward => format!("forwarding, {}", pair.families.inner),
        Service::Ipsec(proposal) => {
            let Families { inner, outer } = pair.families;
            format!("ESP in tunnel mode, {proposal}, {inner} in {outer}, tunnels: {}", pair.tunnels)
        }
    };
    let name = format!("two gateways in this process, connected in memory: {what}");
    Ok(BenchDevice { under_test: Box::new(pair.start()?), name, placement: Some(pair.placement) })
}

fn outside(near: &EndSpec, far: &EndSpec) -> Result<BenchDevice, MeasureError> {
    let mut tester = Tester::between(near, far)?;
    if !tester.learn()? {
        eprintln!("Packets do not arrive in both directions between {near} and {far}; measuring anyway.");
    }
    Ok(BenchDevice {
        under_test: Box::new(tester),
        name: format!("the devices between {near} and {far}"),
        placement: None,
    })
}

pub(super) fn run(args: &ThroughputArgs) -> Result<(), Failure> {
    let plan = args.plan().map_err(|what| Failure::Config(format!("convoy: {what}")))?;
    let mut device = device(args).map_err(failure)?;
    let (lengths, left_out) = measurable(&plan, device.under_test.as_ref())?;
    let tests = args.rounds * lengths.len() as u32;
    let test_s = test_s(&plan);
    let mut budget = Budget::new(args.within, f64::from(tests) * test_s);
    budget.announce(&format!("{} lengths, {} rounds", lengths.len(), args.rounds));
    let progress = LabProgress::new(None, "trials");
    let mut held = 0;
    let mut rounds = Vec::new();
    for _ in 0..args.rounds {
        let mut round = Vec::new();
        for lengths in &lengths {
            let mut observe = |step: &str| {
                held += 1;
                progress.say(&format!("{lengths} bytes: {step}"));
                progress.set(held);
            };
            let until = Some(budget.next(test_s));
            let report = test(device.under_test.as_mut(), &plan, *lengths, until, &mut observe);
            round.push(report.map_err(failure)?);
        }
        rounds.push(round);
    }
    drop(progress);
    write_report(&plan, device, left_out, rounds, args)
}

/// Separates the lengths that can be measured from those that cannot; fails if none can.
fn measurable(
    plan: &ThroughputPlan,
    device: &dyn DeviceUnderTest,
) -> Result<(Vec<Lengths>, Vec<LeftOut>), Failure> {
    let (mut measurable, mut left_out) = (Vec::new(), Vec::new());
    for lengths in plan.lengths.iter().copied() {
        match WhyLeftOut::of(lengths, device) {
            Some(why) => left_out.push(LeftOut { lengths, why }),
            None => measurable.push(lengths),
        }
    }
    match &left_out[..] {
        [LeftOut { lengths, why }, ..] if measurable.is_empty() => {
            Err(Failure::Config(format!("convoy: a length of {lengths} cannot be measured: {why}")))
        }
        _ => Ok((measurable, left_out)),
    }
}

/// Upper estimate of the time for a test at one length, in seconds.
fn test_s(plan: &ThroughputPlan) -> f64 {
    /// Rates judged for NDR and PDR together, time of shorter trials, and trials after the search.
    const RATES: f64 = 16.0;
    const SHORT_S: f64 = 8.0;
    const BURSTS_S: f64 = 30.0;
    const LOADS: f64 = 10.0;
    let ThroughputPlan { ndr, overload_s, .. } = plan;
    let search_s = RATES * ndr.sum_s + ndr.trial_s * SHORT_S;
    let rest_s = 4.0 * ndr.sum_s + LOADS * ndr.trial_s + BURSTS_S + overload_s;
    search_s + if plan.is_whole { rest_s } else { 0.0 }
}

fn write_report(
    plan: &ThroughputPlan,
    device: BenchDevice,
    left_out: Vec<LeftOut>,
    rounds: Vec<Vec<LengthReport>>,
    args: &ThroughputArgs,
) -> Result<(), Failure> {
    let output = ThroughputOutput {
        machine: Machine::here(),
        device: device.name,
        lengths_are: LENGTHS_ARE,
        placement: device.placement,
        trial_s: plan.ndr.trial_s,
        trials_judge: plan.ndr.sum_s / plan.ndr.trial_s,
        may_exceed: plan.ndr.exceed_ratio,
        resolution: plan.ndr.width,
        left_out,
        rounds,
    };
    page(&output).write(args.html.as_deref())?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print_machine(&output.machine);
        print(&output);
    }
    Ok(())
}

/// Figures: rates by length, and for the last round latency at half of the rate and loss against
/// load.
fn page(output: &ThroughputOutput) -> Page<'_> {
    let last = output.rounds.last().map(Vec::as_slice).unwrap_or_default();
    let names: Vec<String> = last.iter().map(|report| report.lengths.to_string()).collect();
    let by_length = |of: &dyn Fn(&LengthReport) -> Option<f64>| -> Vec<(f64, f64)> {
        let points = last.iter().enumerate().map(|(at, report)| (at as f64, of(report).unwrap_or(0.0)));
        points.collect()
    };
    let mbps = |rate: Option<f64>, report: &LengthReport| rate.map(|rate| report.mbps(rate));
    let rates = vec![
        ("NDR".to_owned(), by_length(&|report| mbps(report.ndr.packets_per_second, report))),
        ("PDR".to_owned(), by_length(&|report| mbps(report.pdr.packets_per_second, report))),
    ];
    let bars = |number, title: &str, y, series| Drawing {
        number: Some(number),
        title: title.to_owned(),
        x: "packet length / bytes",
        y,
        form: DrawingForm::Groups(names.clone()),
        series,
        whiskers: Vec::new(),
    };
    let loss = last.iter().map(|report| {
        let points = report.loss.iter().map(|at| (at.packets_per_second / 1e3, at.loss_ratio * 100.0));
        (report.lengths.to_string(), points.collect())
    });
    let loss = Drawing {
        number: Some(2),
        title: "Loss against load".to_owned(),
        x: "load / 1000 packets a second",
        y: "lost / %",
        form: DrawingForm::Curves,
        series: loss.collect(),
        whiskers: Vec::new(),
    };
    let latency = |quantile: fn(&convoy_measure::Latency) -> f64| {
        by_length(&|report| report.latency.iter().find(|at| at.part == 0.5).map(|at| quantile(&at.latency)))
    };
    let latency = vec![
        ("p50".to_owned(), latency(|latency| latency.p50_us)),
        ("p99".to_owned(), latency(|latency| latency.p99_us)),
    ];
    let note = format!("The last of n = {} rounds, each way.", output.rounds.len());
    Page {
        title: "Throughput, latency and loss",
        machine: &output.machine,
        facts: vec![
            format!("Device: {}.", output.device),
            format!("Lengths: {}.", output.lengths_are),
            format!(
                "A rate is judged by {:.0} trials of {} s, of which {:.0} % may lose more; resolution {} %.",
                output.trials_judge,
                output.trial_s,
                output.may_exceed * 100.0,
                output.resolution * 100.0
            ),
        ],
        figures: vec![
            (bars(1, "The highest rates", "throughput / Mbit/s", rates), note.clone()),
            (loss, note.clone()),
            (bars(3, "Latency at half of the rate", "latency / us", latency), note),
        ],
        verdicts: Vec::new(),
    }
}
