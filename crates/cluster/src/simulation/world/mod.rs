//! The world: what happens when, and between whom.

mod agents;
mod faults;
mod gateways;
mod network;

use std::collections::BTreeMap;
use std::rc::Rc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::checks::Checks;
use super::etcd::Etcd;
use super::gateway::{Burst, Gateway};
use super::host::{Clock, Host, ToAgent, ToGateway};
use super::journal::Journal;
use super::sabotage::Sabotage;
use super::scenario::{Fault, MS, S, Scenario, group, rate};
use crate::fingerprint::SaFingerprint;
use crate::keys::Keys;
use crate::member::{CallId, Replay};
use crate::store::Call;
use network::Watch;

/// The wall clock when a run begins.
const WALL_NS: u64 = 1_000_000 * S;
/// How often the store's state is noted, from which it may be restored.
const SNAPSHOT_NS: u64 = 100 * MS;
/// How long the traffic is looked at, in the end.
const WATCHED_NS: u64 = 3 * S;
/// How often it is looked whether all is well: a group may be on its way to the member that ranks
/// first.
const LOOKS: u32 = 4;

/// What happens at a time.
pub(super) enum Happening {
    Agent(usize, ToAgent),
    Gateway(usize, ToGateway),
    Wake(usize),
    /// A worker's round.
    Round(usize),
    Execute {
        host: usize,
        connection: u64,
        call: CallId,
        request: Call,
    },
    Expire,
    Snapshot,
    PeerSends,
    Replay,
    Fault(usize),
    ResumeAgent(usize),
    ResumeGateway(usize),
    Thaw(usize),
    StartAgent(usize),
    StartGateway(usize),
    Link(usize),
    Calm,
    Recovered,
}

/// Everything.
pub(super) struct World {
    pub(super) journal: Journal,
    pub(super) checks: Checks,
    pub(super) scenario: Scenario,
    dice: Xoshiro256PlusPlus,
    sabotage: Sabotage,
    now_ns: u64,
    events: BTreeMap<(u64, u64), Happening>,
    last_event: u64,
    /// The last number of a connection or a link.
    last_id: u64,
    keys: Keys,
    etcd: Etcd,
    /// What it was at earlier times.
    snapshots: Vec<Etcd>,
    watches: Vec<Watch>,
    hosts: Vec<Host>,
    /// The peer's SAs: their groups, and the last number that it sent.
    peer: BTreeMap<SaFingerprint, (String, u64)>,
    last_sa: u64,
    recorded: Vec<Rc<Vec<Burst>>>,
    /// What was found to be wrong.
    wrong: Option<String>,
}

impl World {
    pub(super) fn new(seed: u64, sabotage: Sabotage) -> Self {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(seed);
        let scenario = Scenario::new(&mut dice);
        let is_strict = scenario.replay == Replay::Strict;
        let mut etcd = Etcd::new(rate(&mut dice));
        etcd.guards_by_creation = sabotage == Sabotage::GuardsByCreation;
        let mut host = |rate_ppm: &u64| {
            let offset_ns = dice.random_range(0..1000 * S);
            let clock = Clock { rate_ppm: *rate_ppm, offset_ns, stood_ns: 0, stands_since_ns: None };
            let skew_ns = WALL_NS + dice.random_range(0..50 * MS);
            Host::new(clock, skew_ns, Gateway::new(scenario.first(), sabotage))
        };
        let hosts = scenario.rates_ppm.iter().map(&mut host).collect();
        Self {
            journal: Journal::new(),
            checks: Checks::new(scenario.is_lenient, is_strict, scenario.first()),
            dice,
            sabotage,
            now_ns: 0,
            events: BTreeMap::new(),
            last_event: 0,
            last_id: 0,
            keys: Keys::new("test"),
            etcd,
            snapshots: Vec::new(),
            watches: Vec::new(),
            hosts,
            peer: BTreeMap::new(),
            last_sa: 0,
            recorded: Vec::new(),
            wrong: None,
            scenario,
        }
    }

