//! The cluster of a gateway, as its rows.

use serde::{Deserialize, Serialize};

/// A cluster as one of its members sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClusterRow {
    /// Its name.
    pub name: String,
    /// This gateway's name in it.
    pub member: String,
    /// Whether this gateway leads nothing until it is ordered to (`convoy drain`).
    pub is_draining: bool,
    /// Whether the store can be reached.
    pub is_store_reached: bool,
    /// Why not.
    pub store_error: Option<String>,
    /// Why this gateway does not trust it and leads nothing, and what to do.
    pub store_fault: Option<String>,
    /// What is wrong with its version.
    pub store_warning: Option<String>,
    /// Whether all parts of this gateway work; it leads nothing until they do.
    pub is_alive: bool,
    /// How long this gateway may lead if its lease is not renewed, in seconds; 0 if it may not.
    pub lease_left_s: f64,
    /// The members with a lease, by name.
    pub members: Vec<MemberRow>,
    /// The groups of tunnels.
    pub groups: Vec<GroupRow>,
}

/// A member.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRow {
    /// Its name.
    pub name: String,
    /// A member with a higher one leads before others.
    pub priority: u32,
    /// Whether it leads nothing until it is ordered to.
    pub is_draining: bool,
    /// The groups that it leads.
    pub leads: Vec<String>,
}

/// A group of tunnels. What follows `is_led` is what only its leader knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRow {
    /// Its name.
    pub name: String,
    /// The member that leads it, if one does.
    pub leader: Option<String>,
    /// Whether this gateway leads it.
    pub is_led: bool,
    /// The store's revision at which it began to.
    pub term: u64,
    /// SAs that the store has, a pair with static keys counted once.
    pub sas: u64,
    /// SAs of which the store has not got the latest yet.
    pub waiting: u64,
    /// The fewest outbound sequence numbers that are reserved for an SA, as of its last report.
    pub least_to_send: Option<u64>,
    /// The fewest inbound ones; `None` if they are not reserved.
    pub least_to_accept: Option<u64>,
    /// Addresses that its leader has.
    pub addresses: Vec<String>,
    /// SAs that are sealed by a cluster key that this gateway lacks, so that it does not lead.
    pub locked: u64,
}
