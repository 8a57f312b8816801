//! Commands to the card and its answers (docs/lab/card.md, "Command prefix", "Status").

use crate::filter::Decision;

/// Length of the prefix of each frame to X1 or X2.
pub const PREFIX_BYTES: usize = 32;
/// Length of the status of each frame to the host.
pub const STATUS_BYTES: usize = 16;
/// Length of the longest frame, in bytes.
pub const FRAME_BYTES: usize = 16_383;

/// Direction of an SA's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandDirection {
    /// Encrypt and append the ICV; in X1.
    Seal = 0,
    /// Verify the ICV and decrypt; in X2.
    Open = 1,
}

impl CommandDirection {
    /// The pipeline for this direction.
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

/// Where a packet goes after its pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// To the host (lookaside).
    Host = 0,
    /// To the line (inline).
    Line = 1,
}

/// The operation that a prefix requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Forwards a packet unchanged.
    Pass(Route),
    /// Gives a packet to the function in the slot.
    Crypto {
        /// Seal or open.
        direction: CommandDirection,
        /// Where the packet goes afterwards.
        route: Route,
        /// Offset of the ESP header behind the prefix, in bytes.
        esp_at: u16,
        /// The upper half of an extended sequence number; zeros without ESN.
        seq_high: [u8; 4],
    },
    /// Writes an SA to the cache.
    SaInstall,
    /// Removes an SA from the cache.
    SaRemove,
    /// Loads a function into the slot.
    SlotLoad(u8),
    /// Writes a page of the tables of signatures.
    SignatureWrite(u8),
    /// Replaces the filter's table; says whether packets pass that no rule matches.
    FilterWrite(bool),
}

/// The prefix of a frame of `len` bytes; `sa` is a place in the cache.
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
        Operation::SignatureWrite(page) => (bytes[0], bytes[3]) = (5, page),
        Operation::FilterWrite(accepts_rest) => (bytes[0], bytes[3]) = (4, accepts_rest.into()),
    }
    bytes[4] = sa;
    bytes[6..8].copy_from_slice(&len.to_le_bytes());
    bytes[8..12].copy_from_slice(&cookie.to_le_bytes());
    bytes
}

/// What else a pipeline does with a packet, as bits of a prefix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inspection(u8);

impl Inspection {
    /// The checksum of an IPv4 header: filled in when sealing or passing from the host, else
    /// verified.
    pub const IP_CHECKSUM: Self = Self(1 << 1);
    /// That of UDP, likewise.
    pub const UDP_CHECKSUM: Self = Self(1 << 2);
    /// The firewall.
    pub const FILTER: Self = Self(1 << 3);

    /// The search for signatures.
    pub const SIGNATURES: Self = Self(1 << 4);

    /// These functions in bits 7:4 of the control register, for frames from the line.
    pub fn of_line(self) -> u32 {
        u32::from(self.0) << 3
    }

    /// This if `is_on`, else nothing.
    pub const fn when(self, is_on: bool) -> Self {
        if is_on { self } else { Self(0) }
    }

    /// Both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Adds it to the prefix of a packet whose IP header begins at `ip_at`.
    pub fn request(self, prefix: &mut [u8; PREFIX_BYTES], ip_at: u16) {
        prefix[2] |= self.0;
        prefix[16..18].copy_from_slice(&ip_at.to_le_bytes());
    }
}

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Success.
    Ok,
    /// The ICV is wrong.
    WrongIcv,
    /// There is no such SA in the cache.
    NoSa,
    /// The required function is not in the slot.
    NoFunction,
    /// Malformed prefix or wrong length.
    Malformed,
    /// Framing or FCS error.
    Broken,
    /// The filter dropped the packet.
    Filtered,
    /// A code that docs/lab/card.md does not define.
    Unknown(u8),
}

/// The answer to a command. It comes alone or before a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Result of the command.
    pub code: Code,
    /// Whether the packet was decrypted and its ICV is right.
    pub is_opened: bool,
    /// Whether the packet came from the line.
    pub is_from_line: bool,
    /// What the filter let it pass or dropped it by; `None` if it was not asked.
    pub decision: Option<Decision>,
    /// The number of the signature that it hits, from 1; 0 for none.
    pub signature: u8,
    /// Whether the checksum of its IPv4 header was verified and is wrong.
    pub has_wrong_ip_checksum: bool,
    /// Whether that of UDP was, and that of IP is not.
    pub has_wrong_udp_checksum: bool,
    /// The SA's place in the cache.
    pub sa: u8,
    /// Length of the frame that follows, in bytes.
    pub len: u16,
    /// The cookie of the command's prefix.
    pub cookie: u32,
    /// Cycles for which the packet occupied the function; 65535 means that many or more.
    pub cycles: u16,
}

