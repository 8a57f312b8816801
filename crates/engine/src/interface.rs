//! What an engine is to a worker: a control and a queue.

mod description;
mod kept;
mod multi_packet;

use std::task::Waker;

use convoy_ipsec::{CryptoPacket, Direction, KeyMaterial, SaIndex, Transform};

pub use description::{EngineDescription, Placement, Takes};
pub use kept::keep_input;
pub use multi_packet::{Completion, MultiPacket, Outcome, Refused, RunTemplate, lay_out, open_up};
pub(crate) use multi_packet::{is_one_run, split_time};

/// What a device must know of an SA beside its keys, to seal or open its packets in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Sealed on the way out, or opened on the way in.
    pub direction: Direction,
    /// By which a device finds the SA of what comes in.
    pub spi: u32,
}

/// Why an engine did not do as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// The queue is full: try again after the next completion.
    #[error("engine {0}: its queue is full")]
    NoRoom(String),
    /// The engine cannot do the transform.
    #[error("engine {engine}: cannot do {transform:?}")]
    Unsupported {
        /// Its name.
        engine: String,
        /// What was asked.
        transform: Transform,
    },
    /// No key stands under this SA.
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
        /// What it said.
        reason: String,
    },
}

/// An engine that works on its caller's core and takes packets of whatever SAs and directions
/// together.
pub trait InPlace {
    /// Seals or opens each packet in place, under the keys of its SA and as its `direction` says,
    /// and writes its status before it returns. A packet whose SA has no keys here stays
    /// [`Pending`](convoy_ipsec::CryptoStatus::Pending) and as it was.
    fn process(&mut self, packets: &mut [CryptoPacket]);
}

/// What becomes of an engine before and between its packets: keys, devices that take SAs, and
/// whether it works. The worker that has the engine calls it when SAs come and go; nothing here is
/// called for packets.
pub trait EngineControl: Send {
    /// What it is and can do.
    fn description(&self) -> &EngineDescription;

    /// Expands and caches the keys of an SA; replaces what stood under this index.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`], or [`EngineError::Device`].
    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError>;

    /// Forgets and wipes the keys of an SA. Unknown is no error. Multi-packets of it are in flight
    /// only if they were given up as too late: what becomes of them is not used.
    fn remove_key(&mut self, sa: SaIndex);

    /// Has the device of a port take an SA, so that it is done in flight: packets that are
    /// submitted for it leave this engine as plaintext with a tag
    /// ([`Offload::Seal`](convoy_packet::Offload::Seal)), those that come are tagged and open.
    /// `false` if this engine is no such device, or the device cannot. `remove_key` ends it.
    fn bind(&mut self, _sa: SaIndex, _binding: Binding, _keys: &KeyMaterial) -> bool {
        false
    }

    /// The SA that a device's number in [`Offload::Opened`](convoy_packet::Offload::Opened) stands
    /// for, while it is bound.
    fn bound(&self, _number: u32) -> Option<SaIndex> {
        None
    }

    /// Asks a failed engine whether it works again, with a known answer where it can.
    ///
    /// # Errors
    /// [`EngineError::Device`] if it does not.
    fn probe(&mut self) -> Result<(), EngineError> {
        Ok(())
    }
}

/// An engine's queue: packets in, the same packets back. No call waits.
pub trait EngineQueue: Send {
    /// Hands a multi-packet over; an inline engine does it at once, or
    /// [gathers](EngineDescription::gathers) it, and keeps it for `poll`.
    ///
    /// # Errors
    /// [`Refused`], with the multi-packet as it was.
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>>;

    /// Begins what was gathered, and appends what is done to `completions`, in the order of
    /// completion.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// Multi-packets submitted and not yet returned by `poll`.
    fn in_flight(&self) -> usize;

    /// The engine without its queue, if it works on the caller's core and [takes
    /// trains](Takes::Trains): what is the only engine to choose need not queue anything.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Multi-packets that it has gathered and will begin at the next `poll`.
    fn gathered(&self) -> usize {
        0
    }

    /// Has it wake the caller whenever something is done; `false` if it cannot, so that a caller
    /// with something in flight must poll and not sleep. An engine that is done when `submit` or
    /// `poll` returns has nothing to tell, and says `true`.
    fn wake_by(&mut self, _waker: &Waker) -> bool {
        false
    }

    /// Whether `poll` would bring something, for a caller that is about to sleep until it is woken.
    fn has_completions(&self) -> bool {
        false
    }
}

/// One engine of one worker: its control and its queue. Whatever threads or devices stand behind it
/// are the engine's own matter; where several workers share a device, each has an engine of its own
/// over it.
///
/// It is measured before it has any work, as an [`IdleEngine`](crate::IdleEngine) that gives no
/// engine back.
pub trait Engine: EngineControl + EngineQueue {}

impl<E: EngineControl + EngineQueue> Engine for E {}
