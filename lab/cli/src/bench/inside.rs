//! `convoy-lab bench inside`.

mod steps;

use std::collections::BTreeMap;
use std::time::Instant;

use convoy_figures::{Drawing, DrawingForm};
use convoy_measure::{
    Block, BlockName, Blocks, Machine, MeasureError, Placement, Profile, ProfiledLoad, Service, Turnaround,
    blocks, turnaround,
};
use serde::Serialize;

use super::args::InsideArgs;
use super::budget::Budget;
use super::load::{LoadSubject, Loads};
use super::page::Page;
use super::{failure, print_machine, profile};
use crate::progress::LabProgress;
use convoy_cli::Failure;
use convoy_cli::table::{Column, number, table_of, word};
pub(super) use steps::InsideStep;
use steps::steps;

/// Packets per burst.
const BURST: usize = 32;
/// For the profile: load relative to the capacity of one core, and duration in trials.
const PROFILED_LOAD: f64 = 0.5;
const PROFILED_TRIALS: f64 = 3.0;
/// Packet lengths for the turnaround of single packets.
const TURNAROUND: [u16; 6] = [64, 256, 512, 1024, 1280, 1450];

/// Results of one service.
#[derive(Serialize)]
struct Inside {
    /// Time by functional block, for each length.
    blocks: Vec<Blocks>,
    /// Utilisation by load, for each length.
    utilisation: Vec<Loads>,
    /// Profile of the worker's time under one load, for each length.
    profile: Profile,
    /// Turnaround of cryptography; `None` without a cipher.
    turnaround: Option<Turnaround>,
    /// The bottleneck at each length.
    verdicts: Vec<String>,
}

#[derive(Serialize)]
struct InsideOutput {
    machine: Machine,
    placement: Placement,
    burst: usize,
    /// Number of measurements of each load.
    rounds: u32,
    services: BTreeMap<String, Inside>,
}

pub(super) fn run(args: &InsideArgs) -> Result<(), Failure> {
    let placement = Placement::here();
    let wanted = args.services();
    let steps = steps(args, &wanted);
    let mut budget = Budget::new(args.within, steps.iter().map(|step| step.seconds(args)).sum());
    budget.announce(&format!("{} steps", steps.len()));
    let progress = LabProgress::new(Some(steps.len() as u64), "steps");
    let mut done = 0;
    let mut services = BTreeMap::new();
    for (name, service) in wanted {
        let mut next = |step: InsideStep| {
            progress.say(&format!("{name}: {}", step.name()));
            progress.set(done);
            done += 1;
            budget.next(step.seconds(args))
        };
        services.insert(name.clone(), measure(args, &service, &placement, &mut next).map_err(failure)?);
    }
    drop(progress);
    let output =
        InsideOutput { machine: Machine::here(), placement, burst: BURST, rounds: args.rounds, services };
    let tables: Vec<_> =
        output.services.iter().map(|(name, inside)| profile::table(name, &inside.profile)).collect();
    page(&output).write_with(args.html.as_deref(), &tables)?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&output);
    }
    Ok(())
}

fn measure(
    args: &InsideArgs,
    service: &Service,
    placement: &Placement,
    next: &mut dyn FnMut(InsideStep) -> Instant,
) -> Result<Inside, MeasureError> {
    let (mut all_blocks, mut all_busy, mut loads) = (Vec::new(), Vec::new(), Vec::new());
    for lengths in &args.lengths {
        let until = next(InsideStep::Blocks);
        let measured = blocks(service, *lengths, BURST, Some(until))?;
        let most = 1e9 / measured.sum_ns();
        let subject = LoadSubject { service, placement, lengths: *lengths };
        all_busy.push(Loads::measure(subject, most, args.trial, args.rounds, next)?);
        loads.push(load(&measured, most * PROFILED_LOAD));
        all_blocks.push(measured);
    }
    let until = next(InsideStep::Profile);
    let seconds = args.trial * PROFILED_TRIALS;
    let profile = convoy_measure::profile(service, placement, &loads, seconds, Some(until))?;
    let turnaround = match service {
        Service::Ipsec(proposal) => {
            let until = next(InsideStep::Turnaround);
            Some(turnaround(proposal, &TURNAROUND, Some(until))?)
        }
        Service::Forward => None,
    };
    let verdicts = all_blocks.iter().map(Blocks::verdict).collect();
    Ok(Inside { blocks: all_blocks, utilisation: all_busy, profile, turnaround, verdicts })
}

