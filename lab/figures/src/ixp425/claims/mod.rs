//! The claims of the IXP425 paper, and whether the runs reproduce them. Section numbers are the
//! paper's.

mod internal;
mod load;

use super::runs::{FIGURE_11, LENGTHS, LONGEST, Outcome, Runs, System, What};
use crate::basis::Basis;
use crate::finding::{Finding, bounds};
use crate::paper::PaperClaim;
use internal::{blocks_and_future, bottlenecks, coprocessor};

type Claim = PaperClaim<Runs>;

/// Largest relative difference of values that a figure would show as equal.
const ALIKE: f64 = 0.05;

fn finding(holds: bool, measured: String) -> Finding {
    Finding::new(holds, measured)
}

/// A claim that a number is within a relative tolerance of the paper's.
fn near(measured: f64, papers: f64, part: f64, unit: &str) -> Finding {
    finding((measured / papers - 1.0).abs() <= part, format!("{measured:.1} {unit}"))
}

/// Formats lengths and their values in one line.
fn listed(lengths: &[u32], decimals: usize, of: impl Fn(u32) -> f64) -> String {
    let each = lengths.iter().map(|length| format!("{length} B {:.decimals$}", of(*length)));
    each.collect::<Vec<_>>().join(", ")
}

/// All claims: those with figures in the paper's order, then those about memory and latency.
pub(super) fn all() -> Vec<Claim> {
    let parts = [forwarding(), ipsec(), bottlenecks(), coprocessor(), blocks_and_future(), load::all()];
    parts.into_iter().flatten().collect()
}

fn forwarding() -> Vec<Claim> {
    vec![
        Claim {
            source: "4.2.1, figure 8",
            text: "Two NPEs and the Pentium III forward at wire speed with packets of more than 512 bytes, and not below",
            basis: Basis::fitted("the time of a forwarded packet, at 512 bytes"),
            compared: "the highest rate without loss with the line's, at each length",
            check: |runs| {
                let is_wire = |system, length| {
                    let outcome: &Outcome = runs.of(system, "forwarding", length, What::Ndr);
                    outcome.throughput.pps >= outcome.line.pps * 0.995
                };
                let shown = [System::Ixp425, System::Pentium3]
                    .iter()
                    .all(|system| LENGTHS.iter().all(|length| is_wire(*system, *length) == (*length >= 512)));
                let part = |length| {
                    let outcome = runs.of(System::Ixp425, "forwarding", length, What::Ndr);
                    outcome.throughput.pps / outcome.line.pps * 100.0
                };
                finding(shown, format!("percent of the line: {}", listed(&LENGTHS, 0, part)))
            },
        },
        Claim {
            source: "4.2.1, figure 8",
            text: "Two NPEs parallel the Pentium III: within 5 %",
            basis: Basis::fitted("the Pentium III's time of a forwarded packet"),
            compared: "the IXP425's highest rate with the Pentium III's, at each length",
            check: |runs| {
                let ratio =
                    |length| runs.mbps("forwarding", length) / runs.pentium3_mbps("forwarding", length);
                let (least, most) = bounds(LENGTHS.map(ratio));
                finding(least >= 1.0 - ALIKE && most <= 1.0 + ALIKE, format!("{least:.2} to {most:.2} times"))
            },
        },
        Claim {
            source: "4.2.1, figure 8",
            text: "NPEs improve forwarding by up to 60 %",
            basis: Basis::fitted("what a network card takes"),
            compared: "the largest gain of two NPEs over none, over the lengths of figure 11, with the paper's 60 %",
            check: |runs| {
                near(bounds(FIGURE_11.map(|length| io_gain(runs, length))).1 * 100.0 - 100.0, 60.0, 0.05, "%")
            },
        },
        Claim {
            source: "5",
            text: "Packet Rx/Tx improves by 25 % after off-loading: 20 to 30 %",
            basis: Basis::MODEL.read_as("the mean over figure 11's lengths"),
            compared: "the mean gain of two NPEs over none with the paper's 25 % (20 to 30)",
            check: |runs| {
                let mean =
                    FIGURE_11.map(|length| io_gain(runs, length)).iter().sum::<f64>() / 5.0 * 100.0 - 100.0;
                let each = listed(&FIGURE_11, 0, |length| io_gain(runs, length) * 100.0 - 100.0);
                finding((20.0..=30.0).contains(&mean), format!("{mean:.0} %; {each}"))
            },
        },
        Claim {
            source: "4.2.1, figure 8",
            text: "The throughput of forwarding has its maximum at 1024 bytes",
            basis: Basis::MODEL,
            compared: "throughput at 1024 bytes with the highest of all lengths",
            check: |runs| {
                let most = bounds(LENGTHS.map(|length| runs.mbps("forwarding", length))).1;
                let each = listed(&LENGTHS[4..], 1, |length| runs.mbps("forwarding", length));
                let below = 100.0 - runs.mbps("forwarding", 1024) / most * 100.0;
                finding(below <= 0.0, format!("{each} Mbit/s; {below:.1} % below the maximum"))
            },
        },
    ]
}

