//! One group as a member has it: who leads it, and the one request about it that may be open.

use super::calls::{Calls, Purpose};
use super::config::{GroupConfig, MemberConfig};
use super::leader::{Changes, Leader, Phase, TakenOver, WriteBatch};
use super::view::StoreTable;
use super::{Now, Output, RETRY_NS};
use crate::election;
use crate::keys::Keys;
use crate::orders::{GroupEvent, MemberOrder};
use crate::status::GroupStatus;
use crate::store::{Call, Condition, KeyValue, LeaseId, Revision, StoreAnswer};
use convoy_reservation::IvClock;

/// What a member of the next rank waits longer before it tries to lead.
const RANK_NS: u64 = 50_000_000;
/// What a member that has given a group to another one waits longer: if that one does not take it,
/// this one leads it again.
const GIVEN_NS: u64 = 500_000_000;
/// What a member that lacks the key of a group's SAs waits until it tries again: the operator may
/// have put them right, or another member leads.
const LOCKED_NS: u64 = 10_000_000_000;
/// How often the time until a group is given away doubles, when no member takes it.
const MOST_DOUBLED: u32 = 8;

/// What the open request does.
#[derive(Debug, Default)]
enum Step {
    /// None is open.
    #[default]
    Rest,
    /// It creates the leader's key.
    Creating(LeaseId),
    /// It reads the leader's key.
    Looking,
    /// It puts the leader's key again, so that no write from before can be executed any more.
    Taking { lease: LeaseId, created: Revision },
    /// It writes SAs and marks.
    Writing(WriteBatch),
    /// It removes the leader's key.
    Removing,
}

/// What a group needs of its member.
pub(super) struct Context<'a> {
    pub(super) now: Now,
    pub(super) config: &'a MemberConfig,
    pub(super) keys: &'a Keys,
    pub(super) lease: Option<LeaseId>,
    /// Whether the member may lead groups that it does not lead yet.
    pub(super) is_candidate: bool,
    /// Whether it gives its groups away.
    pub(super) is_draining: bool,
    pub(super) members: &'a StoreTable,
    pub(super) leaders: &'a mut StoreTable,
    pub(super) ivs: &'a mut IvClock,
    pub(super) calls: &'a mut Calls,
    pub(super) out: &'a mut Vec<Output>,
}

/// A term of this member's that begins.
struct BegunTerm {
    /// The revision at which the leader's key was created.
    created: Revision,
    /// The one at which it was last written.
    modified: Revision,
    lease: LeaseId,
}

/// A group's SAs as the store had them.
struct SasRead {
    entries: Vec<KeyValue>,
    /// How many more are sealed by a cluster key that this member lacks.
    locked: usize,
}

/// A group.
#[derive(Debug)]
pub(super) struct MemberGroup {
    index: usize,
    config: GroupConfig,
    key: String,
    leader: Option<Leader>,
    step: Step,
    /// Whether the store may have executed, or may yet execute, a request whose answer was lost.
    is_unsure: bool,
    /// When it may be tried to lead it, if no member seems to.
    free_at_ns: Option<u64>,
    /// When it is given to a member that ranks before this one, if there is one.
    give_at_ns: Option<u64>,
    /// How often it was given away and not taken.
    given: u32,
    /// Whether it was given away, and no member was seen to lead it since.
    is_given: bool,
    /// When the next request may be made.
    due_ns: u64,
    /// SAs that were found to be sealed by a cluster key that this member lacks.
    locked: usize,
}

impl MemberGroup {
    pub(super) fn new(index: usize, config: GroupConfig, keys: &Keys) -> Self {
        let key = keys.leader(&config.name);
        Self {
            index,
            config,
            key,
            leader: None,
            step: Step::Rest,
            is_unsure: false,
            free_at_ns: None,
            give_at_ns: None,
            given: 0,
            is_given: false,
            due_ns: 0,
            locked: 0,
        }
    }

