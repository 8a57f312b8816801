//! Claims about the system with two accelerators: figures 8 to 15.

use convoy_sim::{Pattern, Report};

use super::{
    BY_SIZE, Claim, Finding, NOISE, POOL, above, bounds, falls, for_patterns, over_ratios, rises, within,
};
use crate::basis::Basis;
use crate::readings::Reading;
use crate::runs::{ENC_RATIOS, Key, Runs, Variant};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.2",
        text: "Accelerator 2 does much the same as accelerator 1: packets and average length within 10 %",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let length = |report: &Report| report.average_length[2] / report.average_length[1];
            let share = |report: &Report| report.share[2] / report.share[1];
            let both =
                |it| [over_ratios(runs, it, 2, 30, length), over_ratios(runs, it, 2, 30, share)].concat();
            for_patterns(&BY_SIZE, |it| both(it).iter().all(|ratio| (0.9..=1.1).contains(ratio))).with(
                "2 over 1",
                2,
                BY_SIZE.into_iter().flat_map(both),
            )
        },
    },
    Claim {
        source: "IV-B.2, figure 8",
        text: "The CPU's share of packets falls as T_enc ratio grows, with two accelerators",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| falls(&over_ratios(runs, it, 2, 30, |it| it.share[0]), NOISE))
        },
    },
    Claim {
        source: "IV-B.2, figure 9",
        text: "Accelerator 1's share of packets grows with T_enc ratio",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| rises(&over_ratios(runs, it, 2, 30, |it| it.share[1]), NOISE))
        },
    },
    Claim {
        source: "IV-B.2, figure 10",
        text: "The CPU's average length falls up to T_enc ratio 3",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let fall = |it| 1.0 - cpu_length(runs, it)[1] / cpu_length(runs, it)[0];
            for_patterns(&BY_SIZE, |it| fall(it) > runs.length_noise()).with(
                "falls by a part of",
                3,
                BY_SIZE.map(fall),
            )
        },
    },
    Claim {
        source: "IV-B.2, figure 10",
        text: "… and goes on falling for almost all patterns (6 of 7), more slowly",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let slower = |it: Pattern| {
                let [one, three, _, seven] = cpu_length(runs, it);
                above(three, seven, runs.length_noise()) && (three - seven) / 4.0 < (one - three) / 2.0
            };
            let each = for_patterns(&BY_SIZE, slower);
            let held = BY_SIZE.into_iter().filter(|it| slower(*it)).count();
            Finding { shown: held + 1 >= BY_SIZE.len(), ..each }
        },
    },
    Claim {
        source: "IV-B.2, figure 11",
        text: "Accelerator 1's average length grows with T_enc ratio",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let lengths = |it| over_ratios(runs, it, 2, 30, |report| report.average_length[1]);
            let grown = |it, from: usize| lengths(it)[3] / lengths(it)[from];
            for_patterns(&BY_SIZE, |it| rises(&lengths(it), runs.length_noise()))
                .with("at ratio 7 over ratio 1", 3, BY_SIZE.map(|it| grown(it, 0)))
                .with("over ratio 3", 3, BY_SIZE.map(|it| grown(it, 1)))
        },
    },
    Claim {
        source: "IV-B.2, figure 12",
        text: "Throughput falls as T_enc ratio grows, with two accelerators",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| falls(&over_ratios(runs, it, 2, 30, |it| it.throughput_mbps), NOISE))
        },
    },
    Claim {
        source: "IV-B.2, figure 12",
        text: "Throughput is to some extent (80 to 100 %) the sum of what the processors can do",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let parts = |it| over_ratios(runs, it, 2, 30, part_of_sum);
            for_patterns(&BY_SIZE, |it| parts(it).iter().all(|part| (0.8..=1.0 + NOISE).contains(part))).with(
                "part of the sum",
                2,
                BY_SIZE.into_iter().flat_map(parts),
            )
        },
    },
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency grows with T_enc ratio, at W = 1 and at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        check: |runs| {
            let grows = |window| rises(&latency(runs, Pattern::Trace, window), NOISE);
            let measured = [1, 30].map(|window| {
                let values = latency(runs, Pattern::Trace, window).map(|value| format!("{value:.3}"));
                format!("W = {window}: {} ms", values.join(", "))
            });
            Finding { shown: grows(1) && grows(30), measured: measured.join("; ") }
        },
    },
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency is always lower at W = 30 than at W = 1, with two accelerators",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        check: |runs| {
            let ratios = delays(runs, Pattern::Trace);
            within(ratios, 0.0, 1.0 - NOISE, 3, "of that at W = 1")
        },
    },
    Claim {
        source: "IV-B.2",
        text: "Other patterns behave alike: latency grows with T_enc ratio and is lower at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
        check: |runs| {
            let alike = |it| {
                let grows = |window| rises(&latency(runs, it, window), NOISE);
                grows(1) && grows(30) && delays(runs, it).iter().all(|ratio| above(1.0, *ratio, NOISE))
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
        check: |runs| {
            let at = |window| over_ratios(runs, Pattern::Trace, 2, window, |report| report.throughput_mbps);
            let gains =
                ENC_RATIOS.iter().zip(at(30).into_iter().zip(at(1))).map(|(_, (wide, one))| wide / one);
            let (least, most) = bounds(gains);
            let shown = falls(&at(1), NOISE) && falls(&at(30), NOISE) && above(least, 1.0, NOISE);
            Finding { shown, measured: format!("W = 30 over W = 1: {least:.3} to {most:.3}") }
        },
    },
    Claim {
        source: "IV-B.2",
        text: "Latency is lower with two accelerators than with one",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let at = |it, accelerators, ratio| runs.latency_ms(runs.at(it, accelerators, 30, ratio));
            let ratios = |it| ENC_RATIOS.map(|ratio| at(it, 2, ratio) / at(it, 1, ratio));
            for_patterns(&BY_SIZE, |it| ratios(it).iter().all(|ratio| above(1.0, *ratio, NOISE))).with(
                "two over one",
                2,
                BY_SIZE.into_iter().flat_map(ratios),
            )
        },
    },
    Claim {
        source: "IV-B.2, figure 13",
        text: "The trace's latency is 0.2 to 0.5 ms with two accelerators, at W = 1 and at W = 30",
        reading: Reading::Pool,
        basis: Basis::fitted(POOL),
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
        check: |runs| longer(runs, 0),
    },
    Claim {
        source: "IV-B.2, figure 15",
        text: "The average length at accelerator 1 is higher at W = 30 than at W = 1 (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| longer(runs, 1),
    },
    Claim {
        source: "IV-B.2",
        text: "Bus conflicts stay below 17 % of requests with two accelerators (trace, W = 30)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| conflicts(runs, &[Pattern::Trace], &[30]),
    },
    Claim {
        source: "IV-B.2",
        text: "… for all patterns, at W = 1 as well",
        reading: Reading::Pool,
        basis: Basis::chosen("one transfer for each multi-packet"),
        check: |runs| conflicts(runs, &BY_SIZE, &[1, 30]),
    },
    Claim {
        source: "IV-B.2",
        text: "Prefetch and write buffer improve the efficiency: more throughput (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let gains = buffered(runs, |report| report.throughput_mbps);
            let (least, most) = bounds(gains);
            Finding {
                shown: above(least, 1.0, NOISE),
                measured: format!("{least:.3} to {most:.3} of that without"),
            }
        },
    },
    Claim {
        source: "IV-B.2",
        text: "… by fewer bus conflicts (trace)",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        check: |runs| {
            let (least, most) = bounds(buffered(runs, |report| report.bus_conflicts));
            let [with, without] = [Variant::Buffered, Variant::Plain].map(|variant| idle(runs, variant));
            let measured = format!(
                "{least:.2} to {most:.2} of those without; the accelerators are idle for {} without and {} with",
                without.join(", "),
                with.join(", ")
            );
            Finding { shown: above(1.0, most, NOISE), measured }
        },
    },
];