/// Rate of forwarding with two NPEs divided by that without.
fn io_gain(runs: &Runs, length: u32) -> f64 {
    runs.mbps("forwarding", length) / runs.mbps("forwarding+software-io", length)
}

fn ipsec() -> Vec<Claim> {
    vec![
        Claim {
            source: "abstract, figure 10",
            text: "IPsec with 3DES reaches 45 Mbit/s",
            basis: Basis::fitted("IPsec's time, at 1450 bytes"),
            compared: "the highest rate at 1450 bytes with the paper's 45 Mbit/s, within 3 %",
            check: |runs| near(runs.mbps("", LONGEST), 45.0, 0.03, "Mbit/s"),
        },
        Claim {
            source: "abstract, 4.2.2",
            text: "Off-loading improves 3DES by 350 %",
            basis: Basis::fitted("3DES in software, to 10 Mbit/s"),
            compared: "the highest rate with NPE B's cryptography with that in software, with the paper's 350 %, within 5 %",
            check: |runs| {
                let gain = runs.mbps("", LONGEST) / runs.mbps("software-crypto", LONGEST) * 100.0 - 100.0;
                near(gain, 350.0, 0.05, "%")
            },
        },
        Claim {
            source: "4.2.2",
            text: "Off-loading improves IPsec by 350 %",
            basis: Basis::put_in("one number with row 7: the larger of two gains is that of 3DES, to which software was fitted").read_as("the larger gain, 3DES's as in the abstract; section 4.2.2 names no algorithm"),
            compared: "the same two rates as row 7, and those of DES",
            check: |runs| {
                let gain =
                    |off, software| runs.mbps(off, LONGEST) / runs.mbps(software, LONGEST) * 100.0 - 100.0;
                let (triple, single) = (gain("", "software-crypto"), gain("des", "software-crypto+des"));
                let evidence = near(triple.max(single), 350.0, 0.05, "%").evidence;
                Finding::new(evidence, format!("3DES {triple:.1} %, DES {single:.1} %"))
            },
        },
        Claim {
            source: "4.2.2, figure 9",
            text: "In some cases the IXP425 outperforms the Pentium III, with DES",
            basis: Basis::chosen("DES in 80 clocks a byte on the Pentium III"),
            compared: "the IXP425's highest rate with the Pentium III's, at each length",
            check: |runs| outperforms(runs, "des"),
        },
        Claim {
            source: "4.2.2, figure 10",
            text: "… with 3DES",
            basis: Basis::MODEL,
            compared: "the IXP425's highest rate with the Pentium III's, at each length",
            check: |runs| outperforms(runs, ""),
        },
        Claim {
            source: "4.2.2, figures 9, 10",
            text: "The throughput of IPsec has its maximum at 1450 bytes, the longest packet that is not fragmented",
            basis: Basis::MODEL,
            compared: "throughput at 1450 bytes with that at each other length",
            check: |runs| {
                let has_it = |variant| {
                    let others = LENGTHS.into_iter().filter(|length| *length != LONGEST);
                    others.into_iter().all(|length| runs.mbps(variant, length) < runs.mbps(variant, LONGEST))
                };
                let each = listed(&LENGTHS[4..], 1, |length| runs.mbps("", length));
                finding(has_it("") && has_it("des"), format!("3DES {each} Mbit/s"))
            },
        },
        Claim {
            source: "4.2.2",
            text: "The throughput of DES is that of 3DES: within 5 % at every length",
            basis: Basis::put_in("the XScale's time does not depend on the algorithm (row 27), and it was fitted as the limit at 45 Mbit/s, below NPE B's 101 (row 17)"),
            compared: "the highest rate with DES with that with 3DES, at each length",
            check: |runs| {
                let (least, most) =
                    bounds(LENGTHS.map(|length| runs.mbps("des", length) / runs.mbps("", length)));
                finding(least >= 1.0 - ALIKE && most <= 1.0 + ALIKE, format!("{least:.3} to {most:.3} times"))
            },
        },
        Claim {
            source: "4.3, figure 11",
            text: "Which NPE receives does not matter: within 5 % at every length",
            basis: Basis::MODEL,
            compared: "the highest rate if NPE B receives with that if NPE A does, at each length",
            check: |runs| {
                let ratio = |length| runs.mbps("npe-b-receives", length) / runs.mbps("", length);
                let (least, most) = bounds(FIGURE_11.map(ratio));
                finding(least >= 1.0 - ALIKE && most <= 1.0 + ALIKE, format!("{least:.3} to {most:.3} times"))
            },
        },
    ]
}

fn outperforms(runs: &Runs, variant: &'static str) -> Finding {
    let ratio = |length| runs.mbps(variant, length) / runs.pentium3_mbps(variant, length);
    let each = listed(&FIGURE_11, 2, ratio);
    finding(LENGTHS.iter().any(|length| ratio(*length) > 1.0), format!("IXP425 over Pentium III: {each}"))
}
