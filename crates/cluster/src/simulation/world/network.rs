//! What lies between the members and the store, and between the peer and the gateways.

use std::rc::Rc;

use rand::RngExt;

use super::super::gateway::Burst;
use super::super::host::{ToAgent, ToGateway};
use super::super::scenario::MS;
use super::{Happening, World};
use crate::member::CallId;
use crate::store::{Call, StoreAnswer, StoreChange};

/// The delay of a request or an answer, and how much slow ones have more.
const STORE_NS: std::ops::Range<u64> = 200_000..5 * MS;
/// Bursts that an adversary has recorded.
const RECORDED: usize = 200;

/// A member's watch.
pub(super) struct Watch {
    host: usize,
    connection: u64,
    prefix: String,
    /// Where it is in the history.
    at: usize,
    /// When the last report that is on its way arrives.
    arrives_ns: u64,
}

impl World {
    /// A request on its way to the store, where it may be executed long after it was given up.
    pub(super) fn send(&mut self, host: usize, connection: u64, call: CallId, request: Call) {
        let cut_until_ns = self.hosts[host].cut_until_ns;
        let mut at_ns = self.now_ns + self.dice.random_range(STORE_NS);
        if self.dice.random_bool(self.scenario.slow) {
            at_ns += self.slow_ns();
        }
        let is_cut = self.now_ns < cut_until_ns;
        if is_cut || self.dice.random_bool(self.scenario.lost) {
            if self.dice.random_bool(0.5) {
                return;
            }
            self.checks.figures.late += 1;
            at_ns = at_ns.max(cut_until_ns) + self.slow_ns();
        }
        self.schedule(at_ns, Happening::Execute { host, connection, call, request });
    }

    /// As many short delays as long ones, from 10 ms to 4 s, or around a second.
    fn slow_ns(&mut self) -> u64 {
        if self.dice.random_bool(0.5) {
            return self.dice.random_range(300 * MS..1500 * MS);
        }
        ((10 * MS) as f64 * self.dice.random_range(0.0..6.0_f64).exp()) as u64
    }

    pub(super) fn execute(&mut self, host: usize, connection: u64, call: CallId, request: Call) {
        if self.now_ns < self.etcd.no_quorum_until_ns {
            if self.dice.random_bool(0.5) {
                let answer = StoreAnswer::Refused { reason: "no leader".into() };
                return self.answer(host, connection, call, answer);
            }
            let at_ns = self.etcd.no_quorum_until_ns + self.dice.random_range(STORE_NS);
            return self.schedule(at_ns, Happening::Execute { host, connection, call, request });
        }
        if let Call::Watch { prefix, from } = &request {
            let at = self.etcd.history.partition_point(|(revision, _)| revision < from);
            let (prefix, arrives_ns) = (prefix.clone(), self.now_ns);
            self.watches.push(Watch { host, connection, prefix, at, arrives_ns });
        }
        let answer = self.etcd.execute(request, self.now_ns);
        if let StoreAnswer::Transacted { is_done, revision, .. } = &answer {
            self.journal.note(format_args!("the store answers {} of m{host}: {is_done}, {revision}", call.0));
        }
        self.pump();
        self.answer(host, connection, call, answer);
    }

    fn answer(&mut self, host: usize, connection: u64, call: CallId, answer: StoreAnswer) {
        let is_cut = self.now_ns < self.hosts[host].cut_until_ns;
        if is_cut || self.dice.random_bool(self.scenario.answer_lost) {
            return;
        }
        let mut at_ns = self.now_ns + self.dice.random_range(STORE_NS);
        if self.dice.random_bool(self.scenario.slow) {
            at_ns += self.slow_ns();
        }
        self.schedule(at_ns, Happening::Agent(host, ToAgent::Answer { connection, call, answer }));
    }

    /// Reports to all watches what has changed.
    pub(super) fn pump(&mut self) {
        let Self { watches, hosts, etcd, .. } = self;
        watches.retain(|watch| hosts[watch.host].connection == watch.connection);
        let mut reports = Vec::new();
        for watch in watches.iter_mut() {
            let news = &etcd.history[watch.at..];
            watch.at = etcd.history.len();
            let changes: Vec<StoreChange> =
                news.iter().map(|(_, change)| change).filter(|change| watch.has(change)).cloned().collect();
            if !changes.is_empty() {
                let delay_ns = self.dice.random_range(MS..self.scenario.watch_delay_ns);
                let sent_ns = self.now_ns.max(hosts[watch.host].cut_until_ns);
                watch.arrives_ns = watch.arrives_ns.max(sent_ns + delay_ns);
                let message = ToAgent::Changes { connection: watch.connection, changes };
                reports.push((watch.arrives_ns, Happening::Agent(watch.host, message)));
            }
        }
        reports.into_iter().for_each(|(at_ns, report)| self.schedule(at_ns, report));
    }

    /// The peer sends a burst by each SA that it has, to some of the gateways.
    pub(super) fn peer_sends(&mut self) {
        self.after(10 * MS..40 * MS, Happening::PeerSends);
        let mut bursts = Vec::new();
        for (sa, (group, last)) in &mut self.peer {
            let count = self.dice.random_range(0..8);
            let numbers = (*last + 1..=*last + count).collect();
            bursts.push(Burst { group: group.clone(), term: 0, sa: *sa, numbers, iv_start: 0 });
            *last += count;
        }
        let bursts = Rc::new(bursts);
        for host in 0..self.hosts.len() {
            if self.dice.random_bool(0.7) {
                self.after(MS..30 * MS, Happening::Gateway(host, ToGateway::Packets(Rc::clone(&bursts))));
            }
        }
        if self.recorded.len() < RECORDED {
            self.recorded.push(bursts);
        } else {
            let at = self.dice.random_range(0..RECORDED);
            self.recorded[at] = bursts;
        }
    }

    /// An adversary sends again what it has recorded.
    pub(super) fn replay(&mut self) {
        self.after(10 * MS..100 * MS, Happening::Replay);
        if !self.recorded.is_empty() {
            let at = self.dice.random_range(0..self.recorded.len());
            let packets = ToGateway::Packets(self.recorded[at].clone());
            let host = self.dice.random_range(0..self.hosts.len());
            self.schedule(self.now_ns, Happening::Gateway(host, packets));
        }
    }
}

impl Watch {
    fn has(&self, change: &StoreChange) -> bool {
        let key = match change {
            StoreChange::Put(entry) => &entry.key,
            StoreChange::Delete { key, .. } => key,
        };
        key.starts_with(&self.prefix)
    }
}
