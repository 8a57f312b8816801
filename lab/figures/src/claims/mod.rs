//! The claims of the paper, and whether the runs reproduce them.

mod limits;
mod one_accelerator;
mod one_with_window;
mod ranges;
mod two_accelerators;
mod two_with_window;

pub(super) use ranges::{Range, described, opens};

use convoy_sim::{Pattern, Report};

use super::basis::Basis;
use super::finding::{Evidence, Finding};
use super::plots::name;
use super::readings::Reading;
use super::runs::{ENC_RATIO, ENC_RATIOS, Key, Outcome, Runs, Variant};

/// The synthetic trace's locality, as a claim's basis.
pub(super) const TRACE_LOCALITY: Basis = Basis::fitted("the locality of the trace");
/// The values of [`Reading::Pool`], as a claim's basis.
const POOL: &str = "a pool of 72 packets, t_init of 1 us and one transfer for each multi-packet";

/// Patterns with the same distribution of SAs, which differ only in size, by mean size.
pub(super) const EQUIPROBABLE: [Pattern; 6] = [
    Pattern::Fixed(0),
    Pattern::Fixed(24),
    Pattern::Exponential,
    Pattern::Fixed(472),
    Pattern::Uniform,
    Pattern::Fixed(984),
];
/// All patterns, by mean size.
pub(super) const BY_SIZE: [Pattern; 7] = [
    Pattern::Fixed(0),
    Pattern::Fixed(24),
    Pattern::Trace,
    Pattern::Exponential,
    Pattern::Fixed(472),
    Pattern::Uniform,
    Pattern::Fixed(984),
];
/// Patterns with more than one size.
pub(super) const MIXED: [Pattern; 3] = [Pattern::Trace, Pattern::Exponential, Pattern::Uniform];

/// A claim, and a check whether it holds.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    /// Section and figure of the paper.
    pub(super) source: &'static str,
    pub(super) text: &'static str,
    /// The reading under which it is checked.
    pub(super) reading: Reading,
    /// What the result rests on in that reading.
    pub(super) basis: Basis,
    /// What is compared with what.
    pub(super) compared: &'static str,
    pub(super) scope: Scope,
    pub(super) check: fn(&Runs) -> Finding,
}

/// Where a claim is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// In all readings and over the range of open parameters.
    Range,
    /// In all readings.
    Readings,
}

/// All claims: those about the figures in the paper's order, then those about the limits of the
/// window.
pub(super) fn all() -> Vec<Claim> {
    [
        one_accelerator::CLAIMS,
        one_with_window::CLAIMS,
        two_accelerators::CLAIMS,
        two_with_window::CLAIMS,
        limits::CLAIMS,
    ]
    .concat()
}

/// A claim about several patterns, which holds if it holds for each of them.
pub(super) fn for_patterns<E: Into<Evidence>>(
    patterns: &[Pattern],
    mut check: impl FnMut(Pattern) -> E,
) -> Finding {
    let each: Vec<(Pattern, Evidence)> = patterns.iter().map(|it| (*it, check(*it).into())).collect();
    let those = |wanted| each.iter().filter(move |(_, evidence)| *evidence == wanted);
    let names = |wanted| those(wanted).map(|(it, _)| name(*it)).collect::<Vec<_>>().join(", ");
    let mut measured = format!("{} of {} patterns", those(Evidence::For).count(), patterns.len());
    for (wanted, word) in [(Evidence::Against, "not"), (Evidence::Noise, "below the noise")] {
        if those(wanted).next().is_some() {
            measured.push_str(&format!(", {word} {}", names(wanted)));
        }
    }
    Finding::new(Evidence::all(each.iter().map(|(_, evidence)| *evidence)), measured)
}

/// A claim about several patterns at each `T_enc_ratio` from the one with index `first` in
/// [`ENC_RATIOS`]; `check` gets the index. If it does not hold, the finding names the ratios at
/// which it holds for all patterns.
pub(super) fn for_ratios(
    patterns: &[Pattern],
    first: usize,
    mut check: impl FnMut(Pattern, usize) -> Evidence,
) -> Finding {
    let held: Vec<String> = ENC_RATIOS
        .iter()
        .enumerate()
        .skip(first)
        .filter(|(place, _)| patterns.iter().all(|it| check(*it, *place) == Evidence::For))
        .map(|(_, ratio)| ratio.to_string())
        .collect();
    let mut finding =
        for_patterns(patterns, |it| Evidence::all((first..ENC_RATIOS.len()).map(|place| check(it, place))));
    if finding.evidence != Evidence::For && !held.is_empty() {
        finding.measured.push_str(&format!("; held for all at T_enc ratio {}", held.join(", ")));
    }
    finding
}

/// A measure at each `T_enc_ratio`.
pub(super) fn over_ratios(
    runs: &Runs,
    pattern: Pattern,
    accelerators: usize,
    window: usize,
    of: impl Fn(&Report) -> f64,
) -> [f64; 4] {
    ENC_RATIOS.map(|ratio| of(runs.at(pattern, accelerators, window, ratio)))
}

/// A run with one accelerator.
fn with_one(runs: &Runs, pattern: Pattern, window: usize, enc_ratio: u32, variant: Variant) -> &Outcome {
    runs.of(Key { pattern, accelerators: 1, window, enc_ratio, variant })
}

/// Throughput at `W` divided by that at `W = 1`, with one accelerator.
fn gain(runs: &Runs, pattern: Pattern, window: usize) -> f64 {
    let at = |window| runs.at(pattern, 1, window, ENC_RATIO).throughput_mbps;
    at(window) / at(1)
}

/// Latency at `W` divided by that at `W = 1`, with one accelerator.
fn delay(runs: &Runs, pattern: Pattern, window: usize) -> f64 {
    let at = |window| runs.latency_ms(runs.at(pattern, 1, window, ENC_RATIO));
    at(window) / at(1)
}

/// Formats names and numbers in one line.
pub(super) fn listed(patterns: &[Pattern], of: impl Fn(Pattern) -> f64) -> String {
    let each = patterns.iter().map(|pattern| format!("{} {:.3}", name(*pattern), of(*pattern)));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_names_the_ratios_at_which_all_patterns_hold() {
        let finding = for_ratios(&MIXED, 0, |pattern, place| {
            Evidence::from(place > 1 || pattern == Pattern::Uniform && place > 0)
        });
        assert_eq!(
            finding.measured,
            "0 of 3 patterns, not trace, exponential, uniform; held for all at T_enc ratio 5, 7"
        );
        assert_eq!(for_ratios(&MIXED, 1, |_, _| Evidence::For).measured, "3 of 3 patterns");
    }

    #[test]
    fn finding_names_the_patterns_that_fail_and_those_below_the_noise() {
        let finding =
            for_patterns(&MIXED, |pattern| pattern != Pattern::Uniform).with("gain", 1, [1.0, 3.0, 2.0]);
        assert_eq!(finding.measured, "2 of 3 patterns, not uniform; gain 1.0 to 3.0");
        assert_eq!(finding.evidence, Evidence::Against);
        let noise = |pattern| if pattern == Pattern::Trace { Evidence::Noise } else { Evidence::For };
        let finding = for_patterns(&MIXED, noise);
        assert_eq!(finding.measured, "2 of 3 patterns, below the noise trace");
        assert_eq!(finding.evidence, Evidence::Noise);
    }
}
