//! One packet at a time with vetted ciphers (RustCrypto, and ring for ChaCha20-Poly1305), on the caller's core: the reference that every other
//! engine is held against, on every platform.

mod aead;
mod chacha;
mod chained;
mod gmac;
mod integrity;
mod keys;
mod modes;
mod settings;

use std::task::Waker;

use convoy_ipsec::{KeyMaterial, Prepared, SaIndex};

pub use keys::transforms;
pub(crate) use keys::{KeyTable, SaKeys};
pub use settings::SoftwareSettings;

use crate::interface::is_one_run;
use crate::{
    Completion, EngineControl, EngineDescription, EngineError, EngineKind, EngineQueue, InPlace, MultiPacket,
    Outcome, Placement, Refused, Takes,
};

/// The `software` engine. Does everything that [`transforms`] lists.
pub struct Software {
    description: EngineDescription,
    keys: KeyTable,
    done: Vec<Completion>,
}

impl Software {
    /// An engine called `name`, without keys.
    pub fn new(name: impl Into<String>) -> Self {
        let description = EngineDescription {
            name: name.into(),
            kind: EngineKind::Software,
            placement: Placement::Inline,
            transforms: transforms(),
            depth: 0,
            gathers: 1,
            is_model: false,
            needs_input_kept: false,
            takes: Takes::Trains,
            slack_ns: 0,
        };
        Self { description, keys: KeyTable::default(), done: Vec::new() }
    }
}

impl EngineControl for Software {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.keys.install(&self.description.name, sa, keys)
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.keys.remove(sa);
    }
}

impl EngineQueue for Software {
    fn submit(&mut self, mut multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        let Some(keys) = self.keys.get(multi_packet.sa) else {
            return Err(self.description.refuse_unkeyed(multi_packet));
        };
        let start = std::time::Instant::now();
        keys.run(multi_packet.direction, &mut multi_packet.packets);
        let service_ns = Some(start.elapsed().as_nanos() as u64);
        self.done.push(Completion { multi_packet, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_place(&mut self) -> Option<&mut dyn InPlace> {
        Some(self)
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }

    fn wake_by(&mut self, _: &Waker) -> bool {
        true
    }
}

impl InPlace for Software {
    fn process(&mut self, packets: &mut [Prepared]) {
        for run in packets.chunk_by_mut(is_one_run) {
            let Some(first) = run.first() else { continue };
            if let Some(keys) = self.keys.get(first.sa) {
                keys.run(first.direction, run);
            }
        }
    }
}
