//! Statistics of a repeated measurement.

use serde::Serialize;

/// Median, lowest and highest value, and their number.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) lowest: f64,
    pub(super) highest: f64,
    pub(super) n: usize,
}

impl Spread {
    /// The spread of these values; `None` without any. The median of an even number is the mean of
    /// the middle two.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let (lowest, highest) = (*values.first()?, *values.last()?);
        let n = values.len();
        Some(Self { median: (values[(n - 1) / 2] + values[n / 2]) / 2.0, lowest, highest, n })
    }

    /// Multiplied by `factor`, to change the unit.
    pub(super) fn times(self, factor: f64) -> Self {
        let Self { median, lowest, highest, n } = self;
        Self { median: median * factor, lowest: lowest * factor, highest: highest * factor, n }
    }

    /// A whisker at `x`; `None` for a single value.
    pub(super) fn whisker(self, x: f64) -> Option<(f64, f64, f64)> {
        (self.n > 1).then_some((x, self.lowest, self.highest))
    }

    /// The range in brackets; empty for a single value.
    pub(super) fn ends(self, digits: usize) -> String {
        let Self { lowest, highest, n, .. } = self;
        if n > 1 { format!(" [{lowest:.digits$}–{highest:.digits$}]") } else { String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_the_middle_and_the_ends() {
        assert_eq!(Spread::of([]), None);
        let of = |values: &[f64]| Spread::of(values.iter().copied()).expect("values");
        assert_eq!(of(&[3.0]), Spread { median: 3.0, lowest: 3.0, highest: 3.0, n: 1 });
        assert_eq!(of(&[9.0, 1.0, 2.0]), Spread { median: 2.0, lowest: 1.0, highest: 9.0, n: 3 });
        assert_eq!(of(&[4.0, 1.0, 2.0, 9.0]).median, 3.0);
        assert_eq!(of(&[1.0, 3.0]).times(2.0), Spread { median: 4.0, lowest: 2.0, highest: 6.0, n: 2 });
    }

    #[test]
    fn a_single_value_has_no_spread_to_show() {
        let of = |values: &[f64]| Spread::of(values.iter().copied()).expect("values");
        assert_eq!((of(&[3.0]).whisker(7.0), of(&[3.0]).ends(1)), (None, String::new()));
        assert_eq!(of(&[1.0, 2.0]).whisker(7.0), Some((7.0, 1.0, 2.0)));
        assert_eq!(of(&[1.0, 2.0]).ends(1), " [1.0–2.0]");
    }
}
