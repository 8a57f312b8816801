//! A store and what it has reported.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use convoy_cluster::{Call, Condition, KeyValue, LeaseId, Revision, StoreAnswer, StoreChange, StoreEvent};
use convoy_cluster_agent::etcd::{Store, StoreConfig};

/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(60);

/// A key, its value and its lease.
pub(crate) type Put = (String, Vec<u8>, Option<LeaseId>);

/// What became of a call.
#[derive(Debug)]
pub(crate) enum End {
    Answered(StoreAnswer),
    Lost(String),
}

/// A transaction's answer.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) is_done: bool,
    pub(crate) revision: Revision,
    pub(crate) read: Vec<KeyValue>,
}

pub(crate) struct Client {
    store: Store<u64>,
    events: Receiver<StoreEvent<u64>>,
    last: u64,
    /// Changes that were not taken yet.
    pub(crate) changes: VecDeque<StoreChange>,
    pub(crate) is_connected: bool,
    /// Why the last session ended, or was not begun.
    pub(crate) last_loss: String,
}

impl Client {
    pub(crate) fn start(config: &StoreConfig) -> Result<Self> {
        let (sender, events) = channel();
        let store = Store::start(config.clone(), sender)?;
        let (changes, last_loss) = (VecDeque::new(), String::new());
        Ok(Self { store, events, last: 0, changes, is_connected: false, last_loss })
    }

    pub(crate) fn connected(config: &StoreConfig) -> Result<Self> {
        let mut client = Self::start(config)?;
        client.connect()?;
        Ok(client)
    }

    pub(crate) fn connect(&mut self) -> Result<()> {
        let until = Instant::now() + PATIENCE;
        while !self.is_connected {
            ensure!(Instant::now() < until, "not connected: {}", self.last_loss);
            self.next()?;
        }
        Ok(())
    }

    /// Waits for the next event; returns it if it ends calls.
    pub(crate) fn next(&mut self) -> Result<Option<StoreEvent<u64>>> {
        match self.events.recv_timeout(PATIENCE) {
            Ok(StoreEvent::Connected { .. }) => self.is_connected = true,
            Ok(StoreEvent::Changed(changes)) => self.changes.extend(changes),
            Ok(StoreEvent::Lost { reason }) => {
                (self.is_connected, self.last_loss) = (false, reason.clone());
                return Ok(Some(StoreEvent::Lost { reason }));
            }
            Ok(answered) => return Ok(Some(answered)),
            Err(RecvTimeoutError::Timeout) => bail!("no event within {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => bail!("the store's thread has ended"),
        }
        Ok(None)
    }

    pub(crate) fn ask(&mut self, call: Call) -> u64 {
        self.last += 1;
        self.store.ask(self.last, call);
        self.last
    }

    /// Makes a call and waits for its end.
    pub(crate) fn end(&mut self, call: Call) -> Result<End> {
        let id = self.ask(call);
        loop {
            match self.next()? {
                Some(StoreEvent::Answered(answered, answer)) if answered == id => {
                    return Ok(End::Answered(answer));
                }
                Some(StoreEvent::Lost { reason }) => return Ok(End::Lost(reason)),
                _ => {}
            }
        }
    }

    /// The answer of a call that must be answered.
    pub(crate) fn answer(&mut self, call: Call) -> Result<StoreAnswer> {
        match self.end(call)? {
            End::Answered(answer) => Ok(answer),
            End::Lost(reason) => bail!("lost: {reason}"),
        }
    }

    pub(crate) fn transact(
        &mut self,
        guard: Option<(&str, Revision)>,
        deletes: &[&str],
        puts: Vec<Put>,
        read: Option<&str>,
    ) -> Result<Done> {
        match self.answer(transaction(guard, deletes, puts, read))? {
            StoreAnswer::Transacted { is_done, revision, read } => Ok(Done { is_done, revision, read }),
            other => bail!("a transaction was answered by {other:?}"),
        }
    }

    pub(crate) fn refused(&mut self, call: Call) -> Result<String> {
        match self.answer(call)? {
            StoreAnswer::Refused { reason } => Ok(reason),
            other => bail!("not refused: {other:?}"),
        }
    }

    pub(crate) fn read(&mut self, prefix: &str) -> Result<Vec<KeyValue>> {
        Ok(self.transact(None, &[], Vec::new(), Some(prefix))?.read)
    }

    pub(crate) fn put(&mut self, key: &str, value: &[u8]) -> Result<Revision> {
        Ok(self.transact(None, &[], vec![put(key, value)], None)?.revision)
    }

    pub(crate) fn grant(&mut self, ttl_s: u32) -> Result<(LeaseId, u32)> {
        match self.answer(Call::Grant { ttl_s })? {
            StoreAnswer::Granted { lease, ttl_s } => Ok((lease, ttl_s)),
            other => bail!("a grant was answered by {other:?}"),
        }
    }

    pub(crate) fn keep_alive(&mut self, lease: LeaseId) -> Result<u32> {
        match self.answer(Call::KeepAlive { lease })? {
            StoreAnswer::KeptAlive { ttl_s } => Ok(ttl_s),
            other => bail!("keeping alive was answered by {other:?}"),
        }
    }

    pub(crate) fn watch(&mut self, prefix: &str, from: Revision) -> Result<()> {
        let answer = self.answer(Call::Watch { prefix: prefix.into(), from })?;
        ensure!(answer == StoreAnswer::Watching, "a watch was answered by {answer:?}");
        Ok(())
    }

    /// The next change that a watch reports.
    pub(crate) fn change(&mut self) -> Result<StoreChange> {
        while self.changes.is_empty() {
            if let Some(StoreEvent::Lost { reason }) = self.next()? {
                bail!("lost: {reason}");
            }
        }
        Ok(self.changes.pop_front().expect("there is one"))
    }
}

pub(crate) fn put(key: &str, value: &[u8]) -> Put {
    (key.to_owned(), value.to_vec(), None)
}

pub(crate) fn transaction(
    guard: Option<(&str, Revision)>,
    deletes: &[&str],
    puts: Vec<Put>,
    read: Option<&str>,
) -> Call {
    Call::Transact {
        guard: guard.map(|(key, modified)| Condition { key: key.into(), modified }),
        deletes: deletes.iter().map(|key| (*key).to_owned()).collect(),
        puts,
        read: read.map(str::to_owned),
    }
}
