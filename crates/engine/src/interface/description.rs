//! An engine's description.

use std::fmt;

use convoy_ipsec::Transform;

use super::{EngineError, EngineKind, Refused, Submission};

/// Where an engine works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// In `submit` and `poll`, on the caller's core.
    Inline,
    /// Elsewhere; `poll` collects completions.
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

/// What an engine accepts in one submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Takes {
    /// Trains of one SA only, laid out.
    MultiPackets,
    /// Trains of several SAs as well, as the packets came. An engine elsewhere gets them in a
    /// [`Submission`], raw if it has [templates](Submission::templates), and lays them out itself;
    /// one on the caller's core gets them laid out, through
    /// [`in_place`](super::EngineQueue::in_place).
    Trains,
}

/// An engine's description of itself.
#[derive(Clone, Debug)]
pub struct EngineDescription {
    /// Unique in a gateway, for example `multibuffer0`.
    pub name: String,
    /// Its kind.
    pub kind: EngineKind,
    /// The device behind it, if its kind has several: the cost of one says nothing of another.
    pub device: Option<String>,
    /// Where it works.
    pub placement: Placement,
    /// The transforms it supports.
    pub transforms: Vec<Transform>,
    /// Trains that may wait, the one in service not counted.
    pub depth: usize,
    /// Packets, of any SAs, that it gathers before it starts; with fewer it starts at the next
    /// `poll`. 1 if it starts at once.
    pub gathers: usize,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether frames may be lost with it or come back half processed, so that the input must be
    /// kept until completion. False only if it works on the caller's core and cannot stop half way.
    pub needs_input_kept: bool,
    /// What it accepts in one submission.
    pub takes: Takes,
    /// How much longer than its stated time it may take to respond, in ns of the machine's clock: a
    /// simulation's time is not the machine's. 0 for an engine that really takes its stated time.
    pub slack_ns: u64,
}

impl EngineDescription {
    /// # Errors
    /// [`EngineError::Unsupported`] if it does not support the transform.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`] if it does not.
    pub fn check_transform(&self, transform: Transform) -> Result<(), EngineError> {
        if self.transforms.contains(&transform) {
            return Ok(());
        }
        Err(EngineError::Unsupported { engine: self.name.clone(), transform })
    }

    /// Hands back a submission of an SA without keys.
    pub fn refuse_unkeyed(&self, submission: Submission) -> Box<Refused> {
        let reason = EngineError::NoKey { engine: self.name.clone(), sa: submission.sa };
        Box::new(Refused { submission, reason })
    }
}
