//! Properties of a crypto device.

use std::fmt;

use crate::{DeviceCipher, DeviceHash, DeviceSuite};

/// Supported lengths in bytes: from `min` to `max` in steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sizes {
    /// The shortest length.
    pub min: u16,
    /// The longest length.
    pub max: u16,
    /// Distance between lengths; 0 if there is only one.
    pub step: u16,
}

impl Sizes {
    /// Whether this length is supported.
    pub fn has(self, len: usize) -> bool {
        let (min, max, step) = (usize::from(self.min), usize::from(self.max), usize::from(self.step).max(1));
        (min..=max).contains(&len) && (len - min).is_multiple_of(step)
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min, self.max) {
            (min, max) if min == max => write!(f, "{min}"),
            (min, max) => write!(f, "{min} to {max}"),
        }
    }
}

/// An algorithm that a device supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// A cipher, an AEAD or GMAC.
    Cipher {
        /// The algorithm.
        cipher: DeviceCipher,
        /// Lengths of keys.
        key: Sizes,
        /// Lengths of nonces or IVs.
        nonce: Sizes,
        /// Lengths of an AEAD's ICVs.
        icv: Sizes,
        /// Lengths of an AEAD's additional data.
        aad: Sizes,
    },
    /// An HMAC.
    Hash {
        /// The algorithm.
        hash: DeviceHash,
        /// Lengths of keys.
        key: Sizes,
        /// Lengths of ICVs.
        icv: Sizes,
    },
}

/// Features of a device beside algorithms, with DPDK's bits (`RTE_CRYPTODEV_FF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features(pub u64);

impl Features {
    const fn has(self, bit: u32) -> bool {
        self.0 & (1 << bit) != 0
    }

    /// Symmetric cryptography.
    pub const fn is_symmetric(self) -> bool {
        self.has(0)
    }

    /// Cipher and HMAC chained in one operation.
    pub const fn is_chaining(self) -> bool {
        self.has(2)
    }

    /// The device does the work, not the calling core.
    pub const fn is_hardware(self) -> bool {
        self.has(7)
    }

    /// In-place processing of packets in several segments.
    pub const fn has_scatter_gather(self) -> bool {
        self.has(9)
    }

    /// Processing from one buffer to another.
    pub const fn is_out_of_place(self) -> bool {
        self.has(13)
    }

    /// Digests that are encrypted together with what they cover, which IPsec does not use.
    pub const fn has_encrypted_digest(self) -> bool {
        self.has(19)
    }
}

impl fmt::Display for Features {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.is_hardware(), "hardware"),
            (!self.is_hardware(), "on the caller's core"),
            (self.is_chaining(), "cipher and HMAC in one operation"),
            (self.has_scatter_gather(), "scatter-gather"),
            (self.is_out_of_place(), "out of place"),
            (self.has_encrypted_digest(), "encrypted digests"),
        ];
        let said: Vec<&str> = words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
        f.write_str(&said.join(", "))
    }
}

/// Properties of a crypto device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Name of a virtual device, or a PCI address with the driver's suffix.
    pub name: String,
    /// Its driver.
    pub driver: String,
    /// Features beside algorithms.
    pub features: Features,
    /// The most queue pairs.
    pub max_queue_pairs: usize,
    /// The most sessions; 0 means no limit.
    pub max_sessions: usize,
    /// Supported algorithms.
    pub capabilities: Vec<Capability>,
}

impl DeviceInfo {
    /// # Errors
    /// What the device lacks for SAs of this suite, with additional data of any of `aad_lens` bytes
    /// if it is an AEAD.
    pub fn check(&self, suite: &DeviceSuite, aad_lens: &[usize]) -> Result<(), String> {
        let has_cipher = suite.cipher != DeviceCipher::Null;
        if has_cipher {
            self.check_cipher(suite, aad_lens)?;
        }
        if suite.hash != DeviceHash::None {
            self.check_hash(suite)?;
            if has_cipher && !self.features.is_chaining() {
                return Err("it cannot chain a cipher and an HMAC in one operation".to_owned());
            }
        }
        Ok(())
    }

