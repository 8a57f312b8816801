//! The `multibuffer` engine: Intel ipsec-mb on the worker's core or on a thread of its own, with packets of many SAs at a time.

mod core;
mod random;
mod settings;

use std::task::Waker;
use std::time::Instant;

use convoy_ipsec::{KeyMaterial, Prepared, SaIndex, Transform};

pub(crate) use self::core::{Core, done_well};
pub use settings::MultibufferSettings;

use crate::interface::{lay_out, open_up, split_time};
use crate::remote::{Remote, Worker};
use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, InPlace, MultiPacket,
    Outcome, Placement, Refused, Takes,
};
use random::Random;

/// Multi-packets that may wait for the thread.
const DEPTH: usize = 32;
/// Packets that keep every lane of the library busy: twice the 16 that it has with AVX-512, so that the end of a burst,
/// where lanes run empty, is half of it at most.
const GATHERS: usize = 32;

enum Place {
    Here(Inline),
    There(Remote),
}

/// The library on the caller's core.
struct Inline {
    core: Box<Core>,
    gathered: Vec<MultiPacket>,
    /// Packets of `gathered`.
    packets: usize,
    done: Vec<Completion>,
}

impl Inline {
    fn new(core: Core) -> Self {
        Self { core: Box::new(core), gathered: Vec::new(), packets: 0, done: Vec::new() }
    }

    fn gather(&mut self, multi_packet: MultiPacket) {
        self.packets += multi_packet.packets.len();
        self.gathered.push(multi_packet);
        if self.packets >= GATHERS {
            self.begin();
        }
    }

    /// Does all that was gathered. The time is one for all; each gets the part that its bytes are of them.
    fn begin(&mut self) {
        if self.gathered.is_empty() {
            return;
        }
        let began = Instant::now();
        self.core.process(&mut self.gathered[..]);
        let part = split_time(began.elapsed().as_nanos() as u64, &self.gathered);
        self.done.extend(self.gathered.drain(..).map(|multi_packet| {
            let service_ns = Some(part(&multi_packet));
            Completion { multi_packet, outcome: Outcome::Done, service_ns }
        }));
        self.packets = 0;
    }
}

impl InPlace for Inline {
    fn process(&mut self, packets: &mut [Prepared]) {
        self.core.process(packets);
    }
}

/// The `multibuffer` engine.
pub struct Multibuffer {
    description: EngineDescription,
    place: Place,
}

impl Multibuffer {
    /// One that works on the caller's core, in `submit` and `poll`.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is not there, with how to get it.
    pub fn inline(name: &str) -> Result<Self, EngineError> {
        let core = Core::new(name)?;
        // Each has a packet at least, so that there is always room for what it gathers.
        let description = describe(name, Placement::Inline, GATHERS, core.transforms());
        Ok(Self { description, place: Place::Here(Inline::new(core)) })
    }

    /// One that works on a thread pinned to `core`, fed by a ring.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is not there or the thread cannot be made.
    pub fn on_core(name: &str, core: usize) -> Result<Self, EngineError> {
        Self::on_thread(name, Some(core))
    }

    /// The same on whatever core the system finds for the thread: to be measured beside one that works on its own.
    ///
    /// # Errors
    /// Those of [`on_core`](Self::on_core).
    pub fn on_any_core(name: &str) -> Result<Self, EngineError> {
        Self::on_thread(name, None)
    }

    fn on_thread(name: &str, core: Option<usize>) -> Result<Self, EngineError> {
        let (remote, transforms) = Remote::start(name, core, DEPTH, |name| {
            Core::new(name).map(|core| OnThread { core, random: Random::default() })
        })?;
        let description = describe(name, Placement::Lookaside, DEPTH, transforms);
        Ok(Self { description, place: Place::There(remote) })
    }
}

/// The library on a thread of its own, where raw packets are laid out as well.
struct OnThread {
    core: Core,
    random: Random,
}

impl Worker for OnThread {
    fn transforms(&self) -> Vec<Transform> {
        self.core.transforms()
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        // An SA that the library refuses has no keys here, and its packets fail.
        let _ = self.core.install(sa, keys);
    }

    fn remove(&mut self, sa: SaIndex) {
        self.core.remove(sa);
    }

    fn gathers(&self) -> usize {
        GATHERS
    }

    fn process(&mut self, multi_packets: &mut [MultiPacket]) -> Option<u64> {
        let began = Instant::now();
        for MultiPacket { packets, templates, .. } in &mut *multi_packets {
            lay_out(templates, packets, &mut |iv| self.random.fill(iv));
        }
        self.core.process(multi_packets);
        for MultiPacket { packets, templates, .. } in multi_packets {
            open_up(templates, packets);
        }
        Some(began.elapsed().as_nanos() as u64)
    }
}

fn describe(name: &str, placement: Placement, depth: usize, transforms: Vec<Transform>) -> EngineDescription {
    EngineDescription {
        name: name.to_owned(),
        kind: EngineKind::Multibuffer,
        placement,
        transforms,
        depth,
        gathers: if placement == Placement::Inline { GATHERS } else { 1 },
        is_model: false,
        // What a thread has is gone if it dies.
        needs_input_kept: placement == Placement::Lookaside,
        takes: Takes::Trains,
        slack_ns: 0,
    }
}

impl EngineControl for Multibuffer {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.description.check_transform(keys.transform())?;
        match &mut self.place {
            Place::Here(inline) => inline.core.install(sa, keys),
            Place::There(remote) => remote.install(sa, keys),
        }
    }

    fn remove_key(&mut self, sa: SaIndex) {
        match &mut self.place {
            Place::Here(inline) => inline.core.remove(sa),
            Place::There(remote) => remote.remove(sa),
        }
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        match &self.place {
            Place::Here(_) => Ok(()),
            Place::There(remote) => remote.probe(),
        }
    }
}

impl EngineQueue for Multibuffer {
    fn submit(&mut self, multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        match &mut self.place {
            Place::Here(inline) if !inline.core.has_key(multi_packet.sa) => {
                Err(self.description.refuse_unkeyed(multi_packet))
            }
            Place::Here(inline) => {
                inline.gather(multi_packet);
                Ok(())
            }
            Place::There(remote) if !remote.has_key(multi_packet.sa) => {
                Err(self.description.refuse_unkeyed(multi_packet))
            }
            Place::There(remote) => remote.submit(multi_packet),
        }
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        match &mut self.place {
            Place::Here(inline) => {
                inline.begin();
                completions.append(&mut inline.done);
            }
            Place::There(remote) => remote.poll(completions),
        }
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        match &mut self.place {
            Place::Here(inline) => Some(inline),
            Place::There(_) => None,
        }
    }

    fn in_flight(&self) -> usize {
        match &self.place {
            Place::Here(inline) => inline.gathered.len() + inline.done.len(),
            Place::There(remote) => remote.in_flight(),
        }
    }

    fn wake_by(&mut self, waker: &Waker) -> bool {
        match &mut self.place {
            Place::Here(_) => true,
            Place::There(remote) => remote.wake_by(waker),
        }
    }

    fn has_completions(&self) -> bool {
        match &self.place {
            Place::Here(inline) => !inline.done.is_empty(),
            Place::There(remote) => remote.has_completions(),
        }
    }

    fn gathered(&self) -> usize {
        match &self.place {
            Place::Here(inline) => inline.gathered.len(),
            Place::There(_) => 0,
        }
    }
}
