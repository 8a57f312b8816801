//! A group that this member leads: its SAs, and what of them the store must know next.

use std::collections::{BTreeMap, VecDeque};

use super::config::{MemberConfig, Replay};
use super::{Now, Output};
use crate::ivs::IvClock;
use crate::keys::{Keys, Part};
use crate::marks::{Marks, Reserve, SaId};
use crate::orders::{Event, Order, Taken};
use crate::record::Record;
use crate::status::LedStatus;
use crate::store::{KeyValue, LeaseId, Revision};

/// Operations of a transaction: etcd's limit.
const MOST_OPERATIONS: usize = 128;
/// A transaction that has this many bytes takes no more; etcd's limit is 1.5 MiB.
const ENOUGH_BYTES: usize = 1 << 20;
/// SAs that wait for the store behind a transaction from which on inbound reserves grow.
const BACKLOG: usize = 4 * MOST_OPERATIONS;
/// How much inbound reserves may grow.
const MOST_SLACK: u32 = 64;

/// How far a term has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// The gateway was ordered to stop.
    Stopping,
    /// The gateway has stopped: the marks are exact.
    Stopped,
}

#[derive(Debug)]
struct Sa {
    /// Its record, if the store must get it.
    record: Option<Record>,
    wanted: Marks,
    /// The marks in the store, as far as it has answered.
    written: Marks,
    /// The last numbers that were reported.
    used: Marks,
    outbound: Reserve,
    inbound: Reserve,
    is_removed: bool,
    is_queued: bool,
    is_in_flight: bool,
}

/// A group's SAs in a term.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) term: Revision,
    /// The last change of the leader's key, by which writes are guarded.
    pub(super) modified: Revision,
    pub(super) phase: Phase,
    replay: Replay,
    sas: BTreeMap<SaId, Sa>,
    queue: VecDeque<SaId>,
    /// How much longer inbound reserves are than they should be, as the store does not keep up.
    slack: u32,
    /// Whether the marks with which the term began are not all written yet.
    is_settling: bool,
}

/// What a transaction writes.
#[derive(Debug)]
pub(super) struct Batch(Vec<Item>);

#[derive(Debug)]
struct Item {
    sa: SaId,
    record: Option<Record>,
    /// `None` if the SA is removed.
    marks: Option<Marks>,
}

/// A transaction's changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) deletes: Vec<String>,
    pub(super) puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
}

impl Leader {
    pub(super) fn new(term: Revision, modified: Revision, replay: Replay, phase: Phase) -> Self {
        Self {
            term,
            modified,
            phase,
            replay,
            sas: BTreeMap::new(),
            queue: VecDeque::new(),
            slack: 1,
            is_settling: true,
        }
    }

    /// Begins with what the store has of a group: how, and which SAs are unreadable.
    pub(super) fn take_over(
        &mut self,
        (group, read): (&str, Vec<KeyValue>),
        (keys, config): (&Keys, &MemberConfig),
        (now, ivs): (Now, &mut IvClock),
    ) -> (Vec<Taken>, Vec<SaId>) {
        let mut found: BTreeMap<SaId, (Option<Record>, Option<Marks>)> = BTreeMap::new();
        for KeyValue { key, value, .. } in read {
            match keys.part(group, &key) {
                // What could not be opened is empty.
                Some(Part::Record(sa)) => {
                    found.entry(sa).or_default().0 = (!value.is_empty()).then(|| Record::from(value));
                }
                Some(Part::Marks(sa)) => found.entry(sa).or_default().1 = Marks::decode(&value),
                None => {}
            }
        }
        let (mut taken, mut unreadable) = (Vec::new(), Vec::new());
        let before = *ivs;
        for (sa, parts) in found {
            let (Some(record), Some(marks)) = parts else {
                unreadable.push(sa);
                continue;
            };
            let iv_start = before.begin(now.wall_ns, &marks);
            taken.push(self.take(sa, record, (marks, iv_start), config, now.monotonic_ns));
            self.sas.get(&sa).into_iter().for_each(|sa| ivs.pass(&sa.wanted));
        }
        (taken, unreadable)
    }

    fn take(
        &mut self,
        sa: SaId,
        record: Record,
        (marks, iv_start): (Marks, u64),
        config: &MemberConfig,
        now_ns: u64,
    ) -> Taken {
        let accepted = match self.replay {
            Replay::Strict => marks.ceiling,
            Replay::Checkpoint => marks.received,
        };
        let wanted = Marks {
            sent: marks.sent.saturating_add(config.outbound.first),
            ceiling: self.ceiling(accepted.saturating_add(config.inbound.first)),
            received: accepted,
            iv_start,
        };
        let (outbound, inbound) = (Reserve::new(marks.sent, now_ns), Reserve::of_peer(accepted, now_ns));
        self.insert(sa, Sa { outbound, inbound, ..Sa::new(None, wanted, marks) });
        Taken { sa, record, sent: marks.sent, accepted, iv_start }
    }

