//! Claims about what the window does with two accelerators: figures 13 to 15, and the bus.

use convoy_sim::{Pattern, Report};

use super::{BY_SIZE, Claim, POOL, Scope, for_patterns, over_ratios};
use crate::basis::Basis;
use crate::finding::{Evidence, Finding, above, bounds, falls, rises, within};
use crate::readings::Reading;
use crate::runs::{ENC_RATIOS, Key, Runs, Variant};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency grows with T_enc ratio, at W = 1 and at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        compared: "latency at T_enc ratio 1, 3, 5 and 7, at both windows",
        scope: Scope::Range,
        check: |runs| {
            let grows =
                |window| rises(&latency(runs, Pattern::Trace, window), runs.noise.of(Pattern::Trace).latency);
            let measured = [1, 30].map(|window| {
                let values = latency(runs, Pattern::Trace, window).map(|value| format!("{value:.3}"));
                format!("W = {window}: {} ms", values.join(", "))
            });
            Finding::new(grows(1).and(grows(30)), measured.join("; "))
        },
    },
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency is always lower at W = 30 than at W = 1, with two accelerators",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        compared: "latency at W = 30 with that at W = 1, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| {
            let ratios = delays(runs, Pattern::Trace);
            let lower = ratios.map(|ratio| above(1.0, ratio, runs.noise.of(Pattern::Trace).latency));
            let measured = within(ratios, 0.0, 1.0, 3, "of that at W = 1").measured;
            Finding::new(Evidence::all(lower), measured)
        },
    },
    Claim {
        source: "IV-B.2",
        text: "Other patterns behave alike: latency grows with T_enc ratio and is lower at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        compared: "latency at T_enc ratio 1, 3, 5 and 7, and at W = 30 with that at W = 1",
        scope: Scope::Range,
        check: |runs| {
            let alike = |it| {
                let noise = runs.noise.of(it).latency;
                let grows = |window| rises(&latency(runs, it, window), noise);
                let lower = delays(runs, it).map(|ratio| above(1.0, ratio, noise));
                Evidence::all(lower).and(grows(1)).and(grows(30))
            };
            let others: Vec<Pattern> = BY_SIZE.into_iter().filter(|it| *it != Pattern::Trace).collect();
            for_patterns(&others, alike).with(
                "W = 30 over W = 1",
                3,
                others.iter().flat_map(|it| delays(runs, *it)),
            )
        },
    },
    Claim {
        source: "IV-B.2",
        text: "The trace's throughput falls as T_enc ratio grows and is higher at W = 30 than at W = 1",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "throughput at T_enc ratio 1, 3, 5 and 7, and at W = 30 with that at W = 1",
        scope: Scope::Range,
        check: |runs| {
            let at = |window| over_ratios(runs, Pattern::Trace, 2, window, |report| report.throughput_mbps);
            let gains =
                ENC_RATIOS.iter().zip(at(30).into_iter().zip(at(1))).map(|(_, (wide, one))| wide / one);
            let (least, most) = bounds(gains);
            let noise = runs.noise.of(Pattern::Trace).throughput;
            let evidence =
                Evidence::all([falls(&at(1), noise), falls(&at(30), noise), above(least, 1.0, noise)]);
            Finding::new(evidence, format!("W = 30 over W = 1: {least:.3} to {most:.3}"))
        },
    },
    Claim {
        source: "IV-B.2",
        text: "Latency is lower with two accelerators than with one",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "latency with two accelerators and with one, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| {
            let at = |it, accelerators, ratio| runs.latency_ms(runs.at(it, accelerators, 30, ratio));
            let ratios = |it| ENC_RATIOS.map(|ratio| at(it, 2, ratio) / at(it, 1, ratio));
            for_patterns(&BY_SIZE, |it| {
                Evidence::all(ratios(it).map(|ratio| above(1.0, ratio, runs.noise.of(it).latency)))
            })
            .with("two over one", 2, BY_SIZE.into_iter().flat_map(ratios))
        },
    },
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency is 0.2 to 0.5 ms with two accelerators, at W = 1 and at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        compared: "latency at each T_enc ratio and window with the paper's 0.2 to 0.5 ms",
        scope: Scope::Range,
        check: |runs| {
            let both = [1, 30].into_iter().flat_map(|window| latency(runs, Pattern::Trace, window));
            within(both, 0.2, 0.5, 3, "ms")
        },
    },
    Claim {
        source: "IV-B.2, figure 14",
        text: "The average length at the CPU is higher at W = 30 than at W = 1 (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "average length at the CPU at W = 30 with that at W = 1, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| longer(runs, 0),
    },
    Claim {
        source: "IV-B.2, figure 15",
        text: "The average length at accelerator 1 is higher at W = 30 than at W = 1 (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "average length at accelerator 1 at W = 30 with that at W = 1, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| longer(runs, 1),
    },
    Claim {
        source: "IV-B.2",
        text: "Bus conflicts stay below 17 % of requests with two accelerators (trace, W = 30)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "requests that find the bus taken, at each T_enc ratio, with the paper's 17 %",
        scope: Scope::Range,
        check: |runs| conflicts(runs, &[Pattern::Trace], &[30]),
    },
    Claim {
        source: "IV-B.2",
        text: "… for all patterns, at W = 1 as well",
        reading: Reading::Pool,
        basis: Basis::chosen("one transfer for each multi-packet"),
        compared: "requests that find the bus taken, at each T_enc ratio and window, with the paper's 17 %",
        scope: Scope::Range,
        check: |runs| conflicts(runs, &BY_SIZE, &[1, 30]),
    },
    Claim {
        source: "IV-B.2",
        text: "Prefetch and write buffer improve the efficiency: more throughput (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "throughput with prefetch and write buffer and without, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| {
            let gains = buffered(runs, |report| report.throughput_mbps);
            let (least, most) = bounds(gains);
            Finding::new(
                above(least, 1.0, runs.noise.of(Pattern::Trace).throughput),
                format!("{least:.3} to {most:.3} of that without"),
            )
        },
    },
    Claim {
        source: "IV-B.2",
        text: "… by fewer bus conflicts (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "bus conflicts with prefetch and write buffer and without, at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| {
            let (least, most) = bounds(buffered(runs, |report| report.bus_conflicts));
            let [with, without] = [Variant::Buffered, Variant::Plain].map(|variant| idle(runs, variant));
            let measured = format!(
                "{least:.2} to {most:.2} of those without; the accelerators are idle for {} without and {} with",
                without.join(", "),
                with.join(", ")
            );
            Finding::new(above(1.0, most, runs.noise.of(Pattern::Trace).share), measured)
        },
    },
];

