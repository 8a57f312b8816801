//! What an engine says of itself.

use std::fmt;

use convoy_ipsec::Transform;

use super::{EngineError, MultiPacket, Refused};
use crate::EngineKind;

/// Where an engine does its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// In `submit` and `poll`, on the caller's core.
    Inline,
    /// Elsewhere; `poll` brings what is done.
    Lookaside,
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inline => "inline",
            Self::Lookaside => "lookaside",
        })
    }
}

/// What an engine takes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Takes {
    /// Packets of one SA that are laid out.
    MultiPackets,
    /// Trains as well: packets of several SAs, as they came. An engine elsewhere gets them in a
    /// multi-packet, raw where they have [templates](MultiPacket::templates), and lays them out
    /// itself; one on the caller's core gets them laid out, by
    /// [`in_place`](super::EngineQueue::in_place).
    Trains,
}

/// What an engine says of itself.
#[derive(Clone, Debug)]
pub struct EngineDescription {
    /// Unique in a gateway, for example `multibuffer0`.
    pub name: String,
    /// Its kind.
    pub kind: EngineKind,
    /// The device behind it, where its kind has several: what one costs says nothing of another.
    pub device: Option<String>,
    /// Where it works.
    pub placement: Placement,
    /// What it can do.
    pub transforms: Vec<Transform>,
    /// Multi-packets that may wait, the one in service not counted.
    pub depth: usize,
    /// Packets, of whatever SAs, that it gathers before it begins; with fewer it begins at the next
    /// `poll`. 1 where it begins at once.
    pub gathers: usize,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether frames may vanish with it or come back half done, so that the input must be kept
    /// until completion. False only where it works on the caller's core and cannot stop half way.
    pub needs_input_kept: bool,
    /// What it takes together.
    pub takes: Takes,
    /// How much longer than it says its answers may take, in ns of the machine's clock: a
    /// simulation's time is not the machine's. 0 for what really takes the time that it tells.
    pub slack_ns: u64,
}

impl EngineDescription {
    /// # Errors
    /// [`EngineError::Unsupported`] if it cannot do the transform.
    pub(crate) fn check_transform(&self, transform: Transform) -> Result<(), EngineError> {
        if self.transforms.contains(&transform) {
            return Ok(());
        }
        Err(EngineError::Unsupported { engine: self.name.clone(), transform })
    }

    /// Hands back a multi-packet of an SA that has no key here.
    pub(crate) fn refuse_unkeyed(&self, multi_packet: MultiPacket) -> Box<Refused> {
        let reason = EngineError::NoKey { engine: self.name.clone(), sa: multi_packet.sa };
        Box::new(Refused { multi_packet, reason })
    }
}
