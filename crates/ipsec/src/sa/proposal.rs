//! Proposals in swanctl's words: `aes128gcm16`, `aes256-sha256`, `aes128ctr-sha256`,
//! `chacha20poly1305`.

use std::fmt;
use std::str::FromStr;

use crate::sa::algorithm::{Cipher, ENCRYPTION, Encryption, INTEGRITY, Integrity, Transform};

/// The algorithms of an SA, as `esp_proposals` of swanctl.conf names them: only those of ESP and
/// AH; Diffie-Hellman groups and pseudo-random functions concern the key daemon.
///
/// ```
/// use convoy_ipsec::Proposal;
/// let proposal: Proposal = "aes256-sha256-esn".parse().expect("known words");
/// assert!(proposal.esn);
/// assert_eq!(proposal.to_string(), "aes256-sha256-esn");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// The transform.
    pub transform: Transform,
    /// Whether it contains the word `esn`.
    pub esn: bool,
}

/// Why a proposal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalError {
    /// An unknown word.
    #[error("{}", unknown(proposal, word, None))]
    UnknownWord {
        /// The proposal.
        proposal: String,
        /// The word.
        word: String,
    },
    /// Words that contradict each other.
    #[error("proposal {proposal:?}: {reason}")]
    Invalid {
        /// The proposal.
        proposal: String,
        /// What is wrong with it.
        reason: &'static str,
    },
}

impl ProposalError {
    /// The message with a suggestion for an unknown word.
    pub fn suggesting(&self, meant: &str) -> String {
        match self {
            Self::UnknownWord { proposal, word } => unknown(proposal, word, Some(meant)),
            Self::Invalid { .. } => self.to_string(),
        }
    }
}

/// The message for an unknown word: the suggestion, if any, comes before the list of known words.
fn unknown(proposal: &str, word: &str, meant: Option<&str>) -> String {
    let of = if proposal == word { String::new() } else { format!(" in proposal {proposal:?}") };
    let ciphers: Vec<String> =
        ENCRYPTION.iter().map(|row| row.words[0].replace("{}", "{128,192,256}")).collect();
    let integrity: Vec<&str> = INTEGRITY.iter().map(|row| row.words[0]).collect();
    let suggestion = meant.map_or_else(String::new, |meant| format!("; did you mean {meant:?}?"));
    let (ciphers, integrity) = (ciphers.join(", "), integrity.join(", "));
    format!("unknown word {word:?}{of}{suggestion} (ciphers: {ciphers}; integrity algorithms: {integrity})")
}

/// The words of proposals in order of preference, from which to suggest what a wrong one was meant
/// to be.
pub fn proposal_words() -> Vec<String> {
    let encryption = |is_weak| {
        let rows = ENCRYPTION.iter().filter(move |row| row.is_weak == is_weak);
        rows.flat_map(|row| row.algorithms()).map(Encryption::word)
    };
    let integrity = |is_weak| {
        let rows = INTEGRITY.iter().filter(move |row| row.is_weak == is_weak);
        rows.map(|row| row.words[0].to_owned())
    };
    let numbers = ["esn", "noesn"].map(str::to_owned);
    let strong = encryption(false).chain(integrity(false)).chain(numbers);
    strong.chain(encryption(true)).chain(integrity(true)).collect()
}

enum Word {
    Encryption(Encryption),
    Integrity(Integrity),
    Esn(bool),
}

fn word(text: &str) -> Option<Word> {
    match text {
        "esn" => Some(Word::Esn(true)),
        "noesn" => Some(Word::Esn(false)),
        _ => Encryption::of_word(text)
            .map(Word::Encryption)
            .or_else(|| Integrity::of_word(text).map(Word::Integrity)),
    }
}

impl FromStr for Proposal {
    type Err = ProposalError;

    fn from_str(text: &str) -> Result<Self, ProposalError> {
        let invalid = |reason| ProposalError::Invalid { proposal: text.to_owned(), reason };
        let (mut aead, mut cipher, mut integrity, mut esn) = (None, None, None, None);
        for part in text.split('-') {
            let unknown = || ProposalError::UnknownWord { proposal: text.to_owned(), word: part.to_owned() };
            let is_first = match word(part).ok_or_else(unknown)? {
                Word::Encryption(Encryption::Aead(word)) => aead.replace(word).is_none(),
                Word::Encryption(Encryption::Cipher(word)) => cipher.replace(word).is_none(),
                Word::Integrity(word) => integrity.replace(word).is_none(),
                // `esn-noesn` leaves the choice to a negotiation, and prefers ESN.
                Word::Esn(word) => {
                    let is_new = esn != Some(word);
                    esn = Some(word || esn == Some(true));
                    is_new
                }
            };
            if !is_first {
                return Err(invalid(
                    "it names two algorithms of the same kind; an SA has one set of algorithms",
                ));
            }
        }
        let transform = match (aead, cipher, integrity) {
            (Some(aead), None, None) => Transform::Aead(aead),
            (Some(_), _, _) => {
                return Err(invalid("an AEAD cannot be combined with a cipher or an integrity algorithm"));
            }
            (None, None, None) => return Err(invalid("it names no algorithm")),
            (None, Some(Cipher::Null), None) => {
                return Err(invalid("null needs an integrity algorithm, as in null-sha256"));
            }
            // AH takes an integrity algorithm alone.
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

impl fmt::Display for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.encryption().word())?;
        self.integrity().map_or(Ok(()), |integrity| write!(f, "-{}", integrity.row().words[0]))
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
        assert_eq!(other("aes128gcm16-esn-noesn"), "aes128gcm16-esn");
        assert_eq!(other("sha256"), "null-sha256");
        assert_eq!(other("aes-sha"), "aes128-sha1");
    }

    #[test]
    fn each_word_that_is_listed_is_one() {
        let words = proposal_words();
        assert_eq!(words.len(), 29);
        assert!(words.iter().all(|text| word(text).is_some()));
    }

    #[test]
    fn a_bad_proposal_says_which_word_is_wrong() {
        let error = |text: &str| text.parse::<Proposal>().expect_err(text).to_string();
        assert!(error("aes128gcm17").contains("unknown word \"aes128gcm17\""));
        assert_eq!(
            error("aes128-sha3"),
            "unknown word \"sha3\" in proposal \"aes128-sha3\" (ciphers: aes{128,192,256}gcm16, chacha20poly1305, \
             aes{128,192,256}, aes{128,192,256}ctr, aes{128,192,256}gcm12, aes{128,192,256}gcm8, aes{128,192,256}gmac, \
             3des, des, null; integrity algorithms: sha256, sha384, sha512, sha1, md5)"
        );
        assert!(error("aes128gcm16-sha256").contains("cannot be combined"));
        assert!(error("null").contains("null-sha256"));
        assert!(error("aes128-aes256").contains("two algorithms of the same kind"));
        assert!(error("aesé").contains("unknown word"));
    }
}
