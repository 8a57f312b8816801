//! A member of a cluster, as a state machine: the rules of `docs/internals/cluster.md`.

mod calls;
mod config;
mod group;
mod leader;
mod lease;
#[cfg(test)]
mod tests;
mod view;

pub use calls::CallId;
pub use config::{GroupConfig, MemberConfig, Replay};

use std::collections::BTreeMap;

use calls::{Calls, Purpose};
use group::{Context, MemberGroup};
use lease::Lease;
use view::{StoreTable, TableKind};

use crate::election::Registration;
use crate::keys::Keys;
use crate::memory::Seen;
use crate::orders::{MemberOrder, Report};
use crate::status::{ClusterStatus, MemberStatus};
use crate::store::{Call, LeaseId, StoreAnswer, StoreChange, StoreId};
use convoy_reservation::IvClock;

/// The time after which a request that failed is made again.
const RETRY_NS: u64 = 100_000_000;

/// A moment, by both clocks of a machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Now {
    /// A clock that neither jumps nor stands still while the machine is suspended, in ns.
    pub monotonic_ns: u64,
    /// The wall clock, in ns since 1970: where IVs begin.
    pub wall_ns: u64,
}

/// What happens to a member.
#[derive(Clone, Debug)]
pub enum MemberInput {
    /// Time has passed.
    Tick,
    /// A session with the store has begun.
    Connected {
        /// The store.
        store: StoreId,
    },
    /// The store has answered a request.
    Answered {
        /// The request.
        call: CallId,
        /// The answer; a value that could not be opened is empty.
        answer: StoreAnswer,
        /// How many values are sealed by a cluster key that this member lacks.
        locked: usize,
    },
    /// The gateway and all its parts worked at this time of the monotonic clock.
    Beat {
        /// The time, in ns.
        at_ns: u64,
    },
    /// Watched keys have changed.
    Changed(Vec<StoreChange>),
    /// The connection to the store is lost, or a request took too long: no open request is answered
    /// any more, each may have been executed or may be later, and watches have ended.
    Lost,
    /// The gateway reports something.
    Reported(Report),
    /// The gateway's process has ended, and with it its sockets. Nothing else may say so.
    GatewayEnded,
    /// Give all groups away, and lead none until `Serve`.
    Drain,
    /// Lead groups again after `Drain`.
    Serve,
    /// Give all groups away, and end.
    End,
}

/// What a member wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// A request to the store. Within a bounded time comes `Answered` or `Lost`.
    Ask {
        /// Its number.
        call: CallId,
        /// The request.
        request: Call,
    },
    /// An order to the gateway.
    Order(MemberOrder),
    /// The member has ended: nothing of it is in the store but SAs and their marks.
    Ended,
}

/// How near the end a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Serving,
    /// It leads nothing new, and hands over what it leads.
    Draining,
    /// It leads nothing new, hands over what it leads, and then ends.
    Ending,
    /// It revokes its lease; the request is due at this time.
    Revoking {
        due_ns: u64,
    },
    Ended,
}

/// A member of a cluster, for one gateway: when the gateway or the member's process starts again, a
/// new member begins with nothing.
#[derive(Debug)]
pub struct Member {
    config: MemberConfig,
    keys: Keys,
    calls: Calls,
    lease: Lease,
    members: StoreTable,
    leaders: StoreTable,
    groups: Vec<MemberGroup>,
    by_name: BTreeMap<String, usize>,
    stage: Stage,
    /// When it may put its own key.
    register_ns: u64,
    now: Now,
    /// When the gateway and all its parts were last known to work.
    beat_ns: Option<u64>,
    seen: Seen,
    ivs: IvClock,
}

