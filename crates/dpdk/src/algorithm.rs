//! Algorithms of an SA, as a device names them.

use std::fmt;

/// A cipher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DeviceCipher {
    /// No encryption.
    Null = 0,
    /// AES-GCM.
    Gcm = 1,
    /// AES-GMAC, which authenticates only.
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

impl DeviceCipher {
    /// The ciphers that a device may have, indexed by their numbers.
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

    /// Whether it is an AEAD.
    pub const fn is_aead(self) -> bool {
        matches!(self, Self::Gcm | Self::ChaCha20Poly1305)
    }

    /// Block length in bytes, of which the ciphertext is a multiple.
    pub const fn block_len(self) -> usize {
        match self {
            Self::Cbc => 16,
            Self::TripleDes | Self::Des => 8,
            _ => 1,
        }
    }

    /// Length of the nonce or IV that a device expects, in bytes.
    pub const fn nonce_len(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Gcm | Self::Gmac | Self::ChaCha20Poly1305 => 12,
            Self::Cbc | Self::Ctr => 16,
            Self::TripleDes | Self::Des => 8,
        }
    }
}

impl fmt::Display for DeviceCipher {
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
pub enum DeviceHash {
    /// No HMAC, as for an AEAD.
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

impl DeviceHash {
    /// The HMACs that a device may have, indexed by their numbers.
    pub const ALL: [Self; 6] = [Self::None, Self::Md5, Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];
}

impl fmt::Display for DeviceHash {
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

/// The algorithms of an SA, with its lengths in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceSuite {
    /// The cipher.
    pub cipher: DeviceCipher,
    /// Length of the cipher's key.
    pub key_len: usize,
    /// The HMAC.
    pub hash: DeviceHash,
    /// Length of the HMAC's key.
    pub hash_key_len: usize,
    /// Length of the ICV.
    pub icv_len: usize,
}

impl fmt::Display for DeviceSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.cipher)?;
        if self.key_len > 0 {
            write!(f, "-{}", self.key_len * 8)?;
        }
        if self.hash != DeviceHash::None {
            write!(f, " with {}", self.hash)?;
        }
        if self.icv_len > 0 {
            write!(f, " and an ICV of {} bytes", self.icv_len)?;
        }
        Ok(())
    }
}
