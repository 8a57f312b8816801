//! What passes between a member and its gateway, by a link that keeps order and loses nothing while
//! both live.

use convoy_reservation::{Limits, Reservation, Used};
use serde::{Deserialize, Serialize};

use crate::fingerprint::SaFingerprint;
use crate::record::Record;
use crate::store::Revision;

/// What a member tells its gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemberOrder {
    /// Lead a group with these SAs. Nothing may be sent or accepted by one before its `Granted`.
    Lead {
        /// The group.
        group: String,
        /// The term; reports about the group have it.
        term: Revision,
        /// All SAs of the group.
        sas: Vec<StoredSa>,
        /// SAs that are in the store and cannot be read: their numbers are not known, so that they
        /// stay down until their keys change.
        unreadable: Vec<SaFingerprint>,
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
        sa: SaFingerprint,
        /// The last numbers that it may use.
        limits: Limits,
    },
    /// Stop sending and delivering packets of a group, answer by `Stopped` and forget its SAs.
    StepDown {
        /// The group.
        group: String,
    },
}

/// An SA that another leader had before, or the same one in an earlier term.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredSa {
    /// Its name.
    pub sa: SaFingerprint,
    /// Its record, as a gateway put it.
    pub record: Record,
    /// The last numbers that may have been used: only higher ones may be.
    pub used: Used,
    /// Where its IVs begin in this term: see [`Reservation::iv_start`].
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
    pub event: GroupEvent,
}

/// What happened in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GroupEvent {
    /// There is a new SA, or an SA has another record. A new one may be used at once as far as its
    /// reservation permits, since no other member has it.
    Put {
        /// The SA.
        sa: SaFingerprint,
        /// What another gateway needs to go on with it.
        record: Record,
        /// The first reservation of a new one.
        reservation: Reservation,
    },
    /// An SA is used no longer.
    Remove {
        /// The SA.
        sa: SaFingerprint,
    },
    /// The last numbers of an SA. A gateway reports them when half of what was granted is used, and
    /// again after a while if nothing was granted.
    Progress {
        /// The SA.
        sa: SaFingerprint,
        /// Its last numbers.
        used: Used,
    },
    /// The group is stopped: nothing of it will be sent or delivered in this term.
    Stopped {
        /// Its SAs, each with its last numbers.
        sas: Vec<(SaFingerprint, Used)>,
    },
}
