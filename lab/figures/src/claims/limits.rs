//! Claims about the limits of the window, with one accelerator: bounds on it, what they cost,
//! figure 5, and systems that are not overloaded.

use convoy_sim::Pattern;

use super::one_with_window::FROM_WINDOW;
use super::{BY_SIZE, Claim, Scope, delay, for_patterns, gain, listed, with_one};
use crate::basis::Basis;
use crate::finding::{Evidence, Finding, above, bounds, falls};
use crate::plots::name;
use crate::readings::Reading;
use crate::runs::{ENC_RATIO, LIGHT_MBPS, Runs, Variant, WINDOW_BYTES, WINDOW_TIMES_US};

/// Part of an increase, or of a gain, more or less than which is asked for.
const HALF: f64 = 0.5;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.1",
        text: "A bound on the window's time solves the increase in latency: less than half of it is left",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_WINDOW),
        compared: "the increase in latency at W = 30 with a bound of 20, 100 or 500 us and without",
        scope: Scope::Readings,
        check: bounded_in_time,
    },
    Claim {
        source: "IV-B.1",
        text: "The bound on the window's bytes leaves over half of the gain in throughput",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as("the bound of row 20; what it costs the paper does not say"),
        compared: "the gain in throughput of W = 30 over W = 1 with 500 bytes and without a bound",
        scope: Scope::Range,
        check: cost_of_bytes,
    },
    Claim {
        source: "IV-B.1, figure 5",
        text: "The window takes packets away from the CPU: at W = 10 and 30 it has a smaller share than at W = 1",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(
            "the direction is that of IV-B.2, \"many smaller packets are bundled and sent to the accelerators\"; on figure 5 \
             the text has none",
        ),
        compared: "the CPU's share of the packets at W = 1, 10 and 30",
        scope: Scope::Range,
        check: taken_from_cpu,
    },
    Claim {
        source: "V",
        text: "The window enhances performance especially when the system is overloaded: it gains more throughput than on a line \
               of 100 Mbit/s",
        reading: Reading::PoolFromWindow,
        basis: Basis::put_in("a system that is not overloaded carries what is offered, with any window"),
        compared: "the gain in throughput of W = 30 over W = 1 on a line of 1 Gbit/s and of 100 Mbit/s",
        scope: Scope::Readings,
        check: gains_in_overload,
    },
    Claim {
        source: "V",
        text: "… and its latency rises less than on a line of 100 Mbit/s",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_WINDOW),
        compared: "latency at W = 30 over that at W = 1 on a line of 1 Gbit/s and of 100 Mbit/s",
        scope: Scope::Readings,
        check: waits_in_overload,
    },
];

/// Patterns whose latency rises with the window.
fn risen(runs: &Runs) -> Vec<Pattern> {
    let rises = |it: &Pattern| above(delay(runs, *it, 30), 1.0, runs.noise.of(*it).latency) == Evidence::For;
    BY_SIZE.into_iter().filter(rises).collect()
}

/// Latency at `W = 30` with a bound on the window over that at `W = 1`, and the part of the
/// increase that is left of it.
fn bounded(runs: &Runs, pattern: Pattern, bound: Variant) -> (f64, f64) {
    let report = &with_one(runs, pattern, 30, ENC_RATIO, bound).report;
    let times = runs.latency_ms(report) / runs.latency_ms(runs.at(pattern, 1, 1, ENC_RATIO));
    (times, (times - 1.0) / (delay(runs, pattern, 30) - 1.0))
}

/// Whether less than half of the increase in latency is left by a bound on the window.
pub(super) fn left_of_increase(runs: &Runs, bound: Variant, described: &str) -> Finding {
    let risen = risen(runs);
    if risen.is_empty() {
        return Finding::new(false, "no pattern's latency rises");
    }
    let times = risen.iter().map(|it| bounded(runs, *it, bound).0);
    let each = for_patterns(&risen, |it| bounded(runs, it, bound).1 < HALF);
    each.with(&format!("latency with {described} over W = 1"), 3, times)
}

