//! Aggregation on the wire (RFC 9347): the packets of a multi-packet share outer ESP packets.

/// Bytes of an outer packet around the encrypted part with AES-GCM: IPv4, ESP header, IV and ICV.
const OUTER_BYTES: u64 = 20 + 8 + 8 + 16;
/// Pad length and next header (RFC 4303, section 2), which are encrypted with the payload.
const TRAILER_BYTES: u64 = 2;
/// Header of an AGGFRAG payload without congestion control (RFC 9347, section 6.1.1).
const AGGFRAG_BYTES: u64 = 4;
/// The smallest path MTU of IPv4 (RFC 791).
pub(crate) const MTU_MIN: u32 = 68;

/// Length of the outer IPv4 packet with an ESP payload of this many bytes.
pub fn esp_packet_bytes(payload: u64) -> u64 {
    OUTER_BYTES + (payload + TRAILER_BYTES).next_multiple_of(4)
}

/// How the packets of a multi-packet are cut into outer packets: they are put one after the other,
/// and every outer packet but the last is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aggregation {
    /// Bytes of inner packets in a full outer packet.
    room: u64,
    /// Bytes that an engine processes for each outer packet beside payload and AGGFRAG header.
    esp_bytes: u64,
}

/// The outer packets of a multi-packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OuterPackets {
    /// Number of outer packets.
    pub packets: u64,
    /// Bytes that the engine processes and the bus transfers.
    pub bytes: u64,
    /// Blocks of 16 bytes that the engine processes.
    pub blocks: u64,
    /// Bytes of the IPv4 packets on the wire.
    pub wire_bytes: u64,
}

impl Aggregation {
    /// Outer packets of at most `mtu` bytes, for each of which an engine processes `esp_bytes`
    /// beside the payload.
    pub fn new(mtu: u32, esp_bytes: u32) -> Self {
        let encrypted = (u64::from(mtu.max(MTU_MIN)) - OUTER_BYTES) / 4 * 4;
        Self { room: encrypted - TRAILER_BYTES - AGGFRAG_BYTES, esp_bytes: esp_bytes.into() }
    }

    /// The outer packets for this many bytes of inner packets.
    pub fn outer(&self, inner_bytes: u64) -> OuterPackets {
        let (full, rest) = (inner_bytes / self.room, inner_bytes % self.room);
        let mut all = OuterPackets::default();
        for (packets, inner) in [(full, self.room), (u64::from(rest > 0), rest)] {
            let bytes = self.esp_bytes + AGGFRAG_BYTES + inner;
            all.packets += packets;
            all.bytes += packets * bytes;
            all.blocks += packets * bytes.div_ceil(16);
            all.wire_bytes += packets * esp_packet_bytes(AGGFRAG_BYTES + inner);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outer_packet_is_no_longer_than_the_mtu() {
        // 1500 - 52 = 1448 encrypted bytes, 6 of which are trailer and AGGFRAG header.
        let ethernet = Aggregation::new(1500, 0);
        let outer = |packets, bytes, blocks, wire_bytes| OuterPackets { packets, bytes, blocks, wire_bytes };
        assert_eq!(ethernet.outer(1442), outer(1, 1446, 91, 1500));
        // The second one holds one byte: 5 bytes of payload, and 8 with trailer and padding.
        assert_eq!(ethernet.outer(1443), outer(2, 1446 + 5, 91 + 1, 1500 + 60));
        // 1501 is not longer by a multiple of 4, to which ESP pads.
        assert_eq!(Aggregation::new(1501, 0), ethernet);
    }

    #[test]
    fn each_outer_packet_has_its_headers_once() {
        // 30 packets of 40 bytes: 1204 bytes and 76 blocks, with 24 bytes of ESP 1228 and 77.
        let all = |esp_bytes| Aggregation::new(1500, esp_bytes).outer(30 * 40);
        assert_eq!((all(0).packets, all(0).bytes, all(0).blocks), (1, 1204, 76));
        assert_eq!((all(24).packets, all(24).bytes, all(24).blocks), (1, 1228, 77));
        assert_eq!(all(24).wire_bytes, 52 + 1208);
        assert_eq!(Aggregation::new(1500, 24).outer(0), OuterPackets::default());
    }

    #[test]
    fn a_plain_esp_packet_is_padded_to_four_bytes() {
        assert_eq!([0, 2, 3, 40].map(esp_packet_bytes), [56, 56, 60, 96]);
    }
}
