//! Members and their processes.

use rand::RngExt;

use super::super::host::{Open, ToAgent, ToGateway};
use super::super::sabotage::Sabotage;
use super::super::scenario::{MS, S};
use super::{Happening, World};
use crate::member::{CallId, Member, MemberConfig, MemberInput, Output};
use crate::orders::MemberOrder;
use crate::store::{Call, StoreAnswer};
use convoy_reservation::Reservation;

/// The delay of a message between the two processes of a machine, of which some wait for a core.
const LINK_NS: std::ops::Range<u64> = 20_000..500_000;
/// The store's ID.
const STORE: u64 = 0xc0;
const BUSY_NS: std::ops::Range<u64> = MS..200 * MS;

impl World {
    pub(super) fn agent_gets(&mut self, host: usize, message: ToAgent) {
        let agent = &mut self.hosts[host].agent;
        if !agent.is_up {
            return;
        }
        if self.now_ns < agent.paused_until_ns {
            return agent.inbox.push_back(message);
        }
        let (connection, link) = (self.hosts[host].connection, self.hosts[host].agent.link);
        match message {
            ToAgent::Answer { connection: of, call, answer } if of == connection => {
                self.answered(host, call, answer)
            }
            ToAgent::Changes { connection: of, changes } if of == connection => {
                self.step(host, MemberInput::Changed(changes));
            }
            ToAgent::Timeout { connection: of, call }
                if of == connection && self.hosts[host].open.contains_key(&call) =>
            {
                self.lose(host);
            }
            ToAgent::Broken { connection: of } if of == connection => self.lose(host),
            ToAgent::Report { link: of, report } if Some(of) == link => {
                self.step(host, MemberInput::Reported(report))
            }
            ToAgent::Beat { link: of, at_ns } if Some(of) == link => {
                self.step(host, MemberInput::Beat { at_ns })
            }
            ToAgent::GatewayEnded { link: of } if Some(of) == link => {
                self.step(host, MemberInput::GatewayEnded)
            }
            ToAgent::Drain => {
                self.hosts[host].is_drained = true;
                self.step(host, MemberInput::Drain);
            }
            ToAgent::Serve => {
                self.hosts[host].is_drained = false;
                self.step(host, MemberInput::Serve);
            }
            ToAgent::End => self.step(host, MemberInput::End),
            _ => {}
        }
    }

    fn answered(&mut self, host: usize, call: CallId, mut answer: StoreAnswer) {
        let Some(open) = self.hosts[host].open.remove(&call) else { return };
        let is_kept = matches!(answer, StoreAnswer::Granted { .. } | StoreAnswer::KeptAlive { .. });
        if answer == (StoreAnswer::KeptAlive { ttl_s: 0 }) && self.sabotage == Sabotage::IgnoresLostLease {
            answer = StoreAnswer::KeptAlive { ttl_s: self.scenario.ttl_s.max(2) };
        }
        let clock_ns = self.hosts[host].clock.at(self.now_ns);
        let later_ns = match self.sabotage {
            Sabotage::DeadlineFromAnswer if is_kept => clock_ns - open.asked_ns,
            Sabotage::NoMargin if is_kept => u64::from(self.scenario.ttl_s.max(2)) * S / 10,
            _ => 0,
        };
        self.step_with(host, MemberInput::Answered { call, answer, locked: 0 }, later_ns);
    }

    /// The connection to the store is lost, and another is made.
    fn lose(&mut self, host: usize) {
        self.journal.note(format_args!("m{host} loses its connection"));
        self.checks.figures.lost += 1;
        self.last_id += 1;
        let open = std::mem::take(&mut self.hosts[host].open);
        self.hosts[host].connection = self.last_id;
        if self.sabotage == Sabotage::LeadsUnread {
            for (call, key) in open.into_iter().filter_map(|(call, open)| Some((call, open.creates?))) {
                let revision = self.etcd.get(&key).map_or(1 << 32, |entry| entry.created);
                let answer = StoreAnswer::Transacted { is_done: true, revision, read: Vec::new() };
                self.step(host, MemberInput::Answered { call, answer, locked: 0 });
            }
        }
        self.step(host, MemberInput::Lost);
    }

