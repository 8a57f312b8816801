//! The scheduler's gain over the best baseline, in one sentence.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

use super::measure::{Measurement, RoundFigures};
use super::rule::Rule;
use super::spread::Spread;

/// Fraction of the load that a rule may refuse; beyond it, its latency is not comparable.
const CARRIED: f64 = 0.01;

/// A figure compared with that of the best baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The baseline.
    pub baseline: Rule,
    /// The scheduler's figure divided by the baseline's, in each round.
    pub ratio: Spread,
}

impl Against {
    fn of(own: &Measurement, baseline: &Measurement, figure: fn(&RoundFigures) -> f64) -> Self {
        Self { baseline: baseline.rule, ratio: own.relative_to(baseline, figure) }
    }
}

/// The scheduler's default (`finishing-time`, waiting) compared with the best baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Packets per second.
    pub throughput: Against,
    /// 99th percentile of latency under the same load; `None` if the scheduler or all baselines
    /// lost packets.
    pub latency: Option<Against>,
    /// Number of rounds.
    pub rounds: usize,
}

impl Verdict {
    /// Compares the results when saturated and under the same load (`offered`); `None` without the
    /// scheduler or without any baseline. The best baseline is the one with the best median.
    pub(crate) fn of(saturated: &[Measurement], offered: &[Measurement]) -> Option<Self> {
        let own = |all: &[Measurement]| all.iter().find(|measured| measured.rule == Rule::DEFAULT).cloned();
        let baselines = || saturated.iter().filter(|measured| measured.rule.is_baseline());
        let best = baselines().max_by(|a, b| a.packets_per_second.total_cmp(&b.packets_per_second))?;
        let own_saturated = own(saturated)?;
        // A round in which a rule carried nothing counts: it is the worst there can be.
        let throughput = Against::of(&own_saturated, best, |round| round.packets_per_second.max(1.0));
        let carry = |measured: &&Measurement| measured.refused <= CARRIED;
        let carriers = offered.iter().filter(|measured| measured.rule.is_baseline()).filter(carry);
        let quickest = carriers.min_by(|a, b| a.latency.p99_us.total_cmp(&b.latency.p99_us));
        let own = own(offered).filter(|own| carry(&own));
        let latency =
            own.zip(quickest).map(|(own, quickest)| Against::of(&own, quickest, |round| round.p99_us));
        Some(Self { throughput, latency, rounds: own_saturated.rounds.len() })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { throughput: Against { baseline, ratio }, latency, rounds } = self;
        match ratio.against_one() {
            Ordering::Equal => write!(
                f,
                "the throughput of finishing-time and that of the best baseline, {baseline}, do not differ beyond \
                 the spread (times as many packets: {ratio:.2})"
            )?,
            Ordering::Greater => write!(
                f,
                "finishing-time carries {:.0} % more packets than the best baseline, {baseline} ({:.0} to {:.0} %, \
                 more in each of {rounds} rounds)",
                (ratio.median - 1.0) * 100.0,
                (ratio.lowest - 1.0) * 100.0,
                (ratio.highest - 1.0) * 100.0
            )?,
            Ordering::Less => write!(
                f,
                "finishing-time carries {:.0} % fewer packets than the best baseline, {baseline} ({:.0} to {:.0} %, \
                 fewer in each of {rounds} rounds)",
                (1.0 - ratio.median) * 100.0,
                (1.0 - ratio.highest) * 100.0,
                (1.0 - ratio.lowest) * 100.0
            )?,
        }
        match latency {
            None => f.write_str(
                "; p99 latencies are not compared, because finishing-time or every baseline lost more than 1 % of the \
                 same load.",
            ),
            Some(Against { baseline, ratio }) if ratio.against_one() == Ordering::Equal => write!(
                f,
                "; under the same load its p99 latency and that of the best baseline, {baseline}, do not differ beyond \
                 the spread (times as long: {ratio:.1})."
            ),
            Some(Against { baseline, ratio }) => write!(
                f,
                "; under the same load its p99 latency is {ratio:.2} times that of the best baseline, {baseline}."
            ),
        }
    }
}

/// A rule on the platform that suits it least.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WorstCase {
    /// The rule.
    pub rule: Rule,
    /// Its throughput there divided by that of the best rule.
    pub ratio: f64,
}

