//! The expanded keys of one SA, and what they do to a packet.

use convoy_ipsec::{CryptoJob, CryptoStatus, Direction, KeyMaterial, Transform};

use super::aead::AeadKeys;
use super::chained::ChainedKeys;

/// Expanded keys. Wiped when dropped, by the libraries that hold them.
pub(crate) enum SaKeys {
    Aead(AeadKeys),
    Chained(ChainedKeys),
}

impl SaKeys {
    pub(crate) fn new(keys: &KeyMaterial) -> Self {
        match keys.transform() {
            Transform::Aead(aead) => Self::Aead(AeadKeys::new(aead, keys.cipher_key())),
            Transform::Chained { cipher, integrity } => {
                Self::Chained(ChainedKeys::new(cipher, integrity, keys))
            }
        }
    }

    /// Does one job in place. `scratch` is only memory to reuse.
    pub(crate) fn process(
        &self,
        direction: Direction,
        job: &CryptoJob,
        packet: &mut [u8],
        scratch: &mut Vec<u8>,
    ) -> CryptoStatus {
        let is_done = match (self, direction) {
            (Self::Aead(keys), Direction::Seal) => keys.seal(job, packet, scratch),
            (Self::Aead(keys), Direction::Open) => keys.open(job, packet, scratch),
            (Self::Chained(keys), Direction::Seal) => keys.seal(job, packet),
            (Self::Chained(keys), Direction::Open) => keys.open(job, packet),
        };
        if is_done { CryptoStatus::Done } else { CryptoStatus::IcvMismatch }
    }
}
