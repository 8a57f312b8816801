//! Claims about what the window does with one accelerator: throughput and latency, figures 6 and 7.

use convoy_sim::{Pattern, Report};

use super::limits::left_of_increase;
use super::{
    BY_SIZE, Claim, EQUIPROBABLE, POOL, Scope, delay, for_patterns, gain, listed, over_ratios, with_one,
};
use crate::basis::Basis;
use crate::finding::{Evidence, Finding, above, at_least, bounds, falls, rises};
use crate::readings::Reading;
use crate::runs::{ENC_RATIO, LOCALITIES, Variant, WINDOW_BYTES};

/// The values of [`Reading::LocalMemory`].
const LOCAL_MEMORY: &str =
    "queues of 16000 bytes, t_init of 5 us and one transfer that the scheduler expects";
const T_INIT: &str = "t_init of 1 us";
pub(super) const FROM_WINDOW: &str =
    "latency from the entry into the window, of whose time to fill the paper speaks";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.1, figure 6",
        text: "The sliding window (10 and 30) improves the throughput",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "throughput at W = 10 and 30 with that at W = 1",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                Evidence::all(
                    [10, 30].map(|window| above(gain(runs, it, window), 1.0, runs.noise.of(it).throughput)),
                )
            })
            .with("W = 30 over W = 1", 3, BY_SIZE.map(|it| gain(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1, figure 6",
        text: "The gain in throughput is the greater the smaller the packets (equiprobable SAs)",
        reading: Reading::PoolFromWindow,
        basis: Basis::put_in(
            "what a group saves, t_init and an address on the bus for each further packet (equations 5 and 7), does not depend on the size, and all sizes are grouped alike (row 1)",
        ),
        compared: "gains of W = 30 over W = 1, by mean size of the packets",
        scope: Scope::Range,
        check: |runs| {
            // Exponential and 472 have the same mean, and so have uniform and 984.
            let ranks = [&EQUIPROBABLE[..1], &EQUIPROBABLE[1..2], &EQUIPROBABLE[2..4], &EQUIPROBABLE[4..]];
            let of = |rank: &[Pattern]| bounds(rank.iter().map(|it| gain(runs, *it, 30)));
            let noise = runs.noise.most().throughput;
            let evidence =
                Evidence::all(ranks.windows(2).map(|pair| at_least(of(pair[0]).0, of(pair[1]).1, noise)));
            Finding::new(evidence, listed(&EQUIPROBABLE, |it| gain(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1, figure 6",
        text: "The gain in throughput is largest for the smallest packets, the trace counted in",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "the gain of the smallest packets with that of each other pattern",
        scope: Scope::Range,
        check: |runs| {
            let smallest = gain(runs, BY_SIZE[0], 30);
            let noise = runs.noise.most().throughput;
            let above_all = BY_SIZE[1..].iter().map(|it| above(smallest, gain(runs, *it, 30), noise));
            Finding::new(Evidence::all(above_all), listed(&BY_SIZE, |it| gain(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1",
        text: "The system is overloaded: the source waits, whatever the pattern",
        reading: Reading::PoolFromWindow,
        basis: Basis::put_in(
            "the line is 1 Gbit/s, and the processors' block rates are 230 Mbit/s each at most",
        ),
        compared: "the time for which the source waits for room with the whole run",
        scope: Scope::Range,
        check: |runs| {
            let waits = |report: &Report| report.source_waited_ms / report.end_ms;
            for_patterns(&BY_SIZE, |it| over_ratios(runs, it, 1, 30, waits).iter().all(|part| *part > 0.0))
                .with(
                    "part of the time",
                    2,
                    BY_SIZE.into_iter().flat_map(|it| over_ratios(runs, it, 1, 30, waits)),
                )
        },
    },
    Claim {
        source: "IV-B.1",
        text: "Processing capability is of 500 Mbit/s: the highest throughput of any pattern is 400 to 500",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen(T_INIT),
        compared: "the highest throughput of any pattern and T_enc ratio with 400 to 500 Mbit/s",
        scope: Scope::Range,
        check: |runs| {
            let each =
                BY_SIZE.into_iter().flat_map(|it| over_ratios(runs, it, 1, 30, |it| it.throughput_mbps));
            let most = bounds(each).1;
            Finding::new((400.0..=500.0).contains(&most), format!("{most:.0} Mbit/s"))
        },
    },
    Claim {
        source: "IV-B.1",
        text: "Throughput falls as T_enc ratio grows, with one accelerator",
        reading: Reading::PoolFromWindow,
        basis: Basis::put_in(
            "the T_enc ratio is the CPU's time for a block, and the scheduler always uses the CPU in an overloaded system",
        ),
        compared: "throughput at T_enc ratio 1, 3, 5 and 7",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                falls(
                    &over_ratios(runs, it, 1, 30, |report| report.throughput_mbps),
                    runs.noise.of(it).throughput,
                )
            })
        },
    },
    Claim {
        source: "IV-B.1",
        text: "Latency does not grow with T_enc ratio, with one accelerator",
        reading: Reading::LocalMemory,
        basis: Basis::chosen(LOCAL_MEMORY),
        compared: "latency at T_enc ratio 7 with that at 1",
        scope: Scope::Range,
        check: |runs| {
            let at = |it, ratio| runs.latency_ms(runs.at(it, 1, 30, ratio));
            let grown = |it, from| at(it, 7) / at(it, from);
            for_patterns(&BY_SIZE, |it| at_least(1.0, grown(it, 1), runs.noise.of(it).latency))
                .with("at ratio 7 over ratio 1", 2, BY_SIZE.map(|it| grown(it, 1)))
                .with("over ratio 3", 2, BY_SIZE.map(|it| grown(it, 3)))
        },
    },
    Claim {
        source: "IV-B.1, figure 7",
        text: "With one accelerator the latency rises with W",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen("latency from the entry into the window").read_as(FROM_WINDOW),
        compared: "latency at W = 1, 10 and 30",
        scope: Scope::Range,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                rises(&[1.0, delay(runs, it, 10), delay(runs, it, 30)], runs.noise.of(it).latency)
            })
            .with("W = 30 over W = 1", 3, BY_SIZE.map(|it| delay(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1, figure 7",
        text: "… more for larger packets (all patterns, by mean size)",
        reading: Reading::PoolFromWindow,
        basis: Basis::fitted(POOL).read_as(FROM_WINDOW),
        compared: "latency at W = 30 over that at W = 1, by mean size of the packets",
        scope: Scope::Range,
        check: |runs| {
            let ranks = [&BY_SIZE[..1], &BY_SIZE[1..2], &BY_SIZE[2..3], &BY_SIZE[3..5], &BY_SIZE[5..]];
            let of = |rank: &[Pattern]| bounds(rank.iter().map(|it| delay(runs, *it, 30)));
            let noise = runs.noise.most().latency;
            let steps = ranks.windows(2).map(|pair| at_least(of(pair[1]).0, of(pair[0]).1, noise));
            let evidence = Evidence::all(steps).and(above(of(ranks[4]).0, of(ranks[0]).1, noise));
            Finding::new(evidence, listed(&BY_SIZE, |it| delay(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1",
        text: "A bound on the window's bytes solves the increase in latency: less than half of it is left",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen("a window of at most 500 bytes").read_as(FROM_WINDOW),
        compared: "the increase in latency at W = 30 with and without the bound",
        scope: Scope::Range,
        check: |runs| left_of_increase(runs, Variant::WindowBytes, &format!("{WINDOW_BYTES} bytes")),
    },
    Claim {
        source: "IV-B.1",
        text: "The gain is not large because few packets in a window have the same SA: with more locality it grows",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        compared: "gains of W = 30 over W = 1 with the trace's locality at 0, 0.25, 0.75 and 0.9",
        scope: Scope::Range,
        check: |runs| {
            let at = |window, hundredths| {
                with_one(runs, Pattern::Trace, window, ENC_RATIO, Variant::Locality(hundredths))
                    .report
                    .throughput_mbps
            };
            let noise = runs.noise.of(Pattern::Trace).throughput;
            let gains = LOCALITIES.map(|hundredths| at(30, hundredths) / at(1, hundredths));
            let each = LOCALITIES.iter().zip(gains);
            let each =
                each.map(|(hundredths, gain)| format!("{:.2}: {gain:.3}", f64::from(*hundredths) / 100.0));
            let measured = format!("gain of the trace by locality: {}", each.collect::<Vec<_>>().join(", "));
            Finding::new(rises(&gains, noise), measured)
        },
    },
];
