//! Transforms as DPDK names them.

use convoy_dpdk::{DeviceCipher, DeviceHash, DeviceInfo, DeviceSuite};
use convoy_ipsec::{Aead, Cipher as SaCipher, Integrity, Transform};

/// The additional data of ESP's AEADs, in bytes: without and with extended sequence numbers (RFC
/// 4106 section 5).
pub(super) const AAD_LENS: [usize; 2] = [8, 12];

pub(super) fn suite(transform: Transform) -> DeviceSuite {
    let (cipher, hash) = match transform {
        Transform::Aead(Aead::AesGcm { .. }) => (DeviceCipher::Gcm, DeviceHash::None),
        Transform::Aead(Aead::NullAesGmac(_)) => (DeviceCipher::Gmac, DeviceHash::None),
        Transform::Aead(Aead::ChaCha20Poly1305) => (DeviceCipher::ChaCha20Poly1305, DeviceHash::None),
        Transform::Chained { cipher, integrity } => (cipher_of(cipher), hash_of(integrity)),
    };
    DeviceSuite {
        cipher,
        key_len: transform.cipher_key_len(),
        hash,
        hash_key_len: transform.integrity_key_len(),
        icv_len: transform.icv_len(),
    }
}

fn cipher_of(cipher: SaCipher) -> DeviceCipher {
    match cipher {
        SaCipher::Null => DeviceCipher::Null,
        SaCipher::AesCbc(_) => DeviceCipher::Cbc,
        SaCipher::AesCtr(_) => DeviceCipher::Ctr,
        SaCipher::TripleDesCbc => DeviceCipher::TripleDes,
        SaCipher::DesCbc => DeviceCipher::Des,
    }
}

fn hash_of(integrity: Option<Integrity>) -> DeviceHash {
    match integrity {
        None => DeviceHash::None,
        Some(Integrity::HmacMd5_96) => DeviceHash::Md5,
        Some(Integrity::HmacSha1_96) => DeviceHash::Sha1,
        Some(Integrity::HmacSha256_128) => DeviceHash::Sha256,
        Some(Integrity::HmacSha384_192) => DeviceHash::Sha384,
        Some(Integrity::HmacSha512_256) => DeviceHash::Sha512,
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