impl Status {
    /// Parses a status at the start of `bytes`; `None` if they are too short.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        const OPENED: u8 = 1 << 5 | 1;
        const FROM_LINE: u8 = 1 << 6;
        const ACCEPTED: u8 = 1 << 3;
        const WRONG_CHECKSUM: u8 = 1 << 7;
        const IP_RIGHT: u8 = 1 << 1;
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
            decision: (bytes[1] & ACCEPTED != 0 || code == Code::Filtered).then_some(Decision::of(bytes[3])),
            signature: bytes[2],
            has_wrong_ip_checksum: bytes[1] & (WRONG_CHECKSUM | IP_RIGHT) == WRONG_CHECKSUM,
            has_wrong_udp_checksum: bytes[1] & (WRONG_CHECKSUM | IP_RIGHT) == WRONG_CHECKSUM | IP_RIGHT,
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

    #[test]
    fn a_prefix_has_its_fields_where_the_card_reads_them() {
        let (direction, route, esp_at, seq_high) =
            (CommandDirection::Open, Route::Line, 0x0304, [1, 2, 3, 4]);
        let packet = Operation::Crypto { direction, route, esp_at, seq_high };
        let bytes = prefix(packet, 0x5a, 0x0102, 0xa1b2_c3d4);
        assert_eq!(bytes[..16], [0, 3, 1, 0, 0x5a, 0, 2, 1, 0xd4, 0xc3, 0xb2, 0xa1, 1, 2, 3, 4]);
        assert_eq!(bytes[16..], [0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(prefix(Operation::Pass(Route::Line), 0, 60, 0)[..8], [0, 1, 0, 0, 0, 0, 60, 0]);
        assert_eq!(prefix(Operation::SlotLoad(5), 0, 0, 0)[..4], [3, 0, 0, 5]);
        assert_eq!(prefix(Operation::SaInstall, 9, 112, 0)[..8], [1, 0, 0, 0, 9, 0, 112, 0]);
        assert_eq!(prefix(Operation::SaRemove, 9, 0, 0)[..8], [2, 0, 0, 0, 9, 0, 0, 0]);
        assert_eq!(prefix(Operation::SignatureWrite(2), 0, 8, 0)[..8], [5, 0, 0, 2, 0, 0, 8, 0]);
        assert_eq!(prefix(Operation::FilterWrite(true), 0, 256, 0)[..8], [4, 0, 0, 1, 0, 0, 0, 1]);
        let mut inspected = bytes;
        Inspection::FILTER.request(&mut inspected, 14);
        assert_eq!((inspected[2], &inspected[16..20]), (9, &[14, 0, 4, 3][..]));
        assert_eq!(Inspection::FILTER.of_line(), 1 << 6);
        let checksums = Inspection::IP_CHECKSUM.and(Inspection::UDP_CHECKSUM);
        assert_eq!((checksums.of_line(), checksums.when(false)), (3 << 4, Inspection::default()));
    }

    #[test]
    fn a_status_is_read_and_a_short_one_is_none() {
        let bytes = [1, 0x60, 0, 255, 7, 0, 0x34, 0x12, 0xd4, 0xc3, 0xb2, 0xa1, 0, 0, 0x2c, 0x01];
        let (is_opened, is_from_line, len, cookie) = (false, true, 0x1234, 0xa1b2_c3d4);
        let expected = Status {
            code: Code::WrongIcv,
            is_opened,
            is_from_line,
            decision: None,
            signature: 0,
            has_wrong_ip_checksum: false,
            has_wrong_udp_checksum: false,
            sa: 7,
            len,
            cookie,
            cycles: 300,
        };
        assert_eq!(Status::parse(&bytes), Some(expected));
        assert_eq!(Status::parse(&[0x21; 16]).map(|status| status.is_opened), Some(true));
        assert_eq!(Status::parse(&bytes[..15]), None);
        let decision = |code, flags, rule| {
            let bytes = [&[code, flags, 0, rule][..], &[0; 12]].concat();
            Status::parse(&bytes).and_then(|status| status.decision)
        };
        assert_eq!(decision(0, 8, 3), Some(Decision::Rule(3)));
        assert_eq!(decision(6, 0, 254), Some(Decision::Malformed));
        assert_eq!(decision(0, 8, 255), Some(Decision::Rest));
        let wrong = |flags| {
            let status = Status::parse(&[&[0, flags][..], &[0; 14]].concat()).expect("long enough");
            [status.has_wrong_ip_checksum, status.has_wrong_udp_checksum]
        };
        assert_eq!(
            [2, 6, 0x80, 0x82, 0x84].map(wrong),
            [[false; 2], [false; 2], [true, false], [false, true], [true, false]]
        );
        assert_eq!(Status::parse(&[9; 16]).map(|status| status.code), Some(Code::Unknown(9)));
    }
}
