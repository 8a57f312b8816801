//! What the page shows of a gateway at one moment, and the part of it that a query selects.

use std::collections::BTreeMap;

use convoy_report::events::Events;
use convoy_report::snapshot::{ClusterRow, PeerState, Snapshot};
use serde::Serialize;

use super::drops::{self, DropLine};
use super::engines::{self, EngineLine};
use super::interval::{Counters, Interval, Traffic};
use super::query::Query;
use super::since::TunnelChanges;
use super::tunnel::{Reasons, TunnelLine, cut};

/// Engines, groups, members and warnings that are sent, at most.
const LISTED: usize = 100;

/// A gateway at one moment.
#[derive(Debug, Default)]
pub(crate) struct GatewayStatus {
    head: StatusHead,
    counters: Counters,
    tunnels: Vec<TunnelLine>,
    engine_lines: Vec<EngineLine>,
    drop_lines: Vec<DropLine>,
    cluster: Option<ClusterSummary>,
}

/// What is sent whatever the query is.
#[derive(Debug, Default, Serialize)]
struct StatusHead {
    version: String,
    started_s: f64,
    uptime_s: f64,
    taken_s: f64,
    configuration: String,
    workers: u16,
    warnings: Vec<String>,
    #[serde(rename = "in")]
    inbound: Option<Rate>,
    #[serde(rename = "out")]
    outbound: Option<Rate>,
    /// How many tunnels are in each state.
    states: BTreeMap<&'static str, usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Rate {
    packets_per_s: f64,
    bits_per_s: f64,
}

#[derive(Debug, Serialize)]
struct ClusterSummary {
    #[serde(flatten)]
    row: ClusterRow,
    groups_left_out: usize,
}

/// The answer to a query.
#[derive(Serialize)]
struct QueryAnswer<'a> {
    #[serde(flatten)]
    head: &'a StatusHead,
    /// How many tunnels there are.
    tunnels: usize,
    /// How many of them the query selects.
    selected: usize,
    /// The page that this is, from 1, and how many there are.
    page: usize,
    pages: usize,
    /// The number of the first row among the selected ones, from 0.
    first: usize,
    rows: &'a [&'a TunnelLine],
    engines: &'a [EngineLine],
    engines_left_out: usize,
    drops: &'a [DropLine],
    cluster: Option<&'a ClusterSummary>,
}

impl GatewayStatus {
    /// What is sent of a snapshot, with rates since an earlier one.
    pub(super) fn of(snapshot: &Snapshot, earlier: Option<&Self>, events: &Events) -> Self {
        let interval = earlier.and_then(|earlier| Interval::since(&earlier.counters, snapshot));
        let interval = interval.as_ref();
        let peers = snapshot.peers();
        let (reasons, changes) = (Reasons::of_all(snapshot), TunnelChanges::of(events, &peers));
        let line = |peer| TunnelLine::of(peer, &reasons, &changes, interval);
        let tunnels: Vec<TunnelLine> = peers.iter().map(line).collect();
        let counters = Counters::of(snapshot, &peers);
        Self {
            head: StatusHead::of(snapshot, &tunnels, &counters, interval),
            counters,
            engine_lines: engines::lines(&snapshot.engines, interval),
            drop_lines: drops::lines(&snapshot.drops, interval),
            tunnels,
            cluster: snapshot.cluster.as_ref().map(ClusterSummary::of),
        }
    }

    /// The time since the gateway's start, in seconds.
    pub(super) fn uptime_s(&self) -> f64 {
        self.counters.uptime_s
    }

    /// What a query selects, as JSON. A page behind the last one is the last one, as tunnels may
    /// have been removed since the browser asked last.
    pub(crate) fn json(&self, query: &Query) -> String {
        let mut rows: Vec<&TunnelLine> = self.tunnels.iter().filter(|line| line.is_selected(query)).collect();
        // Stable: those of one rank stay in the order of the configuration.
        rows.sort_by(|one, other| one.compare(other, query.sort));
        if query.is_reversed {
            rows.reverse();
        }
        let pages = rows.len().div_ceil(query.rows).max(1);
        let page = query.page.min(pages);
        let first = (page - 1) * query.rows;
        let last = rows.len().min(first + query.rows);
        let listed = self.engine_lines.len().min(LISTED);
        let selected = QueryAnswer {
            head: &self.head,
            tunnels: self.tunnels.len(),
            selected: rows.len(),
            page,
            pages,
            first,
            rows: &rows[first..last],
            engines: &self.engine_lines[..listed],
            engines_left_out: self.engine_lines.len() - listed,
            drops: &self.drop_lines,
            cluster: self.cluster.as_ref(),
        };
        serde_json::to_string(&selected).expect("numbers, texts and lists are JSON")
    }
}

impl StatusHead {
    fn of(
        snapshot: &Snapshot,
        tunnels: &[TunnelLine],
        now: &Counters,
        interval: Option<&Interval<'_>>,
    ) -> Self {
        let rate = |of: fn(&Counters) -> Traffic| {
            let interval = interval?;
            let [packets_per_s, bits_per_s] = interval.rates(of(now), of(interval.earlier()));
            Some(Rate { packets_per_s, bits_per_s })
        };
        let count = |state: PeerState| tunnels.iter().filter(|line| line.state == state).count();
        let states = PeerState::ALL.map(|state| (state.word(), count(state)));
        Self {
            version: snapshot.version.clone(),
            started_s: snapshot.started_s,
            uptime_s: snapshot.uptime_s,
            taken_s: snapshot.taken_s,
            configuration: snapshot.configuration.clone(),
            workers: snapshot.workers,
            warnings: snapshot.warnings().iter().take(LISTED).map(|warning| cut(warning)).collect(),
            inbound: rate(|counters| counters.inbound),
            outbound: rate(|counters| counters.outbound),
            states: states.into_iter().filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl ClusterSummary {
    fn of(row: &ClusterRow) -> Self {
        let mut row = row.clone();
        let groups_left_out = row.groups.len().saturating_sub(LISTED);
        row.groups.truncate(LISTED);
        row.members.truncate(LISTED);
        for member in &mut row.members {
            member.leads.truncate(LISTED);
        }
        for group in &mut row.groups {
            group.addresses.truncate(LISTED);
        }
        Self { row, groups_left_out }
    }
}

#[cfg(test)]
mod tests;
