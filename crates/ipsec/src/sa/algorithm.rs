//! The algorithms of ESP and AH, and what each of them needs.

mod table;

use std::fmt;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::SaProtocol;
pub use table::{ENCRYPTION, Encryption, EncryptionRow, INTEGRITY, IntegrityRow};

/// The length of an AES key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyBits {
    /// 128 bits.
    B128,
    /// 192 bits.
    B192,
    /// 256 bits.
    B256,
}

impl KeyBits {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::B128, Self::B192, Self::B256];

    /// The key of this many bytes, if AES has one.
    pub fn of_bytes(bytes: usize) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.bytes() == bytes)
    }

    /// The key's length in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::B128 => 16,
            Self::B192 => 24,
            Self::B256 => 32,
        }
    }
}

/// A cipher that also authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Aead {
    /// AES-GCM (RFC 4106) with an ICV of 8, 12 or 16 bytes.
    AesGcm {
        /// The key's length.
        key: KeyBits,
        /// The ICV's length in bytes: 8, 12 or 16.
        icv: u8,
    },
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// NULL encryption with AES-GMAC (RFC 4543).
    NullAesGmac(KeyBits),
}

/// A cipher that needs an integrity algorithm beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cipher {
    /// No encryption (RFC 2410).
    Null,
    /// AES-CBC (RFC 3602).
    AesCbc(KeyBits),
    /// AES-CTR (RFC 3686).
    AesCtr(KeyBits),
    /// 3DES-CBC (RFC 2451); weak.
    TripleDesCbc,
    /// DES-CBC (RFC 2405); weak.
    DesCbc,
}

/// An integrity algorithm; the number behind the hash is the ICV's length in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Integrity {
    /// HMAC-MD5-96 (RFC 2403); weak.
    HmacMd5_96,
    /// HMAC-SHA-1-96 (RFC 2404).
    HmacSha1_96,
    /// HMAC-SHA-256-128 (RFC 4868).
    HmacSha256_128,
    /// HMAC-SHA-384-192 (RFC 4868).
    HmacSha384_192,
    /// HMAC-SHA-512-256 (RFC 4868).
    HmacSha512_256,
}

/// The cryptographic transform of an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transform {
    /// One algorithm for both services.
    Aead(Aead),
    /// A cipher, then an integrity algorithm over its output (RFC 4303 section 3.3.2.1). `None` is
    /// encryption without integrity, which is weak. `Cipher::Null` with an integrity algorithm is
    /// ESP-NULL, and AH.
    Chained {
        /// The cipher.
        cipher: Cipher,
        /// The integrity algorithm.
        integrity: Option<Integrity>,
    },
}

impl Transform {
    /// Its encryption algorithm.
    pub const fn encryption(self) -> Encryption {
        match self {
            Self::Aead(aead) => Encryption::Aead(aead),
            Self::Chained { cipher, .. } => Encryption::Cipher(cipher),
        }
    }

    /// Its integrity algorithm, if it has one of its own.
    pub const fn integrity(self) -> Option<Integrity> {
        match self {
            Self::Aead(_) => None,
            Self::Chained { integrity, .. } => integrity,
        }
    }

    /// Bytes of IV that travel in each packet.
    pub const fn iv_len(self) -> usize {
        self.encryption().row().iv_len
    }

    /// Bytes of ICV at the end of each packet.
    pub const fn icv_len(self) -> usize {
        match self.integrity() {
            Some(integrity) => integrity.row().icv_len,
            None => self.encryption().row().icv_len,
        }
    }

    /// The multiple in bytes to which payload, padding, pad length and next header are padded: the
    /// cipher's block, and never less than 4 (RFC 4303 section 2.4).
    pub const fn alignment(self) -> usize {
        self.encryption().row().block_len
    }

    /// Bytes of cipher key, without salt.
    pub const fn cipher_key_len(self) -> usize {
        self.encryption().key_len()
    }

    /// Bytes of salt (RFC 4106, 4543, 7634) or nonce (RFC 3686) that follow the cipher key.
    pub const fn salt_len(self) -> usize {
        self.encryption().row().salt_len
    }

    /// Bytes of integrity key that follow the salt.
    pub const fn integrity_key_len(self) -> usize {
        match self.integrity() {
            Some(integrity) => integrity.row().key_len,
            None => 0,
        }
    }

