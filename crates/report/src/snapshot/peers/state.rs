//! Whether a tunnel carries packets, as far as that is known.

use serde::Serialize;

use super::{MonitorRow, SaRow};
use crate::snapshot::of_worker::UNKNOWN;

/// A peer counts as heard for this long after its last packet, in seconds.
const HEARD_S: f64 = 60.0;

/// The state of a tunnel with one peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerState {
    /// It has SAs in both directions, and the peer was heard within a minute: by a packet, or as
    /// charon negotiated the SAs with it. With a monitor, its probes are answered.
    Up,
    /// It has SAs in both directions, but the peer was not heard for a minute, or never. With a
    /// monitor, its probes are not answered.
    Silent,
    /// It has SAs, but the peer's address is not known: its name has not resolved, or a peer that
    /// roams has sent nothing yet.
    NoPeer,
    /// It has SAs in one direction only.
    OneWay,
    /// It has no SAs, and charon's last negotiation failed or has no answer.
    Negotiating,
    /// All SAs of a direction have reached their hard lifetime.
    Expired,
    /// It has no SAs.
    #[default]
    Down,
    /// It has no SAs, and neither the configuration nor charon has it any more.
    Removed,
}

impl PeerState {
    /// All states, the best first.
    pub const ALL: [Self; 8] = [
        Self::Up,
        Self::Silent,
        Self::NoPeer,
        Self::OneWay,
        Self::Negotiating,
        Self::Expired,
        Self::Down,
        Self::Removed,
    ];

    /// In a word or two.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Silent => "silent",
            Self::NoPeer => "no peer",
            Self::OneWay => "one way",
            Self::Negotiating => "negotiating",
            Self::Expired => "expired",
            Self::Down => "down",
            Self::Removed => "removed",
        }
    }

    /// In one word, as JSON has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoPeer => "no-peer",
            Self::OneWay => "one-way",
            other => other.name(),
        }
    }

    /// The state of a tunnel with these SAs, whose peer was heard this long ago, in seconds.
    pub(super) fn of(outbound: &[&SaRow], inbound: &[&SaRow], heard_s: Option<f64>) -> Self {
        let has_ended = |sas: &[&SaRow]| !sas.is_empty() && sas.iter().all(|sa| sa.has_ended);
        match (outbound.is_empty(), inbound.is_empty()) {
            (true, true) => Self::Down,
            _ if has_ended(outbound) || has_ended(inbound) => Self::Expired,
            (true, false) | (false, true) => Self::OneWay,
            _ if outbound.iter().all(|sa| sa.remote == UNKNOWN) => Self::NoPeer,
            _ if heard_s.is_some_and(|ago_s| ago_s < HEARD_S) => Self::Up,
            _ if inbound.iter().any(|sa| is_heard(sa)) => Self::Up,
            _ => Self::Silent,
        }
    }

    /// The state as probes say it, which know more than packets of others.
    pub(super) fn as_probed(self, monitor: &MonitorRow) -> Self {
        match self {
            Self::Up | Self::Silent if monitor.is_answered() => Self::Up,
            Self::Up | Self::Silent if monitor.is_lost() => Self::Silent,
            other => other,
        }
    }

    /// Whether packets can leave and come: there are SAs in both directions, and the peer's address
    /// is known. Whether it is there is another question.
    pub(super) fn has_both_ways(self) -> bool {
        matches!(self, Self::Up | Self::Silent)
    }
}

/// Whether the peer was heard lately: charon has negotiated with it when the SA began.
fn is_heard(inbound: &SaRow) -> bool {
    let begun_s = (!inbound.child.is_empty()).then_some(inbound.age_s);
    inbound.last_used_s.into_iter().chain(begun_s).any(|ago_s| ago_s < HEARD_S)
}
