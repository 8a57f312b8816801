//! What an SA does, in the device's terms.

use std::fmt;

/// A cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Cipher {
    /// None.
    Null = 0,
    /// AES-GCM.
    Gcm = 1,
    /// AES-GMAC, which encrypts nothing.
    Gmac = 2,
    /// ChaCha20-Poly1305.
    ChaCha20Poly1305 = 3,
    /// AES-CBC.
    Cbc = 4,
    /// AES-CTR with a whole counter block.
    Ctr = 5,
    /// 3DES-CBC.
    TripleDes = 6,
    /// DES-CBC.
    Des = 7,
}

impl Cipher {
    /// Those that a device may have, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::Null,
        Self::Gcm,
        Self::Gmac,
        Self::ChaCha20Poly1305,
        Self::Cbc,
        Self::Ctr,
        Self::TripleDes,
        Self::Des,
    ];

    /// Whether it takes additional data and authenticates as it ciphers.
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::Gcm | Self::ChaCha20Poly1305)
    }

    /// What it ciphers is a multiple of this, in bytes.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Cbc => 16,
            Self::TripleDes | Self::Des => 8,
            _ => 1,
        }
    }

    /// The nonce or IV as a device takes it, in bytes.
    pub const fn nonce_len(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Gcm | Self::Gmac | Self::ChaCha20Poly1305 => 12,
            Self::Cbc | Self::Ctr => 16,
            Self::TripleDes | Self::Des => 8,
        }
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Null => "NULL",
            Self::Gcm => "AES-GCM",
            Self::Gmac => "AES-GMAC",
            Self::ChaCha20Poly1305 => "ChaCha20-Poly1305",
            Self::Cbc => "AES-CBC",
            Self::Ctr => "AES-CTR",
            Self::TripleDes => "3DES-CBC",
            Self::Des => "DES-CBC",
        })
    }
}

/// An HMAC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Hash {
    /// None, or the AEAD's own.
    None = 0,
    /// HMAC-MD5.
    Md5 = 1,
    /// HMAC-SHA-1.
    Sha1 = 2,
    /// HMAC-SHA-256.
    Sha256 = 3,
    /// HMAC-SHA-384.
    Sha384 = 4,
    /// HMAC-SHA-512.
    Sha512 = 5,
}

impl Hash {
    /// Those that a device may have, in the order of their numbers.
    pub const ALL: [Self; 6] = [Self::None, Self::Md5, Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "no integrity",
            Self::Md5 => "HMAC-MD5",
            Self::Sha1 => "HMAC-SHA-1",
            Self::Sha256 => "HMAC-SHA-256",
            Self::Sha384 => "HMAC-SHA-384",
            Self::Sha512 => "HMAC-SHA-512",
        })
    }
}

/// Cipher and integrity with the lengths of one SA, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suite {
    /// The cipher.
    pub cipher: Cipher,
    /// Of its key.
    pub key_len: usize,
    /// The HMAC.
    pub hash: Hash,
    /// Of its key.
    pub hash_key_len: usize,
    /// Of the ICV.
    pub icv_len: usize,
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cipher)?;
        if self.key_len > 0 {
            write!(f, "-{}", self.key_len * 8)?;
        }
        if self.hash != Hash::None {
            write!(f, " with {}", self.hash)?;
        }
        if self.icv_len > 0 {
            write!(f, " and an ICV of {} bytes", self.icv_len)?;
        }
        Ok(())
    }
}
