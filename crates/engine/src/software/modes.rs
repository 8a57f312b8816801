//! Ciphers without integrity: CBC (RFC 3602, 2451, 2405) and AES-CTR (RFC 3686).

use aes::cipher::consts::U16;
use aes::cipher::{
    Array, BlockCipherDecrypt, BlockCipherEncrypt, BlockModeDecrypt, BlockModeEncrypt, BlockSizeUser,
    InnerIvInit, KeyInit, StreamCipherCore,
};
use aes::{Aes128, Aes192, Aes256};
use convoy_ipsec::{Cipher, CryptoJob, CryptoPacket, CryptoStatus, KeyBits};
use ctr::{CtrCore, flavors};
use des::{Des, TdesEde3};

use super::chained::on_good;
use super::keys::ciphered;

/// A cipher with one key, over a batch's packets that are still good.
pub(super) trait Encipher: Send + Sync {
    fn encrypt(&self, packets: &mut [CryptoPacket]);
    fn decrypt(&self, packets: &mut [CryptoPacket]);
}

/// `None` for `Cipher::Null`, which is no cipher, and for a key of the wrong length.
pub(super) fn expand_cipher(cipher: Cipher, key: &[u8]) -> Option<Box<dyn Encipher>> {
    match cipher {
        Cipher::Null => None,
        Cipher::AesCbc(KeyBits::B128) => Cbc::<Aes128>::expand(key),
        Cipher::AesCbc(KeyBits::B192) => Cbc::<Aes192>::expand(key),
        Cipher::AesCbc(KeyBits::B256) => Cbc::<Aes256>::expand(key),
        Cipher::AesCtr(KeyBits::B128) => Ctr::<Aes128>::expand(key),
        Cipher::AesCtr(KeyBits::B192) => Ctr::<Aes192>::expand(key),
        Cipher::AesCtr(KeyBits::B256) => Ctr::<Aes256>::expand(key),
        Cipher::TripleDesCbc => Cbc::<TdesEde3>::expand(key),
        Cipher::DesCbc => Cbc::<Des>::expand(key),
    }
}

struct Cbc<B>(B);

impl<B> Cbc<B>
where
    B: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt + Send + Sync + 'static,
{
    fn expand(key: &[u8]) -> Option<Box<dyn Encipher>> {
        Some(Box::new(Self(B::new_from_slice(key).ok()?)))
    }

    /// The IV and the whole blocks; `None` if the length is no multiple of the block.
    fn blocks<'a>(job: &CryptoJob, frame: &'a mut [u8]) -> Option<(Block<B>, &'a mut [Block<B>])> {
        let iv = Block::<B>::try_from(job.nonce()).ok()?;
        let (blocks, rest) = Array::slice_as_chunks_mut(ciphered(job, frame)?);
        rest.is_empty().then_some((iv, blocks))
    }
}

type Block<B> = aes::cipher::Block<B>;

impl<B> Encipher for Cbc<B>
where
    B: KeyInit + BlockCipherEncrypt + BlockCipherDecrypt + Send + Sync + 'static,
{
    fn encrypt(&self, packets: &mut [CryptoPacket]) {
        on_good(packets, |packet| {
            let (iv, blocks) = Self::blocks(&packet.job, &mut packet.frame)?;
            cbc::Encryptor::<&B>::inner_iv_init(&self.0, &iv).encrypt_blocks(blocks);
            Some(CryptoStatus::Done)
        });
    }

    fn decrypt(&self, packets: &mut [CryptoPacket]) {
        on_good(packets, |packet| {
            let (iv, blocks) = Self::blocks(&packet.job, &mut packet.frame)?;
            cbc::Decryptor::<&B>::inner_iv_init(&self.0, &iv).decrypt_blocks(blocks);
            Some(CryptoStatus::Done)
        });
    }
}

struct Ctr<B>(B);

impl<B> Ctr<B>
where
    B: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync + 'static,
{
    fn expand(key: &[u8]) -> Option<Box<dyn Encipher>> {
        Some(Box::new(Self(B::new_from_slice(key).ok()?)))
    }
}

impl<B> Encipher for Ctr<B>
where
    B: KeyInit + BlockCipherEncrypt + BlockSizeUser<BlockSize = U16> + Send + Sync + 'static,
{
    fn encrypt(&self, packets: &mut [CryptoPacket]) {
        on_good(packets, |packet| {
            let counter = Block::<B>::try_from(packet.job.nonce()).ok()?;
            let core = CtrCore::<&B, flavors::Ctr32BE>::inner_iv_init(&self.0, &counter);
            core.apply_keystream_partial(ciphered(&packet.job, &mut packet.frame)?.into());
            Some(CryptoStatus::Done)
        });
    }

    fn decrypt(&self, packets: &mut [CryptoPacket]) {
        self.encrypt(packets);
    }
}
