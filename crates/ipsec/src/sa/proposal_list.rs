//! The value of `esp_proposals` in swanctl.conf: several proposals, with key exchange groups, and
//! `default`.

use std::str::FromStr;

use crate::sa::proposal::{Proposal, ProposalError};

/// Proposals as swanctl.conf lists them: `aes256gcm16-x25519, aes128gcm16, default`.
///
/// ```
/// use convoy_ipsec::ProposalList;
/// let list: ProposalList = "aes256gcm16-x25519, aes128gcm16".parse().expect("known words");
/// assert_eq!((list.proposals.len(), &*list.key_exchange), (2, &["x25519".to_owned()][..]));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProposalList {
    /// The proposals that name algorithms, in order of preference.
    pub proposals: Vec<Proposal>,
    /// Whether it contains `default`, the key daemon's own default proposals.
    pub has_default: bool,
    /// The key exchange groups, which concern IKE, not SAs.
    pub key_exchange: Vec<String>,
}

impl FromStr for ProposalList {
    type Err = ProposalError;

    fn from_str(text: &str) -> Result<Self, ProposalError> {
        let mut list = Self::default();
        for one in text.split(',').map(str::trim) {
            if one == "default" {
                list.has_default = true;
                continue;
            }
            let (groups, words): (Vec<&str>, Vec<&str>) =
                one.split('-').partition(|word| is_key_exchange(word));
            list.key_exchange.extend(groups.into_iter().map(str::to_owned));
            list.proposals.push(words.join("-").parse()?);
        }
        Ok(list)
    }
}

/// Whether a word is a key exchange group of strongSwan's, such as `x25519`, `ecp256`, `modp2048`
/// or `ke1_mlkem768` (RFC 9370).
fn is_key_exchange(word: &str) -> bool {
    let additional = word.strip_prefix("ke").and_then(|rest| rest.split_once('_'));
    let word = match additional {
        Some((number, rest)) if ["1", "2", "3", "4", "5", "6", "7"].contains(&number) => rest,
        _ => word,
    };
    let has_number = |prefix: &str| {
        word.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    ["x25519", "curve25519", "x448", "curve448", "modpnone"].contains(&word)
        || ["ecp", "modp", "mlkem"].into_iter().any(has_number)
}

/// What a proposal in another notation was meant to be, such as `AES-128-GCM` of OpenSSL's names.
pub fn in_swanctl_words(text: &str) -> Option<String> {
    let flat: String =
        text.chars().filter(char::is_ascii_alphanumeric).map(|it| it.to_ascii_lowercase()).collect();
    if flat.contains("chacha20") {
        return Some("chacha20poly1305".to_owned());
    }
    let (_, after) = flat.split_once("aes")?;
    let (cipher, hash) = after.split_once("sha").map_or((after, None), |(cipher, hash)| (cipher, Some(hash)));
    let bits = ["256", "192", "128"].into_iter().find(|bits| cipher.contains(bits)).unwrap_or("128");
    let hash = match hash.map(|hash| hash.strip_prefix('2').unwrap_or(hash)) {
        Some(hash) if hash.starts_with('1') => "sha1",
        Some(hash) if hash.starts_with("384") => "sha384",
        Some(hash) if hash.starts_with("512") => "sha512",
        _ => "sha256",
    };
    let has = |mode| cipher.contains(mode);
    match () {
        () if has("gcm") => Some(format!("aes{bits}gcm16")),
        () if has("gmac") => Some(format!("aes{bits}gmac")),
        () if has("ctr") => Some(format!("aes{bits}ctr-{hash}")),
        () if has("cbc") => Some(format!("aes{bits}-{hash}")),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_exchange_groups_are_distinguished_from_algorithms() {
        for text in [
            "aes256gcm16-x25519",
            "aes256gcm16-ecp384",
            "aes256gcm16-modp2048s256",
            "aes256gcm16-x25519-ke1_mlkem768",
        ] {
            let list: ProposalList = text.parse().expect(text);
            assert_eq!(list.proposals, ["aes256gcm16".parse().expect("known")], "{text}");
            assert!(!list.key_exchange.is_empty(), "{text}");
        }
        let list: ProposalList = "aes256-sha256-esn".parse().expect("known");
        assert!(list.key_exchange.is_empty() && list.proposals[0].esn);
        for wrong in ["x25519", "aes256gcm16-ecp", "aes256gcm16-ke9_x25519", "", "aes128gcm16,"] {
            assert!(wrong.parse::<ProposalList>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_keep_their_order_and_default_is_none_of_them() {
        let list: ProposalList = "aes128ctr-sha256,aes128gcm16, default".parse().expect("known words");
        let words: Vec<String> = list.proposals.iter().map(ToString::to_string).collect();
        assert_eq!((words.join(" ").as_str(), list.has_default), ("aes128ctr-sha256 aes128gcm16", true));
    }

    #[test]
    fn other_notations_are_recognised() {
        for (text, meant) in [
            ("AES-128-GCM", Some("aes128gcm16")),
            ("aes-256-gcm", Some("aes256gcm16")),
            ("AES_GCM_16_256", Some("aes256gcm16")),
            ("aes256gcm", Some("aes256gcm16")),
            ("AES-128-CBC-HMAC-SHA256", Some("aes128-sha256")),
            ("AES_CBC_256/HMAC_SHA2_512_256", Some("aes256-sha512")),
            ("AES-256-CTR-SHA1", Some("aes256ctr-sha1")),
            ("ChaCha20-Poly1305", Some("chacha20poly1305")),
            ("rot13", None),
        ] {
            assert_eq!(in_swanctl_words(text).as_deref(), meant, "{text}");
            assert!(meant.is_none_or(|meant| meant.parse::<Proposal>().is_ok()), "{meant:?}");
        }
    }
}
