//! Sealing: what is secret in the store is encrypted with the cluster's key, and bound to its name.
//!
//! A sealed value is a version, the number of the key that sealed it, a random nonce, and the
//! value with its tag by AES-256-GCM, whose associated data is the name of the key in the store.

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};
use std::fmt::Debug;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Nonce};
use rand::Rng;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

const VERSION: u8 = 1;
const ID_LEN: usize = 4;
const NONCE_LEN: usize = 12;
const TAG_LEN: usize = 16;
const HEADER_LEN: usize = 1 + ID_LEN + NONCE_LEN;
/// More than any file of keys has; a longer one is some other file.
const LONGEST_FILE: u64 = 64 << 10;

/// Why there is no cluster key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{0}")]
    Read(#[from] std::io::Error),
    /// Others than its owner may read or write it.
    #[error("others than its owner may read or write it (mode {0:04o}); run: chmod 600")]
    Exposed(u32),
    /// It has no key.
    #[error("it has no key: a line of 64 hexadecimal digits is needed")]
    Empty,
    /// A line that is no key.
    #[error("line {0}: a key of 64 hexadecimal digits is needed")]
    Line(usize),
    /// It is too long for a file of keys.
    #[error("it is longer than 64 KiB, so it is no file of keys")]
    TooLong,
}

/// Why a value was not opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// The value is shorter than any that was sealed.
    #[error("too short for a sealed value")]
    Short,
    /// The value has another version's form.
    #[error("sealed in form {0}, which this version does not know")]
    Version(u8),
    /// The key that sealed it is not in the file.
    #[error("sealed by key {}, which the key file does not have", HEXLOWER.encode(.0))]
    UnknownKey([u8; 4]),
    /// The value was changed, or was sealed under another name.
    #[error("it was changed, or it is of another key")]
    Forged,
}

struct SealKey {
    id: [u8; ID_LEN],
    cipher: Aes256Gcm,
}

/// The keys of a cluster. The first seals, and all open.
pub struct ClusterKey {
    keys: Vec<SealKey>,
}

impl Debug for ClusterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| HEXLOWER.encode(&key.id))).finish()
    }
}

impl ClusterKey {
    /// Reads a file with one key a line, of 64 hexadecimal digits. Empty lines and lines that begin
    /// with `#` are passed over.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let file = std::fs::File::open(path)?;
        let found = file.metadata()?;
        if found.mode() & 0o077 != 0 {
            return Err(KeyError::Exposed(found.mode() & 0o7777));
        }
        if found.len() > LONGEST_FILE {
            return Err(KeyError::TooLong);
        }
        // Allocated at once: a growing buffer would leave pieces of keys behind.
        let mut text = Zeroizing::new(String::with_capacity(found.len() as usize + 1));
        file.take(LONGEST_FILE).read_to_string(&mut text)?;
        Self::parse(&text)
    }

    /// Reads the text of such a file.
    ///
    /// # Errors
    /// [`KeyError`] names the line.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let keys = lines.map(|(at, line)| key(line).ok_or(KeyError::Line(at + 1)));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() { Err(KeyError::Empty) } else { Ok(Self { keys }) }
    }

    /// Encrypts a value for the key of this name in the store.
    pub fn seal(&self, name: &str, plaintext: &[u8]) -> Vec<u8> {
        let key = &self.keys[0];
        let mut nonce = [0; NONCE_LEN];
        rand::rng().fill_bytes(&mut nonce);
        let payload = Payload { msg: plaintext, aad: name.as_bytes() };
        let sealed = key.cipher.encrypt(&Nonce::from(nonce), payload).expect("below GCM's 64 GB");
        [&[VERSION], &key.id[..], &nonce, &sealed].concat()
    }

    /// Decrypts a value that was sealed for the key of this name.
    pub fn open(&self, name: &str, sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, SealError> {
        match sealed.first() {
            None => return Err(SealError::Short),
            Some(&version) if version != VERSION => return Err(SealError::Version(version)),
            Some(_) if sealed.len() < HEADER_LEN + TAG_LEN => return Err(SealError::Short),
            Some(_) => {}
        }
        let (header, sealed) = sealed.split_at(HEADER_LEN);
        let (id, nonce) = header[1..].split_at(ID_LEN);
        let id = <[u8; ID_LEN]>::try_from(id).expect("as long as that");
        let nonce = <[u8; NONCE_LEN]>::try_from(nonce).expect("as long as that");
        let payload = Payload { msg: sealed, aad: name.as_bytes() };
        // Two keys with one number, by chance, are both tried.
        let mut keys = self.keys.iter().filter(|key| key.id == id).peekable();
        keys.peek().ok_or(SealError::UnknownKey(id))?;
        let opened = keys.find_map(|key| {
            key.cipher.decrypt(&Nonce::from(nonce), Payload { msg: payload.msg, aad: payload.aad }).ok()
        });
        opened.map(Zeroizing::new).ok_or(SealError::Forged)
    }
}

