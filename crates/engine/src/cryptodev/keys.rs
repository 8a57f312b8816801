//! The sessions of each SA: created when its keys are installed, so that no packet waits for one.

use std::sync::Arc;

use convoy_dpdk::{Device, DeviceSuite, DpdkError, Session, SessionKeys};
use convoy_ipsec::{Direction, KeyMaterial, SaIndex};

use super::suite::{AAD_LENS, suite};
use crate::EngineError;
use crate::software::KeyTable;

/// Sessions of an SA: a session has one direction and, for an AEAD, one length of additional data.
pub(super) const SESSIONS_OF_SA: u32 = 4;

/// One SA at the device.
pub(super) struct SaSessions {
    pub(super) suite: DeviceSuite,
    /// By direction, then by place in [`AAD_LENS`].
    sessions: [[Arc<Session>; AAD_LENS.len()]; 2],
}

impl SaSessions {
    /// The session for a packet; `None` if its additional data has a length that ESP's never has.
    pub(super) fn of(&self, direction: Direction, aad_len: usize) -> Option<&Arc<Session>> {
        let at =
            if self.suite.cipher.is_aead() { AAD_LENS.iter().position(|len| *len == aad_len)? } else { 0 };
        Some(&self.sessions[usize::from(direction == Direction::Open)][at])
    }
}

/// The SAs of one engine.
pub(super) struct DeviceSas {
    name: String,
    device: &'static Device,
    sas: Vec<Option<SaSessions>>,
    /// For packets that no device supports: those that are not ESP's.
    pub(super) reference: KeyTable,
}

impl DeviceSas {
    pub(super) fn new(name: &str, device: &'static Device) -> Self {
        Self { name: name.to_owned(), device, sas: Vec::new(), reference: KeyTable::default() }
    }

    pub(super) fn get(&self, sa: SaIndex) -> Option<&SaSessions> {
        self.sas.get(sa.0 as usize)?.as_ref()
    }

    pub(super) fn install(&mut self, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        self.remove(sa);
        self.reference.install(&self.name, sa, keys)?;
        let made = self
            .make(keys)
            .map_err(|error| EngineError::Device { engine: self.name.clone(), reason: error.to_string() })?;
        let at = sa.0 as usize;
        if self.sas.len() <= at {
            self.sas.resize_with(at + 1, || None);
        }
        self.sas[at] = Some(made);
        Ok(())
    }

    fn make(&self, keys: &KeyMaterial) -> Result<SaSessions, DpdkError> {
        let suite = suite(keys.transform());
        let session = |seal, aad_len| {
            let keys =
                SessionKeys { suite, aad_len, seal, key: keys.cipher_key(), hash_key: keys.integrity_key() };
            self.device.session(&keys).map(Arc::new)
        };
        let pair = |seal| {
            let first = session(seal, if suite.cipher.is_aead() { AAD_LENS[0] } else { 0 })?;
            let second =
                if suite.cipher.is_aead() { session(seal, AAD_LENS[1])? } else { Arc::clone(&first) };
            Ok([first, second])
        };
        Ok(SaSessions { suite, sessions: [pair(true)?, pair(false)?] })
    }

    pub(super) fn remove(&mut self, sa: SaIndex) {
        self.reference.remove(sa);
        if let Some(slot) = self.sas.get_mut(sa.0 as usize) {
            *slot = None;
        }
    }
}
