//! The configuration that a cluster shares, for commands that read and write it.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use convoy_cluster::messages::StoreAccess;
use convoy_cluster::seal::ClusterKey;
use convoy_cluster::{
    Call, Condition, KeyValue, Keys, LeaseId, Revision, SharedText, SharedTextError, StoreAnswer, StoreEvent,
};
use convoy_config::ClusterConfig;
use convoy_process::wall_ns;
use zeroize::Zeroizing;

use super::store_line::StoreLine;
use super::{ClusterError, begin, etcd_version};

/// How long the store may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take for one request, in ms.
const REQUEST_TIMEOUT_MS: u64 = 2_000;
/// The longest text in bytes; etcd takes requests of up to 1.5 MiB, and each has it twice.
const LONGEST: usize = 700_000;

type Put = (String, Vec<u8>, Option<LeaseId>);

/// A connection to the store for one command.
pub struct ConfigStore {
    store: StoreLine,
    events: Receiver<StoreEvent<u64>>,
    keys: Keys,
    key: ClusterKey,
    member: String,
}

impl ConfigStore {
    /// Reads the cluster's files and begins to connect.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn open(config: &ClusterConfig) -> Result<Self, ClusterError> {
        let begin = begin(config)?;
        let key = ClusterKey::parse(&begin.secret)
            .map_err(|error| ClusterError::Key(format!("{}: {error}", config.secret.display())))?;
        let (endpoints, tls) = (begin.endpoints, begin.tls);
        let access = StoreAccess { endpoints, tls, request_timeout_ms: REQUEST_TIMEOUT_MS };
        let (store, events) = StoreLine::open(access)?;
        let keys = Keys::new(&begin.cluster);
        Ok(Self { store, events, keys, key, member: begin.member })
    }

    /// What is wrong with the store's version, if anything is.
    ///
    /// # Errors
    /// [`ClusterError::Store`] if it cannot be reached.
    pub fn version_warning(&self) -> Result<Option<String>, ClusterError> {
        let until = Instant::now() + TIMEOUT;
        let mut why = "no answer".to_owned();
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(StoreEvent::Connected { version, .. }) => return Ok(etcd_version::warning(&version)),
                Ok(StoreEvent::Lost { reason }) => why = reason,
                Ok(StoreEvent::Answered(..) | StoreEvent::Changed(_)) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    return Err(ClusterError::Store(format!("the store cannot be reached: {why}")));
                }
            }
        }
    }

    /// The latest version, and the revision at which it was written.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn current(&self) -> Result<Option<(SharedText, Revision)>, ClusterError> {
        let key = self.keys.config();
        let found = self.read(key.clone())?.into_iter().find(|found| found.key == key);
        found.map(|found| Ok((self.opened(&found)?, found.modified))).transpose()
    }

    /// All versions, the first one first.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub fn versions(&self) -> Result<Vec<SharedText>, ClusterError> {
        let found = self.read(self.keys.config_versions())?;
        found.iter().map(|found| self.opened(found)).collect()
    }

    /// Makes a text the latest version; returns its number.
    ///
    /// # Errors
    /// [`ClusterError`]; also if somebody else has put another version since it was looked at.
    pub fn put(&self, text: Zeroizing<String>) -> Result<u64, ClusterError> {
        if text.len() > LONGEST {
            let what = format!("it has {} bytes; a cluster shares at most {LONGEST}", text.len());
            return Err(ClusterError::Store(what));
        }
        let (version, modified) = self.current()?.map_or((0, 0), |(text, at)| (text.version, at));
        let version = version + 1;
        let time_s = wall_ns() / 1_000_000_000;
        let value = SharedText { version, time_s, by: self.member.clone(), text };
        let bytes = Zeroizing::new(serde_json::to_vec(&value).expect("text and numbers are written"));
        let sealed = |key: String| -> Put {
            let value = self.key.seal(&key, &bytes);
            (key, value, None)
        };
        let puts = vec![sealed(self.keys.config()), sealed(self.keys.config_version(version))];
        let guard = Some(Condition { key: self.keys.config(), modified });
        match self.ask(Call::Transact { guard, deletes: Vec::new(), puts, read: None })? {
            StoreAnswer::Transacted { is_done: true, .. } => Ok(version),
            _ => {
                Err(ClusterError::Store("another version was put meanwhile; look at it and try again".into()))
            }
        }
    }

    fn opened(&self, found: &KeyValue) -> Result<SharedText, ClusterError> {
        let failed = |error: SharedTextError| ClusterError::Store(format!("{}: {error}", found.key));
        SharedText::open(&self.key, found).map_err(failed)
    }

    fn read(&self, prefix: String) -> Result<Vec<KeyValue>, ClusterError> {
        let read = Call::Transact { guard: None, deletes: Vec::new(), puts: Vec::new(), read: Some(prefix) };
        match self.ask(read)? {
            StoreAnswer::Transacted { read, .. } => Ok(read),
            _ => Ok(Vec::new()),
        }
    }

    /// Asks until there is an answer. A request whose outcome is unknown is not made again.
    fn ask(&self, request: Call) -> Result<StoreAnswer, ClusterError> {
        let until = Instant::now() + TIMEOUT;
        let failed = |why: String| Err(ClusterError::Store(format!("the store cannot be reached: {why}")));
        let mut why = "no answer".to_owned();
        self.store.ask(0, request.clone());
        loop {
            match self.events.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(StoreEvent::Answered(_, StoreAnswer::Refused { reason })) => {
                    why = reason;
                    std::thread::sleep(Duration::from_millis(50));
                    if Instant::now() >= until {
                        return failed(why);
                    }
                    self.store.ask(0, request.clone());
                }
                Ok(StoreEvent::Answered(_, answer)) => return Ok(answer),
                Ok(StoreEvent::Lost { reason }) => why = reason,
                Ok(StoreEvent::Connected { .. } | StoreEvent::Changed(_)) => {}
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return failed(why),
            }
        }
    }
}
