//! Proposals in swanctl's words: `aes128gcm16`, `aes256-sha256`, `aes128ctr-sha256`, `chacha20poly1305`.

use std::fmt;
use std::str::FromStr;

use crate::algorithm::{Aead, Cipher, Integrity, KeyBits, Transform};

/// The algorithms of an SA, as `esp_proposals` of swanctl.conf names them. Only what ESP and AH themselves need;
/// Diffie-Hellman groups and pseudo-random functions are the key daemon's.
///
/// ```
/// use convoy_ipsec::Proposal;
/// let proposal: Proposal = "aes256-sha256-esn".parse().expect("known words");
/// assert!(proposal.esn);
/// assert_eq!(proposal.to_string(), "aes256-sha256-esn");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// What is done to packets.
    pub transform: Transform,
    /// Whether the word `esn` stands in it.
    pub esn: bool,
}

/// Why a proposal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// A word that is no algorithm's.
    #[error(
        "unknown word {word:?} in proposal {proposal:?}; ciphers are {CIPHERS}, integrity algorithms {INTEGRITY}"
    )]
    UnknownWord {
        /// All of it.
        proposal: String,
        /// The word.
        word: String,
    },
    /// Words that do not go together.
    #[error("proposal {proposal:?}: {reason}")]
    Invalid {
        /// All of it.
        proposal: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

const CIPHERS: &str = "aes{128,192,256}gcm{8,12,16}, aes{128,192,256}gmac, aes{128,192,256}ctr, aes{128,192,256}, \
                       chacha20poly1305, 3des, des, null";
const INTEGRITY: &str = "sha1, sha256, sha384, sha512, md5";

/// The words of proposals, those first that are best taken: for whoever guesses what a wrong one was meant to be.
pub const PROPOSAL_WORDS: [&str; 29] = [
    "aes128gcm16",
    "aes256gcm16",
    "aes192gcm16",
    "chacha20poly1305",
    "aes128",
    "aes192",
    "aes256",
    "aes128ctr",
    "aes192ctr",
    "aes256ctr",
    "sha256",
    "sha384",
    "sha512",
    "sha1",
    "aes128gmac",
    "aes192gmac",
    "aes256gmac",
    "aes128gcm12",
    "aes192gcm12",
    "aes256gcm12",
    "aes128gcm8",
    "aes192gcm8",
    "aes256gcm8",
    "esn",
    "noesn",
    "3des",
    "des",
    "md5",
    "null",
];

enum Word {
    Aead(Aead),
    Cipher(Cipher),
    Integrity(Integrity),
    Esn(bool),
}

fn word(text: &str) -> Option<Word> {
    let plain = match text {
        "chacha20poly1305" => Word::Aead(Aead::ChaCha20Poly1305),
        "3des" => Word::Cipher(Cipher::TripleDesCbc),
        "des" => Word::Cipher(Cipher::DesCbc),
        "null" => Word::Cipher(Cipher::Null),
        "md5" => Word::Integrity(Integrity::HmacMd5_96),
        "sha" | "sha1" => Word::Integrity(Integrity::HmacSha1_96),
        "sha256" | "sha2_256" => Word::Integrity(Integrity::HmacSha256_128),
        "sha384" | "sha2_384" => Word::Integrity(Integrity::HmacSha384_192),
        "sha512" | "sha2_512" => Word::Integrity(Integrity::HmacSha512_256),
        "esn" => Word::Esn(true),
        "noesn" => Word::Esn(false),
        _ => return aes_word(text),
    };
    Some(plain)
}

fn aes_word(text: &str) -> Option<Word> {
    let rest = text.strip_prefix("aes")?;
    let (bits, mode) = rest.split_at_checked(3).unwrap_or((rest, ""));
    let (key, mode) = match bits {
        "" => (KeyBits::B128, ""),
        "128" => (KeyBits::B128, mode),
        "192" => (KeyBits::B192, mode),
        "256" => (KeyBits::B256, mode),
        _ => return None,
    };
    Some(match mode {
        "" => Word::Cipher(Cipher::AesCbc(key)),
        "ctr" => Word::Cipher(Cipher::AesCtr(key)),
        "gcm8" | "gcm64" => Word::Aead(Aead::AesGcm { key, icv: 8 }),
        "gcm12" | "gcm96" => Word::Aead(Aead::AesGcm { key, icv: 12 }),
        "gcm" | "gcm16" | "gcm128" => Word::Aead(Aead::AesGcm { key, icv: 16 }),
        "gmac" => Word::Aead(Aead::NullAesGmac(key)),
        _ => return None,
    })
}

impl FromStr for Proposal {
    type Err = ProposalError;

    fn from_str(text: &str) -> Result<Self, ProposalError> {
        let invalid = |reason| ProposalError::Invalid { proposal: text.to_owned(), reason };
        let (mut aead, mut cipher, mut integrity, mut esn) = (None, None, None, None);
        for part in text.split('-') {
            let unknown = || ProposalError::UnknownWord { proposal: text.to_owned(), word: part.to_owned() };
            let is_first = match word(part).ok_or_else(unknown)? {
                Word::Aead(word) => aead.replace(word).is_none(),
                Word::Cipher(word) => cipher.replace(word).is_none(),
                Word::Integrity(word) => integrity.replace(word).is_none(),
                Word::Esn(word) => esn.replace(word).is_none(),
            };
            if !is_first {
                return Err(invalid("one word of each kind is enough: an SA has one set of algorithms"));
            }
        }
        let transform = match (aead, cipher, integrity) {
            (Some(aead), None, None) => Transform::Aead(aead),
            (Some(_), _, _) => {
                return Err(invalid("an AEAD needs neither a cipher nor an integrity algorithm"));
            }
            (None, None, None) => return Err(invalid("it names no algorithm")),
            (None, Some(Cipher::Null), None) => {
                return Err(invalid("null needs an integrity algorithm, as in null-sha256"));
            }
            // An integrity algorithm alone is what AH takes.
            (None, cipher, integrity) => {
                Transform::Chained { cipher: cipher.unwrap_or(Cipher::Null), integrity }
            }
        };
        Ok(Self { transform, esn: esn.unwrap_or(false) })
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.transform, if self.esn { "-esn" } else { "" })
    }
}

