//! The store in etcd: a thread that takes each [`Call`], and reports what became of it.
//!
//! The thread has a connection to one endpoint at a time, a **session**. A call has three ends: its
//! [`StoreAnswer`](convoy_cluster::StoreAnswer), with `Refused` if it was surely not executed, or
//! [`StoreEvent::Lost`], which ends the session and leaves the outcome of all its open calls
//! unknown (see `outcome.rs`). The next session is with the next endpoint. Between sessions calls
//! are refused.
//!
//! Calls of a session are under way at the same time, and may be executed in any order; those that
//! keep one lease alive are made one after the other. Changes of one watch come in the order of
//! revisions, and in no order to answers.

mod connection;
mod lease;
mod outcome;
mod session;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;

use std::fmt::Debug;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::Duration;

use convoy_cluster::messages::Pem;
use convoy_cluster::{Call, StoreEvent};
use tokio::sync::mpsc::UnboundedSender;
use zeroize::Zeroizing;

/// How the store is reached.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The URLs of etcd's members, in the order in which they are tried. Names are resolved by the
    /// system, on a thread that blocks; addresses need none.
    pub endpoints: Vec<String>,
    /// Certificates and key for `https`.
    pub tls: Option<TlsConfig>,
    /// How long an answer may take before it counts as lost.
    pub request_timeout: Duration,
}

/// Certificates and a key in PEM, as they are read from files.
#[derive(Clone)]
pub struct TlsConfig {
    /// The certificates of the authorities that issue the members' certificates. No others are
    /// trusted.
    pub ca: Vec<u8>,
    /// The client's certificate, followed by those between it and the members' authority.
    pub certificate: Vec<u8>,
    /// The client's private key.
    pub key: Zeroizing<Vec<u8>>,
}

impl From<Pem> for TlsConfig {
    fn from(pem: Pem) -> Self {
        Self {
            ca: pem.ca.into_bytes(),
            certificate: pem.certificate.into_bytes(),
            key: Zeroizing::new(pem.key.as_bytes().to_vec()),
        }
    }
}

impl Debug for TlsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsConfig").finish_non_exhaustive()
    }
}

/// Why a store could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration names no endpoint.
    #[error("at least one endpoint is needed")]
    NoEndpoint,
    /// An endpoint that cannot be used.
    #[error("endpoint {endpoint}: {reason}")]
    Endpoint {
        /// The endpoint.
        endpoint: String,
        /// What is wrong with it, or with the certificates.
        reason: String,
    },
    /// The system gave no thread or no event queue.
    #[error("starting the store's thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// The store's thread. It ends when this is dropped, and gives up its open calls.
#[derive(Debug)]
pub struct Store<Id> {
    /// `None` only while it is dropped.
    calls: Option<UnboundedSender<(Id, Call)>>,
    thread: Option<JoinHandle<()>>,
}

impl<Id: Copy + Send + 'static> Store<Id> {
    /// Checks the configuration and starts the thread, which connects on its own.
    pub fn start(config: StoreConfig, events: Sender<StoreEvent<Id>>) -> Result<Self, StartError> {
        let (calls, asked) = tokio::sync::mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(connection::check(&config))?;
        let thread = std::thread::Builder::new().name("store".into()).spawn(move || {
            runtime.block_on(session::run(&config, asked, &events));
            // A name that is being resolved must not hold up the end.
            runtime.shutdown_background();
        })?;
        Ok(Self { calls: Some(calls), thread: Some(thread) })
    }

    /// Makes a call. What becomes of it is reported within some times the request timeout. A call
    /// that is made after [`StoreEvent::Lost`] was sent and before it was received belongs to the
    /// next session.
    pub fn ask(&self, id: Id, call: Call) {
        if let Some(calls) = &self.calls {
            // Fails only if the thread has panicked; its events have ended then.
            let _ = calls.send((id, call));
        }
    }
}

impl<Id> Drop for Store<Id> {
    fn drop(&mut self) {
        self.calls = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
