//! AES-GCM (RFC 4106): whatever implements the `aead` trait with a 12-byte nonce.

use std::sync::Arc;

use aes_gcm::aead::array::typenum::Unsigned;
use aes_gcm::aead::consts::U12;
use aes_gcm::aead::{AeadCore, AeadInOut, KeyInit, Nonce, Tag};
use convoy_ipsec::{CryptoJob, CryptoStatus};

use super::keys::{OneByOne, SaKeys, ciphered, part, part_mut};

/// An AEAD under one key. The ICV's length is part of `C`, so that the library itself cuts the tag
/// and compares it in constant time.
pub(super) struct AeadKeys<C>(C);

impl<C> AeadKeys<C>
where
    C: AeadInOut<NonceSize = U12> + KeyInit + Send + Sync + 'static,
{
    pub(super) fn expand(key: &[u8]) -> Option<Arc<dyn SaKeys>> {
        Some(Arc::new(Self(C::new_from_slice(key).ok()?)))
    }
}

impl<C> OneByOne for AeadKeys<C>
where
    C: AeadInOut<NonceSize = U12> + Send + Sync,
{
    fn seal(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let nonce = <&Nonce<C>>::try_from(job.nonce()).ok()?;
        let body = ciphered(job, frame)?;
        let tag = self.0.encrypt_inout_detached(nonce, job.aad(), body.into()).ok()?;
        part_mut(frame, job.icv_start, tag.len())?.copy_from_slice(&tag);
        Some(CryptoStatus::Done)
    }

    fn open(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let nonce = <&Nonce<C>>::try_from(job.nonce()).ok()?;
        let icv = part(frame, job.icv_start, <C as AeadCore>::TagSize::USIZE)?;
        let tag = Tag::<C>::try_from(icv).ok()?;
        let body = ciphered(job, frame)?;
        let opened = self.0.decrypt_inout_detached(nonce, job.aad(), body.into(), &tag);
        Some(if opened.is_ok() { CryptoStatus::Done } else { CryptoStatus::IcvMismatch })
    }
}