    pub(super) fn step(&mut self, host: usize, input: MemberInput) {
        self.step_with(host, input, 0);
    }

    /// A step of a member; a sabotage may shift the deadline.
    fn step_with(&mut self, host: usize, input: MemberInput, later_ns: u64) {
        let now = self.hosts[host].now(self.now_ns);
        let Some(member) = &mut self.hosts[host].member else { return };
        if self.sabotage.trusts_any_store() {
            member.forget_store();
        }
        let mut outputs = Vec::new();
        member.handle(now, input, &mut outputs);
        self.hosts[host].seen = member.seen();
        for output in outputs {
            match output {
                Output::Ask { call, request } => self.ask(host, call, request),
                Output::Order(MemberOrder::Until { deadline_ns }) => {
                    self.order(host, MemberOrder::Until { deadline_ns: deadline_ns + later_ns });
                }
                Output::Order(order) => self.order(host, order),
                Output::Ended => {
                    self.journal.note(format_args!("m{host} ends"));
                    self.crash_agent(host, 0);
                    return self.after(MS..S, Happening::StartAgent(host));
                }
            }
        }
        let host_of = &mut self.hosts[host];
        host_of.wake_ns =
            host_of.member.as_ref().and_then(Member::wake_ns).map(|at_ns| host_of.clock.true_ns(at_ns));
        if let Some(wake_ns) = host_of.wake_ns {
            self.schedule(wake_ns, Happening::Wake(host));
        }
    }

    pub(super) fn wake(&mut self, host: usize) {
        let is_due = self.hosts[host].wake_ns.is_some_and(|wake_ns| wake_ns <= self.now_ns);
        if is_due && self.now_ns >= self.hosts[host].agent.paused_until_ns {
            self.step(host, MemberInput::Tick);
        }
    }

    fn ask(&mut self, host: usize, call: CallId, mut request: Call) {
        let asked_ns = self.hosts[host].clock.at(self.now_ns);
        let mut creates = None;
        if let Call::Transact { guard, deletes, puts, .. } = &mut request {
            self.journal.note(format_args!(
                "m{host} asks {}: {guard:?} -{deletes:?} +{:?}",
                call.0,
                puts.iter().map(|(key, value, _)| (key, Reservation::decode(value))).collect::<Vec<_>>()
            ));
            creates = guard.as_ref().filter(|guard| guard.modified == 0).map(|guard| guard.key.clone());
            let is_of_sas = puts.first().is_some_and(|(key, ..)| key.contains("/groups/"));
            let is_unguarded = match self.sabotage {
                Sabotage::NoGuard => is_of_sas,
                Sabotage::TakesTheKey => creates.is_some(),
                _ => false,
            };
            if is_unguarded {
                *guard = None;
            }
            if self.sabotage == Sabotage::GrantsUnwritten {
                self.grant(host, puts.clone());
            }
        }
        self.hosts[host].open.insert(call, Open { asked_ns, creates });
        let connection = self.hosts[host].connection;
        let timeout = Happening::Agent(host, ToAgent::Timeout { connection, call });
        self.schedule(self.now_ns + self.scenario.timeout_ns, timeout);
        self.send(host, connection, call, request);
    }

    /// Sabotage: what is being written is granted.
    fn grant(&mut self, host: usize, puts: Vec<(String, Vec<u8>, Option<i64>)>) {
        for (key, value, _) in puts {
            let parts: Vec<&str> = key.split('/').collect();
            if let [.., group, "marks", sa] = parts[..] {
                let limits = Reservation::decode(&value).expect("a reservation").limits();
                let sa = crate::fingerprint::SaFingerprint(u64::from_str_radix(sa, 16).expect("an SA"));
                self.order(host, MemberOrder::Granted { group: group.to_owned(), sa, limits });
            }
        }
    }