impl Member {
    /// A member that begins with its first input.
    pub fn new(config: MemberConfig) -> Self {
        let keys = Keys::new(&config.cluster);
        let groups = config.groups.iter().cloned().enumerate();
        Self {
            lease: Lease::new(config.ttl_s),
            members: StoreTable::new(TableKind::Members, keys.members()),
            leaders: StoreTable::new(TableKind::Leaders, keys.leaders()),
            groups: groups.map(|(index, group)| MemberGroup::new(index, group, &keys)).collect(),
            by_name: config.groups.iter().map(|group| group.name.clone()).zip(0..).collect(),
            calls: Calls::new(config.seen.revision),
            stage: Stage::Serving,
            register_ns: 0,
            now: Now::default(),
            beat_ns: None,
            seen: config.seen,
            ivs: IvClock::new(config.seen.next_iv),
            keys,
            config,
        }
    }

    /// Sabotage: it knows nothing of the store.
    #[cfg(test)]
    pub(crate) fn forget_store(&mut self) {
        self.seen = Seen::default();
        self.calls.known = 0;
    }

    /// What it has seen of the store, which the next member of this gateway is to know.
    pub fn seen(&self) -> Seen {
        Seen { next_iv: self.ivs.next(), ..self.seen }
    }

    /// The cluster as far as this member knows it.
    pub fn status(&self) -> ClusterStatus {
        let member = |(name, value): (&str, &[u8])| {
            let Registration { priority, is_draining, .. } = Registration::decode(value)?;
            Some(MemberStatus { name: name.to_owned(), priority, is_draining })
        };
        ClusterStatus {
            members: self.members.iter().filter_map(member).collect(),
            groups: self.groups.iter().map(|group| group.status(&self.leaders)).collect(),
            is_draining: self.stage != Stage::Serving,
            store_fault: self.seen.fault,
            is_alive: self.is_alive(),
        }
    }

    /// Takes an input at a moment, and appends what is to be done, in order.
    pub fn handle(&mut self, now: Now, input: MemberInput, out: &mut Vec<Output>) {
        self.now = now;
        let now_ns = now.monotonic_ns;
        if self.stage == Stage::Ended {
            return;
        }
        match input {
            MemberInput::Tick => {}
            MemberInput::Connected { store } => self.seen.connected(store),
            MemberInput::Answered { call, answer, locked } => {
                if let Some((purpose, known)) = self.calls.answered(call) {
                    self.look_at_revision(known, &answer);
                    self.answered(purpose, answer, locked, out);
                }
            }
            MemberInput::Beat { at_ns } => self.beat_ns = self.beat_ns.max(Some(at_ns)),
            MemberInput::Changed(changes) => self.changed(&changes),
            MemberInput::Lost => self.lost(),
            MemberInput::Reported(report) => self.reported(report),
            MemberInput::GatewayEnded => self.stage = Stage::Revoking { due_ns: now_ns },
            MemberInput::Drain if self.stage == Stage::Serving => self.stage = Stage::Draining,
            MemberInput::End if matches!(self.stage, Stage::Serving | Stage::Draining) => {
                self.stage = Stage::Ending
            }
            MemberInput::Serve if self.stage == Stage::Draining => self.stage = Stage::Serving,
            MemberInput::Drain | MemberInput::Serve | MemberInput::End => {}
        }
        self.proceed(out);
    }

    /// When the next `Tick` is due, if nothing else happens.
    pub fn wake_ns(&self) -> Option<u64> {
        let revoke_ns = match self.stage {
            Stage::Ended => return None,
            Stage::Revoking { due_ns } => Some(due_ns),
            _ => Some(self.lease.next_ns),
        };
        let own = [
            revoke_ns,
            Some(self.register_ns),
            self.members.wake_ns(),
            self.leaders.wake_ns(),
            self.lease.deadline_ns(),
        ];
        let groups = self.groups.iter().flat_map(MemberGroup::wake_ns);
        own.into_iter().flatten().chain(groups).filter(|at_ns| *at_ns > self.now.monotonic_ns).min()
    }

    /// Whether the gateway and all its parts worked within a third of the lease.
    fn is_alive(&self) -> bool {
        self.beat_ns.is_some_and(|beat_ns| beat_ns + self.lease.third_ns() >= self.now.monotonic_ns)
    }

