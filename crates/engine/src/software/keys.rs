//! The expanded keys of each SA, and their application to a batch.

use std::sync::Arc;

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::consts::{U8, U12, U16};
use convoy_ipsec::{
    Aead, Cipher, CryptoJob, CryptoPacket, CryptoStatus, Direction, ENCRYPTION, Encryption, EncryptionRow,
    INTEGRITY, KeyBits, KeyMaterial, SaIndex, Transform,
};

use super::aead::AeadKeys;
use super::chacha::ChaChaKeys;
use super::chained::ChainedKeys;
use super::gmac::GmacKeys;
use crate::EngineError;

/// The expanded keys of one SA, wiped when dropped. One call a batch, so that the dispatch
/// over algorithms is not paid per packet.
pub trait SaKeys: Send + Sync {
    /// Seals or opens every packet in place and writes its status. One whose job exceeds its frame
    /// stays `Pending`.
    fn run(&self, direction: Direction, packets: &mut [CryptoPacket]);
}

/// Keys that process each packet by itself; `None` is a job that exceeds its frame.
pub(super) trait OneByOne: Send + Sync {
    fn seal(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus>;
    fn open(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus>;
}

impl<K: OneByOne> SaKeys for K {
    fn run(&self, direction: Direction, packets: &mut [CryptoPacket]) {
        for packet in packets {
            let status = match direction {
                Direction::Seal => self.seal(&packet.job, &mut packet.frame),
                Direction::Open => self.open(&packet.job, &mut packet.frame),
            };
            packet.status = status.unwrap_or(CryptoStatus::Pending);
        }
    }
}

/// The SAs of one engine, by index.
#[derive(Default)]
pub struct KeyTable {
    slots: Vec<Option<Arc<dyn SaKeys>>>,
}

/// SA indices are those of the SAD and thus dense; a far larger one is a mistake, not a reason to
/// allocate.
const SA_LIMIT: u32 = 1 << 22;

impl KeyTable {
    /// Installs the keys of an SA; `engine` is the name for an error.
    ///
    /// # Errors
    /// [`EngineError`] if the transform is not supported, or the index is far too large.
    pub fn install(&mut self, engine: &str, sa: SaIndex, keys: &KeyMaterial) -> Result<(), EngineError> {
        let engine = || engine.to_owned();
        let Some(expanded) = expand(keys) else {
            return Err(EngineError::Unsupported { engine: engine(), transform: keys.transform() });
        };
        if sa.0 >= SA_LIMIT {
            let reason = format!("SA index {} is not below {SA_LIMIT}", sa.0);
            return Err(EngineError::Device { engine: engine(), reason });
        }
        let slot = sa.0 as usize;
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = Some(expanded);
        Ok(())
    }

    /// Removes the keys of an SA, if it has any.
    pub fn remove(&mut self, sa: SaIndex) {
        if let Some(slot) = self.slots.get_mut(sa.0 as usize) {
            *slot = None;
        }
    }

    /// The keys of an SA.
    pub fn get(&self, sa: SaIndex) -> Option<&Arc<dyn SaKeys>> {
        self.slots.get(sa.0 as usize)?.as_ref()
    }
}

/// Every transform that the `software` and `model` engines support: all of RFC 8221's ESP and the
/// weak ones.
pub fn transforms() -> Vec<Transform> {
    let integrity = || std::iter::once(None).chain(INTEGRITY.iter().map(|row| Some(row.algorithm)));
    let encryption = ENCRYPTION.iter().flat_map(EncryptionRow::algorithms);
    let all = encryption.flat_map(|encryption| match encryption {
        Encryption::Aead(aead) => vec![Transform::Aead(aead)],
        Encryption::Cipher(cipher) => {
            integrity().map(|integrity| Transform::Chained { cipher, integrity }).collect()
        }
    });
    let nothing = Transform::Chained { cipher: Cipher::Null, integrity: None };
    all.filter(|transform| *transform != nothing).collect()
}

/// `None` for an invalid transform: a GCM tag of another length, or neither cipher nor integrity.
fn expand(keys: &KeyMaterial) -> Option<Arc<dyn SaKeys>> {
    let key = keys.cipher_key();
    match keys.transform() {
        Transform::Aead(Aead::AesGcm { key: bits, icv }) => match bits {
            KeyBits::B128 => expand_gcm::<Aes128>(key, icv),
            KeyBits::B192 => expand_gcm::<Aes192>(key, icv),
            KeyBits::B256 => expand_gcm::<Aes256>(key, icv),
        },
        Transform::Aead(Aead::ChaCha20Poly1305) => ChaChaKeys::expand(key),
        Transform::Aead(Aead::NullAesGmac(bits)) => match bits {
            KeyBits::B128 => GmacKeys::<Aes128>::expand(key),
            KeyBits::B192 => GmacKeys::<Aes192>::expand(key),
            KeyBits::B256 => GmacKeys::<Aes256>::expand(key),
        },
        Transform::Chained { cipher, integrity } => {
            ChainedKeys::expand(cipher, key, integrity, keys.integrity_key())
        }
    }
}

fn expand_gcm<A>(key: &[u8], icv: u8) -> Option<Arc<dyn SaKeys>>
where
    A: aes::cipher::KeyInit + aes::cipher::BlockSizeUser<BlockSize = U16>,
    A: aes::cipher::BlockCipherEncrypt + Send + Sync + 'static,
{
    match icv {
        8 => AeadKeys::<AesGcm<A, U12, U8>>::expand(key),
        12 => AeadKeys::<AesGcm<A, U12, U12>>::expand(key),
        16 => AeadKeys::<AesGcm<A, U12, U16>>::expand(key),
        _ => None,
    }
}

/// A part of a frame; `None` if it exceeds the frame.
pub(crate) fn part(frame: &[u8], start: u16, len: usize) -> Option<&[u8]> {
    frame.get(usize::from(start)..usize::from(start) + len)
}

/// As [`part`], to write.
pub(crate) fn part_mut(frame: &mut [u8], start: u16, len: usize) -> Option<&mut [u8]> {
    frame.get_mut(usize::from(start)..usize::from(start) + len)
}

/// The authenticated part of the frame.
pub(crate) fn authenticated<'a>(job: &CryptoJob, frame: &'a [u8]) -> Option<&'a [u8]> {
    part(frame, job.auth_start, job.auth_len.into())
}

