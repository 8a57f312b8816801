//! Gateways and their processes.

use rand::RngExt;

use super::super::gateway::{Burst, Gateway};
use super::super::host::{ToAgent, ToGateway};
use super::super::sabotage::Sabotage;
use super::super::scenario::MS;
use super::{Happening, World};
use crate::fingerprint::SaFingerprint;
use crate::orders::{MemberOrder, Report};

/// Messages that a paused gateway keeps: the rest of the packets is lost.
const INBOX: usize = 1000;

impl World {
    pub(super) fn gateway_gets(&mut self, host: usize, message: ToGateway) {
        let gateway = &mut self.hosts[host].gateway;
        if !gateway.is_up {
            return;
        }
        if self.now_ns < gateway.paused_until_ns {
            if gateway.inbox.len() < INBOX || !matches!(message, ToGateway::Packets(_)) {
                gateway.inbox.push_back(message);
            }
            return;
        }
        let now_ns = self.hosts[host].clock.at(self.now_ns);
        match message {
            ToGateway::Linked(link) => {
                self.hosts[host].gateway.link = Some(link);
                self.hosts[host].state = Gateway::new(self.scenario.first(), self.sabotage);
            }
            ToGateway::Order { link, order } if self.hosts[host].gateway.link == Some(link) => {
                self.obey(host, order)
            }
            ToGateway::Order { .. } => {}
            ToGateway::Packets(bursts) => {
                let Self { hosts, .. } = self;
                let accept = |burst| hosts[host].state.accept(burst, now_ns);
                let accepted: Vec<Burst> = bursts.iter().filter_map(accept).collect();
                accepted.iter().for_each(|burst| self.accepted(host, burst));
            }
            ToGateway::StopNow(group) => _ = self.hosts[host].state.obey(MemberOrder::StepDown { group }),
        }
    }

    fn obey(&mut self, host: usize, order: MemberOrder) {
        if let (Sabotage::StopsLater, MemberOrder::StepDown { group }) = (self.sabotage, &order) {
            if let Some(report) = self.hosts[host].state.pretend_to_stop(group) {
                self.report(host, report);
                self.after(50 * MS..200 * MS, Happening::Gateway(host, ToGateway::StopNow(group.clone())));
            }
            return;
        }
        if let Some(report) = self.hosts[host].state.obey(order) {
            self.checks.figures.handovers += 1;
            self.report(host, report);
        }
    }

    fn report(&mut self, host: usize, report: Report) {
        if let Some(link) = self.hosts[host].gateway.link {
            self.tell_agent(host, ToAgent::Report { link, report });
        }
    }

    /// A worker's round: a burst, and what is short.
    pub(super) fn round(&mut self, host: usize) {
        self.after(10 * MS..40 * MS, Happening::Round(host));
        let Self { hosts, dice, peer, last_sa, scenario, .. } = self;
        let host_of = &mut hosts[host];
        if !host_of.gateway.is_up || self.now_ns < host_of.gateway.paused_until_ns {
            return;
        }
        let now_ns = host_of.clock.at(self.now_ns);
        let (link, bursts) = (host_of.gateway.link, host_of.state.bursts(now_ns, dice));
        let new_sa = |group: &str, old: Option<SaFingerprint>| {
            old.map(|old| peer.remove(&old));
            *last_sa += 1;
            peer.insert(SaFingerprint(*last_sa), (group.to_owned(), 0));
            SaFingerprint(*last_sa)
        };
        let reports = host_of.state.upkeep(now_ns, scenario.rekey, new_sa, dice);
        bursts.iter().for_each(|burst| self.sent(host, burst));
        reports.into_iter().for_each(|report| self.report(host, report));
        if let Some(link) = link {
            self.tell_agent(host, ToAgent::Beat { link, at_ns: now_ns });
        }
    }

    pub(super) fn sent(&mut self, host: usize, burst: &Burst) {
        if let Some(last) = burst.numbers.last() {
            self.journal.trace(&last.to_be_bytes());
            let outcome = self.checks.sent(burst, &self.etcd, &self.keys);
            self.wrong = outcome.err().map(|wrong| format!("{wrong} by m{host}")).or(self.wrong.take());
        }
    }

    fn accepted(&mut self, host: usize, burst: &Burst) {
        if let Some(last) = burst.numbers.last() {
            self.journal.trace(&last.to_be_bytes());
            let outcome = self.checks.accepted(burst, &self.etcd, &self.keys);
            self.wrong = outcome.err().map(|wrong| format!("{wrong} by m{host}")).or(self.wrong.take());
        }
    }

    pub(super) fn crash_gateway(&mut self, host: usize, down_ns: u64) {
        self.thaw(host);
        self.hosts[host].gateway.crash();
        self.hosts[host].torn.clear();
        self.hosts[host].state = Gateway::new(self.scenario.first(), self.sabotage);
        if let Some(link) = self.hosts[host].agent.link {
            self.tell_agent(host, ToAgent::GatewayEnded { link });
        }
        self.schedule(self.now_ns + down_ns, Happening::StartGateway(host));
    }

    pub(super) fn start_gateway(&mut self, host: usize) {
        self.hosts[host].gateway.is_up = true;
        self.after(MS..200 * MS, Happening::Link(host));
    }

    pub(super) fn resume_gateway(&mut self, host: usize) {
        if self.now_ns < self.hosts[host].gateway.paused_until_ns {
            return;
        }
        for burst in std::mem::take(&mut self.hosts[host].torn) {
            self.sent(host, &burst);
        }
        // A worker may send before orders are read.
        if self.dice.random_bool(0.5) {
            let now_ns = self.hosts[host].clock.at(self.now_ns);
            let bursts = self.hosts[host].state.bursts(now_ns, &mut self.dice);
            bursts.iter().for_each(|burst| self.sent(host, burst));
        }
        for message in std::mem::take(&mut self.hosts[host].gateway.inbox) {
            self.gateway_gets(host, message);
        }
    }
}