    fn look_at_revision(&mut self, known: u64, answer: &StoreAnswer) {
        if let StoreAnswer::Transacted { revision, .. } = answer {
            self.seen.executed(known, *revision);
            self.calls.known = self.seen.revision;
        }
    }

    /// Makes all requests that are due.
    fn proceed(&mut self, out: &mut Vec<Output>) {
        if self.seen.fault.is_some() {
            self.groups.iter_mut().for_each(|group| group.abandon(out));
            if self.stage == Stage::Ending {
                self.stage = Stage::Revoking { due_ns: self.now.monotonic_ns };
            }
        }
        if matches!(self.stage, Stage::Revoking { .. }) {
            return self.revoke(out);
        }
        if self.seen.fault.is_some() {
            return;
        }
        let now_ns = self.now.monotonic_ns;
        if self.is_alive() {
            self.lease.proceed(now_ns, &mut self.calls, out);
        } else if self.lease.deadline_ns().is_some_and(|deadline_ns| deadline_ns <= now_ns) {
            self.give_up_lease(out);
        }
        self.members.proceed(now_ns, &mut self.calls, out);
        self.leaders.proceed(now_ns, &mut self.calls, out);
        self.register(out);
        for index in 0..self.groups.len() {
            let (group, mut context) = self.group(index, out);
            group.proceed(&mut context);
        }
        if self.stage == Stage::Ending && self.groups.iter().all(MemberGroup::is_idle) {
            self.stage = Stage::Revoking { due_ns: self.now.monotonic_ns };
            self.revoke(out);
        }
    }

