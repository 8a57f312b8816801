//! Claims about the system with two accelerators and a window: figures 8 to 12.

use convoy_sim::{Pattern, Report};

use super::{BY_SIZE, Claim, Scope, for_patterns, over_ratios};
use crate::basis::Basis;
use crate::finding::{Evidence, Finding, above, falls, rises};
use crate::readings::Reading;
use crate::runs::Runs;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.2",
        text: "Accelerator 2 does much the same as accelerator 1: packets and average length within 10 %",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "shares and average lengths of accelerator 2 with those of accelerator 1",
        scope: Scope::Range,
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
        compared: "the CPU's share of the packets at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                falls(&over_ratios(runs, it, 2, 30, |it| it.share[0]), runs.noise.of(it).share)
            })
        },
    },
    Claim {
        source: "IV-B.2, figure 9",
        text: "Accelerator 1's share of packets grows with T_enc ratio",
        reading: Reading::Pool,
        basis: Basis::put_in(
            "one number with row 23: the shares add up to 1, and the accelerators halve the rest (row 22)",
        ),
        compared: "accelerator 1's share of the packets at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                rises(&over_ratios(runs, it, 2, 30, |it| it.share[1]), runs.noise.of(it).share)
            })
        },
    },
    Claim {
        source: "IV-B.2, figure 10",
        text: "The CPU's average length falls up to T_enc ratio 3",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "the CPU's average length at T_enc ratio 1 and 3",
        scope: Scope::Range,
        check: |runs| {
            let fall = |it| 1.0 - cpu_length(runs, it)[1] / cpu_length(runs, it)[0];
            for_patterns(&BY_SIZE, |it| {
                above(cpu_length(runs, it)[0], cpu_length(runs, it)[1], runs.noise.of(it).length)
            })
            .with("falls by a part of", 3, BY_SIZE.map(fall))
        },
    },
    Claim {
        source: "IV-B.2, figure 10",
        text: "… and goes on falling for almost all patterns (6 of 7), more slowly",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "the CPU's average length at T_enc ratio 3 and 7, and its fall for a step of the ratio before and after 3",
        scope: Scope::Range,
        check: |runs| {
            let slower = |it: Pattern| {
                let [one, three, _, seven] = cpu_length(runs, it);
                let is_slower = (three - seven) / 4.0 < (one - three) / 2.0;
                above(three, seven, runs.noise.of(it).length).and(is_slower.into())
            };
            let fall = |it| 1.0 - cpu_length(runs, it)[3] / cpu_length(runs, it)[1];
            let count = |wanted| BY_SIZE.into_iter().filter(|it| slower(*it) == wanted).count();
            let almost_all = BY_SIZE.len() - 1;
            let evidence = if count(Evidence::For) >= almost_all {
                Evidence::For
            } else if count(Evidence::For) + count(Evidence::Noise) >= almost_all {
                Evidence::Noise
            } else {
                Evidence::Against
            };
            let each = for_patterns(&BY_SIZE, slower);
            Finding { evidence, ..each.with("falls by a part of", 3, BY_SIZE.map(fall)) }
        },
    },
    Claim {
        source: "IV-B.2, figure 11",
        text: "Accelerator 1's average length grows with T_enc ratio",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "accelerator 1's average length at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            let lengths = |it| over_ratios(runs, it, 2, 30, |report| report.average_length[1]);
            let grown = |it, from: usize| lengths(it)[3] / lengths(it)[from];
            for_patterns(&BY_SIZE, |it| rises(&lengths(it), runs.noise.of(it).length))
                .with("at ratio 7 over ratio 1", 3, BY_SIZE.map(|it| grown(it, 0)))
                .with("over ratio 3", 3, BY_SIZE.map(|it| grown(it, 1)))
        },
    },
    Claim {
        source: "IV-B.2, figure 12",
        text: "Throughput falls as T_enc ratio grows, with two accelerators",
        reading: Reading::Pool,
        basis: Basis::put_in(
            "the T_enc ratio is the CPU's time for a block, and the scheduler always uses the CPU in an overloaded system",
        ),
        compared: "throughput at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                falls(
                    &over_ratios(runs, it, 2, 30, |report| report.throughput_mbps),
                    runs.noise.of(it).throughput,
                )
            })
        },
    },
    Claim {
        source: "IV-B.2, figure 12",
        text: "Throughput is to some extent (80 to 100 %) the sum of what the processors can do",
        reading: Reading::Pool,
        basis: Basis::MODEL,
        compared: "throughput with the sum of the rates at which the processors work while they are busy",
        scope: Scope::Range,
        check: |runs| {
            let parts = |it| over_ratios(runs, it, 2, 30, part_of_sum);
            for_patterns(&BY_SIZE, |it| {
                parts(it).iter().all(|part| (0.8..=1.0 + runs.noise.of(it).throughput).contains(part))
            })
            .with("part of the sum", 2, BY_SIZE.into_iter().flat_map(parts))
        },
    },
];

fn cpu_length(runs: &Runs, pattern: Pattern) -> [f64; 4] {
    over_ratios(runs, pattern, 2, 30, |report| report.average_length[0])
}

/// Throughput divided by the sum of the rates at which the processors work while they are busy.
fn part_of_sum(report: &Report) -> f64 {
    let rate = |place: usize| {
        let busy_ms = report.processors[place].utilisation * report.end_ms;
        if busy_ms > 0.0 { report.processors[place].bytes as f64 * 8.0 / busy_ms / 1e3 } else { 0.0 }
    };
    report.throughput_mbps / (0..report.processors.len()).map(rate).sum::<f64>()
}
