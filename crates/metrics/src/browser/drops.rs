//! Dropped packets by reason, with what to do.

use convoy_ipsec::DropReason;
use convoy_report::drop_words::meaning;
use convoy_report::snapshot::Drops;
use serde::Serialize;

use super::interval::Interval;

/// One reason.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct DropLine {
    pub(super) reason: String,
    /// Since the gateway's start.
    pub(super) packets: u64,
    /// Nothing before the second snapshot.
    pub(super) packets_per_s: Option<f64>,
    /// What it usually means and what to do, in the log's words.
    pub(super) meaning: String,
}

/// The reasons that occur most now first, then those that did most often.
pub(super) fn lines(drops: &Drops, interval: Option<&Interval<'_>>) -> Vec<DropLine> {
    let line = |(reason, packets): (&String, &u64)| DropLine {
        reason: reason.clone(),
        packets: *packets,
        packets_per_s: interval.map(|interval| interval.drops_per_second(reason, *packets)),
        meaning: words(reason),
    };
    let mut lines: Vec<DropLine> = drops.iter().map(line).collect();
    let rate = |line: &DropLine| line.packets_per_s.unwrap_or_default();
    lines.sort_by(|one, other| rate(other).total_cmp(&rate(one)).then(other.packets.cmp(&one.packets)));
    lines
}

fn words(name: &str) -> String {
    let reason = DropReason::ALL.iter().find(|reason| reason.name() == name);
    reason.map_or_else(String::new, |reason| meaning(*reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_says_what_to_do() {
        let all = DropReason::ALL.iter().zip(1..).map(|(reason, count)| (reason.name().to_owned(), count));
        let lines = lines(&all.collect(), None);
        assert_eq!(lines.len(), DropReason::ALL.len());
        assert!(lines.iter().all(|line| !line.meaning.is_empty() && line.packets_per_s.is_none()));
        assert!(lines.is_sorted_by(|one, other| one.packets >= other.packets));
    }
}
