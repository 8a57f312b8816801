//! Which of several gateways leads a group of tunnels, and what the next one needs to go on.
//!
//! - [`Call`] and [`Answer`] are what passes between a member and the store, in etcd's terms:
//!   leases, keys with revisions, guarded transactions, watches.
//!
//! `docs/internals/cluster.md` has the protocol and its invariants.

mod store;

pub use store::{Answer, Call, Change, Guard, KeyValue, LeaseId, Revision};
