//! What `convoy top` shows, from two snapshots.

use std::collections::HashMap;

use convoy_report::snapshot::{EngineRow, PeerRow, PeerState, SchedulerRow, Snapshot};

use crate::rates::{RunInterval, TrafficRate, Ways};

/// A tunnel's name and number.
pub(super) type OwnedTunnelKey = (String, Option<u32>);

/// One tunnel.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopTunnel {
    pub(super) row: PeerRow,
    /// Nothing before the second snapshot.
    pub(super) rates: Option<Ways>,
    /// Packets dropped per second, in both directions.
    pub(super) dropped: Option<f64>,
}

impl TopTunnel {
    pub(super) fn key(&self) -> OwnedTunnelKey {
        (self.row.tunnel.clone(), self.row.tunnel_id)
    }

    /// Bits per second in both directions.
    pub(super) fn bits(&self) -> f64 {
        self.rates.map_or(0.0, |ways| ways.inbound.bits + ways.outbound.bits)
    }

    pub(super) fn is_up(&self) -> bool {
        self.row.state == PeerState::Up
    }
}

/// One engine of one worker.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopEngine {
    pub(super) name: String,
    pub(super) worker: u16,
    pub(super) is_model: bool,
    /// Why it is out of use; empty while it is in use.
    pub(super) down: String,
    /// Trains in its queue.
    pub(super) queued: usize,
    /// Nothing before the second snapshot.
    pub(super) packets: Option<f64>,
    /// Packets in each train lately, if there were any.
    pub(super) per_train: Option<f64>,
    /// Mean time of a train lately, in ns: as predicted, and as measured.
    pub(super) times_ns: Option<(f64, f64)>,
}

/// One worker's window.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct WindowLine {
    pub(super) worker: u16,
    /// Its size, in packets.
    pub(super) window: usize,
    /// Packets in it.
    pub(super) waiting: usize,
    /// Mean time of a packet in it lately, in ns.
    pub(super) wait_ns: Option<f64>,
}

/// One reason of drops.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TopDrop {
    pub(super) reason: String,
    pub(super) packets: u64,
    /// Nothing before the second snapshot.
    pub(super) rate: Option<f64>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Picture {
    pub(super) total: Option<Ways>,
    pub(super) tunnels: Vec<TopTunnel>,
    pub(super) engines: Vec<TopEngine>,
    pub(super) windows: Vec<WindowLine>,
    pub(super) drops: Vec<TopDrop>,
}

impl Picture {
    /// The latest of two snapshots, with what has changed since the first.
    pub(super) fn of(now: &Snapshot, interval: Option<RunInterval<'_>>) -> Self {
        Self {
            total: interval.map(|interval| interval.total()),
            tunnels: tunnels(now, interval),
            engines: engines(now, interval),
            windows: windows(now, interval),
            drops: drops(now, interval),
        }
    }

    /// How many tunnels are in a state.
    pub(super) fn count(&self, state: PeerState) -> usize {
        self.tunnels.iter().filter(|line| line.row.state == state).count()
    }
}

fn tunnels(now: &Snapshot, interval: Option<RunInterval<'_>>) -> Vec<TopTunnel> {
    let rates = interval.map(|interval| interval.of_tunnels());
    let dropped = |row: &PeerRow| -> u64 {
        [&row.outbound, &row.inbound].iter().flat_map(|way| way.drops.values()).sum()
    };
    let before: HashMap<OwnedTunnelKey, u64> = interval.map_or_else(HashMap::new, |interval| {
        let rows = interval.before().peers().into_iter();
        rows.map(|row| ((row.tunnel.clone(), row.tunnel_id), dropped(&row))).collect()
    });
    let line = |row: PeerRow| {
        let ways = rates.as_ref().map(|rates| rates.get(&row.key()).copied().unwrap_or_default());
        let now = dropped(&row);
        // One that was not there has no earlier count to compare with.
        let earlier = before.get(&(row.tunnel.clone(), row.tunnel_id)).copied().unwrap_or(now);
        TopTunnel { dropped: interval.map(|interval| interval.per_second(now, earlier)), rates: ways, row }
    };
    now.peers().into_iter().map(line).collect()
}

/// Those that are out of use first, then the busiest.
fn engines(now: &Snapshot, interval: Option<RunInterval<'_>>) -> Vec<TopEngine> {
    let earlier = |row: &EngineRow| {
        let rows = &interval?.before().engines;
        rows.iter().find(|before| (&before.name, before.worker) == (&row.name, row.worker))
    };
    let line = |row: &EngineRow| {
        let before = earlier(row);
        let lately = before.map(|before| row.since(before)).unwrap_or_default();
        TopEngine {
            name: row.name.clone(),
            worker: row.worker,
            is_model: row.is_model,
            down: row.down.clone(),
            queued: row.queued,
            packets: interval
                .zip(before)
                .map(|(interval, before)| interval.per_second(row.packets, before.packets)),
            per_train: lately.per_train,
            times_ns: lately.predicted_ns.zip(lately.measured_ns),
        }
    };
    let mut lines: Vec<TopEngine> = now.engines.iter().map(line).collect();
    let rate = |line: &TopEngine| line.packets.unwrap_or_default();
    lines.sort_by(|one, other| {
        one.down.is_empty().cmp(&other.down.is_empty()).then(rate(other).total_cmp(&rate(one)))
    });
    lines
}

