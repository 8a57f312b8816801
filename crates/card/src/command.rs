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

impl Direction {
    /// Where it is done.
    pub const fn pipeline(self) -> Pipeline {
        match self {
            Self::Seal => Pipeline::X1,
            Self::Open => Pipeline::X2,
        }
    }
}

/// The two packet pipelines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pipeline {
    /// Transmit.
    X1 = 0,
    /// Receive.
    X2 = 1,
}

/// Where a packet goes behind its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Back: lookaside.
    Host = 0,
    /// To the line: inline.
    Line = 1,
}

/// What packets from the line have that belong to an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inbound {
    /// As it stands in them; 0 is none.
    pub spi: [u8; 4],
    /// Whether an IPv4 packet is inside, which the card then inspects.
    pub is_tunnel_v4: bool,
}

impl Inbound {
    /// The one place of the card's map where the SPI may stand.
    pub const fn place(&self) -> u8 {
        let [a, b, c, d] = self.spi;
        a ^ b ^ c ^ d
    }
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
    /// Whether the body has room for its keys.
    pub fn is_fit(&self) -> bool {
        self.key.len() <= 32 && self.auth_key.len() <= 64
    }

    /// The body of SA_INSTALL; `inbound` for packets from the line, which carry no high half of their number.
    ///
    /// # Panics
    /// If a key is longer than its place.
    pub fn body(&self, is_esn: bool, inbound: Option<Inbound>) -> Zeroizing<[u8; SA_BYTES]> {
        const MAPPED: u8 = 1 << 1;
        const TUNNEL_V4: u8 = 1 << 2;
        let mut body = Zeroizing::new([0; SA_BYTES]);
        body[4..8].copy_from_slice(&self.salt);
        body[8] = self.algorithm.cipher as u8 | (self.algorithm.hash as u8) << 4;
        body[9] = self.key.len() as u8;
        body[10] = self.icv_bytes;
        body[11] = u8::from(is_esn);
        if let Some(inbound) = inbound {
            body[..4].copy_from_slice(&inbound.spi);
            body[11] |= MAPPED | if inbound.is_tunnel_v4 { TUNNEL_V4 } else { 0 };
        }
        body[16..48][..self.key.len()].copy_from_slice(&self.key);
        body[48..][..self.auth_key.len()].copy_from_slice(&self.auth_key);
        body
    }
}

/// The first field of a prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A packet that passes as it is.
    Pass(Route),
    /// A packet for the function in the slot.
    Crypto {
        /// What to do.
        direction: Direction,
        /// Where it goes then.
        route: Route,
        /// Where the ESP header begins, in bytes behind the prefix.
        esp_at: u16,
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

/// The prefix of a frame of `len` bytes.
pub fn prefix(operation: Operation, sa: u8, len: u16, cookie: u32) -> [u8; PREFIX_BYTES] {
    const CRYPTO: u8 = 1;
    let mut bytes = [0; PREFIX_BYTES];
    match operation {
        Operation::Pass(route) => bytes[1] = route as u8,
        Operation::Crypto { direction, route, esp_at, seq_high } => {
            bytes[1] = route as u8 | (direction as u8) << 1;
            bytes[2] = CRYPTO;
            bytes[12..16].copy_from_slice(&seq_high);
            bytes[18..20].copy_from_slice(&esp_at.to_le_bytes());
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
    /// Whether it was decrypted, and its ICV right.
    pub is_opened: bool,
    /// Whether it came from the line.
    pub is_from_line: bool,
    /// Its SA's place in the cache.
    pub sa: u8,
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
        const OPENED: u8 = 1 << 5 | 1;
        const FROM_LINE: u8 = 1 << 6;
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
            is_opened: bytes[1] & OPENED == OPENED,
            is_from_line: bytes[1] & FROM_LINE != 0,
            sa: bytes[4],
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
        let (direction, route, esp_at, seq_high) = (Direction::Open, Route::Line, 0x0304, [1, 2, 3, 4]);
        let packet = Operation::Crypto { direction, route, esp_at, seq_high };
        let bytes = prefix(packet, 0x5a, 0x0102, 0xa1b2_c3d4);
        assert_eq!(bytes[..16], [0, 3, 1, 0, 0x5a, 0, 2, 1, 0xd4, 0xc3, 0xb2, 0xa1, 1, 2, 3, 4]);
        assert_eq!(bytes[16..], [0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(prefix(Operation::Pass(Route::Line), 0, 60, 0)[..8], [0, 1, 0, 0, 0, 0, 60, 0]);
        assert_eq!(prefix(Operation::SlotLoad(5), 0, 0, 0)[..4], [3, 0, 0, 5]);
        assert_eq!(prefix(Operation::SaInstall, 9, 112, 0)[..8], [1, 0, 0, 0, 9, 0, 112, 0]);
        assert_eq!(prefix(Operation::SaRemove, 9, 0, 0)[..8], [2, 0, 0, 0, 9, 0, 0, 0]);
    }

    #[test]
    fn the_body_of_an_sa_has_its_keys_padded_with_zeros() {
        let algorithm = Algorithm { cipher: Cipher::AesCtr, hash: Hash::HmacSha1 };
        let sa = Sa { algorithm, salt: [1, 2, 3, 4], key: vec![5; 24], auth_key: vec![6; 20], icv_bytes: 12 };
        let body = sa.body(true, None);
        assert_eq!(body[..16], [0, 0, 0, 0, 1, 2, 3, 4, 0x12, 24, 12, 1, 0, 0, 0, 0]);
        assert_eq!(body[16..48], [[5; 24].as_slice(), &[0; 8]].concat());
        assert_eq!(body[48..], [[6; 20].as_slice(), &[0; 44]].concat());
        assert_eq!(sa.body(false, None)[11], 0);
        let inbound = Inbound { spi: [9, 8, 7, 6], is_tunnel_v4: true };
        let body = sa.body(false, Some(inbound));
        assert_eq!((&body[..4], body[11], inbound.place()), ([9, 8, 7, 6].as_slice(), 6, 9 ^ 8 ^ 7 ^ 6));
    }

    #[test]
    fn a_status_is_read_and_a_short_one_is_none() {
        let bytes = [1, 0x60, 0, 255, 7, 0, 0x34, 0x12, 0xd4, 0xc3, 0xb2, 0xa1, 0, 0, 0x2c, 0x01];
        let (is_opened, is_from_line, len, cookie) = (false, true, 0x1234, 0xa1b2_c3d4);
        let expected =
            Status { code: Code::WrongIcv, is_opened, is_from_line, sa: 7, len, cookie, cycles: 300 };
        assert_eq!(Status::parse(&bytes), Some(expected));
        assert_eq!(Status::parse(&[0x21; 16]).map(|status| status.is_opened), Some(true));
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
