//! Utilisation of a gateway's worker and its success rate, by load.

use std::time::Instant;

use convoy_figures::{Drawing, DrawingForm};
use convoy_measure::{Busy, Lengths, MeasureError, Placement, Service, utilisation};
use serde::Serialize;

use super::inside::InsideStep;
use super::spread::Spread;
use convoy_cli::table::{number, table_of};

/// Loads to measure, relative to the capacity of one core.
pub(super) const LOADS: [f64; 8] = [0.1, 0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.5];

/// What is measured: a gateway's service, where its threads run, and the packets' lengths.
#[derive(Clone, Copy)]
pub(super) struct LoadSubject<'a> {
    pub(super) service: &'a Service,
    pub(super) placement: &'a Placement,
    pub(super) lengths: Lengths,
}

/// Results for one packet length.
#[derive(Serialize)]
pub(super) struct Loads {
    lengths: Lengths,
    /// In ascending order of load.
    points: Vec<MeasuredLoad>,
    rounds: u32,
}

/// Result of one load, over all rounds that had time for it.
#[derive(Serialize)]
struct MeasuredLoad {
    packets_per_second: Spread,
    utilisation: Spread,
    kernel: Spread,
    success: Spread,
}

impl MeasuredLoad {
    /// Summarises the rounds of one load.
    fn of(rounds: &[Busy]) -> Option<Self> {
        let spread = |value: fn(&Busy) -> f64| Spread::of(rounds.iter().map(value));
        Some(Self {
            packets_per_second: spread(|busy| busy.packets_per_second)?,
            utilisation: spread(|busy| busy.utilisation)?,
            kernel: spread(|busy| busy.kernel)?,
            success: spread(|busy| busy.success)?,
        })
    }
}

impl Loads {
    /// Measures all loads in `rounds` rounds. `most` is the capacity of one core in packets/s;
    /// `next` returns the deadline of a round.
    pub(super) fn measure(
        subject: LoadSubject<'_>,
        most: f64,
        trial_s: f64,
        rounds: u32,
        next: &mut dyn FnMut(InsideStep) -> Instant,
    ) -> Result<Self, MeasureError> {
        let LoadSubject { service, placement, lengths } = subject;
        let rates = LOADS.map(|part| most * part);
        let mut by_load: [Vec<Busy>; LOADS.len()] = Default::default();
        for _ in 0..rounds {
            let until = next(InsideStep::Utilisation);
            let round = utilisation(service, placement, lengths, &rates, trial_s, Some(until))?;
            by_load.iter_mut().zip(round).for_each(|(load, busy)| load.push(busy));
        }
        let points = by_load.iter().filter_map(|load| MeasuredLoad::of(load)).collect();
        Ok(Self { lengths, points, rounds })
    }

    pub(super) fn print(&self) {
        let Self { lengths, points, .. } = self;
        if points.len() < LOADS.len() {
            println!(
                "{lengths} bytes: the time limit was reached after {} of {} loads",
                points.len(),
                LOADS.len()
            );
        }
        let percent = |spread: Spread, digits: usize| {
            let spread = spread.times(100.0);
            format!("{:.digits$}{}", spread.median, spread.ends(digits))
        };
        let columns = [
            number(format!("{lengths} bytes: kpps"), |load: &MeasuredLoad| {
                format!("{:.0}", load.packets_per_second.median / 1e3)
            }),
            number("busy, %", move |load: &MeasuredLoad| percent(load.utilisation, 0)),
            number("in the kernel, %", move |load: &MeasuredLoad| percent(load.kernel, 0)),
            number("arrive, %", move |load: &MeasuredLoad| percent(load.success, 1)),
        ];
        println!("{}", table_of(&columns, points, None));
    }
}

/// Two figures: utilisation by load, and success rate by utilisation.
pub(super) fn figures(name: &str, all: &[Loads]) -> [(Drawing, String); 2] {
    let by = |x: fn(&MeasuredLoad) -> Spread, y: fn(&MeasuredLoad) -> Spread| {
        let names = all.iter().map(|loads| format!("{} bytes", loads.lengths));
        let of = |loads: &Loads| -> Vec<(f64, Spread)> {
            let mut points: Vec<_> = loads.points.iter().map(|load| (x(load).median, y(load))).collect();
            // Utilisation may be lower under a higher load.
            points.sort_by(|one, other| one.0.total_cmp(&other.0));
            points
        };
        let curves: Vec<_> = all.iter().map(of).collect();
        let points = curves.iter().map(|curve| curve.iter().map(|(x, y)| (*x, y.median)).collect());
        let whiskers = curves.iter().map(|curve| curve.iter().filter_map(|(x, y)| y.whisker(*x)).collect());
        (names.zip(points).collect(), whiskers.collect())
    };
    let (series, whiskers) =
        by(|load| load.packets_per_second.times(1e-3), |load| load.utilisation.times(100.0));
    let load = Drawing {
        number: Some(12),
        title: format!("The worker's utilisation by load: {name}"),
        x: "load / 1000 packets a second",
        y: "utilisation / %",
        form: DrawingForm::Curves,
        series,
        whiskers,
    };
    let (series, whiskers) = by(|load| load.utilisation.times(100.0), |load| load.success.times(100.0));
    let success = Drawing {
        number: Some(13),
        title: format!("Packets that arrive by the worker's utilisation: {name}"),
        x: "utilisation / %",
        y: "packets that arrive / %",
        form: DrawingForm::Curves,
        series,
        whiskers,
    };
    let n = all.iter().map(|loads| loads.rounds).max().unwrap_or(0);
    let whiskers = if n > 1 { ", whiskers from the lowest to the highest" } else { "" };
    let note = format!(
        "A worker is busy in rounds that moved packets, including the time of their system calls. Medians of n = {n}{whiskers}."
    );
    [(load, note.clone()), (success, note)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_has_the_spread_of_its_rounds_and_its_figures_show_it() {
        let busy = |utilisation, success| Busy { packets_per_second: 1e5, utilisation, kernel: 0.1, success };
        let rounds = [busy(0.4, 1.0), busy(0.6, 0.9), busy(0.5, 0.95)];
        let points = vec![MeasuredLoad::of(&rounds).expect("three rounds")];
        let loads = Loads { lengths: Lengths::All(64), points, rounds: 3 };
        let [(load, note), (success, _)] = figures("forwarding", &[loads]);
        assert_eq!(load.series[0].1, [(100.0, 50.0)]);
        assert_eq!(load.whiskers[0], [(100.0, 40.0, 60.0)]);
        assert_eq!((success.series[0].1[0], success.whiskers[0][0]), ((50.0, 95.0), (50.0, 90.0, 100.0)));
        assert!(note.contains("n = 3, whiskers"), "{note}");
    }
}
