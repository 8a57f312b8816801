//! A cipher and an HMAC, one after the other (RFC 4303 section 3.3.2.1).

use aes::cipher::consts::U16;
use aes::cipher::{
    Block, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit, StreamCipher, StreamCipherCoreWrapper,
};
use aes::{Aes128, Aes192, Aes256};
use convoy_ipsec::{Cipher, CryptoJob, Integrity, KeyBits, KeyMaterial};
use ctr::CtrCore;
use ctr::flavors::Ctr32BE;
use des::{Des, TdesEde3};
use hmac::{Hmac, Mac};
use md5::Md5;
use sha1::Sha1;
use sha2::{Sha256, Sha384, Sha512};
use subtle::ConstantTimeEq;

/// The longest output of a hash, in bytes.
const HASH_BYTES: usize = 64;

/// An HMAC with its key already mixed in; a packet starts from a copy.
enum MacKey {
    Md5(Hmac<Md5>),
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
    Sha384(Hmac<Sha384>),
    Sha512(Hmac<Sha512>),
}

/// An expanded cipher key.
enum CipherKey {
    Null,
    Cbc128(Aes128),
    Cbc192(Aes192),
    Cbc256(Aes256),
    Ctr128(Aes128),
    Ctr192(Aes192),
    Ctr256(Aes256),
    TripleDes(TdesEde3),
    Des(Des),
}

/// The keys of a cipher and an integrity algorithm.
pub(crate) struct ChainedKeys {
    cipher: CipherKey,
    mac: Option<MacKey>,
    icv_len: usize,
}

fn new<K: KeyInit>(key: &[u8]) -> K {
    K::new_from_slice(key).expect("key material was checked against its transform")
}

impl ChainedKeys {
    pub(crate) fn new(cipher: Cipher, integrity: Option<Integrity>, keys: &KeyMaterial) -> Self {
        use KeyBits::{B128, B192, B256};
        let key = keys.cipher_key();
        let cipher = match cipher {
            Cipher::Null => CipherKey::Null,
            Cipher::AesCbc(B128) => CipherKey::Cbc128(new(key)),
            Cipher::AesCbc(B192) => CipherKey::Cbc192(new(key)),
            Cipher::AesCbc(B256) => CipherKey::Cbc256(new(key)),
            Cipher::AesCtr(B128) => CipherKey::Ctr128(new(key)),
            Cipher::AesCtr(B192) => CipherKey::Ctr192(new(key)),
            Cipher::AesCtr(B256) => CipherKey::Ctr256(new(key)),
            Cipher::TripleDesCbc => CipherKey::TripleDes(new(key)),
            Cipher::DesCbc => CipherKey::Des(new(key)),
        };
        let key = keys.integrity_key();
        let mac = integrity.map(|integrity| match integrity {
            Integrity::HmacMd5_96 => MacKey::Md5(new(key)),
            Integrity::HmacSha1_96 => MacKey::Sha1(new(key)),
            Integrity::HmacSha256_128 => MacKey::Sha256(new(key)),
            Integrity::HmacSha384_192 => MacKey::Sha384(new(key)),
            Integrity::HmacSha512_256 => MacKey::Sha512(new(key)),
        });
        Self { cipher, mac, icv_len: integrity.map_or(0, Integrity::icv_len) }
    }

    pub(crate) fn seal(&self, job: &CryptoJob, packet: &mut [u8]) -> bool {
        let body = &mut packet[job.cipher_start.into()..][..job.cipher_len.into()];
        if !self.cipher.encrypt(job.nonce(), body) {
            return false;
        }
        if let Some(mac) = &self.mac {
            let icv = mac.over(job, packet);
            packet[job.icv_start.into()..][..self.icv_len].copy_from_slice(&icv[..self.icv_len]);
        }
        true
    }

    pub(crate) fn open(&self, job: &CryptoJob, packet: &mut [u8]) -> bool {
        if let Some(mac) = &self.mac {
            let at = usize::from(job.icv_start);
            let mut received = [0; HASH_BYTES];
            received[..self.icv_len].copy_from_slice(&packet[at..][..self.icv_len]);
            if job.icv_start < job.auth_start + job.auth_len {
                // AH's ICV stands inside what it covers, counted as zero (RFC 4302 section 3.4.4).
                packet[at..][..self.icv_len].fill(0);
            }
            let computed = mac.over(job, packet);
            packet[at..][..self.icv_len].copy_from_slice(&received[..self.icv_len]);
            if !bool::from(computed[..self.icv_len].ct_eq(&received[..self.icv_len])) {
                return false;
            }
        }
        let body = &mut packet[job.cipher_start.into()..][..job.cipher_len.into()];
        self.cipher.decrypt(job.nonce(), body)
    }
}

