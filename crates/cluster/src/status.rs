//! What a member knows of its cluster, for anyone who looks at it.

use serde::{Deserialize, Serialize};

use crate::memory::StoreFault;
use crate::store::Revision;

/// A cluster as one of its members sees it, which may be behind the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClusterStatus {
    /// Its members, by name.
    pub members: Vec<MemberStatus>,
    /// The groups that this member may lead, in the order of its configuration.
    pub groups: Vec<GroupStatus>,
    /// Whether this member gives its groups away, and leads none.
    pub is_draining: bool,
    /// Why this member does not trust the store, and leads nothing by it.
    pub store_fault: Option<StoreFault>,
    /// Whether the gateway and all its parts were heard from in time; the member leads nothing
    /// until they are.
    pub is_alive: bool,
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberStatus {
    /// Its name.
    pub name: String,
    /// A member with a higher one leads before others.
    pub priority: u32,
    /// Whether it gives its groups away, and leads none.
    pub is_draining: bool,
}

/// A group of tunnels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
    /// Its name.
    pub name: String,
    /// The member that leads it, if one does.
    pub leader: Option<String>,
    /// What this member knows as its leader.
    pub led: Option<LedStatus>,
    /// SAs that are sealed by a cluster key that this member lacks, so that it does not lead the
    /// group.
    pub locked: usize,
}

/// A group as its leader knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LedStatus {
    /// The term: the store's revision at which it began.
    pub term: Revision,
    /// SAs that the store has or is getting, a pair with static keys counted once.
    pub sas: usize,
    /// SAs of which the store has not got the latest yet.
    pub waiting: usize,
    /// The fewest outbound sequence numbers that an SA may still use, as of its last report.
    pub least_to_send: Option<u64>,
    /// The fewest inbound sequence numbers that an SA may still accept, as of its last report;
    /// `None` if there is no ceiling.
    pub least_to_accept: Option<u64>,
}
