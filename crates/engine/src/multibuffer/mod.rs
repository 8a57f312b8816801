//! The `multibuffer` engine: Intel ipsec-mb, a multi-packet at a time, on the worker's core or on a thread of its own.

mod core;

use std::time::Instant;

use convoy_ipsec::{KeyMaterial, SaIndex, Transform};

pub(crate) use self::core::{Core, done_well};

use crate::remote::{Remote, Worker};
use crate::{
    Completion, Engine, EngineDescription, EngineError, EngineKind, MultiPacket, Outcome, Placement, Refused,
};

/// Multi-packets that may wait for the thread.
const DEPTH: usize = 32;
/// Packets at which every lane of the library is busy.
const BEST_BURST: usize = 32;

enum Place {
    Here { core: Box<Core>, done: Vec<Completion> },
    There(Remote),
}

/// The `multibuffer` engine.
pub struct Multibuffer {
    description: EngineDescription,
    place: Place,
}

impl Multibuffer {
    /// One that works on the caller's core, in `submit`.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is not there, with how to get it.
    pub fn inline(name: &str) -> Result<Self, EngineError> {
        let core = Box::new(Core::new(name)?);
        let description = describe(name, Placement::Inline, 0, core.transforms());
        Ok(Self { description, place: Place::Here { core, done: Vec::new() } })
    }

    /// One that works on a thread pinned to `core`, fed by a ring.
    ///
    /// # Errors
    /// [`EngineError::Device`] if the library is not there or the thread cannot be made.
    pub fn on_core(name: &str, core: usize) -> Result<Self, EngineError> {
        let (remote, transforms) = Remote::start(name, Some(core), DEPTH, Core::new)?;
        let description = describe(name, Placement::Lookaside, DEPTH, transforms);
        Ok(Self { description, place: Place::There(remote) })
    }
}

impl Worker for Core {
    fn transforms(&self) -> Vec<Transform> {
        Core::transforms(self)
    }

    fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        // An SA that the library refuses has no keys here, and its packets fail.
        let _ = Core::install(self, sa, keys);
    }

    fn remove(&mut self, sa: SaIndex) {
        Core::remove(self, sa);
    }

    fn process(&mut self, multi_packet: &mut MultiPacket) -> Option<u64> {
        let began = Instant::now();
        Core::process(self, multi_packet).then(|| began.elapsed().as_nanos() as u64)
    }
}

fn describe(name: &str, placement: Placement, depth: usize, transforms: Vec<Transform>) -> EngineDescription {
    EngineDescription {
        name: name.to_owned(),
        kind: EngineKind::Multibuffer,
        placement,
        transforms,
        depth,
        best_burst: BEST_BURST,
        is_model: false,
        // What a thread has is gone if it dies.
        needs_input_kept: placement == Placement::Lookaside,
        slack_ns: 0,
    }
}

impl Engine for Multibuffer {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        if !self.description.transforms.contains(&keys.transform()) {
            let engine = self.description.name.clone();
            return Err(EngineError::Unsupported { engine, transform: keys.transform() });
        }
        match &mut self.place {
            Place::Here { core, .. } => core.install(sa, keys),
            Place::There(remote) => remote.install(sa, keys),
        }
    }

    fn remove_key(&mut self, sa: SaIndex) {
        match &mut self.place {
            Place::Here { core, .. } => core.remove(sa),
            Place::There(remote) => remote.remove(sa),
        }
    }

    fn submit(&mut self, mut multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        match &mut self.place {
            Place::Here { core, done } => {
                let began = Instant::now();
                if !core.process(&mut multi_packet) {
                    return Err(self.description.refuse_unkeyed(multi_packet));
                }
                let service_ns = Some(began.elapsed().as_nanos() as u64);
                done.push(Completion { multi_packet, outcome: Outcome::Done, service_ns });
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
            Place::Here { done, .. } => completions.append(done),
            Place::There(remote) => remote.poll(completions),
        }
    }

    fn in_flight(&self) -> usize {
        match &self.place {
            Place::Here { done, .. } => done.len(),
            Place::There(remote) => remote.in_flight(),
        }
    }

    fn probe(&mut self) -> Result<(), EngineError> {
        match &self.place {
            Place::Here { .. } => Ok(()),
            Place::There(remote) => remote.probe(),
        }
    }
}
