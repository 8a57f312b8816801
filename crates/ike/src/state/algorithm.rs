//! charon's algorithms and keys as convoy's.

use convoy_ipsec::{Cipher, Encryption, EncryptionRow, Integrity, IntegrityRow, KeyMaterial, Transform};

use super::backend::Refusal;
use crate::protocol::{SaProtocolId, WireSaKeys};

/// charon's number of no algorithm, beside IANA's 0.
const UNDEFINED: u16 = 1024;

/// The keys of an SA, in convoy's order: cipher key, salt, integrity key.
///
/// # Errors
/// [`Refusal`] names the algorithm or the length that the gateway does not have.
pub(super) fn key_material(protocol: SaProtocolId, keys: &WireSaKeys) -> Result<KeyMaterial, Refusal> {
    let transform = transform(protocol, keys)?;
    let mut bytes = Vec::with_capacity(transform.key_material_len());
    if keys.encryption_key.len() + keys.integrity_key.len() != bytes.capacity() {
        return Err(Refusal(format!(
            "{transform} takes keys of {} bytes, not {}",
            transform.key_material_len(),
            keys.encryption_key.len() + keys.integrity_key.len()
        )));
    }
    bytes.extend_from_slice(&keys.encryption_key);
    bytes.extend_from_slice(&keys.integrity_key);
    KeyMaterial::new(transform, bytes).map_err(|error| Refusal(error.to_string()))
}

fn transform(protocol: SaProtocolId, keys: &WireSaKeys) -> Result<Transform, Refusal> {
    if protocol == SaProtocolId::Ah {
        let integrity = integrity(keys.integrity)?;
        if integrity.is_none() || !keys.encryption_key.is_empty() {
            return Err(Refusal("AH takes an integrity algorithm and no cipher".to_owned()));
        }
        return Ok(Transform::Chained { cipher: Cipher::Null, integrity });
    }
    let row = EncryptionRow::of_number(keys.encryption)
        .ok_or_else(|| Refusal(format!("encryption algorithm {} is not supported", keys.encryption)))?;
    let key_len = keys.encryption_key.len().saturating_sub(row.salt_len);
    match row.with_key(key_len).ok_or_else(|| Refusal(format!("AES has no keys of {key_len} bytes")))? {
        Encryption::Aead(aead) => Ok(Transform::Aead(aead)),
        Encryption::Cipher(cipher) => {
            Ok(Transform::Chained { cipher, integrity: integrity(keys.integrity)? })
        }
    }
}

fn integrity(number: u16) -> Result<Option<Integrity>, Refusal> {
    if matches!(number, 0 | UNDEFINED) {
        return Ok(None);
    }
    let row = IntegrityRow::of_number(number);
    let row = row.ok_or_else(|| Refusal(format!("integrity algorithm {number} is not supported")))?;
    Ok(Some(row.algorithm))
}

#[cfg(test)]
mod tests {
    use convoy_ipsec::SaProtocol;

    use super::*;

    fn keys(encryption: u16, cipher_bytes: usize, integrity: u16, integrity_bytes: usize) -> WireSaKeys {
        let encryption_key = (0..cipher_bytes as u8).collect();
        WireSaKeys { encryption, integrity, encryption_key, integrity_key: vec![0xee; integrity_bytes] }
    }

    #[test]
    fn every_algorithm_of_the_gateway_has_its_number_and_its_keys_in_order() {
        for (encryption, cipher_bytes, integrity, integrity_bytes, expected) in [
            (18, 20, 1024, 0, "aes128gcm8"),
            (19, 28, 1024, 0, "aes192gcm12"),
            (20, 36, 0, 0, "aes256gcm16"),
            (21, 20, 1024, 0, "aes128gmac"),
            (28, 36, 1024, 0, "chacha20poly1305"),
            (12, 16, 2, 20, "aes128-sha1"),
            (12, 32, 12, 32, "aes256-sha256"),
            (13, 20, 13, 48, "aes128ctr-sha384"),
            (13, 36, 14, 64, "aes256ctr-sha512"),
            (3, 24, 2, 20, "3des-sha1"),
            (2, 8, 1, 16, "des-md5"),
            (11, 0, 12, 32, "null-sha256"),
        ] {
            let given = keys(encryption, cipher_bytes, integrity, integrity_bytes);
            let material = key_material(SaProtocolId::Esp, &given).expect(expected);
            assert_eq!(material.transform().to_string(), expected);
            let salt_at = cipher_bytes - material.salt().len();
            assert_eq!(material.cipher_key(), &given.encryption_key[..salt_at]);
            assert_eq!(material.salt(), &given.encryption_key[salt_at..]);
            assert_eq!(material.integrity_key(), &given.integrity_key);
        }
    }

    #[test]
    fn ah_takes_an_integrity_algorithm_alone() {
        let material = key_material(SaProtocolId::Ah, &keys(1024, 0, 12, 32)).expect("AH with SHA-256");
        assert_eq!(material.transform().to_string(), "null-sha256");
        assert!(!material.transform().is_weak(SaProtocol::Ah));
        assert!(material.transform().is_weak(SaProtocol::Esp));
        assert!(key_material(SaProtocolId::Ah, &keys(1024, 0, 1024, 0)).is_err());
        assert!(key_material(SaProtocolId::Ah, &keys(12, 16, 12, 32)).is_err());
    }

    #[test]
    fn what_the_gateway_does_not_have_is_named() {
        let refusal = |encryption, cipher, integrity, bytes| {
            key_material(SaProtocolId::Esp, &keys(encryption, cipher, integrity, bytes))
                .expect_err("unknown")
                .0
        };
        assert!(refusal(23, 16, 12, 32).contains("algorithm 23"));
        assert!(refusal(12, 16, 5, 16).contains("integrity algorithm 5"));
        assert!(refusal(20, 16, 0, 0).contains("keys of 12 bytes"));
        assert!(refusal(20, 2, 0, 0).contains("keys of 0 bytes"));
        assert!(refusal(28, 32, 0, 0).contains("36 bytes, not 32"));
        assert!(refusal(12, 16, 12, 20).contains("48 bytes, not 36"));
    }
}