impl WorstCase {
    /// Of every rule that was measured on all platforms; the best worst case first.
    pub(crate) fn of_all(platforms: &[&[Measurement]]) -> Vec<Self> {
        let ratio = |rule: Rule, platform: &[Measurement]| {
            let best = platform.iter().map(|measured| measured.packets_per_second).fold(1.0, f64::max);
            let own = platform.iter().find(|measured| measured.rule == rule)?;
            Some(own.packets_per_second / best)
        };
        let worst = |measured: &Measurement| {
            let ratios = platforms.iter().map(|platform| ratio(measured.rule, platform));
            let ratios: Option<Vec<f64>> = ratios.collect();
            Some(Self { rule: measured.rule, ratio: ratios?.into_iter().fold(f64::INFINITY, f64::min) })
        };
        let mut all: Vec<Self> =
            platforms.first().map_or(&[][..], |first| first).iter().filter_map(worst).collect();
        all.sort_by(|a, b| b.ratio.total_cmp(&a.ratio));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets per second and p99 in µs of each round, and the fraction of the load that was lost.
    struct Case {
        rates: [f64; 3],
        p99_us: [f64; 3],
        refused: f64,
    }

    fn measured(rule: Rule, case: &Case) -> Measurement {
        let Case { rates, p99_us, refused } = case;
        let round = |(packets_per_second, p99_us): (&f64, &f64)| RoundFigures {
            packets_per_second: *packets_per_second,
            p99_us: *p99_us,
            refused: *refused,
            ..RoundFigures::default()
        };
        Measurement::blank(rule, rates.iter().zip(p99_us).map(round).collect())
    }

    fn case(rates: [f64; 3], p99_us: [f64; 3]) -> Case {
        Case { rates, p99_us, refused: 0.0 }
    }

    fn verdict(own: &Case, baselines: &[Case; 2]) -> String {
        let rules = Rule::demonstrated();
        let all = [
            measured(Rule::DEFAULT, own),
            measured(rules[1], &baselines[0]),
            measured(rules[2], &baselines[1]),
        ];
        Verdict::of(&all, &all).expect("there is something to compare").to_string()
    }

    #[test]
    fn round_in_which_nothing_was_carried_counts_against_the_rule() {
        let other = case([10.0; 3], [60.0; 3]);
        let line = verdict(&case([100.0, 0.0, 100.0], [30.0; 3]), &[other, case([1.0; 3], [60.0; 3])]);
        assert!(
            line.contains("do not differ beyond the spread (times as many packets: 10.00 (0.10"),
            "{line}"
        );
    }

    #[test]
    fn gain_in_every_round_is_one_over_the_baseline_that_is_best_at_the_figure_in_question() {
        let own = case([150.0, 15.0, 140.0], [30.0, 3.0, 31.0]);
        let line = verdict(
            &own,
            &[case([100.0, 10.0, 100.0], [90.0, 90.0, 90.0]), case([80.0, 8.0, 80.0], [60.0, 6.0, 60.0])],
        );
        assert!(
            line.contains("carries 50 % more packets than the best baseline, cpu-only (40 to 50 %"),
            "{line}"
        );
        assert!(line.contains("0.50 (0.50 to 0.52) times that of the best baseline, round-robin"), "{line}");
    }

    #[test]
    fn loss_in_every_round_is_called_one() {
        let own = case([80.0, 85.0, 90.0], [66.0, 70.0, 90.0]);
        let line = verdict(
            &own,
            &[case([100.0, 100.0, 100.0], [60.0, 60.0, 60.0]), case([1.0, 1.0, 1.0], [90.0; 3])],
        );
        assert!(
            line.contains("carries 15 % fewer packets than the best baseline, cpu-only (10 to 20 %"),
            "{line}"
        );
        assert!(line.contains("1.17 (1.10 to 1.50) times"), "{line}");
    }

    #[test]
    fn rounds_that_contradict_each_other_show_no_difference_however_large_the_median() {
        let own = case([200.0, 210.0, 99.0], [10.0, 70.0, 20.0]);
        let line = verdict(&own, &[case([100.0; 3], [60.0; 3]), case([1.0; 3], [90.0; 3])]);
        assert!(
            line.contains("do not differ beyond the spread (times as many packets: 2.00 (0.99 to 2.10))"),
            "{line}"
        );
        assert!(
            line.contains("cpu-only, do not differ beyond the spread (times as long: 0.3 (0.2 to 1.2))"),
            "{line}"
        );
    }

    #[test]
    fn rule_that_loses_part_of_the_load_has_no_latency_to_compare() {
        let lossy = |case: Case| Case { refused: 0.3, ..case };
        let others = || [lossy(case([100.0; 3], [1.0; 3])), case([80.0; 3], [60.0; 3])];
        let line = verdict(&case([150.0; 3], [30.0; 3]), &others());
        assert!(line.contains("times that of the best baseline, round-robin"), "{line}");
        let line = verdict(&lossy(case([150.0; 3], [30.0; 3])), &others());
        assert!(line.contains("p99 latencies are not compared"), "{line}");
    }

    #[test]
    fn the_worst_case_of_a_rule_is_relative_to_the_best_of_the_platform() {
        let rules = Rule::compared();
        let platform = |packets: [f64; 3]| {
            let of = |(rule, rate): (&Rule, f64)| measured(*rule, &case([rate; 3], [1.0; 3]));
            rules.iter().zip(packets).map(of).collect::<Vec<_>>()
        };
        let [one, other] = [platform([90.0, 50.0, 100.0]), platform([200.0, 190.0, 50.0])];
        let worst: Vec<_> =
            WorstCase::of_all(&[&one, &other]).iter().map(|worst| (worst.rule, worst.ratio)).collect();
        assert_eq!(worst, [(rules[0], 0.9), (rules[1], 0.5), (rules[2], 0.25)]);
        // A rule that one platform lacks is left out.
        assert_eq!(WorstCase::of_all(&[&one, &other[..1]]).len(), 1);
        assert_eq!(WorstCase::of_all(&[]), []);
    }
}