/// A key from its digits; its number is the beginning of its digest.
fn key(digits: &str) -> Option<SealKey> {
    let mut bytes = Zeroizing::new([0; 32]);
    if digits.len() != 2 * bytes.len() {
        return None;
    }
    HEXLOWER_PERMISSIVE.decode_mut(digits.as_bytes(), &mut *bytes).ok()?;
    let id = Sha256::digest(*bytes)[..ID_LEN].try_into().ok()?;
    Some(SealKey { id, cipher: Aes256Gcm::new_from_slice(&*bytes).ok()? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NAME: &str = "/convoy/west/groups/a/sas/0000000000000001";

    fn digits(byte: u8) -> String {
        HEXLOWER.encode(&[byte; 32])
    }

    fn keys(bytes: &[u8]) -> ClusterKey {
        let lines: Vec<String> = bytes.iter().map(|byte| digits(*byte)).collect();
        ClusterKey::parse(&lines.join("\n")).expect("keys")
    }

    fn read(text: &str, mode: u32) -> Result<ClusterKey, KeyError> {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        ClusterKey::read(file.path())
    }

    #[test]
    fn what_was_sealed_is_opened() {
        let key = keys(&[1]);
        for length in [0, 1, 400, 70_000] {
            let plain: Vec<u8> = (0..length).map(|at| at as u8).collect();
            let sealed = key.seal(NAME, &plain);
            assert_eq!(sealed.len(), HEADER_LEN + plain.len() + TAG_LEN);
            assert_eq!(**key.open(NAME, &sealed).as_ref().expect("opened"), plain);
        }
    }

    #[test]
    fn no_two_values_are_sealed_alike() {
        let key = keys(&[1]);
        assert_ne!(key.seal(NAME, b"same"), key.seal(NAME, b"same"));
    }

    #[test]
    fn a_value_of_another_key_is_not_opened() {
        let key = keys(&[1]);
        let sealed = key.seal(NAME, b"secret");
        assert_eq!(key.open("/convoy/west/groups/b/sas/0000000000000001", &sealed), Err(SealError::Forged));
    }

    #[test]
    fn a_value_with_any_bit_flipped_is_not_opened() {
        let key = keys(&[1]);
        let sealed = key.seal(NAME, b"secret");
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(key.open(NAME, &flipped).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(key.open(NAME, &sealed[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn the_first_key_seals_and_all_open_until_one_is_removed() {
        let (old, both, new) = (keys(&[1]), keys(&[2, 1]), keys(&[2]));
        let (by_old, by_new) = (old.seal(NAME, b"a"), both.seal(NAME, b"b"));
        assert_eq!(**both.open(NAME, &by_old).as_ref().expect("opened"), *b"a");
        assert_eq!(**new.open(NAME, &by_new).as_ref().expect("opened"), *b"b");
        let id = Sha256::digest([1; 32])[..4].try_into().expect("4 bytes");
        assert_eq!(new.open(NAME, &by_old), Err(SealError::UnknownKey(id)));
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let text = format!("# the newer\n{}\n\n{}\n", digits(2), digits(1));
        assert_eq!(read(&text, 0o600).expect("read").keys.len(), 2);
        for mode in [0o640, 0o604, 0o620] {
            let refused = read(&text, mode).expect_err("exposed").to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
    }

    #[test]
    fn a_file_that_is_no_file_of_keys_is_refused_by_line_and_not_shown() {
        let wrong = format!("{}\n{}0\n", digits(1), digits(2));
        let refused = read(&wrong, 0o600).expect_err("65 digits");
        assert_eq!(refused.to_string(), "line 2: a key of 64 hexadecimal digits is needed");
        assert!(matches!(read("\n# none\n", 0o600), Err(KeyError::Empty)));
        assert!(matches!(read(&"\n".repeat(100_000), 0o600), Err(KeyError::TooLong)));
    }

    #[test]
    fn keys_are_not_printed() {
        assert!(!format!("{:?}", keys(&[0xab])).contains("abab"));
    }
}
