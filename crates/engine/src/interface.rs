//! The `Engine` trait and what passes through it.

use std::fmt;
use std::task::Waker;

use convoy_ipsec::{BatchTemplate, Direction, KeyMaterial, Prepared, SaIndex, Transform};

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

/// What an engine says of itself.
#[derive(Clone, Debug)]
pub struct EngineDescription {
    /// Unique in a gateway, for example `multibuffer0`.
    pub name: String,
    /// Its kind.
    pub kind: EngineKind,
    /// Where it works.
    pub placement: Placement,
    /// What it can do.
    pub transforms: Vec<Transform>,
    /// Multi-packets that may wait, the one in service not counted.
    pub depth: usize,
    /// Packets, of whatever SAs, that it gathers before it begins; with fewer it begins at the next `poll`. 1 where it begins
    /// at once.
    pub gathers: usize,
    /// Whether its timing is a model's.
    pub is_model: bool,
    /// Whether frames may vanish with it or come back half done, so that the input must be kept until
    /// completion. False only where it works on the caller's core and cannot stop half way.
    pub needs_input_kept: bool,
    /// Whether a multi-packet may be a train: packets of several SAs, as they came, raw where they have
    /// [templates](MultiPacket::templates). Only for one elsewhere; on the caller's core it
    /// is [`in_place`](Engine::in_place) that says so.
    pub takes_trains: bool,
    /// How much longer than it says its answers may take, in ns of the machine's clock: a simulation's time is not the
    /// machine's. 0 for what really takes the time that it tells.
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

/// What a device must know of an SA beside its keys, to seal or open its packets in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Binding {
    /// Sealed on the way out, or opened on the way in.
    pub direction: Direction,
    /// By which a device finds the SA of what comes in.
    pub spi: u32,
}

/// What a packet takes beside its own bytes, in bytes that take as long.
const BYTES_OF_A_START: usize = 64;

/// Splits the time that multi-packets took together, in ns, by their bytes.
pub(crate) fn split_time(
    total_ns: u64,
    multi_packets: &[MultiPacket],
) -> impl Fn(&MultiPacket) -> u64 + use<> {
    let bytes: usize = multi_packets.iter().map(MultiPacket::work).sum();
    let ns_of_byte = total_ns as f64 / bytes.max(1) as f64;
    move |multi_packet| (ns_of_byte * multi_packet.work() as f64) as u64
}

impl MultiPacket {
    /// Packets that are laid out.
    pub fn new(ticket: u64, sa: SaIndex, direction: Direction, packets: Vec<Prepared>) -> Self {
        Self { ticket, sa, direction, packets, templates: Vec::new() }
    }

    /// Its part of the work, in bytes.
    fn work(&self) -> usize {
        self.packets.iter().map(|packet| packet.frame.len() + BYTES_OF_A_START).sum()
    }
}

/// Packets of one direction that go to an engine together: of one SA, but for an engine that [takes
/// trains](EngineDescription::takes_trains).
#[derive(Debug)]
pub struct MultiPacket {
    /// Given by the sender and returned in the [`Completion`].
    pub ticket: u64,
    /// Whose keys; of a train, those of the first packet. Each packet says its own.
    pub sa: SaIndex,
    /// Seal or open.
    pub direction: Direction,
    /// The packets, in order.
    pub packets: Vec<Prepared>,
    /// How packets that are raw are laid out, run by run of one SA, for an engine that [takes trains](EngineDescription::takes_trains). Empty
    /// where all are laid out.
    pub templates: Vec<RunTemplate>,
}

/// What lays out a run of packets of one SA.
#[derive(Clone, Copy, Debug)]
pub struct RunTemplate {
    /// The SA's template; `None` where its packets are never raw.
    pub template: Option<BatchTemplate>,
    /// Packets of the run.
    pub packets: u32,
}

/// Lays raw packets out, each run by its template; `random` gives the IVs of CBC.
pub fn lay_out(templates: &[RunTemplate], packets: &mut [Prepared], random: &mut dyn FnMut(&mut [u8])) {
    for_each_run(templates, packets, |template, run| template.lay_out(run, random));
}

/// Makes opened packets plain, each run by its template.
pub fn open_up(templates: &[RunTemplate], packets: &mut [Prepared]) {
    for_each_run(templates, packets, |template, run| template.open_up(run));
}

