//! What `convoy top` knows: the last answers of the gateway, and how rates went.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use convoy_report::snapshot::Snapshot;

use super::picture::{OwnedTunnelKey, Picture, TopTunnel, bits};
use super::state::{TopSort, TopState};
use crate::rates::{RunInterval, Ways};

/// Rates that are kept for the sparklines.
const KEPT: usize = 300;

/// Bits per second in the past, the newest last.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    pub(super) inbound: VecDeque<u64>,
    pub(super) outbound: VecDeque<u64>,
}

impl History {
    fn push(&mut self, ways: Ways) {
        for (past, rate) in [(&mut self.inbound, ways.inbound), (&mut self.outbound, ways.outbound)] {
            if past.len() == KEPT {
                past.pop_front();
            }
            past.push_back(bits(rate));
        }
    }
}

/// Why there is nothing new, and since when.
#[derive(Clone, Debug)]
pub(super) struct Trouble {
    pub(super) why: String,
    pub(super) since: Instant,
}

/// The state of a gateway as far as it has answered.
#[derive(Default)]
pub(super) struct Model {
    before: Option<Snapshot>,
    now: Option<Snapshot>,
    pub(super) picture: Picture,
    pub(super) total: History,
    tunnels: HashMap<OwnedTunnelKey, History>,
    pub(super) trouble: Option<Trouble>,
}

impl Model {
    /// Takes an answer of the gateway: its state, or why there is none.
    pub(super) fn take(&mut self, answer: Result<Snapshot, String>) {
        let snapshot = match answer {
            Ok(snapshot) => snapshot,
            Err(why) => {
                let since = self.trouble.as_ref().map_or_else(Instant::now, |trouble| trouble.since);
                self.trouble = Some(Trouble { why, since });
                return;
            }
        };
        self.trouble = None;
        self.before = self.now.replace(snapshot);
        let interval = interval(self.before.as_ref(), self.now.as_ref());
        if interval.is_none() {
            // Another run of the gateway, or its first answer.
            (self.total, self.tunnels) = (History::default(), HashMap::new());
        }
        self.picture = self.now.as_ref().map(|now| Picture::of(now, interval)).unwrap_or_default();
        if let Some(total) = self.picture.total {
            self.total.push(total);
        }
        let mut histories = std::mem::take(&mut self.tunnels);
        for line in &self.picture.tunnels {
            if let Some(ways) = line.rates {
                let mut history = histories.remove(&line.key()).unwrap_or_default();
                history.push(ways);
                self.tunnels.insert(line.key(), history);
            }
        }
    }

    /// The last state of the gateway, if it has ever answered.
    pub(super) fn now(&self) -> Option<&Snapshot> {
        self.now.as_ref()
    }

    /// The time over which rates are known.
    pub(super) fn interval(&self) -> Option<RunInterval<'_>> {
        interval(self.before.as_ref(), self.now.as_ref())
    }

    /// A tunnel; one that has lost its number, or got one, is known by its name if that is enough.
    pub(super) fn line(&self, tunnel: &OwnedTunnelKey) -> Option<&TopTunnel> {
        let lines = &self.picture.tunnels;
        lines.iter().find(|line| line.key() == *tunnel).or_else(|| {
            let mut same_name = lines.iter().filter(|line| line.row.tunnel == tunnel.0);
            same_name.next().filter(|_| same_name.next().is_none())
        })
    }

    /// How a tunnel's rates went.
    pub(super) fn history(&self, tunnel: &OwnedTunnelKey) -> Option<&History> {
        self.tunnels.get(tunnel)
    }

    /// The tunnels that are selected by the filter, in the order of the state.
    pub(super) fn lines(&self, state: &TopState) -> Vec<&TopTunnel> {
        let has = |line: &&TopTunnel| {
            let text = state.filter.to_lowercase();
            [&line.row.tunnel, &line.row.remote].iter().any(|field| field.to_lowercase().contains(&text))
        };
        let mut lines: Vec<&TopTunnel> = self.picture.tunnels.iter().filter(has).collect();
        let rate = |line: &TopTunnel| line.rates.unwrap_or_default();
        lines.sort_by(|one, other| match state.sort {
            TopSort::Rate => other.bits().total_cmp(&one.bits()),
            TopSort::In => rate(other).inbound.bits.total_cmp(&rate(one).inbound.bits),
            TopSort::Out => rate(other).outbound.bits.total_cmp(&rate(one).outbound.bits),
            TopSort::Dropped => other.dropped.unwrap_or_default().total_cmp(&one.dropped.unwrap_or_default()),
            TopSort::Heard => heard_s(other).total_cmp(&heard_s(one)),
            TopSort::State => one.is_up().cmp(&other.is_up()),
            TopSort::Name => one.row.tunnel.cmp(&other.row.tunnel),
        });
        if state.is_reversed {
            lines.reverse();
        }
        lines
    }
}

