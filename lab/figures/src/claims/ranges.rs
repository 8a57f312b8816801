//! The range of the open parameters over which a claim is shown.

use std::fmt::Display;

use convoy_scheduler::{DepthUnit, FullQueue};
use convoy_sim::FITTED_TRACE_LOCALITY;

use crate::finding::Evidence;
use crate::readings::{LatencyFrom, Limit, Open, Transfers};

const MULTI_PACKETS: [usize; 3] = [3, 10, 30];
const PACKETS: [usize; 3] = [10, 30, 100];
const BYTES: [usize; 3] = [4_000, 8_000, 16_000];
const POOLS: [usize; 3] = [48, 72, 108];
const TRANSFERS: [Transfers; 3] = [Transfers::Two, Transfers::One, Transfers::OnePredicted];
const LATENCIES: [LatencyFrom; 2] = [LatencyFrom::Scheduling, LatencyFrom::Window];
const T_INITS_US: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
const LOCALITIES: [f64; 4] = [0.0, 0.25, FITTED_TRACE_LOCALITY, 0.75];

/// All combinations with which claims are checked.
pub(crate) fn opens() -> Vec<Open> {
    let mut opens = Vec::new();
    for (limit, full_queue) in limits() {
        for transfers in TRANSFERS {
            for t_init_us in T_INITS_US {
                for locality in LOCALITIES {
                    opens.extend(LATENCIES.map(|latency| Open {
                        limit,
                        full_queue,
                        transfers,
                        latency,
                        t_init_us,
                        locality,
                    }));
                }
            }
        }
    }
    opens
}

/// The limits. With queues of bytes and with a pool nothing is skipped.
fn limits() -> Vec<(Limit, FullQueue)> {
    let queues = |depths: [usize; 3], unit| depths.map(|depth| Limit::Queues(depth, unit));
    let skippable = [queues(MULTI_PACKETS, DepthUnit::MultiPackets), queues(PACKETS, DepthUnit::Packets)];
    let others = [queues(BYTES, DepthUnit::Bytes), POOLS.map(Limit::Pool)].concat();
    let mut limits = Vec::new();
    for full_queue in FullQueue::ALL {
        limits.extend(skippable.concat().into_iter().map(|limit| (limit, full_queue)));
    }
    limits.extend(others.into_iter().map(|limit| (limit, FullQueue::Wait)));
    limits
}

/// Description of the range of values.
pub(crate) fn described() -> String {
    fn list<T: Display>(values: &[T]) -> String {
        values.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
    }
    format!(
        "queues of {} multi-packets or {} packets with full_queue wait or skip, queues of {} bytes, or a pool of {} packets; {}; {}; t_init {} us; locality of the trace {}",
        list(&MULTI_PACKETS),
        list(&PACKETS),
        list(&BYTES),
        list(&POOLS),
        list(&TRANSFERS),
        list(&LATENCIES),
        list(&T_INITS_US),
        list(&LOCALITIES)
    )
}

/// The combinations in which a claim is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Range {
    pub(crate) shown: usize,
    /// With this number the effect is below the noise.
    pub(crate) undecided: usize,
    pub(crate) of: usize,
    /// Description of the combinations.
    pub(crate) text: String,
}

impl Range {
    /// Built from the evidence for each combination.
    pub(crate) fn new(found: &[(Open, Evidence)]) -> Self {
        let count = |wanted| found.iter().filter(|(_, evidence)| *evidence == wanted).count();
        let (shown, undecided, of) = (count(Evidence::For), count(Evidence::Noise), found.len());
        let text = match shown {
            _ if of == 0 => String::new(),
            0 if undecided > 0 => "nowhere clearly".to_owned(),
            0 => "nowhere".to_owned(),
            all if all == of => "everywhere".to_owned(),
            _ => some(&found.iter().map(|(open, it)| (*open, *it == Evidence::For)).collect::<Vec<_>>()),
        };
        Self { shown, undecided, of, text }
    }
}

/// Name of a parameter, and functions that return its value for sorting and as text.
type Parameter = (&'static str, fn(&Open) -> (f64, String));

const PARAMETERS: [Parameter; 6] = [
    ("", |open| (limit_rank(open.limit), open.limit.to_string())),
    ("full_queue", |open| {
        (f64::from(u8::from(open.full_queue == FullQueue::Skip)), open.full_queue.to_string())
    }),
    ("", |open| (place(&TRANSFERS, open.transfers), open.transfers.to_string())),
    ("", |open| (place(&LATENCIES, open.latency), open.latency.to_string())),
    ("t_init", |open| (open.t_init_us, open.t_init_us.to_string())),
    ("locality", |open| (open.locality, open.locality.to_string())),
];

fn place<T: PartialEq>(values: &[T], value: T) -> f64 {
    values.iter().position(|it| *it == value).unwrap_or_default() as f64
}

/// Orders limits by kind, then by size.
fn limit_rank(limit: Limit) -> f64 {
    match limit {
        Limit::Queues(depth, DepthUnit::MultiPackets) => depth as f64,
        Limit::Queues(depth, DepthUnit::Packets) => 1e6 + depth as f64,
        Limit::Queues(depth, DepthUnit::Bytes) => 2e6 + depth as f64,
        Limit::Pool(packets) => 3e6 + packets as f64,
    }
}

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
                list.push(format!("{name} {values}").trim_start().to_owned());
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
        let found = opens().into_iter().map(|open| (open, Evidence::from(shown(&open))));
        Range::new(&found.collect::<Vec<_>>())
    }

    #[test]
    fn range_counts_combinations_in_which_the_effect_is_below_the_noise() {
        let evidence = |open: &Open| if open.t_init_us < 5.0 { Evidence::Noise } else { Evidence::For };
        let found: Vec<(Open, Evidence)> = opens().into_iter().map(|open| (open, evidence(&open))).collect();
        let range = Range::new(&found);
        assert_eq!((range.shown, range.undecided, range.of), (864, 864, 1728));
        assert_eq!(Range::new(&[]).of, 0);
    }

    #[test]
    fn a_range_names_the_values_that_decide() {
        assert_eq!(range(|_| true).text, "everywhere");
        assert_eq!(range(|_| false).text, "nowhere");
        let short = range(|open| open.t_init_us < 5.0);
        assert_eq!((short.shown, short.of), (864, 1728));
        assert_eq!(short.text, "always with t_init 1, 2; never with t_init 5, 10");
        let corner =
            range(|open| open.transfers != Transfers::Two && (open.t_init_us < 5.0 || open.locality == 0.75));
        assert_eq!(corner.text, "never with two transfers");
        let skips = range(|open| open.full_queue == FullQueue::Skip);
        assert_eq!(
            skips.text,
            "always with full_queue skip; never with queues of 4000 bytes, queues of 8000 bytes, queues of 16000 bytes, \
             a pool of 48 packets, a pool of 72 packets, a pool of 108 packets, or full_queue wait"
        );
    }
}
