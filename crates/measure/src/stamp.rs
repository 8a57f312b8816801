//! What the payload of a test packet says of it: trial, way, number, and when it was sent.
//!
//! ```text
//!  0               4               8                              16                              24
//!  | magic         | trial and way | sequence number, from 0      | sent, in ns of the clock       |
//! ```

use convoy_packet::{checksum, udp};

use crate::family::Family;

/// "CVYM".
const MAGIC: u32 = 0x4356_594d;
/// Of the stamp, in bytes.
pub(crate) const STAMP_LENGTH: u16 = 24;
/// The shortest packet that holds one, in bytes: of IPv4. [`Family::least_length`] says it of
/// either family.
pub const LEAST_LENGTH: u16 = Family::V4.least_length();
/// From the stamp back to UDP's checksum, in bytes.
const BACK_TO_CHECKSUM: usize = 2;

/// What a test packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The stream that it is of: no two trials of a tester have the same, nor two ways of one.
    pub stream: u32,
    /// Its number, from 0.
    pub sequence: u64,
    /// When it was sent, in ns of the tester's clock.
    pub sent_ns: u64,
}

impl Stamp {
    /// Writes it into an IP packet with UDP, over one that may be there. UDP's checksum stays right
    /// if it was; over IPv4 there may be none.
    ///
    /// # Panics
    /// If the packet is shorter than [`Family::least_length`], or has IPv4's options.
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let family = Family::of_packet(packet).expect("a test packet has the plain header of its family");
        let at = usize::from(family.headers_length());
        let to = &mut packet[at..at + usize::from(STAMP_LENGTH)];
        let before = sum(to);
        to[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        to[4..8].copy_from_slice(&self.stream.to_be_bytes());
        to[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        to[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
        let now = sum(to);
        replace_sum(&mut packet[at - BACK_TO_CHECKSUM..at], before, now);
    }

    /// Reads that of an IP packet, which has no IP options or extension headers; `None` if it has
    /// none.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let at = usize::from(Family::of_packet(packet)?.headers_length());
        let stamp = packet.get(at..at + usize::from(STAMP_LENGTH))?;
        let word = |at: usize| u32::from_be_bytes(stamp[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_be_bytes(stamp[at..at + 8].try_into().expect("eight bytes"));
        (word(0) == MAGIC).then(|| Self { stream: word(4), sequence: long(8), sent_ns: long(16) })
    }
}

/// The ones' complement sum of some bytes.
fn sum(bytes: &[u8]) -> u16 {
    !checksum::of(bytes, 0)
}

/// Corrects UDP's checksum for bytes whose sum has changed. 0 says that there is none (RFC 768), so
/// that a sum of 0 is written as its other form.
fn replace_sum(at: &mut [u8], before: u16, now: u16) {
    let old = u16::from_be_bytes([at[0], at[1]]);
    let new = match old {
        0 => 0,
        old => match checksum::update16(old, before, now) {
            0 => u16::MAX,
            new => new,
        },
    };
    at.copy_from_slice(&new.to_be_bytes());
}

const _: () = assert!(udp::HEADER_BYTES == 6 + BACK_TO_CHECKSUM, "UDP's checksum is its last field");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_packets_have_no_stamp() {
        let stamp = Stamp { stream: 7, sequence: u64::MAX - 1, sent_ns: 12 };
        for (first, family) in [(0x45, Family::V4), (0x60, Family::V6)] {
            let mut packet = vec![0; usize::from(family.least_length())];
            packet[0] = first;
            stamp.write(&mut packet);
            assert_eq!(Stamp::read(&packet), Some(stamp));
            assert_eq!(Stamp::read(&packet[..packet.len() - 1]), None);
            packet[usize::from(family.headers_length())] ^= 1;
            assert_eq!(Stamp::read(&packet), None);
        }
    }
}
