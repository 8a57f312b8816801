//! What a member knows of the others: a table of their keys, and one of the groups' leaders. Both
//! may be behind the store; nothing but the order of attempts depends on them.

use std::collections::BTreeMap;

use super::calls::{Calls, Purpose};
use super::{Output, RETRY_NS};
use crate::store::{Call, KeyValue, Revision, StoreAnswer, StoreChange};

/// Which table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TableKind {
    Members,
    Leaders,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// It is read at this time.
    Unread(u64),
    Reading,
    /// It was read, and is watched from then on.
    Fresh,
}

/// All keys with a prefix.
#[derive(Debug)]
pub(super) struct StoreTable {
    kind: TableKind,
    prefix: String,
    state: ReadState,
    entries: BTreeMap<String, KeyValue>,
}

impl StoreTable {
    pub(super) fn new(kind: TableKind, prefix: String) -> Self {
        Self { kind, prefix, state: ReadState::Unread(0), entries: BTreeMap::new() }
    }

    pub(super) fn is_fresh(&self) -> bool {
        self.state == ReadState::Fresh
    }

    pub(super) fn get(&self, key: &str) -> Option<&KeyValue> {
        self.entries.get(key)
    }

    /// The names below the prefix, and their values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.entries.iter().map(|(key, entry)| (&key[self.prefix.len()..], &entry.value[..]))
    }

    pub(super) fn proceed(&mut self, now_ns: u64, calls: &mut Calls, out: &mut Vec<Output>) {
        if matches!(self.state, ReadState::Unread(due_ns) if due_ns <= now_ns) {
            self.state = ReadState::Reading;
            let read = Some(self.prefix.clone());
            let request = Call::Transact { guard: None, deletes: Vec::new(), puts: Vec::new(), read };
            calls.ask(Purpose::Read(self.kind), request, out);
        }
    }

    pub(super) fn read(
        &mut self,
        answer: StoreAnswer,
        now_ns: u64,
        calls: &mut Calls,
        out: &mut Vec<Output>,
    ) {
        let StoreAnswer::Transacted { revision, read, .. } = answer else { return self.retry(now_ns) };
        // What the member itself has put since then is newer.
        self.entries.retain(|_, entry| entry.modified > revision);
        read.into_iter().for_each(|entry| self.put(entry));
        self.state = ReadState::Fresh;
        let request = Call::Watch { prefix: self.prefix.clone(), from: revision + 1 };
        calls.ask(Purpose::Watch(self.kind), request, out);
    }

    pub(super) fn watching(&mut self, answer: &StoreAnswer, now_ns: u64) {
        if !matches!(answer, StoreAnswer::Watching) {
            self.retry(now_ns);
        }
    }

    /// Reads everything again after a while.
    pub(super) fn retry(&mut self, now_ns: u64) {
        self.state = ReadState::Unread(now_ns + RETRY_NS);
    }

    pub(super) fn apply(&mut self, change: &StoreChange) {
        match change {
            StoreChange::Put(entry) => self.put(entry.clone()),
            StoreChange::Delete { key, revision } => self.delete(key, *revision),
        }
    }

    /// Notes a key that was seen with this value, if it is of this table and news.
    pub(super) fn put(&mut self, entry: KeyValue) {
        let is_news = self.entries.get(&entry.key).is_none_or(|known| known.modified < entry.modified);
        if entry.key.starts_with(&self.prefix) && is_news {
            self.entries.insert(entry.key.clone(), entry);
        }
    }

    /// Notes that a key did not exist at a revision.
    pub(super) fn delete(&mut self, key: &str, revision: Revision) {
        if self.entries.get(key).is_some_and(|known| known.modified <= revision) {
            self.entries.remove(key);
        }
    }

    pub(super) fn wake_ns(&self) -> Option<u64> {
        match self.state {
            ReadState::Unread(due_ns) => Some(due_ns),
            _ => None,
        }
    }
}
