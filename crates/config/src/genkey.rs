//! Random keys for tunnels with static keys.

use convoy_ipsec::Proposal;
use data_encoding::HEXLOWER;
use rand::TryRng;
use rand::rngs::SysRng;
use zeroize::Zeroizing;

use crate::unknown_proposal;

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum GenkeyError {
    /// The proposal is invalid, for this reason.
    #[error("{0}")]
    Proposal(String),
    /// The system has no random bytes.
    #[error("the system has no random bytes: {0}")]
    Random(#[from] rand::rngs::SysError),
}

/// A random key as `key_in` and `key_out` take it, in hexadecimal digits: the cipher's key, its
/// salt, and the integrity algorithm's key, each as long as the proposal needs. `esn` in the
/// proposal makes no difference. The bytes come from the system.
///
/// # Errors
/// [`GenkeyError`].
pub fn genkey(proposal: &str) -> Result<Zeroizing<String>, GenkeyError> {
    let parsed = proposal.parse::<Proposal>();
    let parsed = parsed.map_err(|error| GenkeyError::Proposal(unknown_proposal(proposal, &error)))?;
    let transform = parsed.transform;
    let mut key = Zeroizing::new(vec![0; transform.key_material_len()]);
    SysRng.try_fill_bytes(&mut key)?;
    Ok(Zeroizing::new(HEXLOWER.encode(&key)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_length_of_its_proposal_and_is_another_each_time() {
        for (proposal, bytes) in
            [("aes128gcm16", 20), ("aes256gcm16-esn", 36), ("chacha20poly1305", 36), ("aes128ctr-sha1", 40)]
        {
            let [one, other] = [(); 2].map(|()| genkey(proposal).expect("a key"));
            assert_eq!(one.len(), 2 * bytes, "{proposal}");
            assert!(one.bytes().all(|digit| digit.is_ascii_hexdigit()));
            assert_ne!(*one, *other);
        }
    }

    #[test]
    fn a_wrong_proposal_is_refused_with_what_there_is() {
        let error = genkey("aes128gmc16").expect_err("a typing error").to_string();
        let reported = "unknown word \"aes128gmc16\"; did you mean \"aes128gcm16\"? (ciphers: ";
        assert!(error.starts_with(reported) && error.contains("aes{128,192,256}gcm16"), "{error}");
    }
}
