// Written by card/functions.py from card/functions.toml; change that.

//! The functions of the slot, and the ciphers and hashes that an SA names.

/// The cipher of an SA, by the card's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cipher {
    /// None.
    Null = 0,
    /// AES-GCM.
    AesGcm = 1,
    /// AES-CTR.
    AesCtr = 2,
    /// AES-CBC.
    AesCbc = 3,
    /// 3DES-CBC.
    TripleDesCbc = 4,
}

impl Cipher {
    /// Bytes of IV in the packet.
    pub const fn iv_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::AesGcm => 8,
            Self::AesCtr => 8,
            Self::AesCbc => 16,
            Self::TripleDesCbc => 8,
        }
    }

    /// A payload has a multiple of these bytes.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::Null => 1,
            Self::AesGcm => 1,
            Self::AesCtr => 1,
            Self::AesCbc => 16,
            Self::TripleDesCbc => 8,
        }
    }
}

/// The integrity algorithm of an SA, by the card's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hash {
    /// None.
    None = 0,
    /// HMAC-SHA-1.
    HmacSha1 = 1,
    /// HMAC-SHA-512.
    HmacSha512 = 2,
}

/// A function of the slot.
pub(crate) struct Function {
    /// What SLOT_LOAD names.
    pub(crate) id: u8,
    /// The SAs that it does, as byte 8 of an SA names them.
    pub(crate) algorithms: &'static [u8],
    /// MHz of the whole card, or of its slowest part, as routed.
    pub(crate) routed_mhz: u32,
}

/// MHz of the card with nothing in its slots.
pub(crate) const EMPTY_MHZ: u32 = 107;

/// All functions, by their ids from 1 on.
pub(crate) const FUNCTIONS: [Function; 6] = [
    Function { id: 1, algorithms: &[0x01], routed_mhz: 103 },
    Function { id: 2, algorithms: &[0x12, 0x10], routed_mhz: 81 },
    Function { id: 3, algorithms: &[0x13, 0x10], routed_mhz: 81 },
    Function { id: 4, algorithms: &[0x14, 0x10], routed_mhz: 84 },
    Function { id: 5, algorithms: &[0x22, 0x20], routed_mhz: 89 },
    Function { id: 6, algorithms: &[0x01], routed_mhz: 89 },
];

/// The functions by the ESP proposals that they process, with the variant where several do.
pub const PROPOSALS: [(&str, u8); 16] = [
    ("aes128gcm16", 1),
    ("aes192gcm16", 1),
    ("aes256gcm16", 1),
    ("aes128ctr-sha1", 2),
    ("aes192ctr-sha1", 2),
    ("aes256ctr-sha1", 2),
    ("aes128-sha1", 3),
    ("aes192-sha1", 3),
    ("aes256-sha1", 3),
    ("3des-sha1", 4),
    ("aes128ctr-sha512", 5),
    ("aes192ctr-sha512", 5),
    ("aes256ctr-sha512", 5),
    ("aes128gcm16-unrolled", 6),
    ("aes192gcm16-unrolled", 6),
    ("aes256gcm16-unrolled", 6),
];

/// Their names, as in card/reports.json.
#[cfg(test)]
pub(crate) const NAMES: [&str; 6] = [
    "AES-GCM",
    "AES-CTR and HMAC-SHA-1",
    "AES-CBC and HMAC-SHA-1",
    "3DES-CBC and HMAC-SHA-1",
    "AES-CTR and HMAC-SHA-512",
    "AES-GCM, unrolled",
];