    fn check_cipher(&self, suite: &DeviceSuite, aad_lens: &[usize]) -> Result<(), String> {
        let mut lack = format!("it has no {}", suite.cipher);
        for capability in &self.capabilities {
            let Capability::Cipher { cipher, key, nonce, icv, aad } = capability else { continue };
            if *cipher != suite.cipher {
                continue;
            }
            let has_icv = cipher.is_aead() || *cipher == DeviceCipher::Gmac;
            lack = if !key.has(suite.key_len) {
                format!("its {cipher} takes keys of {key} bytes")
            } else if !nonce.has(cipher.nonce_len()) {
                format!("its {cipher} takes IVs of {nonce} bytes")
            } else if has_icv && !icv.has(suite.icv_len) {
                format!("its {cipher} takes ICVs of {icv} bytes")
            } else if cipher.is_aead() && !aad_lens.iter().all(|len| aad.has(*len)) {
                format!("its {cipher} takes additional data of {aad} bytes")
            } else {
                return Ok(());
            };
        }
        Err(lack)
    }

    fn check_hash(&self, suite: &DeviceSuite) -> Result<(), String> {
        let mut lack = format!("it has no {}", suite.hash);
        for capability in &self.capabilities {
            let Capability::Hash { hash, key, icv } = capability else { continue };
            if *hash != suite.hash {
                continue;
            }
            lack = if !key.has(suite.hash_key_len) {
                format!("its {hash} takes keys of {key} bytes")
            } else if !icv.has(suite.icv_len) {
                format!("its {hash} takes ICVs of {icv} bytes")
            } else {
                return Ok(());
            };
        }
        Err(lack)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Sizes = Sizes { min: 0, max: 64, step: 1 };
    const GCM: DeviceSuite = DeviceSuite {
        cipher: DeviceCipher::Gcm,
        key_len: 16,
        hash: DeviceHash::None,
        hash_key_len: 0,
        icv_len: 16,
    };

    fn device(features: u64, capabilities: Vec<Capability>) -> DeviceInfo {
        DeviceInfo {
            name: "crypto_test0".to_owned(),
            driver: "crypto_test".to_owned(),
            features: Features(features),
            max_queue_pairs: 1,
            max_sessions: 0,
            capabilities,
        }
    }

    fn gcm(key: Sizes, icv: Sizes, aad: Sizes) -> Capability {
        let nonce = Sizes { min: 12, max: 12, step: 0 };
        Capability::Cipher { cipher: DeviceCipher::Gcm, key, nonce, icv, aad }
    }

    #[test]
    fn sizes_go_in_steps() {
        let keys = Sizes { min: 16, max: 32, step: 8 };
        assert_eq!((15..=33).filter(|len| keys.has(*len)).collect::<Vec<_>>(), [16, 24, 32]);
        let one = Sizes { min: 12, max: 12, step: 0 };
        assert!(one.has(12) && !one.has(11) && !one.has(13));
    }

    #[test]
    fn what_a_device_lacks_is_said() {
        let lack = |device: DeviceInfo| device.check(&GCM, &[8, 12]).expect_err("it lacks something");
        assert_eq!(lack(device(0, vec![])), "it has no AES-GCM");
        let long_keys = Sizes { min: 32, max: 32, step: 0 };
        assert_eq!(lack(device(0, vec![gcm(long_keys, ANY, ANY)])), "its AES-GCM takes keys of 32 bytes");
        let short = Sizes { min: 8, max: 12, step: 4 };
        assert_eq!(lack(device(0, vec![gcm(ANY, short, ANY)])), "its AES-GCM takes ICVs of 8 to 12 bytes");
        let eight = Sizes { min: 8, max: 8, step: 0 };
        assert_eq!(
            lack(device(0, vec![gcm(ANY, ANY, eight)])),
            "its AES-GCM takes additional data of 8 bytes"
        );
        assert_eq!(device(0, vec![gcm(ANY, ANY, ANY)]).check(&GCM, &[8, 12]), Ok(()));
    }

    #[test]
    fn a_cipher_with_an_hmac_needs_a_device_that_chains() {
        let suite = DeviceSuite {
            cipher: DeviceCipher::Cbc,
            key_len: 16,
            hash: DeviceHash::Sha1,
            hash_key_len: 20,
            icv_len: 12,
        };
        let cbc = Capability::Cipher { cipher: DeviceCipher::Cbc, key: ANY, nonce: ANY, icv: ANY, aad: ANY };
        let sha1 = Capability::Hash { hash: DeviceHash::Sha1, key: ANY, icv: ANY };
        let check = |features, capabilities| device(features, capabilities).check(&suite, &[]);
        assert_eq!(check(0, vec![cbc]), Err("it has no HMAC-SHA-1".to_owned()));
        assert!(check(0, vec![cbc, sha1]).expect_err("no chaining").contains("one operation"));
        assert_eq!(check(1 << 2, vec![cbc, sha1]), Ok(()));
    }
}