fn bounded_in_time(runs: &Runs) -> Finding {
    let risen = risen(runs);
    if risen.is_empty() {
        return Finding::new(false, "no pattern's latency rises");
    }
    let left = |us| bounds(risen.iter().map(|it| 100.0 * bounded(runs, *it, Variant::WindowTime(us)).1));
    let each = WINDOW_TIMES_US.map(|us| (us, left(us)));
    let words = each.map(|(us, (least, most))| format!("{us} us: {least:.0} to {most:.0} %"));
    let evidence = each.iter().any(|(_, (_, most))| *most < 100.0 * HALF);
    Finding::new(evidence, format!("left of the increase with {}", words.join("; ")))
}

fn cost_of_bytes(runs: &Runs) -> Finding {
    let gains =
        |it: &Pattern| above(gain(runs, *it, 30), 1.0, runs.noise.of(*it).throughput) == Evidence::For;
    let gaining: Vec<Pattern> = BY_SIZE.into_iter().filter(gains).collect();
    let lost = |it: &Pattern| {
        let with = with_one(runs, *it, 30, ENC_RATIO, Variant::WindowBytes).report.throughput_mbps;
        let left = with / runs.at(*it, 1, 1, ENC_RATIO).throughput_mbps - 1.0;
        1.0 - left / (gain(runs, *it, 30) - 1.0)
    };
    if gaining.is_empty() {
        return Finding::new(Evidence::Noise, "no pattern gains throughput");
    }
    let each = gaining.iter().map(|it| format!("{} {:.0} %", name(*it), 100.0 * lost(it)));
    let measured =
        format!("lost of the gain by {WINDOW_BYTES} bytes: {}", each.collect::<Vec<_>>().join(", "));
    Finding::new(gaining.iter().all(|it| lost(it) < HALF), measured)
}

fn taken_from_cpu(runs: &Runs) -> Finding {
    let share = |it, window| runs.at(it, 1, window, ENC_RATIO).share[0];
    let relative = |it, window| share(it, window) / share(it, 1);
    let falls = |it| falls(&[1.0, relative(it, 10), relative(it, 30)], runs.noise.of(it).share);
    for_patterns(&BY_SIZE, falls).with("W = 10 over W = 1", 3, BY_SIZE.map(|it| relative(it, 10))).with(
        "W = 30 over W = 1",
        3,
        BY_SIZE.map(|it| relative(it, 30)),
    )
}

/// Patterns that do not overload the processors on a line of [`LIGHT_MBPS`]: the source never
/// waits.
fn not_overloaded(runs: &Runs) -> Vec<Pattern> {
    let waits = |it, window| with_one(runs, it, window, ENC_RATIO, Variant::Light).report.source_waited_ms;
    BY_SIZE.into_iter().filter(|it| [1, 30].iter().all(|window| waits(*it, *window) == 0.0)).collect()
}

/// A measure at `W = 30` over that at `W = 1` on a line of [`LIGHT_MBPS`].
fn in_light_load(runs: &Runs, pattern: Pattern, of: impl Fn(&convoy_sim::Report) -> f64) -> f64 {
    let at = |window| of(&with_one(runs, pattern, window, ENC_RATIO, Variant::Light).report);
    at(30) / at(1)
}

fn gains_in_overload(runs: &Runs) -> Finding {
    let light = |it| in_light_load(runs, it, |report| report.throughput_mbps);
    compared_with_light_load(
        runs,
        "gain",
        light,
        |it| gain(runs, it, 30),
        |it, overload, light| above(overload, light, runs.noise.of(it).throughput),
    )
}

fn waits_in_overload(runs: &Runs) -> Finding {
    let light = |it| in_light_load(runs, it, |report| runs.latency_ms(report));
    compared_with_light_load(
        runs,
        "latency",
        light,
        |it| delay(runs, it, 30),
        |it, overload, light| above(light, overload, runs.noise.of(it).latency),
    )
}

