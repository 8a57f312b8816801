//! A group that this member leads: its SAs, and what of them the store must know next.

use std::collections::BTreeMap;

use convoy_reservation::{IvClock, LedgerSummary, Reservation, ReserveRules, Resume, SaLedger, Used, Write};

use super::config::{MemberConfig, Replay};
use super::{Now, Output};
use crate::fingerprint::SaFingerprint;
use crate::keys::{Keys, Part};
use crate::orders::{GroupEvent, MemberOrder, StoredSa};
use crate::record::Record;
use crate::status::LedStatus;
use crate::store::{KeyValue, LeaseId, Revision};

/// Operations of a transaction: etcd's limit.
const MOST_OPERATIONS: usize = 128;
/// A transaction that has this many bytes takes no more; etcd's limit is 1.5 MiB.
const ENOUGH_BYTES: usize = 1 << 20;

/// How far a term has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Serving,
    /// The gateway was ordered to stop.
    Stopping,
    /// The gateway has stopped: its last numbers are exact.
    Stopped,
}

/// A group's SAs in a term.
#[derive(Debug)]
pub(super) struct Leader {
    pub(super) term: Revision,
    /// The last change of the leader's key, by which writes are guarded.
    pub(super) modified: Revision,
    pub(super) phase: Phase,
    ledger: SaLedger<SaFingerprint>,
    /// Records that the store must get.
    records: BTreeMap<SaFingerprint, Record>,
}

/// What a transaction writes.
#[derive(Debug)]
pub(super) struct WriteBatch(Vec<BatchItem>);

#[derive(Debug)]
struct BatchItem {
    write: Write<SaFingerprint>,
    record: Option<Record>,
}

/// A transaction's changes.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) deletes: Vec<String>,
    pub(super) puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
}

/// What the store has of a group at the beginning of a term.
#[derive(Debug)]
pub(super) struct TakenOver {
    pub(super) sas: Vec<StoredSa>,
    /// SAs of which the record or the reservation cannot be read.
    pub(super) unreadable: Vec<SaFingerprint>,
}

impl Leader {
    pub(super) fn new(term: Revision, modified: Revision, rules: ReserveRules, phase: Phase) -> Self {
        Self { term, modified, phase, ledger: SaLedger::new(rules), records: BTreeMap::new() }
    }

    /// Begins with what the store has of a group, of which these keys were read.
    pub(super) fn take_over(
        &mut self,
        group: &str,
        read: Vec<KeyValue>,
        keys: &Keys,
        now: Now,
        ivs: &mut IvClock,
    ) -> TakenOver {
        let mut found: BTreeMap<SaFingerprint, (Option<Record>, Option<Reservation>)> = BTreeMap::new();
        for KeyValue { key, value, .. } in read {
            match keys.part(group, &key) {
                // What could not be opened is empty.
                Some(Part::Record(sa)) => {
                    found.entry(sa).or_default().0 = (!value.is_empty()).then(|| Record::from(value));
                }
                Some(Part::Reservation(sa)) => found.entry(sa).or_default().1 = Reservation::decode(&value),
                None => {}
            }
        }
        let (mut sas, mut unreadable) = (Vec::new(), Vec::new());
        let before = *ivs;
        for (sa, parts) in found {
            let (Some(record), Some(stored)) = parts else {
                unreadable.push(sa);
                continue;
            };
            let iv_start = before.begin(now.wall_ns, &stored);
            let start =
                self.ledger.resume(sa, &Resume { stored, iv_start, last: u64::MAX }, now.monotonic_ns);
            self.pass(sa, ivs);
            sas.push(StoredSa { sa, record, used: start.used, iv_start });
        }
        TakenOver { sas, unreadable }
    }

    /// All IVs that an SA has reserved may be used.
    fn pass(&self, sa: SaFingerprint, ivs: &mut IvClock) {
        self.ledger.wanted(sa).into_iter().for_each(|wanted| ivs.pass(wanted));
    }

