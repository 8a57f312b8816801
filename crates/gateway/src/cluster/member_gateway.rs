//! What a member of a cluster has its gateway do.

use convoy_cluster::{SaFingerprint, StoredSa};

use super::led::{Led, Stopped};

/// The SAs of a group as the store has them.
pub struct StoredSas {
    /// Those that can be read.
    pub sas: Vec<StoredSa>,
    /// Those that cannot be read.
    pub unreadable: Vec<SaFingerprint>,
}

/// The gateway of a member. Its own thread does all of this, one order after the other.
pub(crate) trait MemberGateway: Send + Sync {
    /// Leads a group, with these SAs; `None` if the gateway is ending.
    fn lead(&self, group: &str, sas: StoredSas) -> Option<Led>;

    /// The agent has the SAs of a term that begins: charon may negotiate others.
    fn term_has_begun(&self);

    /// Leads a group no longer, and returns the last numbers of its SAs; `None` if the gateway is
    /// ending.
    fn stand_by(&self, group: &str) -> Option<Stopped>;

    /// Calls `works` from the thread that executes orders.
    fn beat(&self, works: Box<dyn FnOnce(()) + Send>);

    /// Reads the configuration again, with the part that the cluster shares, and reports what is
    /// wrong with it.
    fn reload(&self);
}