/// The load for the profile.
fn load(blocks: &Blocks, rate: f64) -> ProfiledLoad {
    let ipsec = [BlockName::Classify, BlockName::Prepare, BlockName::Crypto];
    ProfiledLoad { lengths: blocks.lengths, rate, ipsec_ns: ipsec.map(|name| blocks.of(name)).iter().sum() }
}

fn print(output: &InsideOutput) {
    print_machine(&output.machine);
    println!("One worker between two UDP links on loopback; packets are outbound.");
    for (name, inside) in &output.services {
        println!(
            "\n{name}: time per packet by functional block, in ns, for bursts of {BURST}: medians, with quartiles in brackets"
        );
        let Some(first) = inside.blocks.first() else { continue };
        let mut columns: Vec<Column<'_, Blocks>> =
            vec![word("bytes", |blocks: &Blocks| blocks.lengths.to_string())];
        columns.extend(first.blocks.iter().map(|block| {
            let name = block.name;
            number(name.words(), move |blocks: &Blocks| spread(blocks, name))
        }));
        columns.push(number("all", |blocks: &Blocks| format!("{:.0}", blocks.sum_ns())));
        columns.push(number("n", |blocks: &Blocks| blocks.bursts.to_string()));
        println!("{}", table_of(&columns, &inside.blocks, None));
        println!(
            "A time stamp takes {:.0} ns, which was subtracted for each block of a burst and each call of an engine.",
            first.stamp_ns
        );
        print_memory(inside);
        println!(
            "\nUtilisation of the worker and packets that arrive, by load; medians of {} rounds, with the \
             lowest and the highest in square brackets:",
            output.rounds
        );
        inside.utilisation.iter().for_each(Loads::print);
        profile::print(&inside.profile, inside.blocks.len());
        if let Some(turnaround) = &inside.turnaround {
            print_turnaround(turnaround);
        }
        println!();
        inside.verdicts.iter().for_each(|verdict| println!("{verdict}"));
    }
}

/// Median of a block with its quartiles.
fn spread(blocks: &Blocks, name: BlockName) -> String {
    let block = blocks.blocks.iter().find(|block| block.name == name);
    block.map_or_else(String::new, |Block { ns, quartiles_ns: (low, high), .. }| {
        format!("{ns:.0} ({low:.0}–{high:.0})")
    })
}

/// Number of bursts behind the medians: a range over the lengths.
fn bursts<'a>(all: impl Iterator<Item = &'a Blocks> + Clone) -> String {
    let fewest = all.clone().map(|blocks| blocks.bursts).min().unwrap_or(0);
    let most = all.map(|blocks| blocks.bursts).max().unwrap_or(0);
    if fewest == most { format!("n = {most}") } else { format!("n = {fewest} to {most}") }
}

fn print_memory(inside: &Inside) {
    let bytes = |value: f64| format!("{value:.0}");
    let columns = [
        word("bytes", |blocks: &Blocks| blocks.lengths.to_string()),
        number("receive", move |blocks: &Blocks| bytes(blocks.memory.receive)),
        number("cryptography", move |blocks: &Blocks| bytes(blocks.memory.crypto)),
        number("transmit", move |blocks: &Blocks| bytes(blocks.memory.transmit)),
        number("all", move |blocks: &Blocks| bytes(blocks.memory.bytes())),
        number("limit by memory, kpps", |blocks: &Blocks| {
            format!("{:.0}", blocks.memory.most_packets_per_second() / 1e3)
        }),
        number("copy rate of one core, GB/s", |blocks: &Blocks| {
            format!("{:.1}", blocks.memory.bandwidth / 1e9)
        }),
    ];
    println!("\nMemory traffic per packet in bytes, read and written, by block:");
    println!("{}", table_of(&columns, &inside.blocks, None));
}