fn for_each_run(
    templates: &[RunTemplate],
    mut packets: &mut [Prepared],
    mut work: impl FnMut(&BatchTemplate, &mut [Prepared]),
) {
    for run in templates {
        let len = packets.len().min(run.packets as usize);
        let (these, rest) = packets.split_at_mut(len);
        if let Some(template) = &run.template {
            work(template, these);
        }
        packets = rest;
    }
}

/// Whether two packets have the same keys and the same is done to them.
pub(crate) fn is_one_run(one: &Prepared, other: &Prepared) -> bool {
    (one.sa, one.direction) == (other.sa, other.direction)
}

/// How a multi-packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every packet has its result in `status`.
    Done,
    /// The engine failed; the packets' bytes may be half done.
    Failed,
}

/// A multi-packet on its way back.
#[derive(Debug)]
pub struct Completion {
    /// The multi-packet, in the order it was submitted.
    pub multi_packet: MultiPacket,
    /// How it ended.
    pub outcome: Outcome,
    /// When the engine began it and when it ended, in ns of [`std::time::Instant`]-like monotonic time as
    /// read by the engine; `None` if the engine cannot tell.
    pub service_ns: Option<u64>,
}

/// A multi-packet that was not taken: no room, or the engine is gone. Nothing was changed in it.
#[derive(Debug)]
pub struct Refused {
    /// As it was handed in.
    pub multi_packet: MultiPacket,
    /// Why.
    pub reason: EngineError,
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

/// An engine that works on its caller's core and takes packets of whatever SAs and directions together.
pub trait InPlace {
    /// Seals or opens each packet in place, under the keys of its SA and as its `direction` says, and writes its status before it
    /// returns. A packet whose SA has no keys here stays [`Pending`](convoy_ipsec::CryptoStatus::Pending) and as it was.
    fn process(&mut self, packets: &mut [Prepared]);
}

/// One engine. Not shared: each worker has its own handle, and whatever threads or devices stand
/// behind it are the engine's own matter.
pub trait Engine: Send {
    /// What it is and can do.
    fn description(&self) -> &EngineDescription;

    /// Expands and caches the keys of an SA; replaces what stood under this index.
    ///
    /// # Errors
    /// [`EngineError::Unsupported`], or [`EngineError::Device`].
    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError>;

    /// Forgets and wipes the keys of an SA. No multi-packet of it is in flight. Unknown is no error.
    fn remove_key(&mut self, sa: SaIndex);

    /// Hands a multi-packet over; an inline engine does it at once, or [gathers](EngineDescription::gathers) it, and keeps it
    /// for `poll`.
    ///
    /// # Errors
    /// [`Refused`], with the multi-packet as it was.
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>>;

    /// Begins what was gathered, appends what is done to `completions`, in the order of completion, and never waits.
    fn poll(&mut self, completions: &mut Vec<Completion>);

    /// The engine without its queue, where it works on the caller's core: what is the only engine to choose need not queue anything.
    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        None
    }

    /// Multi-packets submitted and not yet returned by `poll`.
    fn in_flight(&self) -> usize;

    /// Has it wake the caller whenever something is done; `false` if it cannot, so that a caller which sleeps has to look by itself. An engine
    /// that works on the caller's core has nothing to tell.
    fn wake_by(&mut self, _waker: &Waker) -> bool {
        self.description().placement == Placement::Inline
    }

    /// Whether `poll` would bring something, for a caller that is about to sleep until it is woken.
    fn has_completions(&self) -> bool {
        false
    }

    /// Multi-packets that it has gathered and will begin at the next `poll`.
    fn gathered(&self) -> usize {
        0
    }

    /// Has the device of a port take an SA, so that it is done in flight: packets that are submitted for it leave this engine as
    /// plaintext with a tag ([`Offload::Seal`](convoy_packet::Offload::Seal)), those that come are tagged and open. `false` if this
    /// engine is no such device, or the device cannot. `remove_key` ends it.
    fn bind(&mut self, _sa: SaIndex, _binding: Binding, _keys: &KeyMaterial) -> bool {
        false
    }

    /// The SA that a device's number in [`Offload::Opened`](convoy_packet::Offload::Opened) stands for, while it is bound.
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
