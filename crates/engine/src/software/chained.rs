//! A cipher, then an integrity algorithm over its output (RFC 4303 section 3.3.2.1).
//!
//! Each passes over the whole batch, one after the other: one dynamic call each per batch, and nine
//! ciphers by six integrity algorithms without 54 copies of the loop.

use std::sync::Arc;

use convoy_ipsec::{Cipher, CryptoPacket, CryptoStatus, Direction, Integrity};

use super::integrity::{Authenticate, expand_integrity};
use super::keys::SaKeys;
use super::modes::{Encipher, expand_cipher};

/// Cipher and integrity keys of one SA; at least one of them.
pub(super) struct ChainedKeys {
    cipher: Option<Box<dyn Encipher>>,
    integrity: Option<Box<dyn Authenticate>>,
}

impl ChainedKeys {
    pub(super) fn expand(
        cipher: Cipher,
        cipher_key: &[u8],
        integrity: Option<Integrity>,
        integrity_key: &[u8],
    ) -> Option<Arc<dyn SaKeys>> {
        let cipher = match cipher {
            Cipher::Null => None,
            cipher => Some(expand_cipher(cipher, cipher_key)?),
        };
        let integrity = match integrity {
            None => None,
            Some(integrity) => Some(expand_integrity(integrity, integrity_key)?),
        };
        (cipher.is_some() || integrity.is_some()).then(|| Arc::new(Self { cipher, integrity }) as _)
    }
}

impl SaKeys for ChainedKeys {
    fn run(&self, direction: Direction, packets: &mut [CryptoPacket]) {
        // Each step passes over the packets that are still good.
        packets.iter_mut().for_each(|packet| packet.status = CryptoStatus::Done);
        match direction {
            Direction::Seal => {
                if let Some(cipher) = &self.cipher {
                    cipher.encrypt(packets);
                }
                if let Some(integrity) = &self.integrity {
                    integrity.seal(packets);
                }
            }
            Direction::Open => {
                if let Some(integrity) = &self.integrity {
                    integrity.verify(packets);
                }
                if let Some(cipher) = &self.cipher {
                    cipher.decrypt(packets);
                }
            }
        }
    }
}

/// Runs `step` on every packet that is still good and writes its result; `None` is a job outside
/// its frame.
pub(super) fn on_good(
    packets: &mut [CryptoPacket],
    mut step: impl FnMut(&mut CryptoPacket) -> Option<CryptoStatus>,
) {
    for packet in packets.iter_mut().filter(|packet| packet.status == CryptoStatus::Done) {
        packet.status = step(packet).unwrap_or(CryptoStatus::Pending);
    }
}