    /// Bytes of key material in all: cipher key, salt, integrity key.
    pub const fn key_material_len(self) -> usize {
        self.cipher_key_len() + self.salt_len() + self.integrity_key_len()
    }

    /// Whether the gateway refuses this unless `allow_weak = true`: DES, 3DES, MD5, and whatever
    /// lacks integrity, or encryption in ESP; AH has none by design.
    pub const fn is_weak(self, protocol: SaProtocol) -> bool {
        let is_encryption_weak = matches!(protocol, SaProtocol::Esp) && self.encryption().row().is_weak;
        let is_integrity_weak = match (self, self.integrity()) {
            (Self::Aead(_), _) => false,
            (Self::Chained { .. }, Some(integrity)) => integrity.row().is_weak,
            (Self::Chained { .. }, None) => true,
        };
        is_encryption_weak || is_integrity_weak
    }

    /// Whether NIST has approved of it: AES and HMAC of SHA (SP 800-131A revision 2), with an ICV
    /// of at least 96 bits, as shorter ones need limits of their own (SP 800-38D appendix C).
    pub const fn is_approved(self) -> bool {
        match self {
            Self::Aead(Aead::ChaCha20Poly1305) => false,
            Self::Aead(_) => self.icv_len() >= 12,
            Self::Chained { cipher: Cipher::TripleDesCbc | Cipher::DesCbc, .. } => false,
            Self::Chained { integrity, .. } => !matches!(integrity, None | Some(Integrity::HmacMd5_96)),
        }
    }
}

/// Which algorithms a gateway admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmittedAlgorithms {
    /// All, also weak ones (`allow_weak`).
    All,
    /// Those that are not [weak](Transform::is_weak).
    #[default]
    Strong,
    /// Of these, those that are [approved](Transform::is_approved) (`fips`).
    Approved,
}

impl AdmittedAlgorithms {
    /// What is wrong with a transform; `None` if it is admitted.
    pub const fn refusal(self, transform: Transform, protocol: SaProtocol) -> Option<&'static str> {
        match self {
            Self::All => None,
            _ if transform.is_weak(protocol) => {
                Some("is weak (no encryption, no integrity, or a broken algorithm)")
            }
            Self::Approved if !transform.is_approved() => Some("is not approved by NIST, and fips is set"),
            _ => None,
        }
    }
}

/// The keys of one SA: cipher key, salt and integrity key in one piece, in this order. Wiped when
/// dropped, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct KeyMaterial {
    #[zeroize(skip)]
    transform: Transform,
    bytes: Vec<u8>,
}

/// A key of the wrong length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the key has {have} bytes, but {need} are needed: cipher key {cipher}, salt {salt}, integrity key {integrity}"
)]
pub struct KeyLengthError {
    /// The given length.
    pub have: usize,
    /// The required length.
    pub need: usize,
    /// The part for the cipher.
    pub cipher: usize,
    /// The part for the salt or nonce.
    pub salt: usize,
    /// The part for the integrity algorithm.
    pub integrity: usize,
}

impl KeyMaterial {
    /// Takes `bytes`: cipher key, salt, integrity key.
    ///
    /// # Errors
    /// [`KeyLengthError`] if the length is not what `transform` needs.
    pub fn new(transform: Transform, mut bytes: Vec<u8>) -> Result<Self, KeyLengthError> {
        let need = transform.key_material_len();
        if bytes.len() != need {
            let have = bytes.len();
            bytes.zeroize();
            return Err(KeyLengthError {
                have,
                need,
                cipher: transform.cipher_key_len(),
                salt: transform.salt_len(),
                integrity: transform.integrity_key_len(),
            });
        }
        Ok(Self { transform, bytes })
    }

    /// The transform that the keys are for.
    pub fn transform(&self) -> Transform {
        self.transform
    }

    /// The cipher key, without salt.
    pub fn cipher_key(&self) -> &[u8] {
        &self.bytes[..self.transform.cipher_key_len()]
    }

    /// The salt or nonce; empty if the transform has none.
    pub fn salt(&self) -> &[u8] {
        &self.bytes[self.transform.cipher_key_len()..][..self.transform.salt_len()]
    }

    /// The integrity key; empty if the transform has none.
    pub fn integrity_key(&self) -> &[u8] {
        &self.bytes[self.transform.cipher_key_len() + self.transform.salt_len()..]
    }
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyMaterial").field("transform", &self.transform).finish_non_exhaustive()
    }
}
