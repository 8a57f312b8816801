//! What a member gets at its start.

use crate::memory::Seen;
use convoy_reservation::ReserveSize;

/// A member's configuration.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The member's name, which no other has, without a space or a slash.
    pub name: String,
    /// A member with a higher one leads before others.
    pub priority: u32,
    /// The lease's time to live, in seconds.
    pub ttl_s: u32,
    /// The groups that it may lead.
    pub groups: Vec<GroupConfig>,
    /// How long another member must rank before this one, in ns, until it is given a group that
    /// this one leads; `None` for never.
    pub rebalance_ns: Option<u64>,
    /// The reserve of outbound numbers.
    pub outbound: ReserveSize,
    /// The reserve of inbound numbers.
    pub inbound: ReserveSize,
    /// What the member had seen of the store when it ran last.
    pub seen: Seen,
}

/// A group that a member may lead.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// Its name, without a space or a slash.
    pub name: String,
    /// Which inbound numbers a new leader accepts.
    pub replay: Replay,
}

/// Which inbound numbers a new leader accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// Those above the ceiling: none can have been accepted before. Packets below it are lost.
    Strict,
    /// Those above the last one that the store knows to have been accepted. What came since then
    /// can be replayed once.
    Checkpoint,
}
