//! What a referee would ask of the scheduler in each scenario.

use super::rows::{CANDIDATE, PUBLISHED, ROWS, Row, RowKind};
use super::runs::{BELOW, Load, Runs, WITH_DISTURBANCE, is_compared};
use super::statistic::Statistic;
use crate::basis::Basis;
use crate::claims::Finding;
use crate::paper::PaperClaim;

type Claim = PaperClaim<Runs>;

/// By how much a rival's throughput may exceed that of [`CANDIDATE`], in percent.
const ABOVE: f64 = 2.0;
/// How far below the bound, or below the best simple policy with a disturbance, the throughput may
/// be, in percent.
const BELOW_BOUND: f64 = 5.0;
/// How far above any rival's the 99th percentile may be, in percent.
const LATENCY: f64 = 10.0;
/// Percent of packets by which losses may differ and still count as equal.
const LOST: f64 = 0.1;

/// A claim for each of the scenarios with these numbers.
macro_rules! for_scenarios {
    ($source:literal, $text:literal, $check:ident: $($scenario:literal $of:literal),*) => {
        vec![$(Claim {
            source: $of,
            text: concat!($text, " (", $source, ")"),
            basis: Basis::MODEL,
            check: |runs| $check(runs, $scenario),
        }),*]
    };
}

/// All claims.
pub(super) fn all() -> Vec<Claim> {
    let mut claims = for_scenarios!("saturated", "No rival carries over 2 % more", rivals:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7");
    claims.extend(for_scenarios!("saturated", "At least 95 % of what no policy exceeds", of_bound:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7"));
    claims.extend(for_scenarios!("saturated", "At least 95 % of what no policy exceeds that does not know the future", of_online_bound:
        1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card"));
    claims.extend(for_scenarios!("50, 80, 95 %; 80 % in bursts", "p99 at most 1.1 times that of a rival that loses no more", latency:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7"));
    claims.extend(
        for_scenarios!("saturated", "With a disturbance at least 95 % of the best simple policy", disturbed:
        9 "1 ms", 10 "10 ms", 11 "150 ms", 12 "2 times", 13 "5 times", 14 "its core", 15 "own core"),
    );
    claims.extend(
        for_scenarios!("60 % load", "With a disturbance no more is lost than by a simple policy", lost:
        9 "1 ms", 10 "10 ms", 11 "150 ms", 12 "2 times", 13 "5 times", 14 "its core", 15 "own core"),
    );
    claims
}

/// The rows that are compared with [`CANDIDATE`] in a scenario under a load. Other forms of the
/// same rule are no rivals.
fn others(scenario: usize, load: Load) -> impl Iterator<Item = Row> {
    ROWS.into_iter().filter(move |row| row.name != CANDIDATE && is_compared(scenario, row, load))
}

fn rivals(runs: &Runs, scenario: usize) -> Finding {
    let of = |policy| runs.of(scenario, policy, Load::Saturated).rate.mean();
    let best = others(scenario, Load::Saturated).max_by(|one, other| of(one.name).total_cmp(&of(other.name)));
    let best = best.map_or(PUBLISHED, |row| row.name);
    let (own, published, above) = (of(CANDIDATE), of(PUBLISHED), of(best) / of(CANDIDATE) * 100.0 - 100.0);
    Finding {
        shown: above <= ABOVE,
        measured: format!(
            "{above:+.1} % by {best}; {own:.0} +- {:.0} packets/s, {:+.1} % above finishing-time",
            runs.of(scenario, CANDIDATE, Load::Saturated).rate.half_interval(),
            own / published * 100.0 - 100.0
        ),
    }
}

fn of_bound(runs: &Runs, scenario: usize) -> Finding {
    bounded(scenario, |policy| runs.of_bound(scenario, policy))
}

fn of_online_bound(runs: &Runs, scenario: usize) -> Finding {
    bounded(scenario, |policy| runs.of_online_bound(scenario, policy))
}

fn bounded(scenario: usize, of_bound: impl Fn(&'static str) -> Statistic) -> Finding {
    let own = of_bound(CANDIDATE);
    if own.count() == 0 {
        return Finding { shown: false, measured: "no bound: times are random".to_owned() };
    }
    let of = |policy| of_bound(policy).mean();
    let best = others(scenario, Load::Saturated).map(|row| of(row.name)).fold(0.0, f64::max);
    Finding {
        shown: own.mean() >= 100.0 - BELOW_BOUND,
        measured: format!(
            "{:.1} +- {:.1} %; finishing-time {:.1} %; the best of all others {best:.1} %",
            own.mean(),
            own.half_interval(),
            of(PUBLISHED)
        ),
    }
}

/// The worst comparison of the p99 of [`CANDIDATE`] with that of a rival.
fn latency(runs: &Runs, scenario: usize) -> Finding {
    let mut worst: Option<(f64, String)> = None;
    for load in BELOW {
        let own = runs.of(scenario, CANDIDATE, load);
        for row in others(scenario, load) {
            let it = runs.of(scenario, row.name, load);
            let times = own.p99_us.mean() / it.p99_us.mean().max(1e-9);
            let loses_no_more = it.lost.mean() <= own.lost.mean() + LOST;
            if loses_no_more && worst.as_ref().is_none_or(|(most, _)| times > *most) {
                let load = match load {
                    Load::Saturated => "saturated".to_owned(),
                    Load::Poisson(percent) => format!("{percent} %"),
                    Load::Bursty(percent) => format!("{percent} % in bursts"),
                };
                let (own, its) = (own.p99_us.mean(), it.p99_us.mean());
                worst = Some((times, format!("{times:.2} at {load}: {own:.1} us, {} {its:.1} us", row.name)));
            }
        }
    }
    match worst {
        Some((times, words)) => Finding { shown: times <= 1.0 + LATENCY / 100.0, measured: words },
        None => Finding { shown: true, measured: "every rival loses more".to_owned() },
    }
}

/// The best of the simple policies by a measure of which more is better.
fn best_simple(of: impl Fn(&'static str) -> f64) -> &'static str {
    let simple = ROWS.iter().filter(|row| row.kind == RowKind::Simple).map(|row| row.name);
    simple.max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(PUBLISHED)
}

fn disturbed(runs: &Runs, scenario: usize) -> Finding {
    let of = |policy| runs.of(scenario, policy, Load::Saturated).rate.mean();
    let best = best_simple(of);
    let part = of(CANDIDATE) / of(best) * 100.0;
    Finding {
        shown: part >= 100.0 - BELOW_BOUND,
        measured: format!(
            "{part:.0} % of {best}; {:.0} +- {:.0} packets/s, finishing-time {:.0}",
            of(CANDIDATE),
            runs.of(scenario, CANDIDATE, Load::Saturated).rate.half_interval(),
            of(PUBLISHED)
        ),
    }
}

fn lost(runs: &Runs, scenario: usize) -> Finding {
    let of = |policy| runs.of(scenario, policy, WITH_DISTURBANCE).lost.mean();
    let best = best_simple(|policy| -of(policy));
    Finding {
        shown: of(CANDIDATE) <= of(best) + LOST,
        measured: format!(
            "{:.2} %; {best} {:.2} %, finishing-time {:.2} %",
            of(CANDIDATE),
            of(best),
            of(PUBLISHED)
        ),
    }
}
