//! The table of algorithms, one row each. Proposals, charon's numbers, the lengths of keys, IVs and
//! ICVs, and what is weak are derived from it.

use super::{Aead, Cipher, Integrity, KeyBits};

/// An algorithm of IANA's "Transform Type 1" (RFC 7296 section 3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// One that also authenticates.
    Aead(Aead),
    /// One that needs an integrity algorithm beside it.
    Cipher(Cipher),
}

/// A row of the table of encryption algorithms. Lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct EncryptionRow {
    /// IANA's number.
    pub number: u16,
    /// Its words in swanctl.conf, the usual one first; `{}` stands for the bits of the key.
    pub words: &'static [&'static str],
    /// Salt (RFC 4106, 4543, 7634) or nonce (RFC 3686) behind the key.
    pub salt_len: usize,
    /// IV in each packet.
    pub iv_len: usize,
    /// The multiple to which payload and trailer are padded: the cipher's block, and never less
    /// than 4 (RFC 4303 section 2.4).
    pub block_len: usize,
    /// ICV in each packet; 0 where an integrity algorithm makes it.
    pub icv_len: usize,
    /// Whether ESP refuses it unless weak algorithms are allowed.
    pub is_weak: bool,
    /// Whether its key is AES's, of 128, 192 or 256 bits.
    pub has_aes_key: bool,
    of_key: fn(KeyBits) -> Encryption,
}

/// A row of the table of integrity algorithms. Lengths are in bytes.
#[derive(Clone, Copy, Debug)]
pub struct IntegrityRow {
    /// The algorithm.
    pub algorithm: Integrity,
    /// IANA's number, of "Transform Type 3".
    pub number: u16,
    /// Its words in swanctl.conf, the usual one first.
    pub words: &'static [&'static str],
    /// Its key: the hash's output length (RFC 2404, 4868).
    pub key_len: usize,
    /// ICV in each packet.
    pub icv_len: usize,
    /// Whether it is refused unless weak algorithms are allowed.
    pub is_weak: bool,
}

/// The length of a key: AES's own, or the one that is given.
macro_rules! key_len {
    ($key:ident AES) => {
        $key.bytes()
    };
    (_ $bytes:literal) => {
        $bytes
    };
}

macro_rules! has_aes_key {
    (AES) => {
        true
    };
    ($bytes:literal) => {
        false
    };
}

macro_rules! encryption {
    ($($number:literal $words:tt |$key:tt| $service:ident($($algorithm:tt)*)
        $len:tt $salt:literal $iv:literal $block:literal $icv:literal $is_weak:literal;)*) => {
        /// The encryption algorithms, in order of preference.
        pub const ENCRYPTION: &[EncryptionRow] = &[$(EncryptionRow {
            number: $number,
            words: &$words,
            salt_len: $salt,
            iv_len: $iv,
            block_len: $block,
            icv_len: $icv,
            is_weak: $is_weak,
            has_aes_key: has_aes_key!($len),
            of_key: |$key| Encryption::$service($($algorithm)*),
        },)*];

        impl Encryption {
            /// IANA's number of its row, and the length of its key. AES-GCM with an ICV that does
            /// not exist, which every engine refuses, counts as the one with 16 bytes.
            const fn number_and_key_len(self) -> (u16, usize) {
                match self {
                    $(Self::$service($($algorithm)*) => ($number, key_len!($key $len)),)*
                    Self::Aead(Aead::AesGcm { key, .. }) => (ENCRYPTION[0].number, key.bytes()),
                }
            }
        }
    };
}

// IANA's number, swanctl's words, the algorithm, then in bytes: key, salt, IV, block, ICV; whether
// it is weak.
encryption! {
    20 ["aes{}gcm16", "aes{}gcm", "aes{}gcm128"] |key| Aead(Aead::AesGcm { key, icv: 16 }) AES 4 8 4 16 false;
    28 ["chacha20poly1305"] |_| Aead(Aead::ChaCha20Poly1305) 32 4 8 4 16 false;
    12 ["aes{}", "aes"] |key| Cipher(Cipher::AesCbc(key)) AES 0 16 16 0 false;
    13 ["aes{}ctr"] |key| Cipher(Cipher::AesCtr(key)) AES 4 8 4 0 false;
    19 ["aes{}gcm12", "aes{}gcm96"] |key| Aead(Aead::AesGcm { key, icv: 12 }) AES 4 8 4 12 false;
    18 ["aes{}gcm8", "aes{}gcm64"] |key| Aead(Aead::AesGcm { key, icv: 8 }) AES 4 8 4 8 false;
    21 ["aes{}gmac"] |key| Aead(Aead::NullAesGmac(key)) AES 4 8 4 16 true;
    3 ["3des"] |_| Cipher(Cipher::TripleDesCbc) 24 0 8 8 0 true;
    2 ["des"] |_| Cipher(Cipher::DesCbc) 8 0 8 8 0 true;
    11 ["null"] |_| Cipher(Cipher::Null) 0 0 0 4 0 true;
}

