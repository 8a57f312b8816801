//! The stamp in the payload of a test packet: trial, direction, number and time of sending.
//!
//! ```text
//!  0               4               8                              16                              24
//!  | magic         | trial and way | sequence number, from 0      | sent, in ns of the clock       |
//! ```

use convoy_packet::{checksum, udp};

use crate::family::Family;

/// "CVYM".
const MAGIC: u32 = 0x4356_594d;
/// Length of the stamp in bytes.
pub(crate) const STAMP_LENGTH: u16 = 24;
/// The shortest IPv4 packet that holds a stamp, in bytes; [`Family::least_length`] covers both
/// families.
pub const LEAST_LENGTH: u16 = Family::V4.least_length();
/// Distance from the UDP checksum to the stamp, in bytes.
const BACK_TO_CHECKSUM: usize = 2;

/// The stamp of a test packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Identifies the stream: unique for each trial of a tester and each direction.
    pub stream: u32,
    /// Sequence number, from 0.
    pub sequence: u64,
    /// Time of sending, in ns of the tester's clock.
    pub sent_ns: u64,
}

impl Stamp {
    /// Writes the stamp into a UDP packet. The UDP checksum is updated incrementally; over IPv4 it
    /// may be absent.
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

    /// Reads the stamp of an IP packet without IP options or extension headers; `None` if there is
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

/// The ones' complement sum of the bytes.
fn sum(bytes: &[u8]) -> u16 {
    !checksum::of(bytes, 0)
}

/// Updates the UDP checksum for changed bytes. A checksum of 0 means that there is none (RFC 768),
/// so a sum of 0 is written as 0xffff.
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