/// Time since the last packet from the peer, in seconds.
fn heard_s(line: &TopTunnel) -> f64 {
    line.row.inbound.last_used_s.unwrap_or(f64::INFINITY)
}

fn interval<'a>(before: Option<&'a Snapshot>, now: Option<&'a Snapshot>) -> Option<RunInterval<'a>> {
    RunInterval::between(before?, now?)
}

#[cfg(test)]
mod tests {
    use convoy_report::snapshot::SaRow;

    use super::*;

    fn snapshot(started_s: f64, uptime_s: f64, packets: u64) -> Snapshot {
        let sa = |(tunnel_id, tunnel): (u32, &str)| SaRow {
            tunnel: tunnel.to_owned(),
            tunnel_id,
            direction: "outbound".to_owned(),
            remote: format!("192.0.2.{tunnel_id}"),
            packets: packets * u64::from(tunnel_id),
            bytes: packets * u64::from(tunnel_id) * 125,
            ..SaRow::default()
        };
        let sas = [(1, "c"), (2, "a"), (3, "B")].into_iter().map(sa).collect();
        Snapshot { started_s, uptime_s, sas, ..Snapshot::default() }
    }

    fn names(model: &Model, state: &TopState) -> String {
        model.lines(state).iter().map(|line| line.row.tunnel.as_str()).collect()
    }

    #[test]
    fn tunnels_are_sorted_and_filtered() {
        let mut model = Model::default();
        model.take(Ok(snapshot(1.0, 1.0, 0)));
        model.take(Ok(snapshot(1.0, 2.0, 10)));
        let state = |sort, is_reversed, filter: &str| TopState {
            sort,
            is_reversed,
            filter: filter.to_owned(),
            ..TopState::default()
        };
        assert_eq!(names(&model, &TopState::default()), "Bac", "by rate");
        assert_eq!(names(&model, &state(TopSort::Out, true, "")), "caB");
        assert_eq!(names(&model, &state(TopSort::Name, false, "")), "Bac");
        assert_eq!(names(&model, &state(TopSort::Rate, false, "b")), "B");
        assert_eq!(names(&model, &state(TopSort::Rate, false, "0.2.1")), "c", "by the peer's address");
    }

    #[test]
    fn a_gateway_that_is_gone_keeps_its_last_state_and_one_that_comes_back_begins_again() {
        let mut model = Model::default();
        model.take(Err("no gateway".to_owned()));
        assert!(model.now().is_none() && model.trouble.is_some());
        let since = model.trouble.as_ref().map(|trouble| trouble.since);
        model.take(Err("still none".to_owned()));
        assert_eq!(
            model.trouble.as_ref().map(|trouble| (trouble.why.as_str(), Some(trouble.since))),
            Some(("still none", since))
        );
        for second in 1..4 {
            model.take(Ok(snapshot(1.0, second as f64, second * 10)));
        }
        assert!(model.trouble.is_none());
        assert_eq!(model.total.outbound.len(), 2);
        assert_eq!(model.history(&("a".to_owned(), Some(2))).expect("known").outbound, [20_000, 20_000]);
        model.take(Err("stopped".to_owned()));
        assert_eq!(model.picture.tunnels.len(), 3, "the last state is still shown");
        model.take(Ok(snapshot(9.0, 1.0, 5)));
        assert!(model.total.outbound.is_empty() && model.picture.total.is_none());
    }
}