macro_rules! integrity {
    ($($number:literal $words:tt $algorithm:ident $key:literal $icv:literal $is_weak:literal;)*) => {
        /// The integrity algorithms, in order of preference.
        pub const INTEGRITY: &[IntegrityRow] = &[$(IntegrityRow {
            algorithm: Integrity::$algorithm,
            number: $number,
            words: &$words,
            key_len: $key,
            icv_len: $icv,
            is_weak: $is_weak,
        },)*];
    };
}

// IANA's number, swanctl's words, the algorithm, then in bytes: key, ICV; whether it is weak.
integrity! {
    12 ["sha256", "sha2_256"] HmacSha256_128 32 16 false;
    13 ["sha384", "sha2_384"] HmacSha384_192 48 24 false;
    14 ["sha512", "sha2_512"] HmacSha512_256 64 32 false;
    2 ["sha1", "sha"] HmacSha1_96 20 12 false;
    1 ["md5"] HmacMd5_96 16 12 true;
}

impl EncryptionRow {
    /// The row of an IANA number.
    pub fn of_number(number: u16) -> Option<&'static Self> {
        ENCRYPTION.iter().find(|row| row.number == number)
    }

    /// The algorithm with a key of this many bytes, without salt; `None` if AES has no such key.
    /// Ignored if there is only one length.
    pub fn with_key(&self, bytes: usize) -> Option<Encryption> {
        let bits = if self.has_aes_key { KeyBits::of_bytes(bytes)? } else { KeyBits::B128 };
        Some((self.of_key)(bits))
    }

    /// The algorithms of this row, by the length of their keys.
    pub fn algorithms(&self) -> impl Iterator<Item = Encryption> {
        let keys = if self.has_aes_key { &KeyBits::ALL[..] } else { &KeyBits::ALL[..1] };
        keys.iter().map(|bits| (self.of_key)(*bits))
    }
}

impl IntegrityRow {
    /// The row of an IANA number.
    pub fn of_number(number: u16) -> Option<&'static Self> {
        INTEGRITY.iter().find(|row| row.number == number)
    }
}

impl Encryption {
    /// Its row of the table.
    pub const fn row(self) -> &'static EncryptionRow {
        let number = self.number_and_key_len().0;
        let mut at = 0;
        while ENCRYPTION[at].number != number {
            at += 1;
        }
        &ENCRYPTION[at]
    }

    /// The length of its key in bytes, without salt.
    pub const fn key_len(self) -> usize {
        self.number_and_key_len().1
    }

    /// Its usual word in swanctl.conf.
    pub(crate) fn word(self) -> String {
        self.row().words[0].replace("{}", &(self.key_len() * 8).to_string())
    }

    /// The algorithm of a word in swanctl.conf.
    pub(crate) fn of_word(word: &str) -> Option<Self> {
        let is_it = |algorithm: &Self| {
            let bits = (algorithm.key_len() * 8).to_string();
            algorithm.row().words.iter().any(|pattern| pattern.replace("{}", &bits) == word)
        };
        // For AES without a length the first one, of 128 bits.
        ENCRYPTION.iter().flat_map(EncryptionRow::algorithms).find(is_it)
    }
}

impl Integrity {
    /// Its row of the table.
    pub const fn row(self) -> &'static IntegrityRow {
        let mut at = 0;
        // Every variant has a row, which a test ensures.
        while INTEGRITY[at].algorithm as u8 != self as u8 {
            at += 1;
        }
        &INTEGRITY[at]
    }

    pub(crate) fn of_word(word: &str) -> Option<Self> {
        INTEGRITY.iter().find(|row| row.words.contains(&word)).map(|row| row.algorithm)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_found_by_each_of_its_algorithms() {
        for row in ENCRYPTION {
            for algorithm in row.algorithms() {
                assert_eq!(algorithm.row().number, row.number, "{algorithm:?}");
                assert_eq!(row.with_key(algorithm.key_len()), Some(algorithm));
                assert_eq!(Encryption::of_word(&algorithm.word()), Some(algorithm));
            }
        }
        let all = [
            Integrity::HmacMd5_96,
            Integrity::HmacSha1_96,
            Integrity::HmacSha256_128,
            Integrity::HmacSha384_192,
            Integrity::HmacSha512_256,
        ];
        assert_eq!(all.len(), INTEGRITY.len());
        for algorithm in all {
            assert_eq!(Integrity::of_word(algorithm.row().words[0]), Some(algorithm));
        }
    }

    #[test]
    fn numbers_and_words_are_each_of_one_row() {
        let mut numbers: Vec<u16> = ENCRYPTION.iter().map(|row| row.number).collect();
        let mut words: Vec<&str> = ENCRYPTION.iter().flat_map(|row| row.words).copied().collect();
        words.extend(INTEGRITY.iter().flat_map(|row| row.words));
        let (rows, all) = (numbers.len(), words.len());
        numbers.sort_unstable();
        numbers.dedup();
        words.sort_unstable();
        words.dedup();
        assert_eq!((numbers.len(), words.len()), (rows, all));
    }
}
