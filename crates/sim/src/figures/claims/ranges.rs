//! Over which range of the open parameters a claim is shown.

use crate::figures::runs::Open;
use crate::traffic::FITTED_TRACE_LOCALITY;

const DEPTHS: [usize; 5] = [1, 3, 10, 30, 100];
const T_INITS_US: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];
const LOCALITIES: [f64; 4] = [0.0, 0.25, FITTED_TRACE_LOCALITY, 0.75];

/// Every combination that claims are looked at under.
pub(in crate::figures) fn opens() -> Vec<Open> {
    let mut opens = Vec::new();
    for depth in DEPTHS {
        for t_init_us in T_INITS_US {
            opens.extend(LOCALITIES.map(|locality| Open { depth, t_init_us, locality }));
        }
    }
    opens
}

/// Their values, in words.
pub(in crate::figures) fn described() -> String {
    let words = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    let depths = DEPTHS.map(|depth| depth as f64);
    let (t_inits, localities) = (words(&T_INITS_US), words(&LOCALITIES));
    format!("depth {}; t_init {t_inits} us; locality of the trace {localities}", words(&depths))
}

/// Where a claim is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::figures) struct Range {
    pub(in crate::figures) shown: usize,
    pub(in crate::figures) of: usize,
    /// In words.
    pub(in crate::figures) text: String,
}

impl Range {
    /// From a verdict for each combination.
    pub(in crate::figures) fn new(verdicts: &[(Open, bool)]) -> Self {
        let shown = verdicts.iter().filter(|(_, shown)| *shown).count();
        let of = verdicts.len();
        let text = match shown {
            0 => "nowhere".to_owned(),
            all if all == of => "everywhere".to_owned(),
            _ => some(verdicts),
        };
        Self { shown, of, text }
    }
}

/// A name, and how to get at it.
type Parameter = (&'static str, fn(&Open) -> f64);

/// Which parameters decide by themselves: the values at which it is always and never shown.
fn some(verdicts: &[(Open, bool)]) -> String {
    let parameters: [Parameter; 3] = [
        ("depth", |open| open.depth as f64),
        ("t_init", |open| open.t_init_us),
        ("locality", |open| open.locality),
    ];
    let (mut always, mut never, mut mostly) = (Vec::new(), Vec::new(), Vec::new());
    for (name, of) in parameters {
        let mut values: Vec<f64> = verdicts.iter().map(|(open, _)| of(open)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let part = |value: f64| {
            let there = verdicts.iter().filter(|(open, _)| of(open) == value);
            there.clone().filter(|(_, shown)| *shown).count() as f64 / there.count() as f64
        };
        let with = |wanted: &dyn Fn(f64) -> bool| {
            let those = values.iter().filter(|value| wanted(part(**value))).map(f64::to_string);
            those.collect::<Vec<_>>().join(", ")
        };
        let (all, none, most) = (with(&|it| it == 1.0), with(&|it| it == 0.0), with(&|it| it > 0.5));
        for (list, values) in [(&mut always, &all), (&mut never, &none), (&mut mostly, &most)] {
            if !values.is_empty() {
                list.push(format!("{name} {values}"));
            }
        }
    }
    let mut parts = Vec::new();
    if !always.is_empty() {
        parts.push(format!("always with {}", always.join(", or ")));
    }
    if !never.is_empty() {
        parts.push(format!("never with {}", never.join(", or ")));
    }
    if parts.is_empty() && !mostly.is_empty() {
        parts.push(format!("mostly with {}", mostly.join(", or ")));
    }
    if parts.is_empty() { "scattered".to_owned() } else { parts.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(shown: impl Fn(&Open) -> bool) -> Range {
        let verdicts: Vec<(Open, bool)> = opens().into_iter().map(|open| (open, shown(&open))).collect();
        Range::new(&verdicts)
    }

    #[test]
    fn a_range_names_the_values_that_decide() {
        assert_eq!(range(|_| true).text, "everywhere");
        assert_eq!(range(|_| false).text, "nowhere");
        let shallow = range(|open| open.depth <= 3);
        assert_eq!((shallow.shown, shallow.of), (40, 100));
        assert_eq!(shallow.text, "always with depth 1, 3; never with depth 10, 30, 100");
        let corner = range(|open| open.depth < 100 && (open.t_init_us < 5.0 || open.locality == 0.75));
        assert_eq!(corner.text, "never with depth 100");
    }
}
