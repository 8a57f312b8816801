//! The range of the open parameters over which a claim is shown.

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::FITTED_TRACE_LOCALITY;

use crate::Reading;
use crate::runs::Open;

const DEPTHS: [usize; 5] = [1, 3, 10, 30, 100];
const T_INITS_US: [f64; 5] = [0.5, 1.0, 2.0, 5.0, 10.0];
const LOCALITIES: [f64; 4] = [0.0, 0.25, FITTED_TRACE_LOCALITY, 0.75];

/// All combinations with which claims are checked.
pub(crate) fn opens() -> Vec<Open> {
    let mut opens = Vec::new();
    for (full_queue, depth_unit) in readings() {
        for depth in DEPTHS {
            for t_init_us in T_INITS_US {
                opens.extend(LOCALITIES.map(|locality| Open {
                    full_queue,
                    depth_unit,
                    depth,
                    t_init_us,
                    locality,
                }));
            }
        }
    }
    opens
}

/// The possible readings of the rule for full queues: what happens to a multi-packet, and the unit
/// of the depth.
pub(crate) fn readings() -> [(FullQueue, DepthUnit); 4] {
    let of = |full_queue| DepthUnit::ALL.map(|unit| (full_queue, unit));
    let ([a, b], [c, d]) = (of(FullQueue::Wait), of(FullQueue::Skip));
    [a, b, c, d]
}

/// Description of the range of values.
pub(crate) fn described() -> String {
    let words = |values: &[f64]| values.iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
    let depths = DEPTHS.map(|depth| depth as f64);
    let (t_inits, localities) = (words(&T_INITS_US), words(&LOCALITIES));
    format!(
        "full_queue wait, skip; depth {} multi-packets or packets; t_init {t_inits} us; locality of the trace {localities}",
        words(&depths)
    )
}

/// The combinations in which a claim is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) shown: usize,
    pub(crate) of: usize,
    /// Description of the combinations.
    pub(crate) text: String,
    /// Counts for each of [`readings`].
    pub(crate) readings: Vec<Reading>,
}

impl Range {
    /// Built from the verdict for each combination.
    pub(crate) fn new(verdicts: &[(Open, bool)]) -> Self {
        let shown = verdicts.iter().filter(|(_, shown)| *shown).count();
        let of = verdicts.len();
        let text = match shown {
            0 => "nowhere".to_owned(),
            all if all == of => "everywhere".to_owned(),
            _ => some(verdicts),
        };
        let reading = |(full_queue, depth_unit): (FullQueue, DepthUnit)| {
            let those = verdicts
                .iter()
                .filter(|(open, _)| (open.full_queue, open.depth_unit) == (full_queue, depth_unit));
            Reading {
                full_queue: full_queue.to_string(),
                depth_unit: depth_unit.to_string(),
                shown: those.clone().filter(|(_, shown)| *shown).count(),
                of: those.count(),
            }
        };
        Self { shown, of, text, readings: readings().map(reading).to_vec() }
    }
}

/// Name of a parameter, and functions that return its value for sorting and as text.
type Parameter = (&'static str, fn(&Open) -> (f64, String));

const PARAMETERS: [Parameter; 5] = [
    ("full_queue", |open| {
        (f64::from(u8::from(open.full_queue == FullQueue::Skip)), open.full_queue.to_string())
    }),
    ("depth_unit", |open| {
        (f64::from(u8::from(open.depth_unit == DepthUnit::Packets)), open.depth_unit.to_string())
    }),
    ("depth", |open| (open.depth as f64, open.depth.to_string())),
    ("t_init", |open| (open.t_init_us, open.t_init_us.to_string())),
    ("locality", |open| (open.locality, open.locality.to_string())),
];

/// The parameters that decide a claim alone: the values at which it is always shown and those at
/// which it never is.
fn some(verdicts: &[(Open, bool)]) -> String {
    let (mut always, mut never, mut mostly) = (Vec::new(), Vec::new(), Vec::new());
    for (name, of) in PARAMETERS {
        let mut values: Vec<(f64, String)> = verdicts.iter().map(|(open, _)| of(open)).collect();
        values.sort_by(|a, b| a.0.total_cmp(&b.0));
        values.dedup();
        let part = |value: &(f64, String)| {
            let there = verdicts.iter().filter(|(open, _)| of(open) == *value);
            there.clone().filter(|(_, shown)| *shown).count() as f64 / there.count() as f64
        };
        let with = |wanted: &dyn Fn(f64) -> bool| {
            let those = values.iter().filter(|value| wanted(part(value))).map(|value| value.1.clone());
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
        assert_eq!((shallow.shown, shallow.of), (160, 400));
        assert_eq!(shallow.text, "always with depth 1, 3; never with depth 10, 30, 100");
        let corner = range(|open| open.depth < 100 && (open.t_init_us < 5.0 || open.locality == 0.75));
        assert_eq!(corner.text, "never with depth 100");
        let waits = range(|open| open.full_queue == FullQueue::Wait);
        assert_eq!(waits.text, "always with full_queue wait; never with full_queue skip");
        assert_eq!(waits.readings.iter().map(|reading| reading.shown).collect::<Vec<_>>(), [100, 100, 0, 0]);
    }
}
