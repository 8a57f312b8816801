//! `convoy bench schemes`: the IXP425 paper's four schemes on a real gateway, beside the simulator's platform of that paper.

use std::collections::BTreeMap;
use std::time::Instant;

use convoy_measure::{
    Found, Goal, Lengths, Machine, MeasureError, Placement, Rates, Scheme, Service, Shape, Ways, search,
};
use convoy_sim::{Drawing, DrawingForm, NdrSearch, Platform, Setting};
use serde::Serialize;

use super::args::SchemesArgs;
use super::budget::Budget;
use super::page::Page;
use super::shape::{Compared, sentence};
use super::{failure, print_machine};
use crate::Failure;
use crate::progress::Progress;
use crate::table::{Column, number, table_of, word};

/// One cipher by one scheme.
#[derive(Serialize)]
struct Measured {
    scheme: Scheme,
    /// What is off the worker's core.
    off: &'static str,
    /// Why there is none of this scheme here, if there is none.
    unavailable: Option<String>,
    /// The highest rate without loss, by length.
    found: Vec<(Lengths, Found)>,
}

impl Measured {
    fn of(&self, lengths: Lengths) -> Option<&Found> {
        self.found.iter().find(|(of, _)| *of == lengths).map(|(_, found)| found)
    }

    fn mbps(&self, lengths: Lengths) -> Option<f64> {
        self.of(lengths)?.packets_per_second.map(|rate| rate * lengths.mean() * 8e-6)
    }

    /// `≥` where the tester was the limit, `~` where time was up before the search had ended.
    fn mark(&self, lengths: Lengths) -> &'static str {
        match self.of(lengths) {
            Some(Found { is_settled: false, .. }) => "~ ",
            Some(Found { is_limited_by_tester: true, .. }) => "≥ ",
            _ => "",
        }
    }
}

/// What is measured.
#[derive(Serialize)]
struct Told {
    machine: Machine,
    placement: Placement,
    /// Whether what is off the worker's core has a core to itself.
    has_cores_apart: bool,
    lengths_are: &'static str,
    trial_s: f64,
    resolution: f64,
    /// By service: `forwarding`, or a proposal.
    real: BTreeMap<String, Vec<Measured>>,
    /// The same of the simulated IXP425, in Mbit/s without loss, by service, scheme and length.
    simulated: Simulated,
    /// Where both have the same shape and where not, by service.
    shapes: BTreeMap<&'static str, String>,
}

/// Variants of the platform `ixp425` for each scheme, with 3DES.
const SIMULATED: [(&str, &str); 4] = [
    ("none", "software-io+software-crypto"),
    ("packet I/O", "software-crypto"),
    ("cryptography", "software-io"),
    ("both", ""),
];
/// What a search takes, in trials that count: some ten of these, and short ones, and the tester's waits between them.
const TRIALS_OF_SEARCH: f64 = 14.0;
/// Packets of a simulated trial.
const PACKETS: u64 = 2_000;

pub(super) fn run(args: &SchemesArgs) -> Result<(), Failure> {
    let placement = Placement::here();
    let services = args.services();
    let searches: usize =
        services.iter().map(|(_, service)| schemes(service).count() * args.lengths.len()).sum();
    let mut budget = Budget::new(args.within, searches as u32, args.trial * TRIALS_OF_SEARCH);
    budget.announce(&format!("{searches} searches"));
    let progress = Progress::new(Some(searches as u64), "searches");
    let mut done = 0;
    let mut real = BTreeMap::new();
    for (name, service) in &services {
        let mut all = Vec::new();
        for scheme in schemes(service) {
            let mut next = || {
                progress.say(&format!("{name}, off the worker's core: {}", scheme.name()));
                progress.set(done);
                done += 1;
                budget.next()
            };
            all.push(measure(args, service, scheme, &placement, &mut next).map_err(failure)?);
        }
        real.insert(name.clone(), all);
    }
    progress.say("the simulated IXP425");
    let simulated = simulated(&args.lengths, &services)?;
    drop(progress);
    let shapes = shapes(&real, &simulated, args.resolution);
    let told = Told {
        machine: Machine::here(),
        has_cores_apart: placement.has_cores_apart(),
        placement,
        lengths_are: "whole plaintext IP packets, in bytes",
        trial_s: args.trial,
        resolution: args.resolution,
        real,
        simulated,
        shapes,
    };
    page(&told, &args.lengths).write(args.html.as_deref())?;
    if args.json {
        let text = serde_json::to_string_pretty(&told).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&told, &args.lengths);
    }
    Ok(())
}

