//! Published results and whether the platforms reproduce them, and claims about the hybrid.

use super::published::{
    BLUEFIELD, BLUEFIELD_ONE_PORT, CORE_MBS, FLOWER, Point, QAT_BATCHED_GBS, QAT_EMERALD_RAPIDS_MBS,
    QAT_SYNCHRONOUS_BUSY, QAT_SYNCHRONOUS_MBS, XDP, XDP_CPU,
};
use super::runs::{
    ALONE, BATCHED, CARD, CORES, Contender, Device, KNOWN, Key, Runs, SWEEP_TUNNELS, TUNNELS, UNKNOWN,
};
use crate::basis::Basis;
use crate::finding::Finding;
use crate::paper::PaperClaim;

type Claim = PaperClaim<Runs>;

/// Largest error of a fitted point, and of a predicted one, in percent.
const FITTED: f64 = 1.0;
const PREDICTED: f64 = 7.0;
/// How far the hybrid may be below the better of the two alone, in percent.
const HYBRID: f64 = 1.0;

fn finding(holds: bool, measured: String) -> Finding {
    Finding::new(holds, measured)
}

/// All claims.
pub(super) fn all() -> Vec<Claim> {
    [connectx(), bluefield(), qat(), hybrid()].into_iter().flatten().collect()
}

/// The error of the platform at each of these points.
fn off(runs: &Runs, card: CardVariant, points: &[Point], fitted: bool) -> Finding {
    let CardVariant { device, variant } = card;
    let chosen = points.iter().filter(|point| point.is_fitted == fitted);
    let (mut most, mut words) = (0.0_f64, Vec::new());
    for point in chosen {
        let ours = runs.card(device, variant, point.tunnels);
        let error = (ours / point.gbps - 1.0) * 100.0;
        most = most.max(error.abs());
        words.push(format!("{} {ours:.1} ({}, {error:+.1} %)", point.tunnels, point.gbps));
    }
    finding(most <= if fitted { FITTED } else { PREDICTED }, words.join("; "))
}

/// A card, and the way in which its packets are steered.
#[derive(Clone, Copy)]
struct CardVariant {
    device: Device,
    variant: &'static str,
}

const STEERING: CardVariant = CardVariant { device: Device::ConnectX, variant: "" };
const BY_XDP: CardVariant = CardVariant { device: Device::ConnectX, variant: "xdp" };
const OF_BLUEFIELD: CardVariant = CardVariant { device: Device::BlueField, variant: "" };

fn connectx() -> Vec<Claim> {
    vec![
        Claim {
            source: "CX7, table",
            text: "Flow steering, fitted points: within 1 % (published and error in brackets)",
            basis: Basis::fitted("the card's times and cache"),
            compared: "the card's rate with the published one, within 1 %",
            check: |runs| off(runs, STEERING, &FLOWER, true),
        },
        Claim {
            source: "CX7, table",
            text: "Flow steering, points that are not fitted: within 7 %",
            basis: Basis::MODEL,
            compared: "the card's rate with the published one, within 7 %",
            check: |runs| off(runs, STEERING, &FLOWER, false),
        },
        Claim {
            source: "CX7, table",
            text: "XDP, fitted points: within 1 %",
            basis: Basis::fitted("the times by XDP"),
            compared: "the card's rate with the published one, within 1 %",
            check: |runs| off(runs, BY_XDP, &XDP, true),
        },
        Claim {
            source: "CX7, table",
            text: "XDP, points that are not fitted: within 7 %",
            basis: Basis::MODEL,
            compared: "the card's rate with the published one, within 7 %",
            check: |runs| off(runs, BY_XDP, &XDP, false),
        },
        Claim {
            source: "CX7, analysis",
            text: "XDP's advantage is near 25 % from 1,300 tunnels on: 20 to 30 %",
            basis: Basis::MODEL,
            compared: "the card's rate by XDP with that by flow steering, at 1,300 to 1,600 tunnels",
            check: |runs| {
                let advantage = |tunnels| {
                    let of = |card: CardVariant| runs.card(card.device, card.variant, tunnels);
                    (of(BY_XDP) / of(STEERING) - 1.0) * 100.0
                };
                let all = [1300, 1400, 1500, 1600].map(advantage);
                let words = all.map(|one| format!("{one:.0}"));
                let shown = all.iter().all(|one| (20.0..=30.0).contains(one));
                finding(shown, format!("{} %", words.join(", ")))
            },
        },
        Claim {
            source: "CX7, picture",
            text: "The host's load with XDP drops as tunnels grow: within 5 points of the picture (the first is fitted)",
            basis: Basis::MODEL,
            compared: "the host's load with the published one, within 5 points, at each number of tunnels",
            check: |runs| {
                let (mut most, mut words) = (0.0_f64, Vec::new());
                for (tunnels, published) in XDP_CPU {
                    let key = Key { device: Device::ConnectX, variant: "xdp", cores: 0, load: tunnels };
                    let ours = runs.of(key).cores.first().map_or(0.0, |host| host.utilisation * 100.0);
                    most = most.max((ours - published).abs());
                    words.push(format!("{tunnels} {ours:.0} ({published})"));
                }
                finding(most <= 5.0, format!("{} %", words.join("; ")))
            },
        },
    ]
}

