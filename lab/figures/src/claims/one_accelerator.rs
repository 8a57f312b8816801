//! Claims about the system with one accelerator: figures 3 to 7.

use convoy_sim::{Pattern, Report};

use super::{
    BY_SIZE, Claim, EQUIPROBABLE, Finding, MIXED, NOISE, POOL, TRACE_LOCALITY, above, at_least, bounds,
    falls, for_patterns, for_ratios, listed, over_ratios, rises, within,
};
use crate::basis::Basis;
use crate::readings::Reading;
use crate::runs::{ENC_RATIO, ENC_RATIOS, Key, LOCALITIES, Outcome, Runs, Variant, WINDOW_BYTES};

/// At ratio 1 the two processors need the same time for each block, so that their finishing times
/// do not depend on the size: `f_0 - f_1 = w_0 - w_1 + 2 t_init + (R - 1) t_block n`.
const FROM_RATIO_3: &str =
    "at T_enc ratio 3, 5 and 7; at 1 the difference of the finishing times does not depend on the size";
/// The values of [`Reading::LocalMemory`].
const LOCAL_MEMORY: &str =
    "queues of 16000 bytes, t_init of 5 us and one transfer that the scheduler expects";
const T_INIT: &str = "t_init of 1 us";
const FROM_WINDOW: &str = "latency from the entry into the window, of whose time to fill the paper speaks";

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        source: "IV-B.1",
        text: "W = 30, 100 equiprobable SAs: 1.33 packets in a multi-packet",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| within(grouped(runs, &EQUIPROBABLE), 1.324, 1.334, 3, ""),
    },
    Claim {
        source: "IV-B.1",
        text: "W = 30, the trace: 2.57 packets in a multi-packet",
        reading: Reading::PoolFromWindow,
        basis: TRACE_LOCALITY,
        check: |runs| within(grouped(runs, &[Pattern::Trace]), 2.52, 2.62, 3, ""),
    },
    Claim {
        source: "IV-B.1, figure 3",
        text: "The CPU's share of packets falls as T_enc ratio grows",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| for_patterns(&BY_SIZE, |it| falls(&over_ratios(runs, it, 1, 30, cpu_share), NOISE)),
    },
    Claim {
        source: "IV-B.1, figure 3",
        text: "It falls faster for patterns of fixed size than for those of mixed size",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen(T_INIT),
        check: |runs| {
            let left = |it| runs.at(it, 1, 30, 7).share[0] / runs.at(it, 1, 30, 1).share[0];
            let is_fixed = |it: &Pattern| matches!(it, Pattern::Fixed(_));
            let (fixed, mixed): (Vec<Pattern>, Vec<Pattern>) = BY_SIZE.into_iter().partition(is_fixed);
            let shown =
                bounds(fixed.iter().map(|it| left(*it))).1 < bounds(mixed.iter().map(|it| left(*it))).0;
            let measured = format!("left at ratio 7 of the share at 1: {}", listed(&BY_SIZE, left));
            Finding { shown, measured }
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "The accelerator's average length is at or above the CPU's (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            let ratios = |it| over_ratios(runs, it, 1, 30, length_ratio);
            for_patterns(&MIXED, |it| {
                ratios(it).iter().all(|ratio| at_least(*ratio, 1.0, runs.length_noise()))
            })
            .with("accelerator's over CPU's", 2, MIXED.into_iter().flat_map(ratios))
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "… more so as T_enc ratio grows (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&MIXED, |it| rises(&over_ratios(runs, it, 1, 30, length_ratio), runs.length_noise()))
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "The scheduler tries to assign multi-packets to the accelerator: more packets in each than at the CPU",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        check: |runs| {
            let packed = |report: &Report, place: usize| {
                report.processors[place].packets as f64 / report.processors[place].multi_packets as f64
            };
            let ratios = |it| over_ratios(runs, it, 1, 30, |report| packed(report, 1) / packed(report, 0));
            for_ratios(&BY_SIZE, 1, |it, place| above(ratios(it)[place], 1.0, runs.length_noise())).with(
                "accelerator's over CPU's",
                2,
                BY_SIZE.into_iter().flat_map(|it| from_3(ratios(it))),
            )
        },
    },
    Claim {
        source: "IV-B.1, figure 4",
        text: "Small packets are usually sent to the CPU, especially when it is much slower: its average length is below \
               that of all, and falls as T_enc ratio grows (mixed sizes)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL.read_as(FROM_RATIO_3),
        check: |runs| {
            let relative = |report: &Report| report.average_length[0] / report.average_length_scheduled;
            let ratios = |it| over_ratios(runs, it, 1, 30, relative);
            let falls_at = |it, place: usize| ratios(it)[place] < ratios(it)[place - 1];
            for_ratios(&MIXED, 1, |it, place| {
                falls_at(it, place) && above(1.0, ratios(it)[place], runs.length_noise())
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
        check: |runs| {
            let at = |it, ratio| of(runs, it, 30, ratio, Variant::Plain);
            let ratios = |it| ENC_RATIOS.map(|ratio| at(it, ratio).deviation[1] / at(it, ratio).deviation[0]);
            for_ratios(&MIXED, 1, |it, place| above(ratios(it)[place], 1.0, runs.length_noise())).with(
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
        check: |runs| {
            let relative = |report: &Report| report.average_length[1] / report.average_length_scheduled;
            let ratios = |it| over_ratios(runs, it, 1, 30, relative);
            for_ratios(&MIXED, 1, |it, place| above(ratios(it)[place], 1.0, runs.length_noise())).with(
                "accelerator's over that of all",
                2,
                MIXED.into_iter().flat_map(|it| from_3(ratios(it))),
            )
        },
    },
    Claim {
        source: "IV-B.1, figure 6",
        text: "The sliding window (10 and 30) improves the throughput",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| {
                [10, 30].iter().all(|window| above(gain(runs, it, *window), 1.0, NOISE))
            })
            .with("W = 30 over W = 1", 3, BY_SIZE.map(|it| gain(runs, it, 30)))
        },
    },
    Claim {
        source: "IV-B.1, figure 6",
        text: "The gain in throughput is the greater the smaller the packets (equiprobable SAs)",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            // Exponential and 472 have the same mean, and so have uniform and 984.
            let ranks = [&EQUIPROBABLE[..1], &EQUIPROBABLE[1..2], &EQUIPROBABLE[2..4], &EQUIPROBABLE[4..]];
            let of = |rank: &[Pattern]| bounds(rank.iter().map(|it| gain(runs, *it, 30)));
            let shown = ranks.windows(2).all(|pair| at_least(of(pair[0]).0, of(pair[1]).1, NOISE));
            Finding { shown, measured: listed(&EQUIPROBABLE, |it| gain(runs, it, 30)) }
        },
    },
    Claim {
        source: "IV-B.1, figure 6",
        text: "The gain in throughput is largest for the smallest packets, the trace counted in",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            let smallest = gain(runs, BY_SIZE[0], 30);
            let shown = BY_SIZE[1..].iter().all(|it| at_least(smallest, gain(runs, *it, 30), NOISE));
            Finding { shown, measured: listed(&BY_SIZE, |it| gain(runs, it, 30)) }
        },
    },
    Claim {
        source: "IV-B.1",
        text: "The system is overloaded: the source waits, whatever the pattern",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
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
        check: |runs| {
            let each =
                BY_SIZE.into_iter().flat_map(|it| over_ratios(runs, it, 1, 30, |it| it.throughput_mbps));
            let most = bounds(each).1;
            Finding { shown: (400.0..=500.0).contains(&most), measured: format!("{most:.0} Mbit/s") }
        },
    },
    Claim {
        source: "IV-B.1",
        text: "Throughput falls as T_enc ratio grows, with one accelerator",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            for_patterns(&BY_SIZE, |it| falls(&over_ratios(runs, it, 1, 30, |it| it.throughput_mbps), NOISE))
        },
    },
    Claim {
        source: "IV-B.1",
        text: "Latency does not grow with T_enc ratio, with one accelerator",
        reading: Reading::LocalMemory,
        basis: Basis::chosen(LOCAL_MEMORY),
        check: |runs| {
            let at = |it, ratio| runs.latency_ms(runs.at(it, 1, 30, ratio));
            let grown = |it, from| at(it, 7) / at(it, from);
            for_patterns(&BY_SIZE, |it| !above(grown(it, 1), 1.0, NOISE))
                .with("at ratio 7 over ratio 1", 2, BY_SIZE.map(|it| grown(it, 1)))
                .with("over ratio 3", 2, BY_SIZE.map(|it| grown(it, 3)))
        },
    },
    Claim {
        source: "IV-B.1, figure 7",
        text: "With one accelerator the latency rises with W",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen("latency from the entry into the window").read_as(FROM_WINDOW),
        check: |runs| {
            for_patterns(&BY_SIZE, |it| rises(&[1.0, delay(runs, it, 10), delay(runs, it, 30)], NOISE)).with(
                "W = 30 over W = 1",
                3,
                BY_SIZE.map(|it| delay(runs, it, 30)),
            )
        },
    },
    Claim {
        source: "IV-B.1, figure 7",
        text: "… more for larger packets (all patterns, by mean size)",
        reading: Reading::PoolFromWindow,
        basis: Basis::fitted(POOL).read_as(FROM_WINDOW),
        check: |runs| {
            let ranks = [&BY_SIZE[..1], &BY_SIZE[1..2], &BY_SIZE[2..3], &BY_SIZE[3..5], &BY_SIZE[5..]];
            let of = |rank: &[Pattern]| bounds(rank.iter().map(|it| delay(runs, *it, 30)));
            let shown = ranks.windows(2).all(|pair| at_least(of(pair[1]).0, of(pair[0]).1, NOISE))
                && above(of(ranks[4]).0, of(ranks[0]).1, NOISE);
            Finding { shown, measured: listed(&BY_SIZE, |it| delay(runs, it, 30)) }
        },
    },
    Claim {
        source: "IV-B.1",
        text: "A bound on the window's bytes solves the increase in latency: less than half of it is left",
        reading: Reading::PoolFromWindow,
        basis: Basis::chosen("a window of at most 500 bytes").read_as(FROM_WINDOW),
        check: |runs| {
            let risen: Vec<Pattern> =
                BY_SIZE.into_iter().filter(|it| above(delay(runs, *it, 30), 1.0, NOISE)).collect();
            if risen.is_empty() {
                return Finding { shown: false, measured: "no pattern's latency rises".to_owned() };
            }
            let bounded = |it| {
                let bounded = &of(runs, it, 30, ENC_RATIO, Variant::WindowBytes).report;
                runs.latency_ms(bounded) / runs.latency_ms(runs.at(it, 1, 1, ENC_RATIO))
            };
            let left = |it| (bounded(it) - 1.0) / (delay(runs, it, 30) - 1.0);
            for_patterns(&risen, |it| left(it) < 0.5).with(
                &format!("latency with {WINDOW_BYTES} bytes over W = 1"),
                3,
                risen.iter().map(|it| bounded(*it)),
            )
        },
    },
    Claim {
        source: "IV-B.1",
        text: "The gain is not large because few packets in a window have the same SA: with more locality it grows",
        reading: Reading::PoolFromWindow,
        basis: Basis::MODEL,
        check: |runs| {
            let at = |window, hundredths| {
                of(runs, Pattern::Trace, window, ENC_RATIO, Variant::Locality(hundredths))
                    .report
                    .throughput_mbps
            };
            let gains = LOCALITIES.map(|hundredths| at(30, hundredths) / at(1, hundredths));
            let each = LOCALITIES.iter().zip(gains);
            let each =
                each.map(|(hundredths, gain)| format!("{:.2}: {gain:.3}", f64::from(*hundredths) / 100.0));
            let measured = format!("gain of the trace by locality: {}", each.collect::<Vec<_>>().join(", "));
            Finding { shown: rises(&gains, NOISE), measured }
        },
    },
];

