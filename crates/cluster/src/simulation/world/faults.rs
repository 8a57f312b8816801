//! What goes wrong.

use rand::RngExt;

use super::super::host::{Host, ToAgent};
use super::super::sabotage::Sabotage;
use super::super::scenario::{Fault, group, rate};
use super::{Happening, SNAPSHOT_NS, World};

/// Revisions by which a store may have grown again before a member looks at it.
const REGROWN: u64 = 20;

impl World {
    pub(super) fn fault(&mut self, index: usize) {
        let (_, fault, lasts_ns) = self.scenario.faults[index];
        self.journal.note(format_args!("{fault:?} for {:.3} s", lasts_ns as f64 * 1e-9));
        let until_ns = self.now_ns + lasts_ns;
        match fault {
            Fault::PauseAgent(host) => self.pause_agent(host, until_ns),
            Fault::PauseGateway(host) => self.pause_gateway(host, until_ns),
            Fault::PauseMachine(host) => self.pause_machine(host, until_ns),
            Fault::Freeze(host) => self.freeze(host, until_ns),
            Fault::CrashAgent(host) => self.crash_agent(host, lasts_ns.max(1)),
            Fault::CrashGateway(host) => self.crash_gateway(host, lasts_ns),
            Fault::CrashMachine(host) => {
                self.crash_agent(host, lasts_ns.max(1));
                self.crash_gateway(host, lasts_ns);
            }
            Fault::Cut(host) => self.cut(host, until_ns),
            Fault::CutAll => (0..self.hosts.len()).for_each(|host| self.cut(host, until_ns)),
            Fault::Break(host) => {
                let connection = self.hosts[host].connection;
                self.agent_gets(host, ToAgent::Broken { connection });
            }
            Fault::NoQuorum => self.etcd.no_quorum_until_ns = self.etcd.no_quorum_until_ns.max(until_ns),
            Fault::NoRoom => self.etcd.no_room_until_ns = self.etcd.no_room_until_ns.max(until_ns),
            Fault::StoreLeader => {
                let rate_ppm = rate(&mut self.dice);
                self.etcd.change_leader(rate_ppm, self.now_ns);
            }
            Fault::Drain(host) => self.agent_gets(host, ToAgent::Drain),
            Fault::Serve(host) => self.agent_gets(host, ToAgent::Serve),
            Fault::End(host) => self.agent_gets(host, ToAgent::End),
            Fault::Restore => self.restore(lasts_ns),
        }
        if self.sabotage == Sabotage::OthersRemove {
            let key = self.keys.leader(&group(0));
            self.etcd.tamper(&key);
            self.pump();
        }
    }

    fn pause_agent(&mut self, host: usize, until_ns: u64) {
        let agent = &mut self.hosts[host].agent;
        agent.paused_until_ns = agent.paused_until_ns.max(until_ns);
        self.schedule(until_ns, Happening::ResumeAgent(host));
    }

    /// In a lenient scenario the pause comes after the comparison with the deadline.
    fn pause_gateway(&mut self, host: usize, until_ns: u64) {
        let host_of = &mut self.hosts[host];
        if self.scenario.is_lenient && host_of.gateway.is_up && host_of.gateway.paused_until_ns <= self.now_ns
        {
            let now_ns = host_of.clock.at(self.now_ns);
            host_of.torn = host_of.state.bursts(now_ns, &mut self.dice);
        }
        host_of.gateway.paused_until_ns = host_of.gateway.paused_until_ns.max(until_ns);
        self.schedule(until_ns, Happening::ResumeGateway(host));
    }

    fn pause_machine(&mut self, host: usize, until_ns: u64) {
        self.pause_agent(host, until_ns);
        self.pause_gateway(host, until_ns);
    }

    fn freeze(&mut self, host: usize, until_ns: u64) {
        if self.hosts[host].clock.stands_since_ns.is_none() {
            self.pause_machine(host, until_ns);
            self.hosts[host].clock.stands_since_ns = Some(self.now_ns);
            let until_ns =
                self.hosts[host].agent.paused_until_ns.min(self.hosts[host].gateway.paused_until_ns);
            self.schedule(until_ns, Happening::Thaw(host));
        }
    }

    /// The clock goes on: the pause is over, or a process that runs again was started.
    pub(super) fn thaw(&mut self, host: usize) {
        let clock = &mut self.hosts[host].clock;
        if let Some(since_ns) = clock.stands_since_ns.take() {
            clock.stood_ns += self.now_ns - since_ns;
        }
    }

    /// The store starts again with an earlier state, so that all connections break.
    fn restore(&mut self, by_ns: u64) {
        let back = (by_ns / SNAPSHOT_NS) as usize;
        let Some(at) = self.snapshots.len().checked_sub(back + 1) else { return };
        let before = std::mem::replace(&mut self.etcd, self.snapshots[at].clone());
        if before.revision == self.etcd.revision {
            return;
        }
        self.checks.is_restored = true;
        // A store that comes as far again before a member looks at it cannot be distinguished from
        // itself.
        let cannot_know = |host: &Host| host.seen.revision <= self.etcd.revision + REGROWN;
        self.checks.is_forgotten = !self.sabotage.trusts_any_store() && self.hosts.iter().any(cannot_know);
        self.checks.figures.restored += 1;
        self.watches.clear();
        for host in 0..self.hosts.len() {
            let connection = self.hosts[host].connection;
            self.agent_gets(host, ToAgent::Broken { connection });
        }
    }

    fn cut(&mut self, host: usize, until_ns: u64) {
        self.hosts[host].cut_until_ns = self.hosts[host].cut_until_ns.max(until_ns);
    }

    /// Faults end; members that were drained start again.
    pub(super) fn calm(&mut self) {
        self.journal.note(format_args!("faults have ended"));
        (self.scenario.slow, self.scenario.lost, self.scenario.answer_lost) = (0.0, 0.0, 0.0);
        for host in 0..self.hosts.len() {
            if self.hosts[host].is_drained {
                let down_ns = self.dice.random_range(1..100_000_000);
                self.crash_agent(host, down_ns);
            }
        }
    }
}