/// The schemes of a service: without a cipher nothing of it can be elsewhere.
fn schemes(service: &Service) -> impl Iterator<Item = Scheme> {
    let is_forwarding = *service == Service::Forward;
    Scheme::ALL.into_iter().filter(move |scheme| !(is_forwarding && scheme.is_crypto_apart))
}

fn measure(
    args: &SchemesArgs,
    service: &Service,
    scheme: Scheme,
    placement: &Placement,
    next: &mut dyn FnMut() -> Instant,
) -> Result<Measured, MeasureError> {
    let mut measured = Measured { scheme, off: scheme.name(), unavailable: None, found: Vec::new() };
    let mut gateway = match scheme.start(service, placement) {
        Ok(gateway) => gateway,
        // An engine on a core of its own may lack a cipher.
        Err(MeasureError::Gateway(why)) => {
            args.lengths.iter().for_each(|_| {
                next();
            });
            measured.unavailable = Some(why);
            return Ok(measured);
        }
        Err(other) => return Err(other),
    };
    let goal = Goal {
        loss_ratio: args.loss,
        width: args.resolution,
        trial_s: args.trial,
        sum_s: args.trial * 3.0,
        exceed_ratio: 0.5,
    };
    let rates = Rates { least: 500.0, most: args.most };
    for lengths in &args.lengths {
        let shape = Shape { lengths: *lengths, ways: Ways::One };
        let searched = search(&mut gateway, shape, rates, &[goal], Some(next()), &mut |_| ())?;
        measured.found.push((*lengths, searched.found[0]));
    }
    Ok(measured)
}

/// Of a service, by scheme: length and Mbit/s.
type ByScheme = BTreeMap<&'static str, Vec<(u16, f64)>>;
type Simulated = BTreeMap<&'static str, ByScheme>;

/// The paper's platform at the same lengths and for the same services, where it has them.
fn simulated(lengths: &[Lengths], services: &[(String, Service)]) -> Result<Simulated, Failure> {
    const LONGEST: u16 = 1518;
    let platform = Platform::open("ixp425").map_err(|error| Failure::Failed(error.to_string()))?;
    let ndr = |variant: &str, length: u16| {
        let setting = Setting {
            variant: (!variant.is_empty()).then(|| variant.to_owned()),
            pattern: Some(length.to_string()),
            packets: Some(PACKETS),
            ..Setting::default()
        };
        let found = NdrSearch::default().run(&platform, &setting);
        found.map(|found| found.throughput.mbps).map_err(|error| Failure::Failed(error.to_string()))
    };
    let mut all = Simulated::new();
    let triple = SIMULATED.map(|(scheme, variant)| ("3des-sha1", scheme, variant.to_owned()));
    let single = SIMULATED.map(|(scheme, variant)| {
        ("des-sha1", scheme, if variant.is_empty() { "des".to_owned() } else { format!("{variant}+des") })
    });
    let forwarding = [("none", "forwarding+software-io"), ("packet I/O", "forwarding")]
        .map(|(scheme, variant)| ("forwarding", scheme, variant.to_owned()));
    let is_wanted = |service: &str| services.iter().any(|(name, _)| name == service);
    let all_variants = triple.into_iter().chain(single).chain(forwarding);
    for (service, scheme, variant) in all_variants.filter(|(service, ..)| is_wanted(service)) {
        for lengths in lengths {
            let Lengths::All(length) = *lengths else { continue };
            if length <= LONGEST {
                let points = all.entry(service).or_default().entry(scheme).or_default();
                points.push((length, ndr(&variant, length)?));
            }
        }
    }
    Ok(all)
}

