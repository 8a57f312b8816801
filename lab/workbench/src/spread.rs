//! Figures that were measured several times, and when two of them differ.

use std::cmp::Ordering;
use std::fmt;

use serde::Serialize;

/// Median, lowest and highest of a figure over its rounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// The median; of an even number of rounds, the higher of the middle two.
    pub median: f64,
    /// The lowest.
    pub lowest: f64,
    /// The highest.
    pub highest: f64,
}

impl Spread {
    /// Of one figure per round; all zero without rounds.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
        Self { median: at(sorted.len() / 2), lowest: at(0), highest: at(sorted.len().saturating_sub(1)) }
    }

    /// One figure divided by another of its round, so that what slows a whole round affects the
    /// ratio little. Rounds in which one of the two is 0, as a latency without a packet is, are
    /// left out.
    pub fn of_ratios(figures: impl IntoIterator<Item = f64>, others: impl IntoIterator<Item = f64>) -> Self {
        let ratio = |(figure, other): (f64, f64)| (figure > 0.0 && other > 0.0).then(|| figure / other);
        Self::of(figures.into_iter().zip(others).filter_map(ratio))
    }

    /// How a ratio differs from 1 beyond its spread: greater or less if it is so in every round,
    /// otherwise equal, as it is without rounds.
    pub fn against_one(&self) -> Ordering {
        match self {
            Self { highest, .. } if *highest <= 0.0 => Ordering::Equal,
            Self { lowest, .. } if *lowest > 1.0 => Ordering::Greater,
            Self { highest, .. } if *highest < 1.0 => Ordering::Less,
            _ => Ordering::Equal,
        }
    }

    /// Each of the three multiplied.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let Self { median, lowest, highest } = self;
        Self { median: median * factor, lowest: lowest * factor, highest: highest * factor }
    }
}

/// "median (lowest to highest)", with the formatter's precision.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self { median, lowest, highest } = self;
        write!(f, "{median:.digits$} ({lowest:.digits$} to {highest:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_has_median_lowest_and_highest_whatever_the_order_of_rounds() {
        let spread = Spread::of([5.0, 1.0, 9.0, 3.0, 4.0]);
        assert_eq!(spread, Spread { median: 4.0, lowest: 1.0, highest: 9.0 });
        assert_eq!(format!("{spread:.0}"), "4 (1 to 9)");
        assert_eq!(Spread::of([]), Spread::default());
    }

    #[test]
    fn ratio_is_of_figures_of_one_round_so_that_a_slow_round_adds_no_spread() {
        // In the second round the machine had a tenth of its speed.
        let spread = Spread::of_ratios([200.0, 20.0, 220.0], [100.0, 10.0, 100.0]);
        assert_eq!(spread, Spread { median: 2.0, lowest: 2.0, highest: 2.2 });
    }

    #[test]
    fn round_without_one_of_the_figures_has_no_ratio() {
        assert_eq!(Spread::of_ratios([3.0, 0.0, 5.0], [1.0, 2.0, 0.0]), Spread::of([3.0]));
        assert_eq!(Spread::of_ratios([0.0], [1.0]).against_one(), Ordering::Equal);
    }

    #[test]
    fn ratio_differs_from_one_only_if_every_round_agrees() {
        let against_one = |ratios: [f64; 5]| Spread::of(ratios).against_one();
        assert_eq!(against_one([1.3, 1.01, 1.2, 1.1, 1.4]), Ordering::Greater);
        assert_eq!(against_one([0.7, 0.99, 0.8, 0.9, 0.6]), Ordering::Less);
        assert_eq!(against_one([1.3, 0.99, 1.2, 1.1, 1.4]), Ordering::Equal);
        assert_eq!(against_one([1.0; 5]), Ordering::Equal);
    }
}
