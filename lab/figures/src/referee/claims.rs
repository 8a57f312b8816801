//! What a referee would ask of the scheduler in each scenario.

use super::rows::{CANDIDATE, PUBLISHED, ROWS, Row, RowKind};
use super::runs::{BELOW, Load, Runs, WITH_DISTURBANCE, is_compared};
use super::statistic::Statistic;
use crate::basis::Basis;
use crate::finding::{Evidence, Finding};
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
    ($source:literal, $text:literal, $compared:literal, $check:ident: $($scenario:literal $of:literal),*) => {
        vec![$(Claim {
            source: $of,
            text: concat!($text, " (", $source, ")"),
            basis: Basis::MODEL,
            compared: $compared,
            check: |runs| $check(runs, $scenario),
        }),*]
    };
}

/// All claims.
pub(super) fn all() -> Vec<Claim> {
    let mut claims = for_scenarios!("saturated", "No rival carries over 2 % more", "the highest rate of any rival with sufferage's", rivals:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7");
    claims.extend(for_scenarios!("saturated", "At least 95 % of what no policy exceeds", "sufferage's rate with the bound", of_bound:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7"));
    claims.extend(for_scenarios!("saturated", "At least 95 % of what no policy exceeds that does not know the future", "sufferage's rate with the bound without foresight", of_online_bound:
        1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card"));
    claims.extend(for_scenarios!("50, 80, 95 %; 80 % in bursts", "p99 at most 1.1 times that of a rival that loses no more", "sufferage's p99 with that of each rival that loses no more, at each load", latency:
        0 "paper", 1 "paper, Zipf", 2 "paper, 24 B", 3 "two, 8", 4 "two, 100", 5 "three, 8", 6 "three, 1,000", 7 "card",
        8 "CX-7"));
    claims.extend(
        for_scenarios!("saturated", "With a disturbance at least 95 % of the best simple policy", "sufferage's rate with that of the best simple policy", disturbed:
        9 "1 ms", 10 "10 ms", 11 "150 ms", 12 "2 times", 13 "5 times", 14 "its core", 15 "own core"),
    );
    claims.extend(
        for_scenarios!("60 % load", "With a disturbance no more is lost than by a simple policy", "packets lost by sufferage with those by the simple policy that loses least", lost:
        9 "1 ms", 10 "10 ms", 11 "150 ms", 12 "2 times", 13 "5 times", 14 "its core", 15 "own core"),
    );
    claims
}

/// The rows that are compared with [`CANDIDATE`] in a scenario under a load. Other forms of the
/// same rule are no rivals.
fn others(scenario: usize, load: Load) -> impl Iterator<Item = Row> {
    ROWS.into_iter().filter(move |row| row.name != CANDIDATE && is_compared(scenario, row, load))
}

/// That a measure is at most this much, by more than half of its 95 % interval.
fn at_most(of: &Statistic, bound: f64) -> Evidence {
    let (mean, half) = (of.mean(), of.half_interval());
    if mean + half <= bound {
        Evidence::For
    } else if mean - half > bound {
        Evidence::Against
    } else {
        Evidence::Noise
    }
}

/// That a measure is at least this much, by more than half of its 95 % interval.
fn at_least(of: &Statistic, bound: f64) -> Evidence {
    at_most(&of.negative(), -bound)
}

/// The noise of a comparison that was made seed by seed.
fn interval(of: &Statistic, unit: &str) -> String {
    format!("+- {:.2} {unit}, the 95 % interval of {} seeds", of.half_interval(), of.count())
}

fn rivals(runs: &Runs, scenario: usize) -> Finding {
    let rate = |policy| &runs.of(scenario, policy, Load::Saturated).rate;
    let of = |policy| rate(policy).mean();
    let best = others(scenario, Load::Saturated).max_by(|one, other| of(one.name).total_cmp(&of(other.name)));
    let best = best.map_or(PUBLISHED, |row| row.name);
    let (own, published, above) = (of(CANDIDATE), of(PUBLISHED), of(best) / of(CANDIDATE) * 100.0 - 100.0);
    let percent = rate(best).over(rate(CANDIDATE));
    let measured = format!(
        "{above:+.1} % by {best}; {own:.0} +- {:.0} packets/s, {:+.1} % above finishing-time",
        rate(CANDIDATE).half_interval(),
        own / published * 100.0 - 100.0
    );
    Finding::new(at_most(&percent, 100.0 + ABOVE), measured).with_noise(interval(&percent, "%"))
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
        return Finding::new(false, "no bound: times are random");
    }
    let of = |policy| of_bound(policy).mean();
    let best = others(scenario, Load::Saturated).map(|row| of(row.name)).fold(0.0, f64::max);
    let measured = format!(
        "{:.1} +- {:.1} %; finishing-time {:.1} %; the best of all others {best:.1} %",
        own.mean(),
        own.half_interval(),
        of(PUBLISHED)
    );
    Finding::new(at_least(&own, 100.0 - BELOW_BOUND), measured).with_noise(interval(&own, "%"))
}

/// The worst comparison of the p99 of [`CANDIDATE`] with that of a rival.
fn latency(runs: &Runs, scenario: usize) -> Finding {
    let mut worst: Option<(f64, Finding)> = None;
    let mut all = Evidence::For;
    for load in BELOW {
        let own = runs.of(scenario, CANDIDATE, load);
        for row in others(scenario, load) {
            let it = runs.of(scenario, row.name, load);
            if it.lost.mean() > own.lost.mean() + LOST {
                continue;
            }
            let times = own.p99_us.mean() / it.p99_us.mean().max(1e-9);
            let percent = own.p99_us.over(&it.p99_us);
            all = all.and(at_most(&percent, 100.0 + LATENCY));
            if worst.as_ref().is_none_or(|(most, _)| times > *most) {
                let (own, its) = (own.p99_us.mean(), it.p99_us.mean());
                let words =
                    format!("{times:.2} at {}: {own:.1} us, {} {its:.1} us", described(load), row.name);
                worst = Some((times, Finding::new(true, words).with_noise(interval(&percent, "%"))));
            }
        }
    }
    match worst {
        Some((_, finding)) => Finding { evidence: all, ..finding },
        None => Finding::new(true, "every rival loses more"),
    }
}

fn described(load: Load) -> String {
    match load {
        Load::Saturated => "saturated".to_owned(),
        Load::Poisson(percent) => format!("{percent} %"),
        Load::Bursty(percent) => format!("{percent} % in bursts"),
    }
}

/// The best of the simple policies by a measure of which more is better.
fn best_simple(of: impl Fn(&'static str) -> f64) -> &'static str {
    let simple = ROWS.iter().filter(|row| row.kind == RowKind::Simple).map(|row| row.name);
    simple.max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(PUBLISHED)
}

fn disturbed(runs: &Runs, scenario: usize) -> Finding {
    let rate = |policy| &runs.of(scenario, policy, Load::Saturated).rate;
    let of = |policy| rate(policy).mean();
    let best = best_simple(of);
    let percent = rate(CANDIDATE).over(rate(best));
    let measured = format!(
        "{:.0} % of {best}; {:.0} +- {:.0} packets/s, finishing-time {:.0}",
        of(CANDIDATE) / of(best) * 100.0,
        of(CANDIDATE),
        rate(CANDIDATE).half_interval(),
        of(PUBLISHED)
    );
    Finding::new(at_least(&percent, 100.0 - BELOW_BOUND), measured).with_noise(interval(&percent, "%"))
}

fn lost(runs: &Runs, scenario: usize) -> Finding {
    let lost = |policy| &runs.of(scenario, policy, WITH_DISTURBANCE).lost;
    let of = |policy| lost(policy).mean();
    let best = best_simple(|policy| -of(policy));
    let more = lost(CANDIDATE).less(lost(best));
    let measured =
        format!("{:.2} %; {best} {:.2} %, finishing-time {:.2} %", of(CANDIDATE), of(best), of(PUBLISHED));
    Finding::new(at_most(&more, LOST), measured).with_noise(interval(&more, "points of difference"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measure_whose_interval_has_the_bound_in_it_is_neither_for_nor_against() {
        let mut of = Statistic::default();
        [1.0, 2.0, 3.0].into_iter().for_each(|value| of.add(value));
        assert_eq!(at_most(&of, 2.5), Evidence::Noise);
        assert_eq!(at_most(&of, 5.0), Evidence::For);
        assert_eq!(at_most(&of, -1.0), Evidence::Against);
        assert_eq!((at_least(&of, -1.0), at_least(&of, 5.0)), (Evidence::For, Evidence::Against));
    }
}
