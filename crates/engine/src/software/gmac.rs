//! NULL encryption with AES-GMAC (RFC 4543): GCM with nothing to encrypt.
//!
//! Composed of `ghash` and one AES block rather than of `aes-gcm`, which requires the authenticated
//! bytes in one piece; ours are the job's `aad` and a part of the frame.

use std::sync::Arc;

use aes::cipher::consts::U16;
use aes::cipher::{BlockCipherEncrypt, BlockSizeUser, KeyInit};
use convoy_ipsec::{CryptoJob, CryptoStatus};
use ghash::universal_hash::UniversalHash;
use ghash::{Block, GHash};
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

use super::keys::{OneByOne, SaKeys, authenticated, part, part_mut};

const ICV_BYTES: usize = 16;

/// AES-GMAC under one key.
pub(super) struct GmacKeys<A> {
    aes: A,
    ghash: GHash,
}

impl<A> GmacKeys<A>
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    pub(super) fn expand(key: &[u8]) -> Option<Arc<dyn SaKeys>> {
        let aes = A::new_from_slice(key).ok()?;
        let mut hash_key = Block::default();
        aes.encrypt_block(&mut hash_key);
        let ghash = GHash::new(&hash_key);
        hash_key.zeroize();
        Some(Arc::new(Self { aes, ghash }))
    }

    fn icv(&self, job: &CryptoJob, frame: &[u8]) -> Option<Block> {
        let (aad, body) = (job.aad(), authenticated(job, frame)?);
        // GHASH takes whole blocks: the first one is filled up from the frame.
        let (head, rest) = body.split_at(body.len().min(16 - aad.len()));
        let mut first = Block::default();
        first[..aad.len()].copy_from_slice(aad);
        first[aad.len()..aad.len() + head.len()].copy_from_slice(head);
        let bits = (aad.len() + body.len()) as u64 * 8;
        let mut lengths = Block::default();
        lengths[..8].copy_from_slice(&bits.to_be_bytes());

        let mut ghash = self.ghash.clone();
        if bits > 0 {
            ghash.update(&[first]);
        }
        ghash.update_padded(rest);
        ghash.update(&[lengths]);

        let mut mask = Block::default();
        mask[..12].copy_from_slice(job.nonce().get(..12)?);
        mask[15] = 1;
        self.aes.encrypt_block(&mut mask);
        let mut icv = ghash.finalize();
        icv.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
        Some(icv)
    }
}

impl<A> OneByOne for GmacKeys<A>
where
    A: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + KeyInit + Send + Sync + 'static,
{
    fn seal(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let icv = self.icv(job, frame)?;
        part_mut(frame, job.icv_start, ICV_BYTES)?.copy_from_slice(&icv);
        Some(CryptoStatus::Done)
    }

    fn open(&self, job: &CryptoJob, frame: &mut [u8]) -> Option<CryptoStatus> {
        let icv = self.icv(job, frame)?;
        let is_same: bool = icv.ct_eq(part(frame, job.icv_start, ICV_BYTES)?).into();
        Some(if is_same { CryptoStatus::Done } else { CryptoStatus::IcvMismatch })
    }
}