fn compared_with_light_load(
    runs: &Runs,
    what: &str,
    light: impl Fn(Pattern) -> f64,
    overload: impl Fn(Pattern) -> f64,
    holds: impl Fn(Pattern, f64, f64) -> Evidence,
) -> Finding {
    let patterns = not_overloaded(runs);
    if patterns.is_empty() {
        return Finding::new(Evidence::Noise, format!("{LIGHT_MBPS} Mbit/s overload the system"));
    }
    let mut finding = for_patterns(&patterns, |it| holds(it, overload(it), light(it)));
    finding.measured.push_str(&format!(
        "; {what} in overload: {}; at {LIGHT_MBPS} Mbit/s: {}",
        listed(&patterns, &overload),
        listed(&patterns, &light)
    ));
    finding
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::noise::PatternNoise;
    use crate::runs::{Key, reading_keys, run};

    /// Short runs with one accelerator in the reading of these claims.
    fn runs() -> Runs {
        let platform = convoy_sim::Platform::open("pci-accelerators").expect("it comes with the program");
        let open = Reading::PoolFromWindow.open(&platform);
        let is_needed = |key: &Key| key.accelerators == 1 && key.enc_ratio == ENC_RATIO;
        let keys = Pattern::PAPER.into_iter().flat_map(reading_keys).filter(is_needed);
        let outcome = |key| Arc::new(run(&platform, &open, key, 3_000, None, None).expect("in range"));
        let of = keys.map(|key| (key, outcome(key))).collect();
        Runs { of, latency: open.latency, noise: PatternNoise::default() }
    }

    /// Changes the reports of all patterns with a variant and a window.
    fn change(runs: &mut Runs, variant: Variant, window: usize, how: impl Fn(&mut convoy_sim::Report)) {
        for (key, outcome) in &mut runs.of {
            if key.variant == variant && key.window == window {
                how(&mut Arc::make_mut(outcome).report);
            }
        }
    }

    #[test]
    fn bound_on_time_is_refuted_but_would_be_shown_by_one_that_leaves_no_increase() {
        let mut runs = runs();
        assert_eq!(bounded_in_time(&runs).evidence, Evidence::Against);
        change(&mut runs, Variant::WindowTime(100), 30, |report| report.sojourn_ms /= 10.0);
        assert_eq!(bounded_in_time(&runs).evidence, Evidence::For);
    }

    #[test]
    fn bound_on_bytes_costs_more_than_half_unless_its_throughput_is_that_of_the_window() {
        let mut runs = runs();
        let finding = cost_of_bytes(&runs);
        assert!(
            finding.evidence == Evidence::Against && finding.measured.contains("984 B 100 %"),
            "{finding:?}"
        );
        change(&mut runs, Variant::WindowBytes, 30, |report| report.throughput_mbps *= 2.0);
        assert_eq!(cost_of_bytes(&runs).evidence, Evidence::For);
    }

    #[test]
    fn patterns_for_which_the_source_waits_on_the_light_line_are_not_compared() {
        let mut runs = runs();
        assert!(waits_in_overload(&runs).measured.starts_with("7 of 7 patterns"));
        change(&mut runs, Variant::Light, 1, |report| report.source_waited_ms = 1.0);
        let finding = waits_in_overload(&runs);
        assert_eq!(
            (finding.evidence, finding.measured.as_str()),
            (Evidence::Noise, "100 Mbit/s overload the system")
        );
    }

    #[test]
    fn window_that_gives_the_cpu_more_packets_refutes_the_claim_of_figure_5() {
        let mut runs = runs();
        change(&mut runs, Variant::Plain, 30, |report| report.share[0] *= 3.0);
        assert_eq!(taken_from_cpu(&runs).evidence, Evidence::Against);
    }
}
