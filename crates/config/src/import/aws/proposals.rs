//! AWS' names of algorithms in swanctl's words.

use crate::import::findings::{FileLine, Finding, ImportEntry};

/// The algorithms of IKE or of ESP.
pub(super) struct ProposalSuite<'a> {
    pub(super) is_ike: bool,
    /// The tunnel's, for what is missing.
    pub(super) place: &'a FileLine,
    pub(super) encryption: Option<&'a ImportEntry>,
    pub(super) integrity: Option<&'a ImportEntry>,
    pub(super) group: Option<&'a ImportEntry>,
}

const ENCRYPTION: [(&str, &str); 4] = [
    ("aes-128-cbc", "aes128"),
    ("aes-256-cbc", "aes256"),
    ("aes-128-gcm-16", "aes128gcm16"),
    ("aes-256-gcm-16", "aes256gcm16"),
];
const INTEGRITY: [(&str, &str); 4] =
    [("sha1", "sha1"), ("sha2-256", "sha256"), ("sha2-384", "sha384"), ("sha2-512", "sha512")];
const GROUPS: [(&str, &str); 11] = [
    ("2", "modp1024"),
    ("5", "modp1536"),
    ("14", "modp2048"),
    ("15", "modp3072"),
    ("16", "modp4096"),
    ("17", "modp6144"),
    ("18", "modp8192"),
    ("19", "ecp256"),
    ("20", "ecp384"),
    ("21", "ecp521"),
    ("31", "x25519"),
];

impl ProposalSuite<'_> {
    /// The proposal, if all of its words are there and known; each other one is reported.
    pub(super) fn proposal(&self, left: &mut Vec<Finding>) -> Option<String> {
        let is_missing = |key: &str| {
            let part = if self.is_ike { "IKE" } else { "IPSec" };
            let what = format!(
                "the text has no line \"- {key} : …\" for {part}, so charon's default proposals hold; write the \
                 connection's by hand"
            );
            self.place.finding(key, what)
        };
        if self.encryption.is_none() {
            left.push(is_missing("Encryption Algorithm"));
        }
        // GCM has an integrity of its own; without a hash, charon takes its default PRFs with it.
        let is_whole = |entry: &ImportEntry| encryption(entry).is_some_and(|word| word.contains("gcm"));
        if self.integrity.is_none() && !self.encryption.is_some_and(is_whole) {
            left.push(is_missing("Authentication Algorithm"));
            return None;
        }
        let mut word = |entry: Option<&ImportEntry>, known: Option<&'static str>| {
            let entry = entry?;
            if known.is_none() {
                left.push(entry.finding(format!(
                    "{:?} is not known, so charon's default proposals hold; write the connection's by hand",
                    entry.value
                )));
            }
            known
        };
        let encryption = word(self.encryption, self.encryption.and_then(encryption))?;
        let integrity = self.integrity.map(|entry| word(Some(entry), integrity(entry)));
        let group = self.group.map(|entry| word(Some(entry), group(entry)));
        let (integrity, group) = match (integrity, group) {
            (Some(None), _) | (_, Some(None)) => return None,
            (integrity, group) => (integrity.flatten(), group.flatten()),
        };
        // GCM has an integrity of its own; in IKE, the hash is then that of the PRF.
        let integrity = match (encryption.contains("gcm"), self.is_ike) {
            (false, _) => integrity.map(str::to_owned),
            (true, true) => integrity.map(|hash| format!("prf{hash}")),
            (true, false) => None,
        };
        let words = [Some(encryption.to_owned()), integrity, group.map(str::to_owned)];
        self.warn_of_weak(left);
        Some(words.into_iter().flatten().collect::<Vec<_>>().join("-"))
    }

    fn warn_of_weak(&self, left: &mut Vec<Finding>) {
        let Some(entry) = self.group.filter(|entry| matches!(group(entry), Some("modp1024" | "modp1536")))
        else {
            return;
        };
        left.push(entry.finding(
            "it was taken, but is weak: the text has the least that AWS takes; write a stronger one, such as modp2048, if \
             the tunnel options allow it",
        ));
    }
}

fn encryption(entry: &ImportEntry) -> Option<&'static str> {
    let lower = entry.value.to_lowercase();
    find(&ENCRYPTION, |known| lower == known)
}

fn integrity(entry: &ImportEntry) -> Option<&'static str> {
    let lower = entry.value.to_lowercase().replace("hmac-", "");
    find(&INTEGRITY, |known| lower.starts_with(known))
}

fn group(entry: &ImportEntry) -> Option<&'static str> {
    let number = entry.value.split_whitespace().last().unwrap_or_default();
    find(&GROUPS, |known| number == known)
}

fn find(words: &[(&str, &'static str)], is_it: impl Fn(&str) -> bool) -> Option<&'static str> {
    words.iter().find(|(known, _)| is_it(known)).map(|(_, ours)| *ours)
}