fn of(runs: &Runs, pattern: Pattern, window: usize, enc_ratio: u32, variant: Variant) -> &Outcome {
    runs.of(Key { pattern, accelerators: 1, window, enc_ratio, variant })
}

/// The values at `T_enc_ratio` 3, 5 and 7.
fn from_3([_, rest @ ..]: [f64; 4]) -> [f64; 3] {
    rest
}

fn grouped(runs: &Runs, patterns: &[Pattern]) -> Vec<f64> {
    let each =
        patterns.iter().flat_map(|it| over_ratios(runs, *it, 1, 30, |report| report.packets_per_multipacket));
    each.collect()
}

fn cpu_share(report: &Report) -> f64 {
    report.share[0]
}

fn length_ratio(report: &Report) -> f64 {
    report.average_length[1] / report.average_length[0]
}

/// Throughput at `W` divided by that at `W = 1`.
fn gain(runs: &Runs, pattern: Pattern, window: usize) -> f64 {
    let at = |window| runs.at(pattern, 1, window, ENC_RATIO).throughput_mbps;
    at(window) / at(1)
}

/// Latency at `W` divided by that at `W = 1`.
fn delay(runs: &Runs, pattern: Pattern, window: usize) -> f64 {
    let at = |window| runs.latency_ms(runs.at(pattern, 1, window, ENC_RATIO));
    at(window) / at(1)
}