    /// The ceiling to be written: without strictness there is none.
    fn ceiling(&self, ceiling: u64) -> u64 {
        if self.replay == Replay::Strict { ceiling } else { u64::MAX }
    }

    fn insert(&mut self, id: SaId, sa: Sa) {
        self.sas.insert(id, sa);
        self.enqueue(id);
    }

    fn enqueue(&mut self, id: SaId) {
        if let Some(sa) = self.sas.get_mut(&id).filter(|sa| !sa.is_queued) {
            sa.is_queued = true;
            self.queue.push_back(id);
        }
    }

    /// Has an SA that waits for the store written next; its former place in the queue is passed
    /// over.
    fn hurry(&mut self, id: SaId) {
        if self.sas.get(&id).is_some_and(|sa| sa.is_queued) {
            self.queue.push_front(id);
        }
    }

    /// Takes note of what the gateway reports in this term.
    pub(super) fn report(&mut self, event: Event, (config, ivs): (&MemberConfig, &mut IvClock), now_ns: u64) {
        match event {
            _ if self.phase == Phase::Stopped => {}
            Event::Put { sa, record, marks } => {
                ivs.pass(&marks);
                self.put(sa, record, marks, now_ns);
            }
            Event::Remove { sa } => {
                if let Some(known) = self.sas.get_mut(&sa) {
                    known.is_removed = true;
                    self.enqueue(sa);
                }
            }
            Event::Progress { sa, sent, seen } => {
                self.progress(sa, sent, seen, config, now_ns);
                self.sas.get(&sa).into_iter().for_each(|sa| ivs.pass(&sa.wanted));
            }
            Event::Stopped { sas } => {
                if self.phase == Phase::Stopping {
                    self.stopped(&sas);
                }
            }
        }
    }

    fn put(&mut self, id: SaId, record: Record, marks: Marks, now_ns: u64) {
        if let Some(known) = self.sas.get_mut(&id).filter(|known| !known.is_removed) {
            known.record = Some(record);
            return self.enqueue(id);
        }
        let wanted = Marks { ceiling: self.ceiling(marks.ceiling), ..marks };
        let is_queued = self.sas.get(&id).is_some_and(|old| old.is_queued);
        let (outbound, inbound) = (Reserve::new(0, now_ns), Reserve::of_peer(marks.received, now_ns));
        self.insert(
            id,
            Sa { outbound, inbound, is_queued, ..Sa::new(Some(record), wanted, Marks::default()) },
        );
    }

    fn progress(&mut self, id: SaId, sent: u64, seen: u64, config: &MemberConfig, now_ns: u64) {
        let Some(sa) = self.sas.get_mut(&id) else { return };
        (sa.used.sent, sa.used.received) = (sent, seen);
        sa.wanted.received = sa.wanted.received.max(seen);
        let sent_until = sa.outbound.extend(&config.outbound, sa.wanted.sent, sent, now_ns);
        sa.wanted.sent = sent_until.unwrap_or(sa.wanted.sent);
        let inbound = config.inbound.times(self.slack);
        let ceiling = sa.inbound.extend(&inbound, sa.wanted.ceiling, seen, now_ns);
        sa.wanted.ceiling = ceiling.unwrap_or(sa.wanted.ceiling);
        let is_checkpoint = self.replay == Replay::Checkpoint && sa.wanted.received > sa.written.received;
        // Packets of the peer wait for this one.
        let is_urgent = seen > sa.written.ceiling;
        if sent_until.is_some() || ceiling.is_some() || is_checkpoint {
            self.enqueue(id);
        }
        if is_urgent {
            self.hurry(id);
        }
    }

    fn stopped(&mut self, sas: &[(SaId, u64, u64)]) {
        self.phase = Phase::Stopped;
        for (id, sent, received) in sas {
            if let Some(sa) = self.sas.get_mut(id) {
                sa.wanted = Marks { sent: *sent, ceiling: *received, received: *received, ..sa.wanted };
                self.enqueue(*id);
            }
        }
    }

    /// The group for anyone who looks at it.
    pub(super) fn status(&self) -> LedStatus {
        let all = || self.sas.values().filter(|sa| !sa.is_removed);
        let is_bounded = |sa: &&Sa| sa.written.ceiling != u64::MAX;
        let to_send = |sa: &Sa| sa.written.sent.saturating_sub(sa.used.sent);
        let to_accept = |sa: &Sa| sa.written.ceiling.saturating_sub(sa.used.received);
        LedStatus {
            term: self.term,
            sas: all().count(),
            waiting: self.sas.values().filter(|sa| sa.is_queued || sa.is_in_flight).count(),
            least_to_send: all().map(to_send).min(),
            least_to_accept: all().filter(is_bounded).map(to_accept).min(),
        }
    }

