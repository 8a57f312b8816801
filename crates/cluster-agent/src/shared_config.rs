//! The configuration that a cluster shares, as an agent follows it.

use convoy_cluster::messages::FromAgent;
use convoy_cluster::{Call, KeyValue, SharedText, StoreAnswer, StoreChange};
use convoy_process::monotonic_ns;

use crate::member::{AskedFor, MemberAgent};
use crate::serve::FRAMING;

/// The time after which it is read again if that was refused, in ns.
const RETRY_NS: u64 = 500_000_000;

impl MemberAgent {
    /// Reads it if that is due.
    pub(crate) fn read_config(&mut self) {
        let Some(key) =
            self.config.clone().filter(|_| self.config_due_ns.is_some_and(|at| at <= monotonic_ns()))
        else {
            return;
        };
        self.config_due_ns = None;
        let read = Call::Transact { guard: None, deletes: Vec::new(), puts: Vec::new(), read: Some(key) };
        self.store.ask(AskedFor::Config, read);
    }

    pub(crate) fn config_answered(&mut self, asked: AskedFor, answer: StoreAnswer) {
        match (asked, answer, self.config.clone()) {
            (AskedFor::Config, StoreAnswer::Transacted { revision, read, .. }, Some(key)) => {
                read.into_iter().for_each(|found| self.take_config(&found));
                self.store.ask(AskedFor::ConfigWatch, Call::Watch { prefix: key, from: revision + 1 });
            }
            (AskedFor::ConfigWatch, StoreAnswer::Watching, _) | (_, _, None) => {}
            _ => self.config_due_ns = Some(monotonic_ns() + RETRY_NS),
        }
    }

    pub(crate) fn config_changed(&mut self, changes: &[StoreChange]) {
        for change in changes {
            if let StoreChange::Put(found) = change {
                self.take_config(found);
            }
        }
    }

    /// Passes a version on that the gateway does not have yet.
    fn take_config(&mut self, found: &KeyValue) {
        if self.config.as_ref() != Some(&found.key) {
            return;
        }
        let text = match SharedText::open(&self.key, found) {
            Ok(text) => text,
            Err(error) => return tracing::error!("cluster: {}: {error}", found.key),
        };
        if text.version > self.config_version {
            self.config_version = text.version;
            // If the gateway has ended, the reader of the line says so.
            let _ = FRAMING.send(&mut self.socket, &FromAgent::Config(Box::new(text)));
        }
    }
}