    /// Whether the store has nothing of this member in this group, and will not get it.
    pub(super) fn is_idle(&self) -> bool {
        self.leader.is_none() && !self.is_unsure && matches!(self.step, Step::Rest)
    }

    /// Makes the next request, if one is due.
    pub(super) fn proceed(&mut self, ctx: &mut Context<'_>) {
        self.obey(ctx);
        if !matches!(self.step, Step::Rest) || ctx.now.monotonic_ns < self.due_ns {
            return;
        }
        if self.is_unsure {
            return self.look(ctx);
        }
        let Some(leader) = &mut self.leader else { return self.contend(ctx) };
        if let Some((batch, changes)) = leader.batch(&self.config.name, ctx.keys) {
            self.ask(Step::Writing(batch), changes, ctx);
        } else if leader.phase == Phase::Stopped {
            self.ask(Step::Removing, Changes { deletes: vec![self.key.clone()], puts: Vec::new() }, ctx);
        }
    }

    /// Compares with what the watch said, with whether the member drains, and with other ranks.
    fn obey(&mut self, ctx: &mut Context<'_>) {
        let Some(leader) = &mut self.leader else { return };
        let seen = ctx.leaders.get(&self.key);
        if ctx.leaders.is_fresh() && seen.is_none_or(|seen| seen.created > leader.term) {
            return self.end(ctx.out);
        }
        if leader.phase != Phase::Serving {
            return;
        }
        if ctx.is_draining || self.is_outranked(ctx) {
            self.is_given = !ctx.is_draining;
            self.give_at_ns = None;
            if let Some(leader) = &mut self.leader {
                leader.phase = Phase::Stopping;
            }
            ctx.out.push(Output::Order(MemberOrder::StepDown { group: self.config.name.clone() }));
        }
    }

    /// Whether another member has ranked before this one for so long that it is given the group.
    fn is_outranked(&mut self, ctx: &Context<'_>) -> bool {
        let Some(after_ns) = ctx.config.rebalance_ns else { return false };
        if !ctx.members.is_fresh() || self.rank(ctx) == 0 {
            self.give_at_ns = None;
            return false;
        }
        let after_ns = after_ns << self.given.min(MOST_DOUBLED);
        *self.give_at_ns.get_or_insert(ctx.now.monotonic_ns + after_ns) <= ctx.now.monotonic_ns
    }

    /// Tries to lead the group if no member does, after those of lower rank.
    fn contend(&mut self, ctx: &mut Context<'_>) {
        let (Some(lease), true) = (ctx.lease, ctx.is_candidate) else {
            // A key that was created by a request that had been given up is not left behind.
            self.is_unsure = ctx.leaders.get(&self.key).is_some_and(|seen| self.is_own(seen, ctx));
            self.free_at_ns = None;
            if self.is_unsure {
                self.look(ctx);
            }
            return;
        };
        if let Some(seen) = ctx.leaders.get(&self.key) {
            self.free_at_ns = None;
            if self.is_own(seen, ctx) {
                self.look(ctx);
            } else {
                (self.given, self.is_given) = (0, false);
            }
            return;
        }
        let given_ns = if self.is_given { GIVEN_NS } else { 0 };
        let wait_ns = || RANK_NS * self.rank(ctx) as u64 + given_ns;
        let free_at_ns = self.free_at_ns.unwrap_or_else(|| ctx.now.monotonic_ns + wait_ns());
        self.free_at_ns = Some(free_at_ns);
        if free_at_ns <= ctx.now.monotonic_ns {
            self.create(lease, ctx);
        }
    }

    fn is_own(&self, entry: &KeyValue, ctx: &Context<'_>) -> bool {
        ctx.lease.is_some_and(|lease| entry.value == election::leader(&ctx.config.name, lease))
    }