/// Compares what each scheme brings here with what it brings to the simulated gateway, where both were found.
fn shapes(
    real: &BTreeMap<String, Vec<Measured>>,
    simulated: &Simulated,
    resolution: f64,
) -> BTreeMap<&'static str, String> {
    // Each of two rates is known within the resolution.
    let tolerance = 2.0 * resolution;
    let of = |service: &'static str, by_scheme: &ByScheme| {
        let schemes = real.get(service)?;
        let settled = |scheme: &str, length: u16| {
            let lengths = Lengths::All(length);
            let measured = schemes.iter().find(|measured| measured.off == scheme)?;
            let rate = measured.mbps(lengths)?;
            measured.mark(lengths).is_empty().then_some(rate)
        };
        let base = by_scheme.get("none")?;
        let elsewhere = SIMULATED.iter().map(|(scheme, _)| *scheme).filter(|scheme| *scheme != "none");
        let points = elsewhere.filter_map(|scheme| Some((scheme, by_scheme.get(scheme)?)));
        let compared = points.flat_map(|(scheme, points)| {
            points.iter().zip(base).filter(|(_, (_, without))| *without > 0.0).map(
                move |((length, mbps), (_, without))| {
                    let here = settled(scheme, *length)
                        .and_then(|rate| Some(rate / settled("none", *length).filter(|base| *base > 0.0)?));
                    Compared { scheme, length: *length, here, there: mbps / without }
                },
            )
        });
        Some((service, sentence(&compared.collect::<Vec<_>>(), tolerance)))
    };
    simulated.iter().filter_map(|(&service, by_scheme)| of(service, by_scheme)).collect()
}

fn print(told: &Told, lengths: &[Lengths]) {
    print_machine(&told.machine);
    println!(
        "One gateway between two wires of system calls (UDP on loopback). Lengths: {}. In brackets: times the scheme `none`.",
        told.lengths_are
    );
    let Placement { tester, first, engine, io, .. } = &told.placement;
    println!(
        "Cores: the tester on {tester}, the worker on {first}, its engine elsewhere on {engine}, its packet I/O elsewhere on {io}."
    );
    if !told.has_cores_apart {
        println!(
            "There are too few cores: what is off the worker's core shares one with the tester, and the schemes show less than they could."
        );
    }
    for (service, schemes) in &told.real {
        println!("\n{service}: Mbit/s without loss, by packet length");
        print_service(schemes, lengths);
        for scheme in schemes {
            if let Some(why) = &scheme.unavailable {
                println!("  {}: {why}", scheme.off);
            }
        }
        if let Some(simulated) = told.simulated.get(service.as_str()) {
            println!("\nThe same of the simulated IXP425:");
            print_simulated(simulated, lengths);
            if let Some(shape) = told.shapes.get(service.as_str()) {
                println!("{shape}");
            }
        }
    }
}

fn cell(value: Option<f64>, base: Option<f64>) -> String {
    match (value, base) {
        (None, _) => "none".to_owned(),
        (Some(value), Some(base)) if base > 0.0 => format!("{value:.1} ({:.2})", value / base),
        (Some(value), _) => format!("{value:.1}"),
    }
}

fn print_service(schemes: &[Measured], lengths: &[Lengths]) {
    let there: Vec<&Measured> = schemes.iter().filter(|scheme| scheme.unavailable.is_none()).collect();
    let base = there.first().filter(|first| first.scheme == Scheme::ALL[0]).copied();
    let mut columns: Vec<Column<'_, &Measured>> =
        vec![word("off the worker's core", |measured: &&Measured| measured.off.to_owned())];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |measured: &&Measured| {
            let base = base.and_then(|base| base.mbps(*lengths));
            measured.mark(*lengths).to_owned() + &cell(measured.mbps(*lengths), base)
        })
    }));
    println!("{}", table_of(&columns, &there, None));
    let has = |mark: &str| there.iter().any(|measured| lengths.iter().any(|of| measured.mark(*of) == mark));
    if has("~ ") {
        println!("~: time was up before the search had ended; a longer --within lets it end.");
    }
    if has("≥ ") {
        println!("≥: the tester itself could not keep a higher rate; the gateway may be faster.");
    }
}

