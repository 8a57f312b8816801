//! Which of several gateways leads a group of tunnels, and what the next one needs to go on.
//!
//! - [`Call`] and [`StoreAnswer`] are what passes between a member and the store, in etcd's terms:
//!   leases, keys with revisions, guarded transactions, watches.
//! - [`MemberOrder`] and [`Report`] are what passes between a member and its gateway.
//! - [`messages`] pass between a gateway's process and its agent's, which has the member and the
//!   connection to the store.
//! - [`Member`] is a member's state: [`MemberInput`] in, [`Output`] out, without a socket, a thread
//!   or a clock.
//!
//! `docs/internals/cluster.md` has the protocol and its invariants. The simulation in this crate
//! checks them from seeds.

mod election;
mod fingerprint;
mod keys;
mod member;
mod memory;
pub mod messages;
mod orders;
mod record;
pub mod seal;
mod shared_text;
#[cfg(test)]
mod simulation;
mod status;
mod store;

pub use fingerprint::SaFingerprint;
pub use keys::Keys;
pub use member::{CallId, GroupConfig, Member, MemberConfig, MemberInput, Now, Output, Replay};
pub use memory::{Seen, StoreFault};
pub use orders::{GroupEvent, MemberOrder, Report, StoredSa};
pub use record::Record;
pub use shared_text::{SharedText, SharedTextError};
pub use status::{ClusterStatus, GroupStatus, LedStatus, MemberStatus};
pub use store::{
    Call, Condition, KeyValue, LeaseId, Revision, StoreAnswer, StoreChange, StoreEvent, StoreId,
};
