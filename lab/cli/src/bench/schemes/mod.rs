//! `convoy-lab bench schemes`: the IXP425 paper's four schemes on a real gateway, compared with the
//! simulated gateway of that paper.

mod derived;
mod measured;
mod output;
mod simulated;

use std::collections::BTreeMap;
use std::time::Instant;

use convoy_measure::{
    Goal, Lengths, Machine, MeasureError, Placement, Rates, Scheme, Service, Shape, Waiting, Ways, search,
};
use serde::Serialize;

use super::args::SchemesArgs;
use super::budget::Budget;
use super::failure;
use super::shape::ShapeBasis;
use crate::progress::LabProgress;
use convoy_cli::Failure;
use measured::{MeasuredScheme, Round};
use output::{page, print};
use simulated::{Simulated, shapes, simulated};

/// The report as JSON.
#[derive(Serialize)]
struct SchemesOutput {
    machine: Machine,
    placement: Placement,
    /// Whether everything that is moved off the worker's core has a core of its own.
    has_cores_apart: bool,
    /// What the gateway's threads do without work. Where they sleep, their CPU time is measured,
    /// and rates with a core for each are derived from it.
    waiting: Waiting,
    lengths_are: &'static str,
    trial_s: f64,
    resolution: f64,
    /// Number of searches for each rate.
    rounds: u32,
    /// Results by service: `forwarding`, or a proposal.
    real: BTreeMap<String, Vec<MeasuredScheme>>,
    /// Throughput of the simulated IXP425 without loss, in Mbit/s, by service, scheme and length.
    simulated: Simulated,
    /// Agreement between both gateways, by service.
    shapes: BTreeMap<&'static str, String>,
}

/// Expected time of a search, in full trials: about ten of these, shorter ones, and the tester's
/// waits in between.
const TRIALS_OF_SEARCH: f64 = 14.0;
/// Length of the trial in which CPU time is measured, in full trials.
const TRIALS_OF_COST: f64 = 3.0;

pub(super) fn run(args: &SchemesArgs) -> Result<(), Failure> {
    let placement = Placement::here();
    let services = args.services();
    let a_round: usize =
        services.iter().map(|(_, service)| schemes(service).count() * args.lengths.len()).sum();
    let searches = args.rounds * a_round as u32;
    let waiting = placement.waiting();
    let trials = TRIALS_OF_SEARCH + if waiting == Waiting::Sleeps { TRIALS_OF_COST } else { 0.0 };
    let search_s = args.trial * trials;
    let mut budget = Budget::new(args.within, f64::from(searches) * search_s);
    budget.announce(&format!("{searches} searches"));
    let progress = LabProgress::new(Some(u64::from(searches)), "searches");
    let mut done = 0;
    let mut real: BTreeMap<String, Vec<MeasuredScheme>> = BTreeMap::new();
    for _ in 0..args.rounds {
        for (name, service) in &services {
            let all = real.entry(name.clone()).or_insert_with(|| {
                schemes(service).map(|scheme| MeasuredScheme::new(scheme, &args.lengths)).collect()
            });
            for measured in all {
                let mut next = || {
                    progress.say(&format!("{name}, off the worker's core: {}", measured.off));
                    progress.set(done);
                    done += 1;
                    budget.next(search_s)
                };
                let found =
                    measure(args, service, measured.scheme, &placement, &mut next).map_err(failure)?;
                measured.add(found);
            }
        }
    }
    progress.say("the simulated IXP425");
    let simulated = simulated(&args.lengths, &services)?;
    drop(progress);
    let basis = if waiting == Waiting::Sleeps { ShapeBasis::Derived } else { ShapeBasis::Measured };
    let shapes = shapes(&real, &simulated, basis, args.resolution);
    let output = SchemesOutput {
        machine: Machine::here(),
        has_cores_apart: placement.has_cores_apart(),
        placement,
        waiting,
        lengths_are: "whole plaintext IP packets, in bytes",
        trial_s: args.trial,
        resolution: args.resolution,
        rounds: args.rounds,
        real,
        simulated,
        shapes,
    };
    page(&output, &args.lengths).write(args.html.as_deref())?;
    if args.json {
        let text =
            serde_json::to_string_pretty(&output).map_err(|error| Failure::Failed(error.to_string()))?;
        println!("{text}");
    } else {
        print(&output, &args.lengths);
    }
    Ok(())
}

/// The schemes of a service: forwarding has no cipher that could be moved.
fn schemes(service: &Service) -> impl Iterator<Item = Scheme> {
    let is_forwarding = *service == Service::Forward;
    Scheme::ALL.into_iter().filter(move |scheme| !(is_forwarding && scheme.is_crypto_apart))
}

/// The rates found by length, or why the scheme is not available here.
fn measure(
    args: &SchemesArgs,
    service: &Service,
    scheme: Scheme,
    placement: &Placement,
    next: &mut dyn FnMut() -> Instant,
) -> Result<Result<Vec<Round>, String>, MeasureError> {
    let waiting = placement.waiting();
    let mut gateway = match scheme.start(service, placement, waiting) {
        Ok(gateway) => gateway,
        // For example, an engine with a core of its own may not support the cipher.
        Err(MeasureError::Gateway(why)) => {
            args.lengths.iter().for_each(|_| {
                next();
            });
            return Ok(Err(why));
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
    let mut search_at = |lengths: &Lengths| {
        let shape = Shape { lengths: *lengths, ways: Ways::One };
        let searched = search(&mut gateway, shape, rates, &[goal], Some(next()), &mut |_| ())?;
        // Under overload no thread is short of work, and each burst is as long as it can be.
        let threads = match waiting {
            Waiting::Sleeps => {
                let overload = shape.trial(searched.most_sent_per_second, args.trial * TRIALS_OF_COST);
                gateway.cost(&overload)?
            }
            Waiting::Polls => Vec::new(),
        };
        Ok(Round { found: searched.found[0], threads })
    };
    args.lengths.iter().map(&mut search_at).collect::<Result<_, _>>().map(Ok)
}
