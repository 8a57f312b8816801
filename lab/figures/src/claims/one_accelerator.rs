//! Claims about the system with one accelerator: how it groups packets, and figures 3 and 4.

use convoy_sim::{Pattern, Report};

use super::{
    BY_SIZE, Claim, EQUIPROBABLE, MIXED, Scope, TRACE_LOCALITY, for_patterns, for_ratios, listed,
    over_ratios, with_one,
};
use crate::basis::Basis;
use crate::finding::{Evidence, Finding, above, at_least, bounds, falls, rises, within};
use crate::readings::Reading;
use crate::runs::{ENC_RATIOS, Runs, Variant};

/// At ratio 1 the two processors need the same time for each block, so that their finishing times
/// do not depend on the size: `f_0 - f_1 = w_0 - w_1 + 2 t_init + (R - 1) t_block n`.
const FROM_RATIO_3: &str =
    "at T_enc ratio 3, 5 and 7; at 1 the difference of the finishing times does not depend on the size";
const T_INIT: &str = "t_init of 1 us";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.1",
        text: "W = 30, 100 equiprobable SAs: 1.33 packets in a multi-packet",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "packets in a multi-packet of the patterns with equiprobable SAs, at each T_enc ratio, with the paper's 1.33 (1.325 to 1.335)",
        scope: Scope::Range,
        check: |runs| grouped(runs, &EQUIPROBABLE, 1.325, 1.335),
    },
    Claim {
        source: "IV-B.1",
        text: "W = 30, the trace: 2.57 packets in a multi-packet",
        reading: Reading::PoolFromWindow,
        basis: TRACE_LOCALITY,
        compared: "packets in a multi-packet of the trace, at each T_enc ratio, with the paper's 2.57 (2.52 to 2.62)",
        scope: Scope::Range,
        check: |runs| grouped(runs, &[Pattern::Trace], 2.52, 2.62),
    },
    Claim {
        source: "IV-B.1, figure 3",
        text: "The CPU's share of packets falls as T_enc ratio grows",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "the CPU's share of the packets at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                falls(&over_ratios(runs, it, 1, 30, cpu_share), runs.noise.of(it).share)
            })
        },
    },
    Claim {
        source: "IV-B.1, figure 3",
        text: "It falls faster for patterns of fixed size than for those of mixed size",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen(T_INIT),
        compared: "the part that is left at ratio 7 of the CPU's share at 1: the most of any fixed size with the least of any mixed size",
        scope: Scope::Range,
        check: |runs| {
            let left = |it| runs.at(it, 1, 30, 7).share[0] / runs.at(it, 1, 30, 1).share[0];
            let is_fixed = |it: &Pattern| matches!(it, Pattern::Fixed(_));
            let (fixed, mixed): (Vec<Pattern>, Vec<Pattern>) = BY_SIZE.into_iter().partition(is_fixed);
            let shown =
                bounds(fixed.iter().map(|it| left(*it))).1 < bounds(mixed.iter().map(|it| left(*it))).0;
            let measured = format!("left at ratio 7 of the share at 1: {}", listed(&BY_SIZE, left));
            Finding::new(shown, measured)
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "The accelerator's average length is at or above the CPU's (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "average lengths of the accelerator's and of the CPU's multi-packets at each T_enc ratio",
        scope: Scope::Range,
        check: |runs| {
            let ratios = |it| over_ratios(runs, it, 1, 30, length_ratio);
            for_patterns(&MIXED, |it| {
                Evidence::all(ratios(it).map(|ratio| at_least(ratio, 1.0, runs.noise.of(it).between)))
            })
            .with("accelerator's over CPU's", 2, MIXED.into_iter().flat_map(ratios))
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "… more so as T_enc ratio grows (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "the ratio of these lengths at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&MIXED, |it| {
                rises(&over_ratios(runs, it, 1, 30, length_ratio), runs.noise.of(it).between)
            })
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "The scheduler tries to assign multi-packets to the accelerator: more packets in each than at the CPU",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        compared: "packets in a multi-packet at the accelerator and at the CPU",
        scope: Scope::Range,
        check: |runs| {
            let packed = |report: &Report, place: usize| {
                report.processors[place].packets as f64 / report.processors[place].multi_packets as f64
            };
            let ratios = |it| over_ratios(runs, it, 1, 30, |report| packed(report, 1) / packed(report, 0));
            for_ratios(&BY_SIZE, 1, |it, place| above(ratios(it)[place], 1.0, runs.noise.of(it).between))
                .with("accelerator's over CPU's", 2, BY_SIZE.into_iter().flat_map(|it| from_3(ratios(it))))
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "Small packets are usually sent to the CPU, especially when it is much slower: its average length is below \
               that of all, and falls as T_enc ratio grows (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        compared: "average length at the CPU with that of all, and from one T_enc ratio to the next",
        scope: Scope::Range,
        check: |runs| {
            let relative = |report: &Report| report.average_length[0] / report.average_length_scheduled;
            let ratios = |it| over_ratios(runs, it, 1, 30, relative);
            for_ratios(&MIXED, 1, |it, place| {
                let noise = runs.noise.of(it).length;
                let at = ratios(it);
                above(at[place - 1], at[place], noise).and(above(1.0, at[place], noise))
            })
            .with(
                "CPU's over that of all",
                2,
                MIXED.into_iter().flat_map(|it| from_3(ratios(it))),
            )
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "Lengths vary more on the accelerator than on the CPU (standard deviation, mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        compared: "standard deviations of the lengths at the accelerator and at the CPU",
        scope: Scope::Range,
        check: |runs| {
            let at = |it, ratio| with_one(runs, it, 30, ratio, Variant::Plain);
            let ratios = |it| ENC_RATIOS.map(|ratio| at(it, ratio).deviation[1] / at(it, ratio).deviation[0]);
            for_ratios(&MIXED, 1, |it, place| above(ratios(it)[place], 1.0, runs.noise.of(it).between)).with(
                "accelerator's over CPU's",
                2,
                MIXED.into_iter().flat_map(|it| from_3(ratios(it))),
            )
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "The accelerator prefers big packets: its average length is above that of all (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        compared: "average length at the accelerator with that of all",
        scope: Scope::Range,
        check: |runs| {
            let relative = |report: &Report| report.average_length[1] / report.average_length_scheduled;
            let ratios = |it| over_ratios(runs, it, 1, 30, relative);
            for_ratios(&MIXED, 1, |it, place| above(ratios(it)[place], 1.0, runs.noise.of(it).between)).with(
                "accelerator's over that of all",
                2,
                MIXED.into_iter().flat_map(|it| from_3(ratios(it))),
            )
        },
    },
];

/// The values at `T_enc_ratio` 3, 5 and 7.
fn from_3([_, rest @ ..]: [f64; 4]) -> [f64; 3] {
    rest
}

/// Whether multi-packets of these patterns have a number of packets in this range, but for noise.
fn grouped(runs: &Runs, patterns: &[Pattern], low: f64, high: f64) -> Finding {
    let packets = |it: Pattern| over_ratios(runs, it, 1, 30, |report| report.packets_per_multipacket);
    let all = patterns.iter().flat_map(|it| {
        let noise = runs.noise.of(*it).grouping;
        packets(*it).map(|of| at_least(of, low, noise).and(at_least(high, of, noise)))
    });
    let measured = within(patterns.iter().flat_map(|it| packets(*it)), low, high, 3, "").measured;
    Finding::new(Evidence::all(all), measured)
}

fn cpu_share(report: &Report) -> f64 {
    report.share[0]
}

fn length_ratio(report: &Report) -> f64 {
    report.average_length[1] / report.average_length[0]
}