    fn group<'a>(&'a mut self, index: usize, out: &'a mut Vec<Output>) -> (&'a mut MemberGroup, Context<'a>) {
        let is_fresh = self.members.is_fresh() && self.leaders.is_fresh();
        let context = Context {
            now: self.now,
            config: &self.config,
            keys: &self.keys,
            lease: self.lease.id(),
            is_candidate: is_fresh
                && self.stage == Stage::Serving
                && self.lease.permits(self.now.monotonic_ns)
                && self.is_alive(),
            is_draining: self.stage != Stage::Serving,
            members: &self.members,
            leaders: &mut self.leaders,
            ivs: &mut self.ivs,
            calls: &mut self.calls,
            out,
        };
        (&mut self.groups[index], context)
    }

    /// Puts the member's own key if it is not as it should be.
    fn register(&mut self, out: &mut Vec<Output>) {
        let is_asked = self.calls.count(|purpose| purpose == Purpose::Register) > 0;
        let Some(lease) = self.lease.id().filter(|_| self.members.is_fresh() && !is_asked) else { return };
        let (priority, is_draining) = (self.config.priority, self.stage != Stage::Serving);
        let value = Registration { priority, is_draining, lease }.encode();
        let key = self.keys.member(&self.config.name);
        let is_right = self.members.get(&key).is_some_and(|entry| entry.value == value);
        if !is_right && self.register_ns <= self.now.monotonic_ns {
            let puts = vec![(key, value, Some(lease))];
            let request = Call::Transact { guard: None, deletes: Vec::new(), puts, read: None };
            self.calls.ask(Purpose::Register, request, out);
        }
    }

    fn answered(&mut self, purpose: Purpose, answer: StoreAnswer, locked: usize, out: &mut Vec<Output>) {
        let now_ns = self.now.monotonic_ns;
        match (purpose, answer) {
            // Nothing that a store which is not trusted says counts.
            (Purpose::Group(_) | Purpose::Read(_) | Purpose::Watch(_), _) if self.seen.fault.is_some() => {}
            (Purpose::Grant { sent_ns }, StoreAnswer::Granted { lease, ttl_s }) => {
                self.lease.granted(lease, ttl_s, sent_ns, out);
            }
            (Purpose::KeepAlive { lease, .. }, _) if self.lease.id() != Some(lease) => {}
            (Purpose::KeepAlive { .. }, StoreAnswer::KeptAlive { ttl_s: 0 }) => self.lease_gone(out),
            (Purpose::KeepAlive { sent_ns, .. }, StoreAnswer::KeptAlive { ttl_s }) => {
                self.lease.kept(ttl_s, sent_ns, out);
            }
            (Purpose::Grant { .. } | Purpose::KeepAlive { .. }, _) => self.lease.retry(now_ns),
            (Purpose::Revoke(lease), answer) => self.revoked(lease, &answer, out),
            (Purpose::Read(kind), answer) => self.read(kind, answer, out),
            (Purpose::Watch(TableKind::Members), answer) => self.members.watching(&answer, now_ns),
            (Purpose::Watch(TableKind::Leaders), answer) => self.leaders.watching(&answer, now_ns),
            // If it was done, the watch says so until then.
            (Purpose::Register, _) => self.register_ns = now_ns + RETRY_NS,
            (Purpose::Group(index), answer) => {
                let (group, mut context) = self.group(index, out);
                group.answered(answer, locked, &mut context);
            }
        }
    }

    fn read(&mut self, kind: TableKind, answer: StoreAnswer, out: &mut Vec<Output>) {
        let table = match kind {
            TableKind::Members => &mut self.members,
            TableKind::Leaders => &mut self.leaders,
        };
        table.read(answer, self.now.monotonic_ns, &mut self.calls, out);
    }

    /// All terms end with the lease.
    fn lease_gone(&mut self, out: &mut Vec<Output>) {
        self.lease.gone(self.now.monotonic_ns);
        self.groups.iter_mut().for_each(|group| group.end(out));
    }

    fn changed(&mut self, changes: &[StoreChange]) {
        for change in changes {
            self.members.apply(change);
            self.leaders.apply(change);
        }
    }

    fn lost(&mut self) {
        let now_ns = self.now.monotonic_ns;
        self.calls.lose();
        self.lease.retry(now_ns);
        self.members.retry(now_ns);
        self.leaders.retry(now_ns);
        self.register_ns = now_ns + RETRY_NS;
        self.groups.iter_mut().for_each(|group| group.lost(now_ns));
        if let Stage::Revoking { due_ns } = &mut self.stage {
            *due_ns = now_ns + RETRY_NS;
        }
    }

    fn reported(&mut self, Report { group, term, event }: Report) {
        if let Some(index) = self.by_name.get(&group) {
            let now_ns = self.now.monotonic_ns;
            self.groups[*index].report(term, event, &mut self.ivs, now_ns);
        }
    }

    /// Ends the lease, and with it all keys that have it.
    fn revoke(&mut self, out: &mut Vec<Output>) {
        let Stage::Revoking { due_ns } = self.stage else { return };
        let Some(lease) = self.lease.id() else {
            self.stage = Stage::Ended;
            return out.push(Output::Ended);
        };
        if due_ns <= self.now.monotonic_ns {
            self.ask_to_revoke(lease, out);
        }
    }

    /// A gateway of which a part hangs does not send any more from its deadline on, so that its
    /// groups are free then. If the store does not do it, the lease lapses a little later.
    fn give_up_lease(&mut self, out: &mut Vec<Output>) {
        if let Some(lease) = self.lease.id() {
            self.lease_gone(out);
            self.ask_to_revoke(lease, out);
        }
    }

    fn ask_to_revoke(&mut self, lease: LeaseId, out: &mut Vec<Output>) {
        if self.calls.count(|purpose| matches!(purpose, Purpose::Revoke(_))) == 0 {
            self.calls.ask(Purpose::Revoke(lease), Call::Revoke { lease }, out);
        }
    }

    fn revoked(&mut self, lease: LeaseId, answer: &StoreAnswer, out: &mut Vec<Output>) {
        let Stage::Revoking { due_ns } = &mut self.stage else { return };
        if self.lease.id() != Some(lease) {
            // It was given up before.
        } else if *answer == StoreAnswer::Revoked {
            self.stage = Stage::Ended;
            out.push(Output::Ended);
        } else {
            *due_ns = self.now.monotonic_ns + RETRY_NS;
        }
    }
}
