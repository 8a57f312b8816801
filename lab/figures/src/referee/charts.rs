//! Figures of the comparison.

use super::rows::{CANDIDATE, PUBLISHED};
use super::runs::{Load, Runs};
use super::scenarios::{DISTURBED, NAMES};
use super::statistic::Statistic;
use crate::chart::{Body, Chart, Curve, Plot, PlotForm};

/// The policies that are drawn: the others are in the table.
const DRAWN: [&str; 6] =
    [CANDIDATE, PUBLISHED, "finishing-time, overtake", "min-min", "round-robin", "packet-size"];

/// All figures.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    let p99 = |at: usize, policy| {
        runs.of(at, policy, Load::Poisson(80)).p99_us.over(&runs.of(at, CANDIDATE, Load::Poisson(80)).p99_us)
    };
    vec![
        Chart {
            number: 1,
            title: "Throughput by policy".to_owned(),
            reading: "packets carried in a second, as a part of the bound that knows all packets in advance",
            note: "Packets always wait. No policy exceeds the bound, even if it knows all packets in advance. Whiskers: lowest and highest of ten seeds."
                .to_owned(),
            body: body("of the bound / %", &|at, policy| runs.of_bound(at, policy)),
        },
        Chart {
            number: 2,
            title: "99th percentile of latency by policy".to_owned(),
            reading: "latency is from arrival to completion, with Poisson arrivals at 80 % of what sufferage carries",
            note: "At 80 % of what sufferage carries, from arrival to completion, relative to it. A policy that cannot carry that has a full queue. Whiskers: lowest and highest of ten seeds."
                .to_owned(),
            body: body("of that of sufferage / %", &p99),
        },
    ]
}

/// Bars of the scenarios without disturbances.
fn body(y: &'static str, value: &dyn Fn(usize, &'static str) -> Statistic) -> Body {
    let series = DRAWN.map(|policy| {
        let values: Vec<Statistic> = (0..DISTURBED).map(|at| value(at, policy)).collect();
        let mut curve = Curve::new(policy, values.iter().enumerate().map(|(at, it)| (at as f64, it.mean())));
        let whisker = |(at, it): (usize, &Statistic)| {
            let (lowest, highest) = it.range();
            (at as f64, lowest, highest)
        };
        curve.whiskers = values.iter().enumerate().map(whisker).collect();
        curve
    });
    let groups = NAMES[..DISTURBED].iter().map(|(_, short)| (*short).to_owned()).collect();
    Body::Plot(Plot { x: "scenario", y, form: PlotForm::Groups(groups), series: series.to_vec() })
}