fn windows(now: &Snapshot, interval: Option<RunInterval<'_>>) -> Vec<WindowLine> {
    let passed = |row: &SchedulerRow| row.wait_ns.buckets.iter().map(|(_, count)| count).sum::<u64>();
    let line = |row: &SchedulerRow| {
        let rows = interval.map(|interval| &interval.before().schedulers);
        let before = rows.and_then(|rows| rows.iter().find(|before| before.worker == row.worker));
        WindowLine {
            worker: row.worker,
            window: row.window,
            waiting: row.waiting,
            wait_ns: before.and_then(|before| {
                let time_ns = row.wait_ns.sum.saturating_sub(before.wait_ns.sum);
                mean(time_ns as f64, passed(row).saturating_sub(passed(before)))
            }),
        }
    };
    now.schedulers.iter().map(line).collect()
}

/// The reasons that occur most now first, then those that did most often.
fn drops(now: &Snapshot, interval: Option<RunInterval<'_>>) -> Vec<TopDrop> {
    let line = |(reason, packets): (&String, &u64)| TopDrop {
        reason: reason.clone(),
        packets: *packets,
        rate: interval.map(|interval| interval.drops(reason)),
    };
    let mut lines: Vec<TopDrop> = now.drops.iter().map(line).collect();
    let rate = |line: &TopDrop| line.rate.unwrap_or_default();
    lines.sort_by(|one, other| rate(other).total_cmp(&rate(one)).then(other.packets.cmp(&one.packets)));
    lines
}

fn mean(sum: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| sum / count as f64)
}

/// Both directions of a rate as whole bits per second.
pub(super) fn bits(rate: TrafficRate) -> u64 {
    rate.bits as u64
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::{Buckets, SaRow};

    use super::*;

    fn snapshot(uptime_s: f64, scale: u64) -> Snapshot {
        let sa = |direction: &str, packets: u64| SaRow {
            tunnel: "a".to_owned(),
            direction: direction.to_owned(),
            packets,
            bytes: packets * 1_000,
            drops: [("replayed".to_owned(), 3 * scale)].into(),
            ..SaRow::default()
        };
        let engine = |name: &str, down: &str, packets: u64| EngineRow {
            name: name.to_owned(),
            down: down.to_owned(),
            packets,
            multi_packets: packets / 8,
            completed: packets / 8,
            predicted_ns: 1_000.0,
            measured_ns: if scale == 1 { 2_000.0 } else { 2_500.0 },
            queued: 3,
            ..EngineRow::default()
        };
        Snapshot {
            uptime_s,
            sas: vec![sa("outbound", 100 * scale), sa("inbound", 50 * scale)],
            engines: vec![
                engine("idle", "", 8),
                engine("busy", "", 800 * scale),
                engine("out", "it hangs", 0),
            ],
            schedulers: vec![SchedulerRow {
                worker: 0,
                window: 32,
                waiting: 8,
                wait_ns: Buckets { buckets: vec![(None, 10 * scale)], sum: 1_000 * scale * scale },
                ..SchedulerRow::default()
            }],
            drops: [("replayed".to_owned(), 6 * scale), ("unknown_spi".to_owned(), 9)].into(),
            ..Snapshot::default()
        }
    }

    #[test]
    fn rates_and_means_are_of_the_time_between_two_snapshots() {
        let (before, now) = (snapshot(10.0, 1), snapshot(12.0, 2));
        let picture = Picture::of(&now, RunInterval::between(&before, &now));
        let tunnel = &picture.tunnels[0];
        let ways = tunnel.rates.expect("two snapshots");
        assert_eq!((ways.outbound.packets, ways.inbound.bits), (50.0, 200_000.0));
        assert_eq!((tunnel.dropped, tunnel.bits()), (Some(3.0), 600_000.0));
        let names: Vec<&str> = picture.engines.iter().map(|engine| engine.name.as_str()).collect();
        assert_eq!(names, ["out", "busy", "idle"], "what is out comes first, then by rate");
        let busy = &picture.engines[1];
        assert_eq!((busy.packets, busy.per_train, busy.queued), (Some(400.0), Some(8.0), 3));
        // 100 trains took 2 us each; with 100 more, all took 2.5 us on average.
        assert_eq!(busy.times_ns, Some((1_000.0, 3_000.0)));
        assert_eq!((picture.engines[2].per_train, picture.engines[2].times_ns), (None, None));
        assert_eq!(picture.windows[0].wait_ns, Some(300.0));
        assert_eq!((picture.drops[0].reason.as_str(), picture.drops[0].rate), ("replayed", Some(3.0)));
    }

    #[test]
    fn a_single_snapshot_has_no_rates() {
        let picture = Picture::of(&snapshot(1.0, 1), None);
        assert_eq!((picture.total, picture.tunnels[0].rates, picture.tunnels[0].dropped), (None, None, None));
        assert!(picture.engines.iter().all(|engine| engine.packets.is_none() && engine.times_ns.is_none()));
        assert_eq!(picture.drops[0].rate, None);
    }
}