    fn rank(&self, ctx: &Context<'_>) -> usize {
        let registered = ctx.members.iter();
        let others =
            registered.filter_map(|(name, value)| Some((name, election::Registration::decode(value)?)));
        let willing =
            others.filter(|(_, other)| !other.is_draining).map(|(name, other)| (name, other.priority));
        election::rank(&self.config.name, &ctx.config.name, ctx.config.priority, willing)
    }

    fn create(&mut self, lease: LeaseId, ctx: &mut Context<'_>) {
        let puts = vec![(self.key.clone(), election::leader(&ctx.config.name, lease), Some(lease))];
        let guard = Some(Condition { key: self.key.clone(), modified: 0 });
        let read = Some(ctx.keys.group(&self.config.name));
        self.step = Step::Creating(lease);
        let request = Call::Transact { guard, deletes: Vec::new(), puts, read };
        ctx.calls.ask(Purpose::Group(self.index), request, ctx.out);
    }

    fn look(&mut self, ctx: &mut Context<'_>) {
        self.step = Step::Looking;
        let read = Some(self.key.clone());
        let request = Call::Transact { guard: None, deletes: Vec::new(), puts: Vec::new(), read };
        ctx.calls.ask(Purpose::Group(self.index), request, ctx.out);
    }

    /// Asks for changes in this term.
    fn ask(&mut self, step: Step, Changes { deletes, puts }: Changes, ctx: &mut Context<'_>) {
        self.step = step;
        let modified = self.leader.as_ref().map_or(0, |leader| leader.modified);
        let guard = Some(Condition { key: self.key.clone(), modified });
        let request = Call::Transact { guard, deletes, puts, read: None };
        ctx.calls.ask(Purpose::Group(self.index), request, ctx.out);
    }

    pub(super) fn answered(&mut self, answer: StoreAnswer, locked: usize, ctx: &mut Context<'_>) {
        let step = std::mem::take(&mut self.step);
        let StoreAnswer::Transacted { is_done, revision, read } = answer else {
            return self.refused(step, ctx.now.monotonic_ns);
        };
        match step {
            Step::Rest => {}
            Step::Creating(lease) if is_done && ctx.lease == Some(lease) => {
                let term = BegunTerm { created: revision, modified: revision, lease };
                self.lead(&term, SasRead { entries: read, locked }, ctx);
            }
            Step::Creating(_) => self.is_unsure = true,
            Step::Looking => self.looked(read, revision, ctx),
            Step::Taking { lease, created } if is_done && ctx.lease == Some(lease) => {
                self.is_unsure = false;
                match &mut self.leader {
                    Some(leader) => leader.modified = revision,
                    None => {
                        let term = BegunTerm { created, modified: revision, lease };
                        self.lead(&term, SasRead { entries: read, locked }, ctx);
                    }
                }
            }
            Step::Taking { .. } => self.is_unsure = true,
            Step::Writing(_) | Step::Removing if !is_done => self.end(ctx.out),
            Step::Writing(batch) => {
                if let Some(leader) = &mut self.leader {
                    leader.written(batch, &self.config.name, ctx.out);
                }
            }
            Step::Removing => {
                self.leader = None;
                if self.locked > 0 {
                    self.due_ns = ctx.now.monotonic_ns + LOCKED_NS;
                }
                ctx.leaders.delete(&self.key, revision);
            }
        }
    }

    /// A request was not executed, and is made again after a while.
    fn refused(&mut self, step: Step, now_ns: u64) {
        self.due_ns = now_ns + RETRY_NS;
        if let (Step::Writing(batch), Some(leader)) = (step, &mut self.leader) {
            leader.restore(batch);
        }
    }

    /// Nobody knows whether the open request is executed, now or later.
    pub(super) fn lost(&mut self, now_ns: u64) {
        let step = std::mem::take(&mut self.step);
        if !matches!(step, Step::Rest) {
            self.is_unsure = true;
            self.refused(step, now_ns);
        }
    }