impl MacKey {
    fn over(&self, job: &CryptoJob, packet: &[u8]) -> [u8; HASH_BYTES] {
        let data = &packet[job.auth_start.into()..][..job.auth_len.into()];
        let high: &[u8] = job.esn_high.as_ref().map_or(&[], |high| high);
        match self {
            Self::Md5(mac) => run(mac, data, high),
            Self::Sha1(mac) => run(mac, data, high),
            Self::Sha256(mac) => run(mac, data, high),
            Self::Sha384(mac) => run(mac, data, high),
            Self::Sha512(mac) => run(mac, data, high),
        }
    }
}

fn run<M: Mac + Clone>(mac: &M, data: &[u8], high: &[u8]) -> [u8; HASH_BYTES] {
    let mut mac = mac.clone();
    mac.update(data);
    mac.update(high);
    let output = mac.finalize().into_bytes();
    let mut bytes = [0; HASH_BYTES];
    bytes[..output.len()].copy_from_slice(&output);
    bytes
}

impl CipherKey {
    fn encrypt(&self, iv: &[u8], body: &mut [u8]) -> bool {
        match self {
            Self::Null => true,
            Self::Cbc128(key) => cbc_encrypt(key, iv, body),
            Self::Cbc192(key) => cbc_encrypt(key, iv, body),
            Self::Cbc256(key) => cbc_encrypt(key, iv, body),
            Self::TripleDes(key) => cbc_encrypt(key, iv, body),
            Self::Des(key) => cbc_encrypt(key, iv, body),
            Self::Ctr128(key) => ctr_apply(key, iv, body),
            Self::Ctr192(key) => ctr_apply(key, iv, body),
            Self::Ctr256(key) => ctr_apply(key, iv, body),
        }
    }

    fn decrypt(&self, iv: &[u8], body: &mut [u8]) -> bool {
        match self {
            Self::Cbc128(key) => cbc_decrypt(key, iv, body),
            Self::Cbc192(key) => cbc_decrypt(key, iv, body),
            Self::Cbc256(key) => cbc_decrypt(key, iv, body),
            Self::TripleDes(key) => cbc_decrypt(key, iv, body),
            Self::Des(key) => cbc_decrypt(key, iv, body),
            _ => self.encrypt(iv, body),
        }
    }
}

/// RFC 3686's counter block counts in its last 32 bits.
fn ctr_apply<C>(key: &C, iv: &[u8], body: &mut [u8]) -> bool
where
    C: BlockCipherEncrypt + BlockSizeUser<BlockSize = U16>,
{
    let Ok(core) = CtrCore::<&C, Ctr32BE>::inner_iv_slice_init(key, iv) else { return false };
    StreamCipherCoreWrapper::from_core(core).try_apply_keystream(body).is_ok()
}

/// Whole blocks only: ESP pads to them.
fn blocks<C: BlockSizeUser>(body: &mut [u8]) -> Option<&mut [Block<C>]> {
    let (blocks, rest) = Block::<C>::slice_as_chunks_mut(body);
    rest.is_empty().then_some(blocks)
}

fn cbc_encrypt<C: BlockCipherEncrypt>(key: &C, iv: &[u8], body: &mut [u8]) -> bool {
    let (Ok(mut mode), Some(blocks)) = (cbc::Encryptor::inner_iv_slice_init(key, iv), blocks::<C>(body))
    else {
        return false;
    };
    mode.encrypt_blocks(blocks);
    true
}

fn cbc_decrypt<C: BlockCipherDecrypt>(key: &C, iv: &[u8], body: &mut [u8]) -> bool {
    let (Ok(mut mode), Some(blocks)) = (cbc::Decryptor::inner_iv_slice_init(key, iv), blocks::<C>(body))
    else {
        return false;
    };
    mode.decrypt_blocks(blocks);
    true
}
