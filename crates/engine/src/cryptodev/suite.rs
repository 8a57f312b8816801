//! Transforms as DPDK names them.

use convoy_dpdk::{Cipher, DeviceInfo, Hash, Suite};
use convoy_ipsec::{Aead, Cipher as SaCipher, Integrity, Transform};

/// The additional data of ESP's AEADs, in bytes: without and with extended sequence numbers (RFC
/// 4106 section 5).
pub(super) const AAD_LENS: [usize; 2] = [8, 12];

pub(super) fn suite(transform: Transform) -> Suite {
    let (cipher, hash) = match transform {
        Transform::Aead(Aead::AesGcm { .. }) => (Cipher::Gcm, Hash::None),
        Transform::Aead(Aead::NullAesGmac(_)) => (Cipher::Gmac, Hash::None),
        Transform::Aead(Aead::ChaCha20Poly1305) => (Cipher::ChaCha20Poly1305, Hash::None),
        Transform::Chained { cipher, integrity } => (cipher_of(cipher), hash_of(integrity)),
    };
    Suite {
        cipher,
        key_len: transform.cipher_key_len(),
        hash,
        hash_key_len: transform.integrity_key_len(),
        icv_len: transform.icv_len(),
    }
}

fn cipher_of(cipher: SaCipher) -> Cipher {
    match cipher {
        SaCipher::Null => Cipher::Null,
        SaCipher::AesCbc(_) => Cipher::Cbc,
        SaCipher::AesCtr(_) => Cipher::Ctr,
        SaCipher::TripleDesCbc => Cipher::TripleDes,
        SaCipher::DesCbc => Cipher::Des,
    }
}

fn hash_of(integrity: Option<Integrity>) -> Hash {
    match integrity {
        None => Hash::None,
        Some(Integrity::HmacMd5_96) => Hash::Md5,
        Some(Integrity::HmacSha1_96) => Hash::Sha1,
        Some(Integrity::HmacSha256_128) => Hash::Sha256,
        Some(Integrity::HmacSha384_192) => Hash::Sha384,
        Some(Integrity::HmacSha512_256) => Hash::Sha512,
    }
}

/// What a device claims to support, and for each unsupported algorithm the first reason.
pub(super) fn claimed(device: &DeviceInfo) -> (Vec<Transform>, Vec<String>) {
    let (mut done, mut lacks) = (Vec::new(), Vec::new());
    for transform in crate::transforms() {
        match device.check(&suite(transform), &AAD_LENS) {
            Ok(()) => done.push(transform),
            Err(lack) if lacks.contains(&lack) => {}
            Err(lack) => lacks.push(lack),
        }
    }
    (done, lacks)
}