    /// The leader's key was read: this member leads if it has its name and its lease.
    fn looked(&mut self, read: Vec<KeyValue>, revision: Revision, ctx: &mut Context<'_>) {
        let seen = read.into_iter().find(|entry| entry.key == self.key);
        match &seen {
            Some(entry) => ctx.leaders.put(entry.clone()),
            None => ctx.leaders.delete(&self.key, revision),
        }
        let own = seen.filter(|entry| self.is_own(entry, ctx));
        let term = self.leader.as_ref().map(|leader| leader.term);
        if term.is_some_and(|term| own.as_ref().is_none_or(|own| own.created != term)) {
            self.end(ctx.out);
        }
        self.is_unsure = own.is_some();
        if let (Some(KeyValue { value, created, modified, .. }), Some(lease)) = (own, ctx.lease) {
            let guard = Some(Condition { key: self.key.clone(), modified });
            let read = self.leader.is_none().then(|| ctx.keys.group(&self.config.name));
            let puts = vec![(self.key.clone(), value, Some(lease))];
            self.step = Step::Taking { lease, created };
            let request = Call::Transact { guard, deletes: Vec::new(), puts, read };
            ctx.calls.ask(Purpose::Group(self.index), request, ctx.out);
        }
    }

    /// A term begins. A member that drains only removes the key again, and so does one that cannot
    /// open the SAs of the group, as it would begin them again.
    fn lead(&mut self, begun: &BegunTerm, read: SasRead, ctx: &mut Context<'_>) {
        let BegunTerm { created: term, modified, lease } = *begun;
        let SasRead { entries, locked } = read;
        let value = election::leader(&ctx.config.name, lease);
        ctx.leaders.put(KeyValue { key: self.key.clone(), value, created: term, modified });
        self.free_at_ns = None;
        self.given += u32::from(std::mem::take(&mut self.is_given));
        self.locked = locked;
        let phase = if ctx.is_draining || locked > 0 { Phase::Stopped } else { Phase::Serving };
        let rules = ctx.config.rules(self.config.replay);
        let mut leader = Leader::new(term, modified, rules, phase);
        if phase == Phase::Serving {
            let group = self.config.name.clone();
            let TakenOver { sas, unreadable } = leader.take_over(&group, entries, ctx.keys, ctx.now, ctx.ivs);
            ctx.out.push(Output::Order(MemberOrder::Lead { group, term, sas, unreadable }));
        }
        self.leader = Some(leader);
    }

    /// The term has ended, whatever the member wants.
    pub(super) fn end(&mut self, out: &mut Vec<Output>) {
        self.give_at_ns = None;
        if self.leader.take().is_some() {
            out.push(Output::Order(MemberOrder::StepDown { group: self.config.name.clone() }));
        }
    }

    /// Ends the term, and forgets what was asked for: the store is not trusted any more.
    pub(super) fn abandon(&mut self, out: &mut Vec<Output>) {
        self.end(out);
        (self.step, self.is_unsure) = (Step::Rest, false);
    }

    pub(super) fn report(&mut self, term: Revision, event: GroupEvent, ivs: &mut IvClock, now_ns: u64) {
        if let Some(leader) = self.leader.as_mut().filter(|leader| leader.term == term) {
            leader.report(event, ivs, now_ns);
        }
    }

    /// The group for anyone who looks at it.
    pub(super) fn status(&self, leaders: &StoreTable) -> GroupStatus {
        let leader = leaders.get(&self.key).map(|seen| election::leader_name(&seen.value));
        let led = self.leader.as_ref().filter(|leader| leader.phase == Phase::Serving).map(Leader::status);
        GroupStatus { name: self.config.name.clone(), leader, led, locked: self.locked }
    }

    pub(super) fn wake_ns(&self) -> impl Iterator<Item = u64> + use<> {
        [Some(self.due_ns), self.free_at_ns, self.give_at_ns].into_iter().flatten()
    }
}
