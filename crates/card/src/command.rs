//! What goes to the card before each frame, and what comes back (docs/card.md, "Command prefix", "Status").

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Bytes before each frame to X1 or X2.
pub const PREFIX_BYTES: usize = 32;
/// Bytes of an SA.
pub const SA_BYTES: usize = 112;
/// Bytes before each frame to the host.
pub const STATUS_BYTES: usize = 16;
/// The longest frame.
pub const FRAME_BYTES: usize = 16_383;

/// The cipher of an SA, by the card's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cipher {
    /// None.
    Null = 0,
    /// AES-GCM, with its own authentication.
    AesGcm = 1,
    /// AES-CTR.
    AesCtr = 2,
    /// AES-CBC.
    AesCbc = 3,
    /// 3DES-CBC.
    TripleDesCbc = 4,
}

/// The integrity algorithm of an SA, by the card's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Hash {
    /// None beside the cipher's own.
    None = 0,
    /// HMAC-SHA-1.
    HmacSha1 = 1,
    /// HMAC-SHA-512.
    HmacSha512 = 2,
}

/// What an SA asks of the function in the slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    /// Its cipher.
    pub cipher: Cipher,
    /// Its integrity algorithm.
    pub hash: Hash,
}

impl Algorithm {
    /// The functions that do it, best first; none if the card has no such pair.
    pub const fn functions(self) -> &'static [u8] {
        match (self.cipher, self.hash) {
            (Cipher::AesGcm, Hash::None) => &[1],
            (Cipher::AesCtr, Hash::HmacSha1) => &[2],
            (Cipher::AesCbc, Hash::HmacSha1) => &[3],
            (Cipher::TripleDesCbc, Hash::HmacSha1) => &[4],
            (Cipher::AesCtr | Cipher::Null, Hash::HmacSha512) => &[5],
            // The card takes whichever of these is in the slot, and else asks for the first.
            (Cipher::Null, Hash::HmacSha1) => &[2, 3, 4],
            _ => &[],
        }
    }

    /// The function to use, of those in the mask `built`: the one that is `active` if it serves.
    pub fn function(self, built: u16, active: u8) -> Option<u8> {
        let serves = |id: &&u8| built >> **id & 1 == 1;
        let functions = self.functions();
        let found = functions.iter().find(|id| **id == active).filter(serves);
        found.or_else(|| functions.iter().find(serves)).copied()
    }

    /// Bytes of IV in the packet.
    pub const fn iv_bytes(self) -> usize {
        match self.cipher {
            Cipher::Null => 0,
            Cipher::AesGcm | Cipher::AesCtr | Cipher::TripleDesCbc => 8,
            Cipher::AesCbc => 16,
        }
    }
}

/// Seal or open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Encrypt and append the ICV, in X1.
    Seal = 0,
    /// Check the ICV and decrypt, in X2.
    Open = 1,
}

/// An SA as the card keeps it. Wiped when dropped, never printed.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Sa {
    /// What it does.
    #[zeroize(skip)]
    pub algorithm: Algorithm,
    /// Salt or nonce; zeros if the algorithm has none.
    pub salt: [u8; 4],
    /// 0, 16, 24 or 32 bytes.
    pub key: Vec<u8>,
    /// At most 64 bytes.
    pub auth_key: Vec<u8>,
    /// 8, 12, 16, 20 or 32.
    pub icv_bytes: u8,
}

impl Sa {
    /// The body of SA_INSTALL. The SPI stays 0: it is for packets from the MAC alone.
    ///
    /// # Panics
    /// If a key is longer than its place.
    pub fn body(&self, is_esn: bool) -> Zeroizing<[u8; SA_BYTES]> {
        let mut body = Zeroizing::new([0; SA_BYTES]);
        body[4..8].copy_from_slice(&self.salt);
        body[8] = self.algorithm.cipher as u8 | (self.algorithm.hash as u8) << 4;
        body[9] = self.key.len() as u8;
        body[10] = self.icv_bytes;
        body[11] = u8::from(is_esn);
        body[16..48][..self.key.len()].copy_from_slice(&self.key);
        body[48..][..self.auth_key.len()].copy_from_slice(&self.auth_key);
        body
    }
}

/// The first field of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A packet for the function in the slot, and back to the host.
    Packet {
        /// Which way.
        direction: Direction,
        /// The upper half of its sequence number; zeros without ESN.
        seq_high: [u8; 4],
    },
    /// An SA into the cache.
    SaInstall,
    /// An SA out of the cache.
    SaRemove,
    /// A function into the slot.
    SlotLoad(u8),
}