fn print_turnaround(turnaround: &Turnaround) {
    let points = turnaround.points.iter().map(|(length, ns)| format!("{length} bytes {ns:.0} ns"));
    println!(
        "\nCryptography of a single packet, medians of at least {} packets: {}",
        turnaround.packets,
        points.collect::<Vec<_>>().join(", ")
    );
    let calibrated = turnaround
        .calibrated_mbps
        .map_or_else(String::new, |mbps| format!("; from calibration, {mbps:.0} Mbit/s"));
    match turnaround.slope_mbps {
        Some(mbps) => println!("The engine's rate from the slope: {mbps:.0} Mbit/s{calibrated}."),
        None => println!("Longer packets did not take longer, so there is no slope{calibrated}."),
    }
}

/// Figures 12 to 15 of the paper for each service.
fn page(output: &InsideOutput) -> Page<'_> {
    let mut figures = Vec::new();
    let mut verdicts = Vec::new();
    for (name, inside) in &output.services {
        figures.extend(super::load::figures(name, &inside.utilisation));
        verdicts.extend(inside.verdicts.iter().map(|verdict| format!("{name}: {verdict}")));
    }
    figures.push(turnaround_figure(output));
    figures.extend(output.services.iter().map(|(name, inside)| block_figure(name, inside)));
    Page {
        title: "convoy from inside",
        machine: &output.machine,
        facts: vec![
            "One worker between two UDP links on loopback; outbound packets, lengths of plaintext IP packets."
                .to_owned(),
            format!(
                "Blocks: medians over bursts of {BURST} packets, {}, less the cost of the time stamps.",
                bursts(output.services.values().flat_map(|inside| &inside.blocks))
            ),
        ],
        figures,
        verdicts,
    }
}

fn block_figure(name: &str, inside: &Inside) -> (Drawing, String) {
    let names = inside.blocks.iter().map(|blocks| blocks.lengths.to_string()).collect();
    let blocks = inside.blocks.first().map(|first| first.blocks.as_slice()).unwrap_or_default();
    let series = blocks.iter().map(|block| {
        let points = (0..).map(f64::from).zip(inside.blocks.iter().map(|blocks| blocks.of(block.name)));
        (block.name.words().to_owned(), points.collect())
    });
    let drawing = Drawing {
        number: Some(15),
        title: format!("Time per packet by functional block: {name}"),
        x: "packet length / bytes",
        y: "time / ns",
        form: DrawingForm::Stacks(names),
        series: series.collect(),
        whiskers: blocks.iter().map(|block| quartiles(inside, block.name)).collect(),
    };
    let n = bursts(inside.blocks.iter());
    (
        drawing,
        format!(
            "Stacked in the order of the packet path. Medians, {n}; whiskers from the first to the third quartile."
        ),
    )
}

/// Quartiles of a block, by the index of the length.
fn quartiles(inside: &Inside, name: BlockName) -> Vec<(f64, f64, f64)> {
    let of = |(x, blocks): (f64, &Blocks)| {
        let block = blocks.blocks.iter().find(|block| block.name == name)?;
        Some((x, block.quartiles_ns.0, block.quartiles_ns.1))
    };
    (0..).map(f64::from).zip(&inside.blocks).filter_map(of).collect()
}

fn turnaround_figure(output: &InsideOutput) -> (Drawing, String) {
    let of = |(name, inside): (&String, &Inside)| {
        let turnaround = inside.turnaround.as_ref()?;
        let points = turnaround.points.iter().map(|(length, ns)| (f64::from(*length), ns / 1e3));
        Some((name.clone(), points.collect()))
    };
    let drawing = Drawing {
        number: Some(14),
        title: "Turnaround of cryptography for a single packet".to_owned(),
        x: "packet length / bytes",
        y: "time / us",
        form: DrawingForm::Curves,
        series: output.services.iter().filter_map(of).collect(),
        whiskers: Vec::new(),
    };
    let packets =
        output.services.values().filter_map(|inside| Some(inside.turnaround.as_ref()?.packets)).min();
    let note = packets.map_or_else(String::new, |n| format!(" Medians, n at least {n} packets."));
    (drawing, format!("The slope is the engine's rate.{note}"))
}
