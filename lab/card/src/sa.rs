//! SAs in the card's format (docs/lab/card.md, "Command prefix", "Slot").

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::functions::FUNCTIONS;
pub use crate::functions::{Cipher, Hash};

/// Length of an SA, in bytes.
pub const SA_BYTES: usize = 112;

/// The algorithms of an SA, which select the function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Its cipher.
    pub cipher: Cipher,
    /// Its integrity algorithm.
    pub hash: Hash,
}

impl Algorithm {
    /// The encoding in byte 8 of an SA.
    const fn byte(self) -> u8 {
        self.cipher as u8 | (self.hash as u8) << 4
    }

    /// The functions that implement these algorithms, the card's preferred one first; none if it
    /// has no such pair.
    pub fn functions(self) -> impl Iterator<Item = u8> {
        let serving = FUNCTIONS.iter().filter(move |function| function.algorithms.contains(&self.byte()));
        serving.map(|function| function.id)
    }

    /// The function to use, out of those in the mask `built`; preferably the `active` one.
    pub fn function(self, built: u16, active: u8) -> Option<u8> {
        let serves = |id: &u8| built >> *id & 1 == 1;
        self.functions().filter(serves).find(|id| *id == active).or_else(|| self.functions().find(serves))
    }
}

/// How the card recognises an SA's packets from the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// The SPI, as in the packets; 0 means none.
    pub spi: [u8; 4],
    /// Whether the packets contain IP packets, which the card then inspects.
    pub is_tunnel: bool,
}

impl Inbound {
    /// The only place in the card's map where this SPI can be.
    pub const fn place(&self) -> u8 {
        let [a, b, c, d] = self.spi;
        a ^ b ^ c ^ d
    }
}

/// An SA as the card stores it. Wiped when dropped, and not printable.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Sa {
    /// The algorithms.
    #[zeroize(skip)]
    pub algorithm: Algorithm,
    /// Salt or nonce; zeros if the algorithm has none.
    pub salt: [u8; 4],
    /// The cipher's key: 0, 16, 24 or 32 bytes.
    pub key: Vec<u8>,
    /// The HMAC's key: at most 64 bytes.
    pub auth_key: Vec<u8>,
    /// Length of the ICV in bytes: 8, 12, 16, 20 or 32.
    pub icv_bytes: u8,
}

impl Sa {
    /// Whether the keys fit, and the card accepts an ICV of this length.
    pub fn is_fit(&self) -> bool {
        self.key.len() <= 32 && self.auth_key.len() <= 64 && (8..=32).contains(&self.icv_bytes)
    }

    /// The body of SA_INSTALL; `inbound` for SAs of packets from the line, which do not carry the
    /// upper half of their sequence numbers.
    ///
    /// # Panics
    /// If a key is too long.
    pub fn body(&self, is_esn: bool, inbound: Option<Inbound>) -> Zeroizing<[u8; SA_BYTES]> {
        const MAPPED: u8 = 1 << 1;
        const TUNNEL: u8 = 1 << 2;
        let mut body = Zeroizing::new([0; SA_BYTES]);
        body[4..8].copy_from_slice(&self.salt);
        body[8] = self.algorithm.byte();
        body[9] = self.key.len() as u8;
        body[10] = self.icv_bytes;
        body[11] = u8::from(is_esn);
        if let Some(inbound) = inbound {
            body[..4].copy_from_slice(&inbound.spi);
            body[11] |= MAPPED | if inbound.is_tunnel { TUNNEL } else { 0 };
        }
        body[16..48][..self.key.len()].copy_from_slice(&self.key);
        body[48..][..self.auth_key.len()].copy_from_slice(&self.auth_key);
        body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL_SHA1: Algorithm = Algorithm { cipher: Cipher::Null, hash: Hash::HmacSha1 };

    #[test]
    fn the_body_of_an_sa_has_its_keys_padded_with_zeros() {
        let algorithm = Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 };
        let sa = Sa { algorithm, salt: [1, 2, 3, 4], key: vec![5; 24], auth_key: vec![6; 20], icv_bytes: 12 };
        let body = sa.body(true, None);
        assert_eq!(body[..16], [0, 0, 0, 0, 1, 2, 3, 4, 0x12, 24, 12, 1, 0, 0, 0, 0]);
        assert_eq!(body[16..48], [[5; 24].as_slice(), &[0; 8]].concat());
        assert_eq!(body[48..], [[6; 20].as_slice(), &[0; 44]].concat());
        assert_eq!(sa.body(false, None)[11], 0);
        let inbound = Inbound { spi: [9, 8, 7, 6], is_tunnel: true };
        let body = sa.body(false, Some(inbound));
        assert_eq!((&body[..4], body[11], inbound.place()), ([9, 8, 7, 6].as_slice(), 6, 9 ^ 8 ^ 7 ^ 6));
    }

    #[test]
    fn a_function_that_is_in_the_slot_is_preferred_and_one_that_is_not_built_is_never_chosen() {
        assert_eq!(NULL_SHA1.function(0b11100, 3), Some(3));
        assert_eq!(NULL_SHA1.function(0b11100, 1), Some(2));
        assert_eq!(NULL_SHA1.function(0b10010, 0), Some(4));
        assert_eq!(NULL_SHA1.function(0b00010, 2), None);
        let nothing = Algorithm { cipher: Cipher::AesCbc, hash: Hash::None };
        assert_eq!(nothing.function(u16::MAX, 3), None);
    }
}