const fn bits(key: KeyBits) -> usize {
    key.bytes() * 8
}

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cipher, integrity) = match *self {
            Self::Aead(Aead::AesGcm { key, icv }) => return write!(f, "aes{}gcm{icv}", bits(key)),
            Self::Aead(Aead::NullAesGmac(key)) => return write!(f, "aes{}gmac", bits(key)),
            Self::Aead(Aead::ChaCha20Poly1305) => return f.write_str("chacha20poly1305"),
            Self::Chained { cipher, integrity } => (cipher, integrity),
        };
        match cipher {
            Cipher::Null => f.write_str("null")?,
            Cipher::AesCbc(key) => write!(f, "aes{}", bits(key))?,
            Cipher::AesCtr(key) => write!(f, "aes{}ctr", bits(key))?,
            Cipher::TripleDesCbc => f.write_str("3des")?,
            Cipher::DesCbc => f.write_str("des")?,
        }
        f.write_str(match integrity {
            None => "",
            Some(Integrity::HmacMd5_96) => "-md5",
            Some(Integrity::HmacSha1_96) => "-sha1",
            Some(Integrity::HmacSha256_128) => "-sha256",
            Some(Integrity::HmacSha384_192) => "-sha384",
            Some(Integrity::HmacSha512_256) => "-sha512",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_back() {
        for text in [
            "aes128gcm16",
            "aes192gcm12",
            "aes256gcm8",
            "aes128gmac",
            "chacha20poly1305",
            "aes256-sha256",
            "aes128ctr-sha512-esn",
            "3des-sha1",
            "des-md5",
            "null-sha384",
            "aes128",
        ] {
            let proposal: Proposal = text.parse().expect(text);
            assert_eq!(proposal.to_string(), text);
        }
        let other = |text: &str| text.parse::<Proposal>().expect(text).to_string();
        assert_eq!(other("aes256gcm128"), "aes256gcm16");
        assert_eq!(other("aes128-sha2_256-noesn"), "aes128-sha256");
        assert_eq!(other("sha256"), "null-sha256");
    }

    #[test]
    fn each_word_that_is_listed_is_one() {
        assert!(PROPOSAL_WORDS.iter().all(|text| word(text).is_some()));
    }

    #[test]
    fn a_bad_proposal_says_which_word_is_wrong() {
        let error = |text: &str| text.parse::<Proposal>().expect_err(text).to_string();
        assert!(error("aes128gcm17").contains("unknown word \"aes128gcm17\""));
        assert!(error("aes128-sha3").contains("unknown word \"sha3\""));
        assert!(error("aes128gcm16-sha256").contains("neither"));
        assert!(error("null").contains("null-sha256"));
        assert!(error("aes128-aes256").contains("one word of each kind"));
        assert!(error("aesé").contains("unknown word"));
    }
}
