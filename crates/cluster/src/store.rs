//! The store as a member sees it, in etcd's terms: linearizable, with leases and watches.

use serde::{Deserialize, Serialize};

/// A revision of the store: it grows with every transaction that changes something. 0 is before
/// the first.
pub type Revision = u64;

/// A store, which has another ID after it was created again.
pub type StoreId = u64;

/// A lease: the keys that have it are removed when it is not kept alive.
pub type LeaseId = i64;

/// A key, with what the store keeps of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyValue {
    /// Its name.
    pub key: String,
    /// Its value.
    pub value: Vec<u8>,
    /// The revision at which it was created; it is another one after it was removed.
    pub created: Revision,
    /// The revision of its last change.
    pub modified: Revision,
}

/// The condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// The key.
    pub key: String,
    /// The revision at which it must have been changed last; 0 if it must not exist. A key that was
    /// removed and created again, or only put again, has another one.
    pub modified: Revision,
}

/// A request to the store. Each is answered once, or its answer is lost with the connection: then
/// it may have been executed or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Call {
    /// Grant a lease of this many seconds.
    Grant {
        /// Its time to live.
        ttl_s: u32,
    },
    /// Keep a lease alive for its time to live from now on.
    KeepAlive {
        /// The lease.
        lease: LeaseId,
    },
    /// End a lease, which removes its keys.
    Revoke {
        /// The lease.
        lease: LeaseId,
    },
    /// If the guard holds: remove, put, and then read, in one revision. Otherwise nothing.
    Transact {
        /// The condition, if there is one.
        guard: Option<Condition>,
        /// Keys to be removed.
        deletes: Vec<String>,
        /// Keys, their values, and their leases.
        puts: Vec<(String, Vec<u8>, Option<LeaseId>)>,
        /// All keys that begin with this are returned.
        read: Option<String>,
    },
    /// Report changes of all keys that begin with `prefix`, from a revision on; a member has one
    /// watch for each prefix.
    Watch {
        /// The beginning of the keys.
        prefix: String,
        /// The first revision of interest.
        from: Revision,
    },
}

/// The store's answer to a [`Call`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreAnswer {
    /// A lease was granted.
    Granted {
        /// The lease.
        lease: LeaseId,
        /// Its time to live in seconds, which may be longer than asked for.
        ttl_s: u32,
    },
    /// A lease was kept alive; `ttl_s` of 0 says that it does not exist.
    KeptAlive {
        /// Its time to live in seconds, from a moment after the request was sent.
        ttl_s: u32,
    },
    /// A lease has ended.
    Revoked,
    /// A transaction was executed if `is_done`, and was refused by its guard otherwise.
    Transacted {
        /// Whether the guard held.
        is_done: bool,
        /// The store's revision afterwards.
        revision: Revision,
        /// What was read.
        read: Vec<KeyValue>,
    },
    /// A watch has begun.
    Watching,
    /// The store did not execute the request (no leader, no room, a lease that does not exist), and
    /// never will. A timeout is no refusal: the request may be executed later.
    Refused {
        /// The store's reason.
        reason: String,
    },
}

/// A change that a watch reports, in the order of revisions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreChange {
    /// A key has a value.
    Put(KeyValue),
    /// A key was removed, by a request or with its lease.
    Delete {
        /// The key.
        key: String,
        /// The revision at which it was removed.
        revision: Revision,
    },
}

/// What the store reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoreEvent<Id> {
    /// A session has begun.
    Connected {
        /// The store.
        store: StoreId,
        /// The version of the server, as it says.
        version: String,
    },
    /// A call was answered.
    Answered(Id, StoreAnswer),
    /// Watched keys have changed.
    Changed(Vec<StoreChange>),
    /// The session has ended, or none could be begun. Every call of it that has no answer yet has
    /// an unknown outcome and gets none, and its watches have ended. Attempts to connect that fail
    /// one after the other for the same reason are reported once.
    Lost {
        /// Why.
        reason: String,
    },
}
