//! An observer on the wire: no sequence number and no IV may repeat under one key, whatever happens
//! to the gateway.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use convoy_packet::protocol::{AH, ESP, UDP};

/// SPI and sequence number, in bytes.
const ESP_BYTES: usize = 8;
/// Where AH has its SPI (RFC 4302 section 2), in bytes.
const AH_SPI: usize = 4;

/// IPv6's fragment header (RFC 8200 section 4.5).
const FRAGMENT: u8 = 44;

/// A packet on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SeenPacket {
    /// ESP or AH, or its first fragment: the SPI, and its offset, with the sequence number behind
    /// it.
    Esp {
        spi: u32,
        at: usize,
        in_udp: bool,
    },
    /// A later fragment.
    Piece,
    Keepalive,
}

/// Classifies a packet of a gateway's.
///
/// # Panics
/// If it is nothing that a gateway sends here, such as plaintext.
pub(super) fn look(packet: &[u8]) -> SeenPacket {
    let half = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let (head, protocol, offset) = match (packet[0] >> 4, packet[6]) {
        (6, FRAGMENT) => (48, packet[40], half(42) >> 3),
        (6, protocol) => (40, protocol, 0),
        _ => (20, packet[9], half(6) & 0x1fff),
    };
    let at = match protocol {
        AH | ESP | UDP if offset > 0 => return SeenPacket::Piece,
        ESP => head,
        AH => head + AH_SPI,
        UDP if packet.len() == head + 9 => return SeenPacket::Keepalive,
        UDP => head + 8,
        other => panic!("protocol {other} left a gateway on its protected side"),
    };
    let spi = u32::from_be_bytes(packet[at..at + 4].try_into().expect("4 bytes"));
    SeenPacket::Esp { spi, at, in_udp: protocol == UDP }
}

/// Source and destination of a packet.
pub(super) fn addresses(packet: &[u8]) -> [IpAddr; 2] {
    let v6 = |at: usize| <[u8; 16]>::try_from(&packet[at..at + 16]).expect("16 bytes").into();
    let v4 = |at: usize| <[u8; 4]>::try_from(&packet[at..at + 4]).expect("4 bytes").into();
    if packet[0] >> 4 == 6 { [v6(8), v6(24)] } else { [v4(12), v4(16)] }
}

/// What was sent under a key.
struct KeyUse {
    iv_bytes: usize,
    last: Option<u32>,
    ivs: HashSet<Vec<u8>>,
}

/// The observer. Each SPI stands for one key, for ever.
#[derive(Default)]
pub(super) struct WireObserver {
    keys: HashMap<u32, KeyUse>,
    pub(super) packets: u64,
}

impl WireObserver {
    /// Announces an SA.
    pub(super) fn expect(&mut self, spi: u32, iv_bytes: usize) {
        self.keys.entry(spi).or_insert(KeyUse { iv_bytes, last: None, ivs: HashSet::new() });
    }

    /// Records what a gateway has sent, in order.
    ///
    /// # Panics
    /// If a number or an IV repeats, or a number follows a higher one.
    pub(super) fn observe(&mut self, spi: u32, esp: &[u8]) -> u32 {
        let key =
            self.keys.get_mut(&spi).unwrap_or_else(|| panic!("no gateway has an SA {spi:#x}: {esp:02x?}"));
        let sequence = u32::from_be_bytes(esp[4..8].try_into().expect("4 bytes"));
        if let Some(last) = key.last {
            assert!(sequence > last, "SA {spi:#x} sent number {sequence} after {last}");
        }
        key.last = Some(sequence);
        let iv = esp[ESP_BYTES..ESP_BYTES + key.iv_bytes].to_vec();
        let is_new = key.ivs.insert(iv);
        assert!(is_new || key.iv_bytes == 0, "SA {spi:#x} used an IV twice, with number {sequence}");
        self.packets += 1;
        sequence
    }
}
