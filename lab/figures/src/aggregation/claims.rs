//! What one could expect of aggregation, and whether the runs show it.

use convoy_sim::Pattern;

use super::runs::{Board, Key, Outcome, Runs};
use crate::basis::Basis;
use crate::finding::Finding;
use crate::paper::PaperClaim;
use crate::plots::name;
use crate::runs::ENC_RATIOS;

type Claim = PaperClaim<Runs>;

const MBPS: fn(&Outcome) -> f64 = |outcome| outcome.mbps;
const LATENCY: fn(&Outcome) -> f64 = |outcome| outcome.report.latency_ms;
const LINE: fn(&Outcome) -> f64 = |outcome| outcome.line_bytes;
/// The two sizes that the paper calls small.
const SMALL: [Pattern; 2] = [Pattern::Fixed(0), Pattern::Fixed(24)];
/// Relative differences below this are treated as none.
const NOISE: f64 = 0.005;

/// All claims.
pub(super) fn all() -> Vec<Claim> {
    vec![
        Claim {
            source: "figure 6, paper's platform",
            text: "At W = 30 aggregation raises the throughput of every pattern",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, above 0.5 % more, by pattern",
            check: |runs| above(Pattern::PAPER.map(|of| (of, gain(runs, Board::Pci, of, MBPS))), 1.0 + NOISE),
        },
        Claim {
            source: "figure 6, GRIP card",
            text: "At W = 30 aggregation raises the throughput of every pattern",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, above 0.5 % more, by pattern",
            check: |runs| {
                above(Pattern::PAPER.map(|of| (of, gain(runs, Board::Card, of, MBPS))), 1.0 + NOISE)
            },
        },
        Claim {
            source: "figure 6, paper's platform",
            text: "At W = 30 aggregation changes no pattern's throughput by more than 2 %",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, by pattern",
            check: |runs| {
                within(Pattern::PAPER.map(|of| (of, gain(runs, Board::Pci, of, MBPS))).into(), 0.02)
            },
        },
        Claim {
            source: "figure 6, GRIP card",
            text: "At W = 30 aggregation costs no pattern more than 0.5 % of throughput",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, not below 0.5 % less, by pattern",
            check: |runs| {
                above(Pattern::PAPER.map(|of| (of, gain(runs, Board::Card, of, MBPS))), 1.0 - NOISE)
            },
        },
        Claim {
            source: "figure 7, paper's platform",
            text: "At W = 30 aggregation lowers the latency of the two smallest sizes",
            basis: Basis::MODEL,
            compared: "latency with aggregation with that without, above 0.5 % less",
            check: |runs| below(SMALL.map(|of| (of, gain(runs, Board::Pci, of, LATENCY))), 1.0 - NOISE),
        },
        Claim {
            source: "figure 7, GRIP card",
            text: "At W = 30 aggregation lowers the latency of the two smallest sizes",
            basis: Basis::MODEL,
            compared: "latency with aggregation with that without, above 0.5 % less",
            check: |runs| below(SMALL.map(|of| (of, gain(runs, Board::Card, of, LATENCY))), 1.0 - NOISE),
        },
        Claim {
            source: "figure 12, paper's platform",
            text: "With two accelerators aggregation changes no throughput by more than 2 %",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, by pattern and T_enc ratio",
            check: |runs| within(two(runs, Board::Pci, &Pattern::PAPER), 0.02),
        },
        Claim {
            source: "figure 12, GRIP card",
            text: "With two accelerators aggregation gains over 5 % with the two smallest sizes",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without, by T_enc ratio",
            check: |runs| above(two(runs, Board::Card, &SMALL), 1.05),
        },
        Claim {
            source: "one SA, paper's platform",
            text: "With one SA and W = 30 aggregation gains over 10 % with the two smallest sizes",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without",
            check: |runs| above(SMALL.map(|of| (of, gain_with_one_sa(runs, Board::Pci, of, MBPS))), 1.1),
        },
        Claim {
            source: "one SA, GRIP card",
            text: "With one SA and W = 30 aggregation gains over 10 % with the two smallest sizes",
            basis: Basis::MODEL,
            compared: "throughput with aggregation with that without",
            check: |runs| above(SMALL.map(|of| (of, gain_with_one_sa(runs, Board::Card, of, MBPS))), 1.1),
        },
        Claim {
            source: "one SA, both",
            text: "With one SA and W = 30 the two smallest sizes need less than half of the line behind the gateway",
            basis: Basis::put_in(
                "the bytes of 30 packets in one or in 30 outer packets are those of the headers (RFC 4303, RFC 9347), and with one SA every multi-packet has 30",
            ),
            compared: "bytes of the line for each inner packet with aggregation with those without",
            check: |runs| {
                let all = Board::ALL
                    .into_iter()
                    .flat_map(|board| SMALL.map(|of| (of, gain_with_one_sa(runs, board, of, LINE))));
                below(all, 0.5)
            },
        },
    ]
}

fn gain(runs: &Runs, board: Board, pattern: Pattern, measure: fn(&Outcome) -> f64) -> f64 {
    runs.gain(Key::one(board, pattern, 30, true), measure)
}

fn gain_with_one_sa(runs: &Runs, board: Board, pattern: Pattern, measure: fn(&Outcome) -> f64) -> f64 {
    runs.gain(Key { sas: 1, ..Key::one(board, pattern, 30, true) }, measure)
}

/// The gain of each pattern and `T_enc_ratio` with two accelerators.
fn two(runs: &Runs, board: Board, patterns: &[Pattern]) -> Vec<(Pattern, f64)> {
    let gains = |pattern: &Pattern| {
        ENC_RATIOS.map(|ratio| (*pattern, runs.gain(Key::two(board, *pattern, ratio, true), MBPS)))
    };
    patterns.iter().flat_map(gains).collect()
}

fn finding(all: Vec<(Pattern, f64)>, holds: impl Fn(f64) -> bool) -> Finding {
    let words: Vec<String> =
        all.iter().map(|(pattern, value)| format!("{} {value:.3}", name(*pattern))).collect();
    Finding::new(all.iter().all(|(_, value)| holds(*value)), words.join("; "))
}

fn above(all: impl IntoIterator<Item = (Pattern, f64)>, bound: f64) -> Finding {
    finding(all.into_iter().collect(), |value| value > bound)
}

fn below(all: impl IntoIterator<Item = (Pattern, f64)>, bound: f64) -> Finding {
    finding(all.into_iter().collect(), |value| value < bound)
}

/// Whether all ratios differ from 1 by at most this part; the finding names only the lowest and the
/// highest.
fn within(all: Vec<(Pattern, f64)>, part: f64) -> Finding {
    let shown = all.iter().all(|(_, value)| (value - 1.0).abs() <= part);
    let mut sorted = all;
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let ends = sorted.first().into_iter().chain(sorted.last()).copied().collect();
    finding(ends, |_| shown)
}
