//! What runs say of a claim: for it, against it, or no more than noise.

/// What runs say of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It holds, by more than noise.
    For,
    /// It does not hold, by more than noise.
    Against,
    /// The effect is below the noise.
    Noise,
}

impl Evidence {
    /// Of a claim that holds if all of these hold.
    pub(super) fn all(parts: impl IntoIterator<Item = Self>) -> Self {
        parts.into_iter().fold(Self::For, Self::and)
    }

    /// Of a claim that holds if both hold.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Against, _) | (_, Self::Against) => Self::Against,
            (Self::Noise, _) | (_, Self::Noise) => Self::Noise,
            (Self::For, Self::For) => Self::For,
        }
    }

    /// The evidence of runs that were repeated with other seeds: noise if one of these contradicts.
    /// A repetition in which the effect is below the noise contradicts nothing, because repetitions
    /// are shorter.
    pub(super) fn repeated(self, repetitions: impl IntoIterator<Item = Self>) -> Self {
        let contradicts = |other: Self| other != Self::Noise && other != self;
        if repetitions.into_iter().any(contradicts) { Self::Noise } else { self }
    }
}

impl From<bool> for Evidence {
    fn from(holds: bool) -> Self {
        if holds { Self::For } else { Self::Against }
    }
}

/// That the first value is above the second by more than noise.
pub(super) fn above(value: f64, other: f64, noise: f64) -> Evidence {
    if value > other * (1.0 + noise) {
        Evidence::For
    } else if value < other * (1.0 - noise) {
        Evidence::Against
    } else {
        Evidence::Noise
    }
}

/// That the first value is not below the second by more than noise.
pub(super) fn at_least(value: f64, other: f64, noise: f64) -> Evidence {
    Evidence::from(value >= other * (1.0 - noise))
}

/// That no step rises by more than noise and the whole falls by more than noise.
pub(super) fn falls(values: &[f64], noise: f64) -> Evidence {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return Evidence::Against };
    let has_step_up = values.windows(2).any(|pair| pair[1] > pair[0] * (1.0 + noise));
    if has_step_up { Evidence::Against } else { above(*first, *last, noise) }
}

/// That no step falls by more than noise and the whole rises by more than noise.
pub(super) fn rises(values: &[f64], noise: f64) -> Evidence {
    let reversed: Vec<f64> = values.iter().rev().copied().collect();
    falls(&reversed, noise)
}

/// How many repetitions with other seeds agree with evidence, in words.
pub(super) fn described_seeds(own: Evidence, repetitions: &[Evidence]) -> String {
    let of = |wanted: &dyn Fn(Evidence) -> bool| repetitions.iter().filter(|it| wanted(**it)).count();
    let agreeing = of(&|it| it == own);
    let noisy = of(&|it| it == Evidence::Noise && it != own);
    let mut words = format!("{agreeing} of {} other seeds agree", repetitions.len());
    if noisy > 0 {
        words.push_str(&format!(", in {noisy} the effect is below their noise"));
    }
    match repetitions.len() - agreeing - noisy {
        0 => words,
        contradicting => format!("{words}, {contradicting} contradict"),
    }
}

/// The evidence for a claim, and the numbers that show it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub(super) evidence: Evidence,
    pub(super) measured: String,
    /// The noise of these numbers, where the runs themselves have several seeds; otherwise empty.
    pub(super) noise: String,
}

impl Finding {
    pub(super) fn new(evidence: impl Into<Evidence>, measured: impl Into<String>) -> Self {
        Self { evidence: evidence.into(), measured: measured.into(), noise: String::new() }
    }

    /// With the noise that was measured.
    pub(super) fn with_noise(self, noise: String) -> Self {
        Self { noise, ..self }
    }

    /// Appends the minimum and the maximum of some numbers.
    pub(super) fn with(mut self, what: &str, decimals: usize, values: impl IntoIterator<Item = f64>) -> Self {
        let (least, most) = bounds(values);
        self.measured.push_str(&format!("; {what} {least:.decimals$} to {most:.decimals$}"));
        self
    }
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
    Finding::new(least >= low && most <= high, measured)
}

/// The lowest and the highest of some numbers.
pub(super) fn bounds(values: impl IntoIterator<Item = f64>) -> (f64, f64) {
    values
        .into_iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fall_may_stand_still_within_noise_but_not_rise() {
        let (falls, rises) = (|values: &[f64]| falls(values, 0.005), |values: &[f64]| rises(values, 0.005));
        assert_eq!(falls(&[1.0, 0.9, 0.902, 0.5]), Evidence::For);
        assert_eq!(rises(&[0.5, 0.9, 0.899, 1.0]), Evidence::For);
        assert_eq!(falls(&[1.0, 0.9, 0.95, 0.5]), Evidence::Against);
        assert_eq!(falls(&[]), Evidence::Against);
    }

    #[test]
    fn effect_below_the_noise_is_neither_for_nor_against() {
        assert_eq!(above(1.004, 1.0, 0.005), Evidence::Noise);
        assert_eq!(above(0.996, 1.0, 0.005), Evidence::Noise);
        assert_eq!(above(0.99, 1.0, 0.005), Evidence::Against);
        assert_eq!(falls(&[1.0, 1.0, 0.999], 0.005), Evidence::Noise);
        assert_eq!(at_least(0.996, 1.0, 0.005), Evidence::For);
    }

    #[test]
    fn one_part_against_a_claim_outweighs_noise_in_another() {
        let of = |parts: &[Evidence]| Evidence::all(parts.iter().copied());
        assert_eq!(of(&[]), Evidence::For);
        assert_eq!(of(&[Evidence::For, Evidence::Noise]), Evidence::Noise);
        assert_eq!(of(&[Evidence::Noise, Evidence::Against, Evidence::For]), Evidence::Against);
    }

    #[test]
    fn seed_that_contradicts_makes_noise_of_evidence_and_one_that_shows_nothing_does_not() {
        assert_eq!(Evidence::For.repeated([Evidence::For, Evidence::Noise]), Evidence::For);
        assert_eq!(Evidence::For.repeated([Evidence::For, Evidence::Against]), Evidence::Noise);
        assert_eq!(Evidence::Against.repeated([Evidence::For]), Evidence::Noise);
        assert_eq!(Evidence::Noise.repeated([Evidence::Noise]), Evidence::Noise);
    }

    #[test]
    fn description_of_seeds_counts_those_that_agree_and_that_contradict() {
        let all = [Evidence::For, Evidence::Against, Evidence::Noise];
        assert_eq!(
            described_seeds(Evidence::For, &all),
            "1 of 3 other seeds agree, in 1 the effect is below their noise, 1 contradict"
        );
        assert_eq!(described_seeds(Evidence::Noise, &all[2..]), "1 of 1 other seeds agree");
    }

    #[test]
    fn numbers_are_within_a_range_with_its_ends() {
        assert_eq!(within([1.0, 2.0], 1.0, 2.0, 0, "").evidence, Evidence::For);
        assert_eq!(within([1.0, 2.1], 1.0, 2.0, 0, "").evidence, Evidence::Against);
    }
}
