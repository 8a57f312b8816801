//! The interface of an engine to its worker: a control and a queue.

mod description;
mod kept;
mod kind;
mod submission;

use std::task::Waker;

use convoy_ipsec::{CryptoPacket, Direction, KeyMaterial, SaIndex, Transform};

pub use description::{EngineDescription, Placement, Takes};
pub use kept::keep_input;
pub use kind::{AutoSelect, EngineKind, EngineTraits};
pub use submission::{Completion, Outcome, Refused, RunTemplate, Submission, lay_out, open_up};
pub(crate) use submission::{is_one_run, split_time};

/// What a device must know of an SA beside its keys, to seal or open its packets in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Sealed on the way out, or opened on the way in.
    pub direction: Direction,
    /// By which a device finds the SA of an inbound packet.
    pub spi: u32,
    /// Whether the packets contain whole IP packets, which a device may look at.
    pub is_tunnel: bool,
}

/// Why an engine refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The queue is full: try again after the next completion.
    #[error("engine {0}: its queue is full")]
    NoRoom(String),
    /// The engine cannot do the transform.
    #[error("engine {engine}: it does not support {transform}")]
    Unsupported {
        /// Its name.
        engine: String,
        /// The transform.
        transform: Transform,
    },
    /// No key is installed for this SA.
    #[error("engine {engine}: no key is installed for SA {sa:?}")]
    NoKey {
        /// Its name.
        engine: String,
        /// The SA.
        sa: SaIndex,
    },
    /// The device or library failed.
    #[error("engine {engine}: {reason}")]
    Device {
        /// Its name.
        engine: String,
        /// The reason it gave.
        reason: String,
    },
}

/// An engine that works on its caller's core and processes packets of any SAs and directions
/// together.
pub trait InPlace {
    /// Seals or opens each packet in place, with the keys of its SA and as its `direction` says,
    /// and writes its status before it returns. A packet whose SA has no keys here stays
    /// [`Pending`](convoy_ipsec::CryptoStatus::Pending) and unchanged.
    fn process(&mut self, packets: &mut [CryptoPacket]);
}

/// The control side of an engine: keys, devices that take SAs, and health. The engine's worker
/// calls it when SAs come and go, never for packets.
pub trait EngineControl: Send {
    /// The engine's description.
    fn description(&self) -> &EngineDescription;

    /// Expands and caches the keys of an SA; replaces those under this index.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`], or [`EngineError::Device`].
    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError>;

    /// Removes and wipes the keys of an SA. An unknown SA is no error. Packets of it are in
    /// flight only if they were given up as too late: their results are not used.
    fn remove_key(&mut self, sa: SaIndex);

    /// Binds an SA to the device of a port, which processes it in flight: packets submitted for it
    /// leave this engine as plaintext with a tag ([`Offload::Seal`](convoy_packet::Offload::Seal)),
    /// received ones are tagged and open. `false` if this engine is no such device, or the device
    /// cannot. `remove_key` ends it.
    fn bind(&mut self, _sa: SaIndex, _binding: Binding, _keys: &KeyMaterial) -> bool {
        false
    }

    /// The SA of a device's number in [`Offload::Opened`](convoy_packet::Offload::Opened), while it
    /// is bound.
    fn bound(&self, _number: u32) -> Option<SaIndex> {
        None
    }

    /// Asks a failed engine whether it works again, with a known answer where possible.
    ///
    /// # Errors
    /// [`EngineError::Device`] if it does not.
    fn probe(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// An engine's queue: packets in, the same packets back. No call blocks.
pub trait EngineQueue: Send {
    /// Submits a train; an inline engine processes it at once, or
    /// [gathers](EngineDescription::gathers) it, and keeps it for `poll`.
    ///
    /// # Errors
    /// [`Refused`], with the submission unchanged.
    fn submit(&mut self, submission: Submission) -> Result<(), Box<Refused>>;

    /// Starts what was gathered, and appends finished trains to `completions`, in the order
    /// of completion.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// Trains submitted and not yet returned by `poll`.
    fn in_flight(&self) -> usize;

    /// The engine without its queue, if it works on the caller's core and [takes
    /// trains](Takes::Trains): if it is the only candidate, nothing need be queued.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Trains that it has gathered and will start at the next `poll`.
    fn gathered(&self) -> usize {
        0
    }

    /// Makes it wake the caller at every completion; `false` if it cannot, so that a caller with
    /// work in flight must poll rather than sleep. An engine that is done when `submit` or `poll`
    /// returns needs no wake-up, and returns `true`.
    fn wake_by(&mut self, _waker: &Waker) -> bool {
        false
    }

    /// Whether `poll` would return something, for a caller about to sleep until it is woken.
    fn has_completions(&self) -> bool {
        false
    }
}

/// One engine of one worker: its control and its queue. Threads or devices behind it are the
/// engine's own matter; if several workers share a device, each has an engine of its own over it.
///
/// It is measured before it has any work, as an [`IdleEngine`](crate::IdleEngine), which does not
/// give the engine back.
pub trait Engine: EngineControl + EngineQueue {}

impl<E: EngineControl + EngineQueue> Engine for E {}
