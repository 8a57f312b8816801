//! The `software` engine: one packet at a time, on the caller's core, with the RustCrypto libraries. It does every
//! algorithm on every platform, and is the reference for the other engines.

mod aead;
mod chained;
mod keys;

pub(crate) use keys::SaKeys;

use std::time::Instant;

use convoy_ipsec::{Aead, Cipher, Integrity, KeyBits, KeyMaterial, SaIndex, Transform};

use crate::{
    Completion, Engine, EngineDescription, EngineError, EngineKind, MultiPacket, Outcome, Placement, Refused,
};

/// Every transform that there is.
pub(crate) fn all_transforms() -> Vec<Transform> {
    const BITS: [KeyBits; 3] = [KeyBits::B128, KeyBits::B192, KeyBits::B256];
    let mut all = vec![Transform::Aead(Aead::ChaCha20Poly1305)];
    for key in BITS {
        all.extend([8, 12, 16].map(|icv| Transform::Aead(Aead::AesGcm { key, icv })));
        all.push(Transform::Aead(Aead::NullAesGmac(key)));
    }
    let ciphers = BITS.into_iter().flat_map(|key| [Cipher::AesCbc(key), Cipher::AesCtr(key)]);
    for cipher in ciphers.chain([Cipher::Null, Cipher::TripleDesCbc, Cipher::DesCbc]) {
        let integrity = [
            Integrity::HmacMd5_96,
            Integrity::HmacSha1_96,
            Integrity::HmacSha256_128,
            Integrity::HmacSha384_192,
            Integrity::HmacSha512_256,
        ];
        all.extend(integrity.map(|integrity| Transform::Chained { cipher, integrity: Some(integrity) }));
        all.push(Transform::Chained { cipher, integrity: None });
    }
    all
}

/// Keys by SA, with room for the scratch that some transforms need.
#[derive(Default)]
pub(crate) struct KeyStore {
    keys: Vec<Option<Box<SaKeys>>>,
    scratch: Vec<u8>,
}

impl KeyStore {
    pub(crate) fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) {
        let at = sa.0 as usize;
        if self.keys.len() <= at {
            self.keys.resize_with(at + 1, || None);
        }
        self.keys[at] = Some(Box::new(SaKeys::new(keys)));
    }

    pub(crate) fn remove(&mut self, sa: SaIndex) {
        if let Some(slot) = self.keys.get_mut(sa.0 as usize) {
            *slot = None;
        }
    }

    /// Does every packet of a multi-packet; `false` if its SA has no keys here.
    pub(crate) fn process(&mut self, multi_packet: &mut MultiPacket) -> bool {
        let Some(Some(keys)) = self.keys.get(multi_packet.sa.0 as usize) else { return false };
        for packet in &mut multi_packet.packets {
            packet.status =
                keys.process(multi_packet.direction, &packet.job, &mut packet.frame, &mut self.scratch);
        }
        true
    }
}

/// The `software` engine.
pub struct Software {
    description: EngineDescription,
    keys: KeyStore,
    done: Vec<Completion>,
}

impl Software {
    /// An engine of this name without keys.
    pub fn new(name: &str) -> Self {
        Self {
            description: EngineDescription {
                name: name.to_owned(),
                kind: EngineKind::Software,
                placement: Placement::Inline,
                transforms: all_transforms(),
                depth: 0,
                best_burst: 1,
                is_model: false,
                needs_input_kept: false,
            },
            keys: KeyStore::default(),
            done: Vec::new(),
        }
    }
}

impl Engine for Software {
    fn description(&self) -> &EngineDescription {
        &self.description
    }

    fn install_key(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.keys.install(sa, keys);
        Ok(())
    }

    fn remove_key(&mut self, sa: SaIndex) {
        self.keys.remove(sa);
    }

    fn submit(&mut self, mut multi_packet: MultiPacket) -> Result<(), Box<Refused>> {
        let began = Instant::now();
        if !self.keys.process(&mut multi_packet) {
            let reason = EngineError::NoKey { engine: self.description.name.clone(), sa: multi_packet.sa };
            return Err(Box::new(Refused { multi_packet, reason }));
        }
        let service_ns = Some(began.elapsed().as_nanos() as u64);
        self.done.push(Completion { multi_packet, outcome: Outcome::Done, service_ns });
        Ok(())
    }

    fn poll(&mut self, completions: &mut Vec<Completion>) {
        completions.append(&mut self.done);
    }

    fn in_flight(&self) -> usize {
        self.done.len()
    }
}