    /// The next transaction, if there is something to write.
    pub(super) fn batch(&mut self, group: &str, keys: &Keys) -> Option<(Batch, Changes)> {
        let (mut items, mut changes, mut bytes) = (Vec::new(), Changes::default(), 0);
        while changes.count() + 2 <= MOST_OPERATIONS && bytes < ENOUGH_BYTES {
            let Some(id) = self.queue.pop_front() else { break };
            let Some(sa) = self.sas.get_mut(&id).filter(|sa| sa.is_queued) else { continue };
            (sa.is_queued, sa.is_in_flight) = (false, true);
            let (record, marks) = (sa.record.take(), (!sa.is_removed).then_some(sa.wanted));
            changes.add(group, keys, id, record.as_deref(), marks);
            bytes += record.as_ref().map_or(0, |record| record.len());
            items.push(Item { sa: id, record, marks });
        }
        if items.is_empty() {
            return None;
        }
        self.is_settling &= !self.queue.is_empty();
        // All SAs wait when a term begins, whatever their rates.
        if !self.is_settling {
            self.slack = slack(self.slack, self.queue.len());
        }
        Some((Batch(items), changes))
    }

    /// The store has executed a transaction.
    pub(super) fn written(&mut self, Batch(items): Batch, group: &str, out: &mut Vec<Output>) {
        for Item { sa: id, marks, .. } in items {
            // An SA that was put again after its removal knows nothing of this.
            let Some(sa) = self.sas.get_mut(&id).filter(|sa| sa.is_in_flight) else { continue };
            sa.is_in_flight = false;
            let Some(marks) = marks else {
                self.sas.remove(&id);
                continue;
            };
            sa.written = marks;
            if self.phase == Phase::Serving && !sa.is_removed {
                let (group, sent_until, accept_until) = (group.to_owned(), marks.sent, marks.ceiling);
                out.push(Output::Order(Order::Granted { group, sa: id, sent_until, accept_until }));
            }
            if sa.wanted.sent != marks.sent || sa.wanted.ceiling != marks.ceiling {
                self.enqueue(id);
            }
        }
    }

    /// A transaction was not executed, or perhaps not: it is to be written again, or what is newer.
    pub(super) fn restore(&mut self, Batch(items): Batch) {
        for Item { sa: id, record, .. } in items {
            let Some(sa) = self.sas.get_mut(&id).filter(|sa| sa.is_in_flight) else { continue };
            sa.is_in_flight = false;
            sa.record = sa.record.take().or(record);
            self.enqueue(id);
        }
    }
}

/// The slack when `waiting` SAs wait behind a transaction.
fn slack(before: u32, waiting: usize) -> u32 {
    match waiting {
        0 => (before / 2).max(1),
        waiting if waiting >= BACKLOG => (before * 2).min(MOST_SLACK),
        _ => before,
    }
}

impl Sa {
    fn new(record: Option<Record>, wanted: Marks, written: Marks) -> Self {
        let (outbound, inbound) = (Reserve::new(0, 0), Reserve::new(0, 0));
        let (is_removed, is_queued, is_in_flight) = (false, false, false);
        let used = Marks { sent: written.sent, received: written.received, ..Marks::default() };
        Self { record, wanted, written, used, outbound, inbound, is_removed, is_queued, is_in_flight }
    }
}

impl Changes {
    fn count(&self) -> usize {
        self.deletes.len() + self.puts.len()
    }

    fn add(&mut self, group: &str, keys: &Keys, sa: SaId, record: Option<&[u8]>, marks: Option<Marks>) {
        let Some(marks) = marks else {
            return self.deletes.extend([keys.record(group, sa), keys.marks(group, sa)]);
        };
        self.puts.extend(record.map(|record| (keys.record(group, sa), record.to_vec(), None)));
        self.puts.push((keys.marks(group, sa), marks.encode().to_vec(), None));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::marks::Span;

    #[test]
    fn reserves_grow_while_the_store_does_not_keep_up_and_shrink_again() {
        let mut now = 1;
        for _ in 0..10 {
            now = slack(now, BACKLOG);
        }
        assert_eq!(now, MOST_SLACK);
        assert_eq!((slack(now, 1), slack(now, 0), slack(1, 0)), (now, now / 2, 1));
        let longer = Span::INBOUND.times(MOST_SLACK);
        assert_eq!((longer.least, longer.time_ns), (4 * 64, 12_800_000_000));
    }
}
