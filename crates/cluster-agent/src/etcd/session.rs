//! Sessions: one connection after the other, and the calls that are under way over it.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::time::Duration;

use convoy_cluster::{Call, LeaseId, Revision, StoreAnswer};
use etcd_client::{Client, ResponseHeader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::task::{AbortHandle, JoinSet};

use super::connection::EtcdConnection;
use super::outcome::CallFailure;
use super::{StoreConfig, StoreEvent, connection, lease, transaction, watch};

/// The pause after the first failure; each further one in a row doubles it.
const LEAST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Why calls are refused between sessions.
const NOT_CONNECTED: &str = "no endpoint is connected";
/// Why a session ends when its events have no receiver.
const GONE: &str = "the store's user has gone";

/// What the calls of a session share.
#[derive(Clone)]
pub(super) struct Shared<Id> {
    pub(super) client: Client,
    pub(super) request_timeout: Duration,
    events: Sender<StoreEvent<Id>>,
    /// The highest revision of the store that was seen.
    revision: Arc<AtomicU64>,
    /// Whether a call was answered, so that the connection is of use.
    is_useful: Arc<AtomicBool>,
}

/// A call that is under way: it ends with its answer, or with why the session must end.
pub(super) type PendingCall = Result<(), String>;

impl<Id> Shared<Id> {
    pub(super) fn report(&self, event: StoreEvent<Id>) -> PendingCall {
        self.events.send(event).map_err(|_| GONE.to_owned())
    }

    pub(super) fn answer(&self, id: Id, answer: StoreAnswer) -> PendingCall {
        self.is_useful.store(true, Ordering::Relaxed);
        self.report(StoreEvent::Answered(id, answer))
    }

    /// Waits for an answer of etcd, but not for ever.
    pub(super) async fn within<T>(
        &self,
        what: &str,
        answer: impl Future<Output = Result<T, etcd_client::Error>>,
    ) -> Result<T, CallFailure> {
        match tokio::time::timeout(self.request_timeout, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                Err(CallFailure::Unknown(format!("no answer to {what} within {:?}", self.request_timeout)))
            }
        }
    }

    /// Notes the store's revision at an answer, and returns it.
    pub(super) fn note(&self, header: Option<&ResponseHeader>) -> Revision {
        let revision = header.and_then(|header| u64::try_from(header.revision()).ok()).unwrap_or(0);
        self.revision.fetch_max(revision, Ordering::Relaxed);
        revision
    }

    /// The highest revision that was seen.
    pub(super) fn revision(&self) -> Revision {
        self.revision.load(Ordering::Relaxed)
    }
}

/// The store's thread: sessions until the callers are gone.
pub(super) async fn run<Id: Copy + Send + 'static>(
    config: &StoreConfig,
    mut asked: UnboundedReceiver<(Id, Call)>,
    events: &Sender<StoreEvent<Id>>,
) {
    let mut pause = LEAST_PAUSE;
    let mut failures = HashMap::new();
    for endpoint in config.endpoints.iter().cycle() {
        let connecting = connection::connect(endpoint, config);
        let Some(connected) = refuse_until(connecting, &mut asked, events).await else { return };
        let reason = match connected {
            Ok(EtcdConnection { client, revision, store, version }) => {
                failures.clear();
                let shared = Shared {
                    client,
                    request_timeout: config.request_timeout,
                    events: events.clone(),
                    revision: Arc::new(AtomicU64::new(revision)),
                    is_useful: Arc::default(),
                };
                let begun = StoreEvent::Connected { store, version };
                let Some(reason) = serve(&shared, begun, &mut asked).await else { return };
                if shared.is_useful.load(Ordering::Relaxed) {
                    pause = LEAST_PAUSE;
                }
                Some(format!("{endpoint}: {reason}"))
            }
            Err(reason) => {
                let is_news = failures.insert(endpoint, reason.clone()).as_ref() != Some(&reason);
                is_news.then(|| format!("{endpoint}: {reason}"))
            }
        };
        if let Some(reason) = reason
            && events.send(StoreEvent::Lost { reason }).is_err()
        {
            return;
        }
        let pausing = tokio::time::sleep(pause);
        let Some(()) = refuse_until(pausing, &mut asked, events).await else { return };
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Waits for something, and refuses all calls meanwhile. `None` if the callers are gone.
async fn refuse_until<Id, T>(
    waiting: impl Future<Output = T>,
    asked: &mut UnboundedReceiver<(Id, Call)>,
    events: &Sender<StoreEvent<Id>>,
) -> Option<T> {
    tokio::pin!(waiting);
    loop {
        tokio::select! {
            biased;
            call = asked.recv() => {
                let (id, _) = call?;
                let answer = StoreAnswer::Refused { reason: NOT_CONNECTED.into() };
                events.send(StoreEvent::Answered(id, answer)).ok()?;
            }
            done = &mut waiting => return Some(done),
        }
    }
}

/// The calls of a session.
struct EtcdSession<'a, Id> {
    shared: &'a Shared<Id>,
    /// Those under way, streams included. What is dropped with it reports nothing more, as all
    /// tasks run on this thread.
    tasks: JoinSet<PendingCall>,
    leases: HashMap<LeaseId, UnboundedSender<Id>>,
    watches: HashMap<String, AbortHandle>,
}

/// Serves calls until the session must end, and returns why; `None` if the callers are gone.
async fn serve<Id: Copy + Send + 'static>(
    shared: &Shared<Id>,
    begun: StoreEvent<Id>,
    asked: &mut UnboundedReceiver<(Id, Call)>,
) -> Option<String> {
    let (tasks, leases, watches) = (JoinSet::new(), HashMap::new(), HashMap::new());
    let mut session = EtcdSession { shared, tasks, leases, watches };
    shared.report(begun).ok()?;
    loop {
        tokio::select! {
            call = asked.recv() => {
                let (id, call) = call?;
                session.begin(id, call);
            }
            Some(done) = session.tasks.join_next() => match done {
                Ok(Ok(())) => {}
                Ok(Err(reason)) => return Some(reason),
                // A watch that was replaced.
                Err(error) if error.is_cancelled() => {}
                Err(error) => return Some(error.to_string()),
            },
        }
    }
}

impl<Id: Copy + Send + 'static> EtcdSession<'_, Id> {
    fn begin(&mut self, id: Id, call: Call) {
        let shared = self.shared.clone();
        match call {
            Call::Grant { ttl_s } => {
                self.tasks.spawn(lease::grant(shared, id, ttl_s));
            }
            Call::KeepAlive { lease } => self.keep_alive(id, lease),
            Call::Revoke { lease } => {
                self.leases.remove(&lease);
                self.tasks.spawn(lease::revoke(shared, id, lease));
            }
            Call::Transact { guard, deletes, puts, read } => {
                self.tasks.spawn(transaction::transact(shared, id, guard, deletes, puts, read));
            }
            Call::Watch { prefix, from } => {
                let watching = self.tasks.spawn(watch::watch(shared, id, prefix.clone(), from));
                if let Some(former) = self.watches.insert(prefix, watching) {
                    former.abort();
                }
            }
        }
    }

    /// Hands the call to the lease's stream, which is begun if there is none.
    fn keep_alive(&mut self, id: Id, lease: LeaseId) {
        let is_taken = self.leases.get(&lease).is_some_and(|stream| stream.send(id).is_ok());
        if !is_taken {
            let (stream, asked) = tokio::sync::mpsc::unbounded_channel();
            let _ = stream.send(id);
            self.leases.insert(lease, stream);
            self.tasks.spawn(lease::keep_alive(self.shared.clone(), lease, asked));
        }
    }
}