/// The encrypted part of the frame.
pub(crate) fn ciphered<'a>(job: &CryptoJob, frame: &'a mut [u8]) -> Option<&'a mut [u8]> {
    part_mut(frame, job.cipher_start, job.cipher_len.into())
}

#[cfg(test)]
mod tests {
    use aes_gcm::AesGcm;
    use des::{Des, TdesEde3};
    use zeroize::ZeroizeOnDrop;

    use super::*;

    fn is_wiped<K: ZeroizeOnDrop>() {}

    /// Holds as soon as it compiles: it fails to if a library's `zeroize` feature is off.
    #[test]
    fn every_expanded_key_is_wiped_when_dropped() {
        is_wiped::<Aes128>();
        is_wiped::<Aes192>();
        is_wiped::<Aes256>();
        is_wiped::<AesGcm<Aes128, U12, U8>>();
        is_wiped::<Des>();
        is_wiped::<TdesEde3>();
        // An HMAC is two states of its hash and their buffer.
        is_wiped::<md5::Md5>();
        is_wiped::<sha1::Sha1>();
        is_wiped::<sha2::Sha256>();
        is_wiped::<sha2::Sha384>();
        is_wiped::<sha2::Sha512>();
    }

    #[test]
    fn an_index_far_beyond_any_sad_is_refused_and_not_allocated() {
        let transform = Transform::Aead(Aead::ChaCha20Poly1305);
        let keys = KeyMaterial::new(transform, vec![0; 36]).expect("the right length");
        let mut table = KeyTable::default();
        let error = table.install("software0", SaIndex(u32::MAX), &keys).expect_err("far too large");
        assert_eq!(error.to_string(), "engine software0: SA index 4294967295 is not below 4194304");
        assert!(table.slots.is_empty());
    }
}
