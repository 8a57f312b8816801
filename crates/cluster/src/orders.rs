//! What passes between a member and its gateway, by a link that keeps order and loses nothing while
//! both live.

use serde::{Deserialize, Serialize};

use crate::marks::{Marks, SaId};
use crate::record::Record;
use crate::store::Revision;

/// What a member tells its gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Lead a group with these SAs. Nothing may be sent or accepted by one before its `Granted`.
    Lead {
        /// The group.
        group: String,
        /// The term; reports about the group have it.
        term: Revision,
        /// All SAs of the group.
        sas: Vec<Taken>,
        /// SAs that are in the store and cannot be read: their numbers are not known, so that they
        /// stay down until their keys change.
        unreadable: Vec<SaId>,
    },
    /// Send and deliver nothing of any group from this time on, by the monotonic clock that the
    /// member is given. It replaces the deadline before.
    Until {
        /// The deadline.
        deadline_ns: u64,
    },
    /// An SA may go so far.
    Granted {
        /// The group.
        group: String,
        /// The SA.
        sa: SaId,
        /// The last outbound number that may be used.
        sent_until: u64,
        /// The last inbound number that may be accepted.
        accept_until: u64,
    },
    /// Stop sending and delivering packets of a group, answer by `Stopped` and forget its SAs.
    StepDown {
        /// The group.
        group: String,
    },
}

/// An SA that another leader had before, or the same one in an earlier term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its number.
    pub sa: SaId,
    /// Its record, as a gateway put it.
    pub record: Record,
    /// The last outbound number that may have been used.
    pub sent: u64,
    /// The last inbound number that may have been accepted: only higher ones may be.
    pub accepted: u64,
    /// Where its IVs begin in this term: see [`Marks::iv_start`].
    pub iv_start: u64,
}

/// What a gateway tells its member about a group that it leads. What is about another term than the
/// present one is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The group.
    pub group: String,
    /// The term in which the gateway leads it.
    pub term: Revision,
    /// What happened.
    pub event: Event,
}

/// What happened in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Event {
    /// There is a new SA, or an SA has another record. A new one may be used at once as far as its
    /// marks say, since no other member has it.
    Put {
        /// The SA.
        sa: SaId,
        /// What another gateway needs to go on with it.
        record: Record,
        /// How far a new one goes before it is granted more.
        marks: Marks,
    },
    /// An SA is used no longer.
    Remove {
        /// The SA.
        sa: SaId,
    },
    /// How far an SA has come. A gateway says so when half of what was granted is used, and again
    /// after a while if nothing was granted.
    Progress {
        /// The SA.
        sa: SaId,
        /// The last outbound number that was used.
        sent: u64,
        /// The highest inbound number of an authentic packet, also if it was above the ceiling and
        /// therefore dropped: the peer has come so far.
        seen: u64,
    },
    /// The group is stopped: nothing of it will be sent or delivered in this term.
    Stopped {
        /// Its SAs, the last outbound number used by each, and the highest inbound one accepted.
        sas: Vec<(SaId, u64, u64)>,
    },
}