fn bluefield() -> Vec<Claim> {
    vec![
        Claim {
            source: "BF3, test 4",
            text: "Fitted points: within 1 %",
            basis: Basis::fitted("the card's times and cache"),
            compared: "the card's rate with the published one, within 1 %",
            check: |runs| off(runs, OF_BLUEFIELD, &BLUEFIELD, true),
        },
        Claim {
            source: "BF3, test 4",
            text: "The point with 8,000 tunnels, which is not fitted: within 7 %",
            basis: Basis::MODEL,
            compared: "the card's rate with the published one, within 7 %",
            check: |runs| off(runs, OF_BLUEFIELD, &BLUEFIELD, false),
        },
        Claim {
            source: "BF3, test 3",
            text: "On one port 500 to 2,000 tunnels make no difference: the cache leaves more than was measured there",
            basis: Basis::put_in(
                "the rates at 500 and 2,000 tunnels were fitted on two ports (row 7), above what was measured on one, and fall between",
            ),
            compared: "the card's rate with what was measured on one port",
            check: |runs| {
                let spare = BLUEFIELD_ONE_PORT.map(|point| {
                    let ours = runs.card(Device::BlueField, "", point.tunnels);
                    (ours >= point.gbps, format!("{} {ours:.0} ({})", point.tunnels, point.gbps))
                });
                let words: Vec<String> = spare.iter().map(|(_, words)| words.clone()).collect();
                finding(spare.iter().all(|(shown, _)| *shown), words.join("; "))
            },
        },
    ]
}

/// Rate of QAT, in GB/s.
fn qat_gbs(runs: &Runs, variant: &'static str, load: u32) -> f64 {
    runs.gbps(Key { device: Device::Qat, variant, cores: 0, load }) / 8.0
}

