//! AES-GCM (RFC 4106), ChaCha20-Poly1305 (RFC 7634) and AES-GMAC (RFC 4543).

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::AesGcm;
use aes_gcm::aead::consts::{U8, U12, U16};
use aes_gcm::aead::{AeadInOut, KeyInit};
use chacha20poly1305::ChaCha20Poly1305;
use convoy_ipsec::{Aead, CryptoJob, KeyBits};

/// The keys of one AEAD. One variant for each length of key and ICV, since the library has them as types.
pub(crate) enum AeadKeys {
    Gcm128x8(AesGcm<Aes128, U12, U8>),
    Gcm128x12(AesGcm<Aes128, U12, U12>),
    Gcm128x16(AesGcm<Aes128, U12, U16>),
    Gcm192x8(AesGcm<Aes192, U12, U8>),
    Gcm192x12(AesGcm<Aes192, U12, U12>),
    Gcm192x16(AesGcm<Aes192, U12, U16>),
    Gcm256x8(AesGcm<Aes256, U12, U8>),
    Gcm256x12(AesGcm<Aes256, U12, U12>),
    Gcm256x16(AesGcm<Aes256, U12, U16>),
    ChaCha(ChaCha20Poly1305),
    Gmac128(AesGcm<Aes128, U12, U16>),
    Gmac192(AesGcm<Aes192, U12, U16>),
    Gmac256(AesGcm<Aes256, U12, U16>),
}

fn new<K: KeyInit>(key: &[u8]) -> K {
    K::new_from_slice(key).expect("key material was checked against its transform")
}

impl AeadKeys {
    pub(crate) fn new(aead: Aead, key: &[u8]) -> Self {
        use KeyBits::{B128, B192, B256};
        match aead {
            Aead::AesGcm { key: B128, icv: 8 } => Self::Gcm128x8(new(key)),
            Aead::AesGcm { key: B128, icv: 12 } => Self::Gcm128x12(new(key)),
            Aead::AesGcm { key: B128, .. } => Self::Gcm128x16(new(key)),
            Aead::AesGcm { key: B192, icv: 8 } => Self::Gcm192x8(new(key)),
            Aead::AesGcm { key: B192, icv: 12 } => Self::Gcm192x12(new(key)),
            Aead::AesGcm { key: B192, .. } => Self::Gcm192x16(new(key)),
            Aead::AesGcm { key: B256, icv: 8 } => Self::Gcm256x8(new(key)),
            Aead::AesGcm { key: B256, icv: 12 } => Self::Gcm256x12(new(key)),
            Aead::AesGcm { key: B256, .. } => Self::Gcm256x16(new(key)),
            Aead::ChaCha20Poly1305 => Self::ChaCha(new(key)),
            Aead::NullAesGmac(B128) => Self::Gmac128(new(key)),
            Aead::NullAesGmac(B192) => Self::Gmac192(new(key)),
            Aead::NullAesGmac(B256) => Self::Gmac256(new(key)),
        }
    }