fn latency(runs: &Runs, pattern: Pattern, window: usize) -> [f64; 4] {
    over_ratios(runs, pattern, 2, window, |report| runs.latency_ms(report))
}

/// Latency at `W = 30` divided by that at `W = 1`.
fn delays(runs: &Runs, pattern: Pattern) -> [f64; 4] {
    let (wide, one) = (latency(runs, pattern, 30), latency(runs, pattern, 1));
    std::array::from_fn(|place| wide[place] / one[place])
}

fn longer(runs: &Runs, processor: usize) -> Finding {
    let at = |window| over_ratios(runs, Pattern::Trace, 2, window, |report| report.average_length[processor]);
    let (wide, one) = (at(30), at(1));
    let ratios = std::array::from_fn::<f64, 4, _>(|place| wide[place] / one[place]);
    let longer = ratios.map(|ratio| above(ratio, 1.0, runs.noise.of(Pattern::Trace).length));
    let measured = within(ratios, 1.0, f64::INFINITY, 2, "times that at W = 1").measured;
    Finding::new(Evidence::all(longer), measured)
}

fn conflicts(runs: &Runs, patterns: &[Pattern], windows: &[usize]) -> Finding {
    let percent = |report: &Report| report.bus_conflicts * 100.0;
    let each = patterns.iter().flat_map(|it| windows.iter().map(move |window| (*it, *window)));
    let each = each.flat_map(|(it, window)| over_ratios(runs, it, 2, window, percent));
    within(each, 0.0, 17.0, 1, "%")
}

/// The part of the time for which the accelerators do not compute, at the lowest and the highest
/// `T_enc_ratio`.
fn idle(runs: &Runs, variant: Variant) -> [String; 2] {
    [ENC_RATIOS[0], ENC_RATIOS[3]].map(|enc_ratio| {
        let key = Key { pattern: Pattern::Trace, accelerators: 2, window: 30, enc_ratio, variant };
        let busy = runs.of(key).report.processors[1..].iter().map(|it| it.utilisation).sum::<f64>() / 2.0;
        format!("{:.1} %", (1.0 - busy) * 100.0)
    })
}

/// A measure with rule 5 (prefetch and write buffer) divided by the same without it.
fn buffered(runs: &Runs, of: impl Fn(&Report) -> f64) -> [f64; 4] {
    ENC_RATIOS.map(|enc_ratio| {
        let key = Key {
            pattern: Pattern::Trace,
            accelerators: 2,
            window: 30,
            enc_ratio,
            variant: Variant::Buffered,
        };
        of(&runs.of(key).report) / of(runs.at(Pattern::Trace, 2, 30, enc_ratio))
    })
}