    /// Runs until everything has recovered.
    ///
    /// # Errors
    /// What was wrong.
    pub(super) fn run(&mut self) -> Result<(), String> {
        let mut end_ns = self.begin();
        let mut looks = if self.scenario.rebalance_ns.is_some() { LOOKS } else { 1 };
        while let Some(((at_ns, _), happening)) = self.events.pop_first() {
            self.now_ns = at_ns;
            self.journal.now_ns = at_ns;
            if at_ns >= end_ns {
                looks -= 1;
                match self.is_well() {
                    Err(_) if looks > 0 => end_ns += S,
                    result => return result,
                }
            }
            self.happen(happening);
            if let Some(wrong) = self.wrong.take() {
                return Err(wrong);
            }
        }
        self.is_well()
    }

    fn begin(&mut self) -> u64 {
        for host in 0..self.hosts.len() {
            self.schedule(0, Happening::Round(host));
            let delay_ns = self.dice.random_range(0..200 * MS);
            self.schedule(delay_ns, Happening::Link(host));
        }
        for fault in 0..self.scenario.faults.len() {
            self.schedule(self.scenario.faults[fault].0, Happening::Fault(fault));
        }
        self.schedule(0, Happening::Expire);
        if self.scenario.faults.iter().any(|(_, fault, _)| matches!(fault, Fault::Restore)) {
            self.schedule(0, Happening::Snapshot);
        }
        self.schedule(0, Happening::PeerSends);
        self.schedule(0, Happening::Replay);
        self.schedule(self.scenario.calm_ns, Happening::Calm);
        let recovered_ns = self.scenario.calm_ns + self.scenario.recovery_ns();
        self.schedule(recovered_ns, Happening::Recovered);
        recovered_ns + WATCHED_NS
    }

    fn schedule(&mut self, at_ns: u64, happening: Happening) {
        self.last_event += 1;
        self.events.insert((at_ns.max(self.now_ns), self.last_event), happening);
    }

    fn after(&mut self, delay_ns: std::ops::Range<u64>, happening: Happening) {
        let at_ns = self.now_ns + self.dice.random_range(delay_ns);
        self.schedule(at_ns, happening);
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Agent(host, message) => self.agent_gets(host, message),
            Happening::Gateway(host, message) => self.gateway_gets(host, message),
            Happening::Wake(host) => self.wake(host),
            Happening::Round(host) => self.round(host),
            Happening::Execute { host, connection, call, request } => {
                self.execute(host, connection, call, request)
            }
            Happening::Snapshot => {
                self.snapshots.push(self.etcd.clone());
                self.schedule(self.now_ns + SNAPSHOT_NS, Happening::Snapshot);
            }
            Happening::Expire => {
                self.etcd.expire(self.now_ns);
                self.pump();
                self.after(10 * MS..300 * MS, Happening::Expire);
            }
            Happening::PeerSends => self.peer_sends(),
            Happening::Replay => self.replay(),
            Happening::Fault(fault) => self.fault(fault),
            Happening::ResumeAgent(host) => self.resume_agent(host),
            Happening::ResumeGateway(host) => self.resume_gateway(host),
            Happening::Thaw(host) => self.thaw(host),
            Happening::StartAgent(host) => self.start_agent(host),
            Happening::StartGateway(host) => self.start_gateway(host),
            Happening::Link(host) => self.link(host),
            Happening::Calm => self.calm(),
            Happening::Recovered => {
                self.scenario.rekey = 0.0;
                self.checks.flow.clear();
            }
        }
    }

    /// Each group has one leader, whose SAs send and accept.
    fn is_well(&self) -> Result<(), String> {
        if self.checks.is_restored {
            // No member leads until the operator has put it right, but one that cannot know.
            return Ok(());
        }
        for name in (0..self.scenario.groups).map(group) {
            let term = self.etcd.get(&self.keys.leader(&name)).map(|entry| entry.created);
            let leading = self.hosts.iter().filter(|host| term.is_some() && host.state.term(&name) == term);
            let leading: Vec<&Host> = leading.collect();
            let [host] = leading[..] else {
                return Err(format!("liveness: {} gateways lead {name} in its term {term:?}", leading.len()));
            };
            if host.state.sas(&name).next().is_none() {
                return Err(format!("liveness: {name} has no SA"));
            }
            for sa in host.state.sas(&name) {
                let (sent, accepted) = self.checks.flow.get(&sa).copied().unwrap_or_default();
                if sent == 0 || accepted == 0 && self.peer.contains_key(&sa) {
                    return Err(format!(
                        "liveness: {sa} of {name} sent {sent} and accepted {accepted} packets"
                    ));
                }
            }
        }
        Ok(())
    }
}