    fn order(&mut self, host: usize, mut order: MemberOrder) {
        match &mut order {
            MemberOrder::Lead { group, term, sas, .. } => {
                self.journal.note(format_args!("m{host} leads {group} in {term} with {} SAs", sas.len()));
                self.checks.figures.terms += 1;
                for stored in sas.iter_mut() {
                    let entry = self.etcd.get(&self.keys.reservation(group, stored.sa));
                    let Some(reserved) = entry.and_then(|entry| Reservation::decode(&entry.value)) else {
                        continue;
                    };
                    if self.sabotage == Sabotage::BeginsAtReceived {
                        stored.used.received = reserved.received;
                    }
                    if self.sabotage.keeps_ivs() {
                        stored.iv_start = 0;
                    }
                }
            }
            MemberOrder::StepDown { group } => {
                self.journal.note(format_args!("m{host} steps down from {group}"))
            }
            _ => {}
        }
        let Some(link) = self.hosts[host].agent.link else { return };
        let at_ns = self.now_ns + self.link_delay_ns();
        let gateway = &mut self.hosts[host].gateway;
        gateway.arrives_ns = gateway.arrives_ns.max(at_ns);
        let at_ns = gateway.arrives_ns;
        self.schedule(at_ns, Happening::Gateway(host, ToGateway::Order { link, order }));
    }

    fn link_delay_ns(&mut self) -> u64 {
        let delays_ns = if self.dice.random_bool(0.02) { BUSY_NS } else { LINK_NS };
        self.dice.random_range(delays_ns)
    }

    /// A message from the gateway's end of a link.
    pub(super) fn tell_agent(&mut self, host: usize, message: ToAgent) {
        let at_ns = self.now_ns + self.link_delay_ns();
        let agent = &mut self.hosts[host].agent;
        agent.arrives_ns = agent.arrives_ns.max(at_ns);
        let at_ns = agent.arrives_ns;
        self.schedule(at_ns, Happening::Agent(host, message));
    }

    /// The member's process finds the gateway's: a new member begins.
    pub(super) fn link(&mut self, host: usize) {
        let (agent, gateway) = (&self.hosts[host].agent, &self.hosts[host].gateway);
        if !agent.is_up || !gateway.is_up || agent.link.is_some() {
            return;
        }
        if self.now_ns < agent.paused_until_ns {
            return self.schedule(agent.paused_until_ns, Happening::Link(host));
        }
        self.last_id += 2;
        let link = self.last_id;
        let arrives_ns = self.now_ns + self.link_delay_ns();
        let host_of = &mut self.hosts[host];
        host_of.connection = link - 1;
        host_of.agent.link = Some(link);
        let config = MemberConfig { seen: host_of.seen, ..self.scenario.member(host) };
        host_of.member = Some(Member::new(config));
        host_of.gateway.arrives_ns = host_of.gateway.arrives_ns.max(arrives_ns);
        let arrives_ns = host_of.gateway.arrives_ns;
        self.schedule(arrives_ns, Happening::Gateway(host, ToGateway::Linked(link)));
        self.step(host, MemberInput::Connected { store: STORE });
    }

    pub(super) fn crash_agent(&mut self, host: usize, down_ns: u64) {
        self.thaw(host);
        let host_of = &mut self.hosts[host];
        host_of.agent.crash();
        host_of.member = None;
        host_of.is_drained = false;
        host_of.connection = 0;
        host_of.open.clear();
        host_of.wake_ns = None;
        if down_ns > 0 {
            self.schedule(self.now_ns + down_ns, Happening::StartAgent(host));
        }
    }

    pub(super) fn start_agent(&mut self, host: usize) {
        self.hosts[host].agent.is_up = true;
        self.after(MS..200 * MS, Happening::Link(host));
    }

    pub(super) fn resume_agent(&mut self, host: usize) {
        if self.now_ns < self.hosts[host].agent.paused_until_ns {
            return;
        }
        // The clock may be looked at before or after what has come.
        let is_first = self.dice.random_bool(0.5);
        if is_first {
            self.step(host, MemberInput::Tick);
        }
        for message in std::mem::take(&mut self.hosts[host].agent.inbox) {
            self.agent_gets(host, message);
        }
        self.step(host, MemberInput::Tick);
    }
}
