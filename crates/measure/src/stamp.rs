//! What the payload of a test packet says of it: trial, way, number, and when it was sent.
//!
//! ```text
//!  0               4               8                              16                              24
//!  | magic         | trial and way | sequence number, from 0      | sent, in ns of the clock       |
//! ```

/// "CVYM".
const MAGIC: u32 = 0x4356_594d;
/// IPv4 and UDP.
pub(crate) const HEADER_LENGTH: u16 = 20 + 8;
/// Of the stamp, in bytes.
pub(crate) const STAMP_LENGTH: u16 = 24;
/// The shortest packet that holds one, in bytes.
pub const LEAST_LENGTH: u16 = HEADER_LENGTH + STAMP_LENGTH;
/// Where it begins in a packet.
const AT: usize = HEADER_LENGTH as usize;

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
    /// Writes it into an IP packet.
    ///
    /// # Panics
    /// If the packet is shorter than [`LEAST_LENGTH`].
    #[inline]
    pub fn write(&self, packet: &mut [u8]) {
        let to = &mut packet[AT..AT + STAMP_LENGTH as usize];
        to[0..4].copy_from_slice(&MAGIC.to_be_bytes());
        to[4..8].copy_from_slice(&self.stream.to_be_bytes());
        to[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        to[16..24].copy_from_slice(&self.sent_ns.to_be_bytes());
    }

    /// Reads that of an IP packet, which has no IP options; `None` if it has none.
    #[inline]
    pub fn read(packet: &[u8]) -> Option<Self> {
        let stamp = packet.get(AT..AT + STAMP_LENGTH as usize)?;
        let word = |at: usize| u32::from_be_bytes(stamp[at..at + 4].try_into().expect("four bytes"));
        let long = |at: usize| u64::from_be_bytes(stamp[at..at + 8].try_into().expect("eight bytes"));
        let is_ours = packet[0] == 0x45 && word(0) == MAGIC;
        is_ours.then(|| Self { stream: word(4), sequence: long(8), sent_ns: long(16) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_other_packets_have_no_stamp() {
        let stamp = Stamp { stream: 7, sequence: u64::MAX - 1, sent_ns: 12 };
        let mut packet = vec![0; LEAST_LENGTH as usize];
        packet[0] = 0x45;
        stamp.write(&mut packet);
        assert_eq!(Stamp::read(&packet), Some(stamp));
        assert_eq!(Stamp::read(&packet[..packet.len() - 1]), None);
        packet[AT] ^= 1;
        assert_eq!(Stamp::read(&packet), None);
    }
}
