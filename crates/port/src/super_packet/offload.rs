//! The header before each packet of a TUN device or packet socket with offloads
//! (`struct virtio_net_hdr`, in host byte order): what the kernel left undone, or is to do.

/// Length of the header, in bytes.
pub(crate) const HEADER_BYTES: usize = 10;

/// The transport checksum has only the pseudo header's sum.
const NEEDS_CHECKSUM: u8 = 1;
/// Added to a type: a TCP super-packet with CWR, which only the first segment has.
const WITH_ECN: u8 = 0x80;

/// What a super-packet is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segments {
    /// TCP over IPv4.
    TcpV4,
    /// TCP over IPv6.
    TcpV6,
    /// UDP over either.
    Udp,
}

impl Segments {
    const ALL: [(Self, u8); 3] = [(Self::TcpV4, 1), (Self::TcpV6, 4), (Self::Udp, 5)];

    /// Where the checksum stands in the transport header.
    pub(crate) const fn checksum_at(self) -> usize {
        match self {
            Self::TcpV4 | Self::TcpV6 => 16,
            Self::Udp => 6,
        }
    }
}

/// The header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OffloadHeader {
    /// The kind of its segments, if it is a super-packet.
    pub(crate) segments: Option<Segments>,
    /// Length of all headers in bytes; a hint.
    pub(crate) header_len: u16,
    /// Payload of each segment but the last, in bytes.
    pub(crate) segment_bytes: u16,
    /// From where on a checksum is to be computed, and where behind that it goes.
    pub(crate) checksum: Option<(u16, u16)>,
}

impl OffloadHeader {
    /// Parses it; `None` if the kernel names an offload that was not requested.
    pub(crate) fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Self> {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let segments = match bytes[1] & !WITH_ECN {
            0 => None,
            kind => Some(Segments::ALL.into_iter().find(|(_, number)| *number == kind)?.0),
        };
        let checksum = (bytes[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(8)));
        Some(Self { segments, header_len: word(2), segment_bytes: word(4), checksum })
    }

    /// The same header with a link's header of so many bytes between it and the packet.
    pub(crate) fn before_link(self, link_bytes: u16) -> Self {
        Self {
            header_len: if self.segments.is_some() { self.header_len + link_bytes } else { self.header_len },
            checksum: self.checksum.map(|(start, offset)| (start + link_bytes, offset)),
            ..self
        }
    }

    /// The same header once a link's header of so many bytes is gone; `None` if a checksum was to
    /// begin inside that.
    pub(crate) fn behind_link(self, link_bytes: u16) -> Option<Self> {
        let checksum = match self.checksum {
            Some((start, offset)) => Some((start.checked_sub(link_bytes)?, offset)),
            None => None,
        };
        Some(Self { header_len: self.header_len.saturating_sub(link_bytes), checksum, ..self })
    }

    /// The header as bytes.
    pub(crate) fn write(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let number = |segments| Segments::ALL.into_iter().find(|(kind, _)| *kind == segments);
        bytes[1] = self.segments.and_then(number).map_or(0, |(_, number)| number);
        let (start, offset) = self.checksum.unwrap_or_default();
        bytes[0] = if self.checksum.is_some() { NEEDS_CHECKSUM } else { 0 };
        let words = [self.header_len, self.segment_bytes, start, offset];
        for (place, word) in bytes[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_header_of_zeros_asks_for_nothing() {
        assert_eq!(OffloadHeader::read(&[0; HEADER_BYTES]), Some(OffloadHeader::default()));
        assert_eq!(OffloadHeader::default().write(), [0; HEADER_BYTES]);
    }

    #[test]
    fn ecn_beside_a_type_is_no_other_type() {
        let mut bytes = [0; HEADER_BYTES];
        bytes[1] = 0x81;
        assert_eq!(OffloadHeader::read(&bytes).and_then(|header| header.segments), Some(Segments::TcpV4));
        bytes[1] = 3;
        assert_eq!(OffloadHeader::read(&bytes), None, "UDP fragmentation was not asked for");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(kind in 0..4_usize, words: [u16; 2], checksum: Option<(u16, u16)>) {
            let segments = Segments::ALL.get(kind).map(|(segments, _)| *segments);
            let header = OffloadHeader { segments, header_len: words[0], segment_bytes: words[1], checksum };
            prop_assert_eq!(OffloadHeader::read(&header.write()), Some(header));
            if words[0] < 60_000 && checksum.is_none_or(|(start, _)| start < 60_000) {
                let behind = header.before_link(14).behind_link(14).expect("it begins behind the link's header");
                prop_assert_eq!((behind.segments, behind.checksum), (header.segments, header.checksum));
            }
        }
    }
}
