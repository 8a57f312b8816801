//! What all tables of `convoy show` have in common: width, abbreviations and rates.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use convoy_report::snapshot::Snapshot;

use super::units::short;
use crate::rates::RunInterval;
use crate::table::{Column, table_of};

/// Width of tables without `--wide`, in characters.
pub(crate) const WIDTH: u16 = 80;

/// A snapshot, and how to show it.
#[derive(Clone, Copy)]
pub(crate) struct ShownSnapshot<'a> {
    pub(crate) now: &'a Snapshot,
    /// The time since the previous snapshot, if there is one of the same run of the gateway.
    pub(crate) interval: Option<RunInterval<'a>>,
    /// Whether to show rates.
    pub(crate) has_rates: bool,
    /// Whether to show all columns.
    pub(crate) is_wide: bool,
}

impl<'a> ShownSnapshot<'a> {
    pub(crate) fn table<R>(&self, columns: &[Column<'_, R>], rows: &[R]) -> String {
        table_of(columns, rows, (!self.is_wide).then_some(WIDTH))
    }

    /// A count, abbreviated unless the table is wide.
    pub(crate) fn count(&self, count: u64) -> String {
        if self.is_wide { count.to_string() } else { short(count as f64) }
    }

    /// Rates of rows, which are matched by `key`.
    pub(crate) fn rates<R, K: Eq + Hash>(
        &self,
        rows: impl Fn(&'a Snapshot) -> &'a [R],
        key: impl Fn(&'a R) -> K + 'a,
    ) -> RowRates<'a, R, K> {
        let before = |interval: RunInterval<'a>| {
            (interval, rows(interval.before()).iter().map(|row| (key(row), row)).collect())
        };
        RowRates { before: self.interval.map(before) }
    }
}

/// The rows of the previous snapshot.
pub(crate) struct RowRates<'a, R, K> {
    before: Option<(RunInterval<'a>, HashMap<K, &'a R>)>,
}

impl<R, K: Eq + Hash> RowRates<'_, R, K> {
    /// Increase of a counter per second, times `factor`; a new row started at 0.
    pub(crate) fn of(&self, key: &K, now: u64, factor: f64, counter: impl Fn(&R) -> u64) -> String {
        let Some((interval, rows)) = &self.before else { return "-".to_owned() };
        let before = rows.get(key).map_or(0, |row| counter(row));
        short(interval.per_second(now, before) * factor)
    }
}

/// The non-zero counts with their names.
pub(crate) fn named(counts: &BTreeMap<String, u64>) -> String {
    let met = counts.iter().filter(|(_, count)| **count > 0);
    let words: Vec<String> = met.map(|(name, count)| format!("{name} {count}")).collect();
    words.join(", ")
}

/// An address, and its port if it has one.
pub(crate) fn end(address: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.to_owned(),
    }
}