    /// Takes note of what the gateway reports in this term.
    pub(super) fn report(&mut self, event: GroupEvent, ivs: &mut IvClock, now_ns: u64) {
        match event {
            _ if self.phase == Phase::Stopped => {}
            GroupEvent::Put { sa, record, reservation } => {
                ivs.pass(&reservation);
                self.records.insert(sa, record);
                if self.ledger.has(sa) {
                    self.ledger.enqueue(sa);
                } else {
                    self.ledger.add(sa, reservation, now_ns);
                }
            }
            GroupEvent::Remove { sa } => self.ledger.remove(sa),
            GroupEvent::Progress { sa, used } => {
                self.ledger.report(sa, used, now_ns);
                self.pass(sa, ivs);
            }
            GroupEvent::Stopped { sas } => {
                if self.phase == Phase::Stopping {
                    self.stopped(&sas);
                }
            }
        }
    }

    fn stopped(&mut self, sas: &[(SaFingerprint, Used)]) {
        self.phase = Phase::Stopped;
        sas.iter().for_each(|(sa, used)| self.ledger.close(*sa, *used));
    }

    /// The group for anyone who looks at it.
    pub(super) fn status(&self) -> LedStatus {
        let LedgerSummary { sas, waiting, least_to_send, least_to_accept } = self.ledger.summary();
        LedStatus { term: self.term, sas, waiting, least_to_send, least_to_accept }
    }

    /// The next transaction, if there is something to write.
    pub(super) fn batch(&mut self, group: &str, keys: &Keys) -> Option<(WriteBatch, Changes)> {
        let (mut items, mut changes, mut bytes) = (Vec::new(), Changes::default(), 0);
        while changes.count() + 2 <= MOST_OPERATIONS && bytes < ENOUGH_BYTES {
            let Some(write) = self.ledger.next_write() else { break };
            let record = self.records.remove(&write.sa);
            changes.add(group, keys, &write, record.as_deref());
            bytes += record.as_ref().map_or(0, |record| record.len());
            items.push(BatchItem { write, record });
        }
        if items.is_empty() {
            return None;
        }
        self.ledger.adapt();
        Some((WriteBatch(items), changes))
    }

    /// The store has executed a transaction.
    pub(super) fn written(&mut self, WriteBatch(items): WriteBatch, group: &str, out: &mut Vec<Output>) {
        for BatchItem { write, .. } in items {
            let limits = self.ledger.written(&write).filter(|_| self.phase == Phase::Serving);
            out.extend(limits.map(|limits| {
                Output::Order(MemberOrder::Granted { group: group.to_owned(), sa: write.sa, limits })
            }));
        }
    }

    /// A transaction was not executed, or perhaps not: it is to be written again, or what is newer.
    pub(super) fn restore(&mut self, WriteBatch(items): WriteBatch) {
        for BatchItem { write, record } in items {
            if self.ledger.failed(&write)
                && let Some(record) = record
            {
                self.records.entry(write.sa).or_insert(record);
            }
        }
    }
}

impl Changes {
    fn count(&self) -> usize {
        self.deletes.len() + self.puts.len()
    }

    fn add(&mut self, group: &str, keys: &Keys, write: &Write<SaFingerprint>, record: Option<&[u8]>) {
        let sa = write.sa;
        let Some(reservation) = write.reservation else {
            return self.deletes.extend([keys.record(group, sa), keys.reservation(group, sa)]);
        };
        self.puts.extend(record.map(|record| (keys.record(group, sa), record.to_vec(), None)));
        self.puts.push((keys.reservation(group, sa), reservation.encode().to_vec(), None));
    }
}

impl MemberConfig {
    /// How a group's numbers are reserved.
    pub(super) fn rules(&self, replay: Replay) -> ReserveRules {
        ReserveRules { outbound: self.outbound, inbound: (replay == Replay::Strict).then_some(self.inbound) }
    }
}