/// The prefix of a frame of `len` bytes whose ESP header comes first.
pub fn prefix(operation: Operation, sa: u8, len: u16, cookie: u32) -> [u8; PREFIX_BYTES] {
    const CRYPTO: u8 = 1;
    let mut bytes = [0; PREFIX_BYTES];
    match operation {
        Operation::Packet { direction, seq_high } => {
            bytes[1] = (direction as u8) << 1;
            bytes[2] = CRYPTO;
            bytes[12..16].copy_from_slice(&seq_high);
        }
        Operation::SaInstall => bytes[0] = 1,
        Operation::SaRemove => bytes[0] = 2,
        Operation::SlotLoad(function) => (bytes[0], bytes[3]) = (3, function),
    }
    bytes[4] = sa;
    bytes[6..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..12].copy_from_slice(&cookie.to_le_bytes());
    bytes
}

/// What became of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Done.
    Ok,
    /// The ICV is wrong.
    WrongIcv,
    /// No such SA.
    NoSa,
    /// The function is not in the slot.
    NoFunction,
    /// Bad prefix or length.
    Malformed,
    /// Framing or FCS.
    Broken,
    /// The filter says drop.
    Filtered,
    /// A number that docs/card.md does not have.
    Unknown(u8),
}

/// What comes back before a frame, or alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What became of it.
    pub code: Code,
    /// Bytes of the frame that follows.
    pub len: u16,
    /// As in the prefix.
    pub cookie: u32,
    /// Cycles that the packet held the function; 65535: so many or more.
    pub cycles: u16,
}

impl Status {
    /// Reads it from the front of what was received; `None` if that is too short.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; STATUS_BYTES] = bytes.first_chunk()?;
        let code = match bytes[0] {
            0 => Code::Ok,
            1 => Code::WrongIcv,
            2 => Code::NoSa,
            3 => Code::NoFunction,
            4 => Code::Malformed,
            5 => Code::Broken,
            6 => Code::Filtered,
            other => Code::Unknown(other),
        };
        Some(Self {
            code,
            len: u16::from_le_bytes([bytes[6], bytes[7]]),
            cookie: u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]),
            cycles: u16::from_le_bytes([bytes[14], bytes[15]]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NULL_SHA1: Algorithm = Algorithm { cipher: Cipher::Null, hash: Hash::HmacSha1 };

    #[test]
    fn a_prefix_has_its_fields_where_the_card_reads_them() {
        let packet = Operation::Packet { direction: Direction::Open, seq_high: [1, 2, 3, 4] };
        let bytes = prefix(packet, 0x5a, 0x0102, 0xa1b2_c3d4);
        assert_eq!(bytes[..16], [0, 2, 1, 0, 0x5a, 0, 2, 1, 0xd4, 0xc3, 0xb2, 0xa1, 1, 2, 3, 4]);
        assert_eq!(bytes[16..], [0; 16]);
        assert_eq!(prefix(Operation::SlotLoad(5), 0, 0, 0)[..4], [3, 0, 0, 5]);
        assert_eq!(prefix(Operation::SaInstall, 9, 112, 0)[..8], [1, 0, 0, 0, 9, 0, 112, 0]);
        assert_eq!(prefix(Operation::SaRemove, 9, 0, 0)[..8], [2, 0, 0, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn the_body_of_an_sa_has_its_keys_padded_with_zeros() {
        let algorithm = Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 };
        let sa = Sa { algorithm, salt: [1, 2, 3, 4], key: vec![5; 24], auth_key: vec![6; 20], icv_bytes: 12 };
        let body = sa.body(true);
        assert_eq!(body[..16], [0, 0, 0, 0, 1, 2, 3, 4, 0x12, 24, 12, 1, 0, 0, 0, 0]);
        assert_eq!(body[16..48], [[5; 24].as_slice(), &[0; 8]].concat());
        assert_eq!(body[48..], [[6; 20].as_slice(), &[0; 44]].concat());
        assert_eq!(sa.body(false)[11], 0);
    }

    #[test]
    fn a_status_is_read_and_a_short_one_is_none() {
        let bytes = [1, 0, 0, 255, 7, 0, 0x34, 0x12, 0xd4, 0xc3, 0xb2, 0xa1, 0, 0, 0x2c, 0x01];
        let expected = Status { code: Code::WrongIcv, len: 0x1234, cookie: 0xa1b2_c3d4, cycles: 300 };
        assert_eq!(Status::parse(&bytes), Some(expected));
        assert_eq!(Status::parse(&bytes[..15]), None);
        assert_eq!(Status::parse(&[9; 16]).map(|status| status.code), Some(Code::Unknown(9)));
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