fn cpu_length(runs: &Runs, pattern: Pattern) -> [f64; 4] {
    over_ratios(runs, pattern, 2, 30, |report| report.average_length[0])
}

fn latency(runs: &Runs, pattern: Pattern, window: usize) -> [f64; 4] {
    over_ratios(runs, pattern, 2, window, |report| runs.latency_ms(report))
}

/// Latency at `W = 30` divided by that at `W = 1`.
fn delays(runs: &Runs, pattern: Pattern) -> [f64; 4] {
    let (wide, one) = (latency(runs, pattern, 30), latency(runs, pattern, 1));
    std::array::from_fn(|place| wide[place] / one[place])
}

/// Throughput divided by the sum of the rates at which the processors work while they are busy.
fn part_of_sum(report: &Report) -> f64 {
    let rate = |place: usize| {
        let busy_ms = report.processors[place].utilisation * report.end_ms;
        if busy_ms > 0.0 { report.processors[place].bytes as f64 * 8.0 / busy_ms / 1e3 } else { 0.0 }
    };
    report.throughput_mbps / (0..report.processors.len()).map(rate).sum::<f64>()
}

fn longer(runs: &Runs, processor: usize) -> Finding {
    let at = |window| over_ratios(runs, Pattern::Trace, 2, window, |report| report.average_length[processor]);
    let (wide, one) = (at(30), at(1));
    let ratios = std::array::from_fn::<f64, 4, _>(|place| wide[place] / one[place]);
    within(ratios, 1.0 + NOISE, f64::INFINITY, 2, "times that at W = 1")
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