    /// Encrypts and writes the ICV. Always succeeds for lengths that fit a packet.
    pub(crate) fn seal(&self, job: &CryptoJob, packet: &mut [u8], scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Gcm128x8(keys) => seal(keys, job, packet),
            Self::Gcm128x12(keys) => seal(keys, job, packet),
            Self::Gcm128x16(keys) => seal(keys, job, packet),
            Self::Gcm192x8(keys) => seal(keys, job, packet),
            Self::Gcm192x12(keys) => seal(keys, job, packet),
            Self::Gcm192x16(keys) => seal(keys, job, packet),
            Self::Gcm256x8(keys) => seal(keys, job, packet),
            Self::Gcm256x12(keys) => seal(keys, job, packet),
            Self::Gcm256x16(keys) => seal(keys, job, packet),
            Self::ChaCha(keys) => seal(keys, job, packet),
            Self::Gmac128(keys) => seal_gmac(keys, job, packet, scratch),
            Self::Gmac192(keys) => seal_gmac(keys, job, packet, scratch),
            Self::Gmac256(keys) => seal_gmac(keys, job, packet, scratch),
        }
    }

    /// Compares the ICV in constant time and then decrypts.
    pub(crate) fn open(&self, job: &CryptoJob, packet: &mut [u8], scratch: &mut Vec<u8>) -> bool {
        match self {
            Self::Gcm128x8(keys) => open(keys, job, packet),
            Self::Gcm128x12(keys) => open(keys, job, packet),
            Self::Gcm128x16(keys) => open(keys, job, packet),
            Self::Gcm192x8(keys) => open(keys, job, packet),
            Self::Gcm192x12(keys) => open(keys, job, packet),
            Self::Gcm192x16(keys) => open(keys, job, packet),
            Self::Gcm256x8(keys) => open(keys, job, packet),
            Self::Gcm256x12(keys) => open(keys, job, packet),
            Self::Gcm256x16(keys) => open(keys, job, packet),
            Self::ChaCha(keys) => open(keys, job, packet),
            Self::Gmac128(keys) => open_gmac(keys, job, packet, scratch),
            Self::Gmac192(keys) => open_gmac(keys, job, packet, scratch),
            Self::Gmac256(keys) => open_gmac(keys, job, packet, scratch),
        }
    }
}

/// Body and what follows it, the ICV first.
fn split<'a>(job: &CryptoJob, packet: &'a mut [u8]) -> (&'a mut [u8], &'a mut [u8]) {
    let (before, icv) = packet.split_at_mut(job.icv_start.into());
    (&mut before[job.cipher_start.into()..][..job.cipher_len.into()], icv)
}

fn seal<A: AeadInOut>(keys: &A, job: &CryptoJob, packet: &mut [u8]) -> bool {
    let (body, icv) = split(job, packet);
    let Ok(nonce) = job.nonce().try_into() else { return false };
    let Ok(tag) = keys.encrypt_inout_detached(nonce, job.aad(), body.into()) else { return false };
    icv[..tag.len()].copy_from_slice(&tag);
    true
}

fn open<A: AeadInOut>(keys: &A, job: &CryptoJob, packet: &mut [u8]) -> bool {
    let (body, icv) = split(job, packet);
    let Ok(nonce) = job.nonce().try_into() else { return false };
    let Some(Ok(tag)) = icv.get(..aes_gcm::aead::Tag::<A>::default().len()).map(TryInto::try_into) else {
        return false;
    };
    keys.decrypt_inout_detached(nonce, job.aad(), body.into(), tag).is_ok()
}

/// RFC 4543: all is additional data, and the library wants it in one piece.
fn gather<'a>(job: &CryptoJob, packet: &[u8], scratch: &'a mut Vec<u8>) -> &'a [u8] {
    scratch.clear();
    scratch.extend_from_slice(job.aad());
    scratch.extend_from_slice(&packet[job.auth_start.into()..][..job.auth_len.into()]);
    scratch
}

fn seal_gmac<A: AeadInOut>(keys: &A, job: &CryptoJob, packet: &mut [u8], scratch: &mut Vec<u8>) -> bool {
    let Ok(nonce) = job.nonce().try_into() else { return false };
    let data = gather(job, packet, scratch);
    let Ok(tag) = keys.encrypt_inout_detached(nonce, data, (&mut [][..]).into()) else { return false };
    packet[job.icv_start.into()..][..tag.len()].copy_from_slice(&tag);
    true
}

fn open_gmac<A: AeadInOut>(keys: &A, job: &CryptoJob, packet: &mut [u8], scratch: &mut Vec<u8>) -> bool {
    let Ok(nonce) = job.nonce().try_into() else { return false };
    let data = gather(job, packet, scratch);
    let icv = &packet[job.icv_start.into()..];
    let Some(Ok(tag)) = icv.get(..16).map(TryInto::try_into) else { return false };
    keys.decrypt_inout_detached(nonce, data, (&mut [][..]).into(), tag).is_ok()
}
