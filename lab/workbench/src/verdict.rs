//! The scheduler's gain over the best baseline, in one sentence.

use std::fmt;

use serde::Serialize;

use super::measure::Measurement;
use super::rule::Rule;

/// Smallest relative difference that counts; the rest is noise.
pub(crate) const NOISE: f64 = 0.05;
/// Fraction of the load that a rule may refuse; beyond it, its latency is not comparable.
const CARRIED: f64 = 0.01;

/// A figure compared with that of the best baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Against {
    /// The baseline.
    pub baseline: Rule,
    /// The scheduler's figure divided by the baseline's.
    pub ratio: f64,
}

/// The scheduler's default (`finishing-time`, waiting) compared with the best baseline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Packets per second.
    pub throughput: Against,
    /// 99th percentile of latency under the same load; `None` if the scheduler or all baselines
    /// lost packets.
    pub latency: Option<Against>,
}

impl Verdict {
    /// Compares the results when saturated and under the same load (`offered`); `None` without the
    /// scheduler or without any baseline.
    pub(crate) fn of(saturated: &[Measurement], offered: &[Measurement]) -> Option<Self> {
        let own = |all: &[Measurement]| all.iter().find(|measured| measured.rule == Rule::DEFAULT).cloned();
        let baselines = || saturated.iter().filter(|measured| measured.rule.is_baseline());
        let best = baselines().max_by(|a, b| a.packets_per_second.total_cmp(&b.packets_per_second))?;
        let throughput = Against {
            baseline: best.rule,
            ratio: own(saturated)?.packets_per_second / best.packets_per_second.max(1.0),
        };
        let carry = |measured: &&Measurement| measured.refused <= CARRIED;
        let carriers = offered.iter().filter(|measured| measured.rule.is_baseline()).filter(carry);
        let quickest = carriers.min_by(|a, b| a.latency.p99_us.total_cmp(&b.latency.p99_us));
        let own = own(offered).filter(|own| carry(&own));
        let latency = own.zip(quickest).map(|(own, quickest)| Against {
            baseline: quickest.rule,
            ratio: own.latency.p99_us / quickest.latency.p99_us.max(0.001),
        });
        Some(Self { throughput, latency })
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { throughput: Against { baseline, ratio }, latency } = self;
        let percent = (ratio - 1.0) * 100.0;
        if percent.abs() <= NOISE * 100.0 {
            write!(f, "finishing-time carries as many packets as the best baseline, {baseline}")?;
        } else {
            let word = if percent > 0.0 { "more" } else { "fewer" };
            let percent = percent.abs();
            write!(
                f,
                "finishing-time carries {percent:.0} % {word} packets than the best baseline, {baseline}"
            )?;
        }
        match latency {
            None => write!(
                f,
                "; its p99 latency is not compared, because it or every baseline lost packets under the same load."
            ),
            Some(Against { baseline, ratio }) if (ratio - 1.0).abs() <= NOISE => {
                write!(f, "; under the same load its p99 latency is that of the best baseline, {baseline}.")
            }
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
    use crate::delivery::DeliveryLatency;

    fn measured(rule: Rule, packets_per_second: f64, p99_us: f64, refused: f64) -> Measurement {
        let latency = DeliveryLatency { p99_us, ..DeliveryLatency::default() };
        Measurement { packets_per_second, refused, latency, ..Measurement::blank(rule) }
    }

    fn verdict(own: (f64, f64, f64), baselines: [(f64, f64, f64); 2]) -> String {
        let rules = Rule::compared();
        let measured = |rule, (pps, p99, refused)| measured(rule, pps, p99, refused);
        // `skip` is better than all, but it is not a baseline.
        let skip = measured(Rule::SKIP, (1e9, 0.1, 0.0));
        let all = [
            measured(Rule::DEFAULT, own),
            skip,
            measured(rules[2], baselines[0]),
            measured(rules[3], baselines[1]),
        ];
        Verdict::of(&all, &all).expect("there is something to compare").to_string()
    }

    #[test]
    fn a_gain_is_over_the_baseline_that_is_best_at_the_figure_in_question() {
        let line = verdict((150.0, 30.0, 0.0), [(100.0, 90.0, 0.0), (80.0, 60.0, 0.0)]);
        assert!(line.contains("carries 50 % more packets than the best baseline, cpu-only"), "{line}");
        assert!(line.contains("0.50 times that of the best baseline, round-robin"), "{line}");
    }

    #[test]
    fn a_loss_is_called_one_and_what_is_within_the_noise_is_no_gain() {
        let line = verdict((80.0, 66.0, 0.0), [(100.0, 60.0, 0.0), (1.0, 90.0, 0.0)]);
        assert!(line.contains("carries 20 % fewer packets than the best baseline"), "{line}");
        assert!(line.contains("1.10 times"), "{line}");
        let line = verdict((103.0, 61.0, 0.0), [(100.0, 60.0, 0.0), (1.0, 90.0, 0.0)]);
        assert!(
            line.contains("carries as many packets as the best baseline, cpu-only")
                && line.contains("is that of the best baseline, cpu-only"),
            "{line}"
        );
    }

    #[test]
    fn who_does_not_carry_the_load_has_no_latency_to_compare() {
        let line = verdict((150.0, 30.0, 0.0), [(100.0, 1.0, 0.3), (80.0, 60.0, 0.0)]);
        assert!(line.contains("0.50 times that of the best baseline, round-robin"), "{line}");
        let line = verdict((150.0, 30.0, 0.2), [(100.0, 1.0, 0.3), (80.0, 60.0, 0.0)]);
        assert!(line.contains("p99 latency is not compared"), "{line}");
    }

    #[test]
    fn the_worst_case_of_a_rule_is_relative_to_the_best_of_the_platform() {
        let rules = Rule::compared();
        let platform = |packets: [f64; 3]| {
            let of = |(rule, pps): (&Rule, f64)| measured(*rule, pps, 1.0, 0.0);
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
