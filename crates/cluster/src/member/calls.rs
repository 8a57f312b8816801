//! Requests to the store that have no answer yet.

use std::collections::BTreeMap;

use super::Output;
use super::view::TableKind;
use crate::store::{Call, LeaseId, Revision};

/// A request's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Grant { sent_ns: u64 },
    KeepAlive { lease: LeaseId, sent_ns: u64 },
    Revoke(LeaseId),
    Read(TableKind),
    Watch(TableKind),
    Register,
    Group(usize),
}

/// The open requests: a few for the lease and the view, and one for each group.
#[derive(Debug, Default)]
pub(super) struct Calls {
    last: u64,
    /// Each with the revision that had been seen when it was asked.
    open: BTreeMap<CallId, (Purpose, Revision)>,
    /// The revision that has been seen.
    pub(super) known: Revision,
}

impl Calls {
    /// None is open, and this revision has been seen.
    pub(super) fn new(known: Revision) -> Self {
        Self { known, ..Self::default() }
    }

    pub(super) fn ask(&mut self, purpose: Purpose, request: Call, out: &mut Vec<Output>) {
        self.last += 1;
        let call = CallId(self.last);
        self.open.insert(call, (purpose, self.known));
        out.push(Output::Ask { call, request });
    }

    /// The purpose of a request that was answered, and the revision that had been seen when it was
    /// asked; `None` if it was given up.
    pub(super) fn answered(&mut self, call: CallId) -> Option<(Purpose, Revision)> {
        self.open.remove(&call)
    }

    pub(super) fn count(&self, is_counted: impl Fn(Purpose) -> bool) -> usize {
        self.open.values().filter(|(purpose, _)| is_counted(*purpose)).count()
    }

    /// Forgets all: what comes for them is ignored.
    pub(super) fn lose(&mut self) {
        self.open.clear();
    }
}
