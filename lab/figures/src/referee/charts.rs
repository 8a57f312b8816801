//! Figures of the comparison.

use super::runs::{CANDIDATE, PUBLISHED, Runs};
use super::scenarios::SCENARIOS;
use crate::chart::{Body, Chart, Curve, Plot, PlotForm};

/// The policies that are drawn: the others are in the table.
const DRAWN: [&str; 6] = [CANDIDATE, PUBLISHED, "late-binding", "sufferage", "whittle", "nba"];
/// Short names of the scenarios.
const SHORT: [&str; SCENARIOS] = [
    "paper",
    "paper, Zipf",
    "paper, 24 B",
    "two, 8 SAs",
    "two, 100",
    "three, 8",
    "three, 1,000",
    "card",
    "ConnectX-7",
    "antagonist",
];

/// All figures.
pub(super) fn all(runs: &Runs) -> Vec<Chart> {
    let groups = || PlotForm::Groups(SHORT.map(str::to_owned).to_vec());
    let series = |value: &dyn Fn(usize, &'static str) -> f64| {
        DRAWN
            .map(|policy| Curve::new(policy, (0..SCENARIOS).map(|at| (at as f64, value(at, policy)))))
            .to_vec()
    };
    let rate = |at: usize, policy| runs.of(at, policy, 0).rate / runs.bound(at) * 100.0;
    let p99 =
        |at: usize, policy| runs.of(at, policy, 80).p99_us / runs.of(at, CANDIDATE, 80).p99_us.max(1e-9);
    vec![
        Chart {
            number: 1,
            title: "Throughput by policy".to_owned(),
            note: "Packets always wait. The bound is that of a clairvoyant policy that could divide multi-packets.".to_owned(),
            body: Body::Plot(Plot {
                x: "scenario",
                y: "of the bound / %",
                form: groups(),
                series: series(&rate),
            }),
        },
        Chart {
            number: 2,
            title: "99th percentile of latency by policy".to_owned(),
            note: "At 80 % of what sufferage with credits carries, from arrival to completion, relative to it. A policy that cannot carry that has a full queue."
                .to_owned(),
            body: Body::Plot(Plot {
                x: "scenario",
                y: "p99 / that of sufferage",
                form: groups(),
                series: series(&p99),
            }),
        },
    ]
}