fn print_simulated(schemes: &ByScheme, lengths: &[Lengths]) {
    let of = |scheme: &str, lengths: Lengths| {
        let points = schemes.get(scheme)?;
        points.iter().find(|(length, _)| Lengths::All(*length) == lengths).map(|(_, mbps)| *mbps)
    };
    let of = &of;
    let rows: Vec<&'static str> =
        SIMULATED.iter().map(|(scheme, _)| *scheme).filter(|scheme| schemes.contains_key(scheme)).collect();
    let mut columns: Vec<Column<'_, &'static str>> =
        vec![word("off the XScale", |scheme: &&'static str| (*scheme).to_owned())];
    columns.extend(lengths.iter().map(|lengths| {
        number(lengths.to_string(), move |scheme: &&'static str| {
            cell(of(scheme, *lengths), of("none", *lengths))
        })
    }));
    println!("{}", table_of(&columns, &rows, None));
}

/// The paper's number of a service's figure. It has no other ciphers, and its figure 11 compares the two interfaces at which packets
/// come, of which only one has the coprocessor behind it: the two wires here are alike.
fn figure_number(service: &str) -> Option<u32> {
    match service {
        "forwarding" => Some(8),
        "des-sha1" => Some(9),
        "3des-sha1" => Some(10),
        _ => None,
    }
}

/// Figures 8 to 10 of the paper and, without a number, those of other ciphers, each with the simulated one behind it.
fn page<'a>(told: &'a Told, lengths: &[Lengths]) -> Page<'a> {
    let mut figures = Vec::new();
    for (service, schemes) in &told.real {
        let names: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        let drawing = |title: String, series| Drawing {
            number: figure_number(service),
            title,
            x: "packet length / bytes",
            y: "throughput without loss / Mbit/s",
            form: DrawingForm::Groups(names.clone()),
            series,
        };
        let real = schemes.iter().filter(|scheme| scheme.unavailable.is_none()).map(|scheme| {
            let points = (0..).map(f64::from).zip(lengths.iter().map(|of| scheme.mbps(*of).unwrap_or(0.0)));
            (format!("off: {}", scheme.off), points.collect())
        });
        let note = "convoy on this machine, by what is off the worker's core.".to_owned();
        figures.push((drawing(format!("{service}, this machine"), real.collect()), note));
        if let Some(simulated) = told.simulated.get(service.as_str()) {
            let series = simulated.iter().map(|(scheme, points)| {
                let place = |length: u16| lengths.iter().position(|of| *of == Lengths::All(length));
                let points = points.iter().filter_map(|(length, mbps)| Some((place(*length)? as f64, *mbps)));
                (format!("off: {scheme}"), points.collect())
            });
            let note = "The paper's gateway as platforms/ixp425.toml has it.".to_owned();
            figures.push((drawing(format!("{service}, the simulated IXP425"), series.collect()), note));
        }
    }
    let cores = if told.has_cores_apart {
        "What is off the worker's core has a core to itself."
    } else {
        "There are too few cores: what is off the worker's core shares one with the tester."
    };
    Page {
        title: "Four schemes of a gateway",
        machine: &told.machine,
        facts: vec![
            format!("One gateway between two wires of system calls; lengths are {}.", told.lengths_are),
            format!(
                "Three trials of {} s judge a rate; resolution {} %.",
                told.trial_s,
                told.resolution * 100.0
            ),
            cores.to_owned(),
        ],
        figures,
        verdicts: told.shapes.iter().map(|(service, shape)| format!("{service}: {shape}")).collect(),
    }
}
