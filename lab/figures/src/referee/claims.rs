//! What a referee would ask of the scheduler in each scenario.

use super::runs::{BELOW, CANDIDATE, Outcome, PUBLISHED, Runs, policies};
use crate::basis::Basis;
use crate::claims::Finding;
use crate::paper::PaperClaim;

type Claim = PaperClaim<Runs>;

/// How far below the bound the throughput may be, in percent.
const THROUGHPUT: f64 = 5.0;
/// How far above any rival's the 99th percentile may be, in percent.
const LATENCY: f64 = 10.0;
/// Percent of packets by which losses may differ and still count as equal.
const LOST: f64 = 0.1;

/// A claim for each of the scenarios with these numbers.
macro_rules! for_scenarios {
    ($source:literal, $text:literal, $check:ident: $($scenario:literal $of:literal),*) => {
        vec![$(Claim {
            source: $of,
            text: concat!($text, " (", $source, ")"),
            basis: Basis::MODEL,
            check: |runs| $check(runs, $scenario),
        }),*]
    };
}

/// All claims.
pub(super) fn all() -> Vec<Claim> {
    let mut claims = for_scenarios!("saturated", "Throughput within 5 % of the clairvoyant bound", throughput:
        0 "paper, trace", 1 "paper, Zipf", 2 "paper, 24 bytes", 3 "two, 8 SAs", 4 "two, 100 SAs", 5 "three, 8 SAs",
        6 "three, 1,000 SAs", 7 "card and CPU", 8 "ConnectX-7", 9 "antagonist");
    claims.extend(for_scenarios!("30 to 95 % load", "p99 at most 10 % above any rival's that loses no more", latency:
        0 "paper, trace", 1 "paper, Zipf", 2 "paper, 24 bytes", 3 "two, 8 SAs", 4 "two, 100 SAs", 5 "three, 8 SAs",
        6 "three, 1,000 SAs", 7 "card and CPU", 8 "ConnectX-7", 9 "antagonist"));
    claims.extend(for_scenarios!("120 % load", "p99 at most 10 % above any rival's that loses no more", overload:
        0 "paper, trace", 1 "paper, Zipf", 2 "paper, 24 bytes", 3 "two, 8 SAs", 4 "two, 100 SAs", 5 "three, 8 SAs",
        6 "three, 1,000 SAs", 7 "card and CPU", 8 "ConnectX-7", 9 "antagonist"));
    claims
}

fn throughput(runs: &Runs, scenario: usize) -> Finding {
    let bound = runs.bound(scenario);
    let of = |policy| runs.of(scenario, policy, 0).rate / bound * 100.0;
    let (own, published) = (of(CANDIDATE), of(PUBLISHED));
    let rivals = policies().into_iter().filter(|policy| ![CANDIDATE, PUBLISHED].contains(policy));
    let best = rivals.max_by(|one, other| of(one).total_cmp(&of(other))).unwrap_or(PUBLISHED);
    let split = runs.split(scenario) / bound * 100.0;
    Finding {
        shown: own >= 100.0 - THROUGHPUT,
        measured: format!(
            "{own:.1} % of it; as published {published:.1} %; best rival, {best}: {:.1} %; best fixed split {split:.1} %",
            of(best)
        ),
    }
}

fn latency(runs: &Runs, scenario: usize) -> Finding {
    compared(runs, scenario, &BELOW)
}

fn overload(runs: &Runs, scenario: usize) -> Finding {
    compared(runs, scenario, &[120])
}

/// The worst comparison of the p99 of [`CANDIDATE`] with that of a rival, over these loads.
fn compared(runs: &Runs, scenario: usize, loads: &[u32]) -> Finding {
    let mut worst: Option<(f64, String)> = None;
    for load in loads {
        let own = runs.of(scenario, CANDIDATE, *load);
        let loses_no_more = |it: &Outcome| it.lost <= own.lost + LOST;
        for policy in policies().into_iter().filter(|policy| *policy != CANDIDATE) {
            let it = runs.of(scenario, policy, *load);
            let above = (own.p99_us / it.p99_us.max(1e-9) - 1.0) * 100.0;
            if loses_no_more(it) && worst.as_ref().is_none_or(|(most, _)| above > *most) {
                let words =
                    format!("{above:+.0} % at {load} %: {:.1} us, {policy} {:.1} us", own.p99_us, it.p99_us);
                worst = Some((above, words));
            }
        }
    }
    match worst {
        Some((above, words)) => Finding { shown: above <= LATENCY, measured: words },
        None => Finding { shown: true, measured: "every rival loses more".to_owned() },
    }
}
