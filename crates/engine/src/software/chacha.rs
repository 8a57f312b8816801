//! ChaCha20-Poly1305 (RFC 7634) by ring, which takes a tenth of RustCrypto's time at 64 bytes and a
//! quarter at 1450: there the AVX2 code of Poly1305 is not inlined unless the whole build is for
//! AVX2.

use std::sync::Arc;

use convoy_ipsec::{CryptoJob, CryptoStatus};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, Tag, UnboundKey};

use super::keys::{OneByOne, SaKeys, ciphered, part, part_mut};

/// Bytes of the ICV.
const ICV: usize = 16;

/// The key of one SA. The SA's sequence numbers make nonces unique, which ring's "less safe" leaves
/// to us.
pub(super) struct ChaChaKeys(LessSafeKey);

impl ChaChaKeys {
    pub(super) fn expand(key: &[u8]) -> Option<Arc<dyn SaKeys>> {
        Some(Arc::new(Self(less_safe(key)?)))
    }

    /// ring wipes nothing, so another key is written over this one.
    fn wipe(&mut self) {
        if let Some(zeros) = less_safe(&[0; 32]) {
            self.0 = zeros;
        }
        // Without this the compiler may leave out a write that is never read.
        std::hint::black_box(&mut self.0);
    }
}

fn less_safe(key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new)
}

fn nonce(job: &CryptoJob) -> Option<Nonce> {
    <[u8; NONCE_LEN]>::try_from(job.nonce()).ok().map(Nonce::assume_unique_for_key)
}

impl OneByOne for ChaChaKeys {
    fn seal(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let body = ciphered(job, frame)?;
        let tag = self.0.seal_in_place_separate_tag(nonce(job)?, Aad::from(job.aad()), body).ok()?;
        part_mut(frame, job.icv_start, ICV)?.copy_from_slice(tag.as_ref());
        Some(CryptoStatus::Done)
    }

    fn open(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let tag = Tag::try_from(part(frame, job.icv_start, ICV)?).ok()?;
        let body = ciphered(job, frame)?;
        let opened = self.0.open_in_place_separate_tag(nonce(job)?, Aad::from(job.aad()), tag, body, 0..);
        Some(if opened.is_ok() { CryptoStatus::Done } else { CryptoStatus::IcvMismatch })
    }
}

impl Drop for ChaChaKeys {
    fn drop(&mut self) {
        self.wipe();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(keys: &ChaChaKeys) -> Vec<u8> {
        let nonce = Nonce::assume_unique_for_key([1; NONCE_LEN]);
        let sealed = keys.0.seal_in_place_separate_tag(nonce, Aad::empty(), &mut [5; 40]);
        sealed.expect("short enough").as_ref().to_vec()
    }

    #[test]
    fn a_wiped_key_is_all_zeros() {
        let keys = |byte| ChaChaKeys(less_safe(&[byte; 32]).expect("32 bytes"));
        let mut wiped = keys(9);
        assert_ne!(tag(&wiped), tag(&keys(0)));
        wiped.wipe();
        assert_eq!(tag(&wiped), tag(&keys(0)));
    }
}