fn qat() -> Vec<Claim> {
    vec![
        Claim {
            source: "Cabiddu, Biggers",
            text: "12 GB/s in batches; 62.5 and 289 MB/s for a synchronous caller; 16.171 GB/s by a core: all fitted, within 1 %",
            basis: Basis::fitted("the times of device and core"),
            compared: "the rates of device and core with the published ones, within 1 %",
            check: |runs| {
                let pairs = [
                    (qat_gbs(runs, "", BATCHED), QAT_BATCHED_GBS),
                    (qat_gbs(runs, "synchronous", 1), QAT_SYNCHRONOUS_MBS * 1e-3),
                    (qat_gbs(runs, "synchronous-emerald-rapids", 1), QAT_EMERALD_RAPIDS_MBS * 1e-3),
                    (qat_gbs(runs, "core-alone", BATCHED), CORE_MBS * 1e-3),
                ];
                let shown = pairs.iter().all(|(ours, theirs)| (ours / theirs - 1.0).abs() <= FITTED * 1e-2);
                finding(shown, pairs.map(|(ours, _)| format!("{ours:.4}")).join(", ") + " GB/s")
            },
        },
        Claim {
            source: "Cabiddu",
            text: "With that caller the device is busy for about 4 % of the time: 3 to 5 %",
            basis: Basis::MODEL,
            compared: "the device's utilisation with the published 4 %, within 1 point",
            check: |runs| {
                let key = Key { device: Device::Qat, variant: "synchronous", cores: 0, load: 1 };
                let busy = runs.of(key).processors[0].utilisation * 100.0;
                let shown = (busy - QAT_SYNCHRONOUS_BUSY).abs() <= 1.0;
                finding(shown, format!("{busy:.1} %"))
            },
        },
        Claim {
            source: "Biggers",
            text: "A core with VAES is quicker than the device, however many requests are on their way",
            basis: Basis::put_in("both numbers are fitted (row 10)"),
            compared: "the rate of a core with that of the device",
            check: |runs| {
                let (qat, core) = (qat_gbs(runs, "", BATCHED), qat_gbs(runs, "core-alone", BATCHED));
                finding(core > qat, format!("{core:.1} and {qat:.1} GB/s"))
            },
        },
    ]
}

/// The smallest gain of the hybrid over the better of the two alone in percent, and the number of
/// tunnels at which it occurs.
fn above_the_better(runs: &Runs, hybrid: &Contender) -> (f64, u32) {
    let above = TUNNELS.map(|tunnels| {
        let of = |way: &Contender| runs.gbps(way.key(tunnels, CORES));
        ((of(hybrid) / of(&CARD).max(of(&ALONE)) - 1.0) * 100.0, tunnels)
    });
    above.into_iter().fold((f64::INFINITY, 0), |least, one| if one.0 < least.0 { one } else { least })
}

fn never_below(runs: &Runs, hybrid: &Contender) -> Finding {
    let (least, tunnels) = above_the_better(runs, hybrid);
    finding(least >= -HYBRID, format!("{least:+.1} % at least, with {tunnels} tunnels"))
}

fn hybrid() -> Vec<Claim> {
    vec![
        Claim {
            source: "convoy",
            text: "Card and cores by finishing time, cache known, are never more than 1 % below the better one alone",
            basis: Basis::MODEL,
            compared: "the hybrid's rate with the better of card and cores alone, at each number of tunnels",
            check: |runs| never_below(runs, &KNOWN),
        },
        Claim {
            source: "convoy",
            text: "… and cache unknown",
            basis: Basis::MODEL,
            compared: "the hybrid's rate with the better of card and cores alone, at each number of tunnels",
            check: |runs| never_below(runs, &UNKNOWN),
        },
        Claim {
            source: "convoy",
            text: "With 1,600 tunnels and a known cache both carry more than the sum of what each carries alone",
            basis: Basis::MODEL,
            compared: "the hybrid's rate with the sum of card and cores alone",
            check: |runs| {
                let of = |way: &Contender| runs.gbps(way.key(SWEEP_TUNNELS, CORES));
                let (card, cores, both) = (of(&CARD), of(&ALONE), of(&KNOWN));
                finding(both > card + cores, format!("{both:.1} against {card:.1} + {cores:.1}"))
            },
        },
        Claim {
            source: "convoy",
            text: "… and a scheduler that does not know the cache carries less",
            basis: Basis::MODEL,
            compared: "the hybrid's rate with an unknown cache with that with a known one",
            check: |runs| {
                let of = |way: &Contender| runs.gbps(way.key(SWEEP_TUNNELS, CORES));
                let (known, unknown) = (of(&KNOWN), of(&UNKNOWN));
                finding(unknown < known, format!("{unknown:.1} against {known:.1}"))
            },
        },
    ]
}
