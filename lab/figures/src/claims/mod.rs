//! The claims of the paper, and whether the runs reproduce them.

mod one_accelerator;
mod ranges;
mod two_accelerators;

pub(super) use ranges::{Range, described, opens};

use convoy_sim::{Pattern, Report};

use super::basis::Basis;
use super::plots::name;
use super::readings::Reading;
use super::runs::{ENC_RATIOS, Runs};

/// Relative differences below this are treated as none. It can be small because runs that are
/// compared have the same traffic; average lengths use [`Runs::length_noise`].
pub(super) const NOISE: f64 = 0.001;

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
    pub(super) check: fn(&Runs) -> Finding,
}

/// Whether a claim holds in some runs, and the numbers that show it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) shown: bool,
    pub(super) measured: String,
}

/// All claims, in the paper's order.
pub(super) fn all() -> Vec<Claim> {
    [one_accelerator::CLAIMS, two_accelerators::CLAIMS].concat()
}

/// A claim about several patterns, which holds if it holds for each of them.
pub(super) fn for_patterns(patterns: &[Pattern], mut check: impl FnMut(Pattern) -> bool) -> Finding {
    let failing: Vec<String> = patterns.iter().filter(|it| !check(**it)).map(|it| name(*it)).collect();
    let held = patterns.len() - failing.len();
    let mut measured = format!("{held} of {} patterns", patterns.len());
    if !failing.is_empty() {
        measured.push_str(&format!(", not {}", failing.join(", ")));
    }
    Finding { shown: failing.is_empty(), measured }
}

impl Finding {
    /// Appends the minimum and the maximum of some numbers.
    pub(super) fn with(mut self, what: &str, decimals: usize, values: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = bounds(values);
        self.measured.push_str(&format!("; {what} {least:.decimals$} to {most:.decimals$}"));
        self
    }
}

/// A claim about several patterns at each `T_enc_ratio` from the one with index `first` in
/// [`ENC_RATIOS`]; `check` gets the index. If it fails, the finding names the ratios at which it
/// holds for all patterns.
pub(super) fn for_ratios(
    patterns: &[Pattern],
    first: usize,
    mut check: impl FnMut(Pattern, usize) -> bool,
) -> Finding {
    let held: Vec<String> = ENC_RATIOS
        .iter()
        .enumerate()
        .skip(first)
        .filter(|(place, _)| patterns.iter().all(|it| check(*it, *place)))
        .map(|(_, ratio)| ratio.to_string())
        .collect();
    let mut finding = for_patterns(patterns, |it| (first..ENC_RATIOS.len()).all(|place| check(it, place)));
    if !finding.shown && !held.is_empty() {
        finding.measured.push_str(&format!("; held for all at T_enc ratio {}", held.join(", ")));
    }
    finding
}

/// A claim that all numbers lie in a range.
pub(super) fn within(
    values: impl IntoIterator<Item = f64>,
    low: f64,
    high: f64,
    decimals: usize,
    unit: &str,
) -> Finding {
    let (least, most) = bounds(values);
    let measured = format!("{least:.decimals$} to {most:.decimals$} {unit}").trim_end().to_owned();
    Finding { shown: least >= low && most <= high, measured }
}

pub(super) fn bounds(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
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

/// Whether no step rises by more than noise and the whole falls by more than noise.
pub(super) fn falls(values: &[f64], noise: f64) -> bool {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return false };
    values.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + noise)) && *last < first * (1.0 - noise)
}

/// Whether no step falls by more than noise and the whole rises by more than noise.
pub(super) fn rises(values: &[f64], noise: f64) -> bool {
    let reversed: Vec<f64> = values.iter().rev().copied().collect();
    falls(&reversed, noise)
}

/// Whether the first value is above the second by more than noise.
pub(super) fn above(value: f64, other: f64, noise: f64) -> bool {
    value > other * (1.0 + noise)
}

/// Whether the first value is not below the second by more than noise.
pub(super) fn at_least(value: f64, other: f64, noise: f64) -> bool {
    value >= other * (1.0 - noise)
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
    fn a_fall_may_stand_still_within_noise_but_not_go_up() {
        let (falls, rises) = (|values: &[f64]| falls(values, 0.005), |values: &[f64]| rises(values, 0.005));
        assert!(falls(&[1.0, 0.9, 0.902, 0.5]) && rises(&[0.5, 0.9, 0.899, 1.0]));
        assert!(!falls(&[1.0, 0.9, 0.95, 0.5]));
        assert!(!falls(&[1.0, 1.0, 0.999]) && !rises(&[1.0, 1.0]) && !falls(&[]));
    }

    #[test]
    fn a_finding_names_the_ratios_at_which_all_patterns_hold() {
        let finding =
            for_ratios(&MIXED, 0, |pattern, place| place > 1 || pattern == Pattern::Uniform && place > 0);
        assert_eq!(
            finding.measured,
            "0 of 3 patterns, not trace, exponential, uniform; held for all at T_enc ratio 5, 7"
        );
        assert_eq!(for_ratios(&MIXED, 1, |_, _| true).measured, "3 of 3 patterns");
    }

    #[test]
    fn a_finding_names_the_patterns_that_fail() {
        let finding =
            for_patterns(&MIXED, |pattern| pattern != Pattern::Uniform).with("gain", 1, [1.0, 3.0, 2.0]);
        assert_eq!(finding.measured, "2 of 3 patterns, not uniform; gain 1.0 to 3.0");
        assert!(!finding.shown);
        assert!(within([1.0, 2.0], 1.0, 2.0, 0, "").shown && !within([1.0, 2.1], 1.0, 2.0, 0, "").shown);
    }
}
