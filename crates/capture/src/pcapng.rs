//! The block format, pcapng (draft-ietf-opsawg-pcapng).

use std::io::Read;
use std::time::Duration;

use pcap_parser::pcapng::{Block, InterfaceDescriptionBlock, parse_block_be, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock;

use crate::framing::{ByteOrder, CapturedFrame, LONGEST_RECORD, NextRecord, RecordSource, Stop};
use crate::unread::Reason;

/// The type of a Section Header Block, a palindrome that reads the same in both byte orders.
pub(crate) const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// The type of the obsolete Packet Block, which `pcap-parser` does not decode.
const PACKET_BLOCK: u32 = 2;
/// The shortest block, in bytes: type, length and the repeated length. A section header has its
/// byte-order mark behind type and length, so these bytes include it.
const SHORTEST_BLOCK: u32 = 12;
const BYTE_ORDER_MARK: u32 = 0x1a2b_3c4d;

/// Offset of the frame in an Enhanced Packet Block and in a Packet Block; below, in a Simple Packet
/// Block.
const PACKET_AT: usize = 28;
const SIMPLE_PACKET_AT: usize = 12;

/// Interfaces kept for each section, so that a file full of descriptions cannot exhaust memory. A
/// Packet Block's 16-bit field cannot refer to more.
const MAX_INTERFACES: usize = 1 << 16;

/// State of the current section.
pub(crate) struct PcapngSection {
    order: ByteOrder,
    interfaces: Vec<InterfaceBlock>,
}

impl PcapngSection {
    /// State before the first section header.
    pub(crate) fn none() -> Self {
        Self { order: ByteOrder::Little, interfaces: Vec::new() }
    }

    /// Reads the next block into `block`.
    pub(crate) fn next<R: Read>(
        &mut self,
        source: &mut RecordSource<R>,
        block: &mut Vec<u8>,
    ) -> Result<NextRecord, Stop> {
        source.begin(SHORTEST_BLOCK as usize, block)?;
        if block.starts_with(&SECTION_HEADER) {
            self.order = match [ByteOrder::Little, ByteOrder::Big]
                .into_iter()
                .find(|order| order.u32(block, 8) == BYTE_ORDER_MARK)
            {
                Some(order) => order,
                None => return Err(source.damaged("a section has no byte-order mark")),
            };
        }
        let len = self.order.u32(block, 4);
        if !(SHORTEST_BLOCK..=LONGEST_RECORD).contains(&len) || !len.is_multiple_of(4) {
            let what = format!(
                "a block has {len} bytes; multiples of 4 from {SHORTEST_BLOCK} to {LONGEST_RECORD} are possible"
            );
            return Err(source.damaged(what));
        }
        source.append((len - SHORTEST_BLOCK) as usize, block)?;
        let again = self.order.u32(block, block.len() - 4);
        if again != len {
            let what = format!("a block has {len} bytes, but its trailing length is {again}");
            return Err(source.damaged(what));
        }
        Ok(self.step(block))
    }

    /// Decodes a complete block.
    fn step(&mut self, block: &[u8]) -> NextRecord {
        let parsed = match self.order {
            ByteOrder::Little => parse_block_le(block),
            ByteOrder::Big => parse_block_be(block),
        };
        let Ok((_, parsed)) = parsed else { return NextRecord::Unread(Reason::MalformedBlock) };
        match &parsed {
            Block::SectionHeader(_) => self.interfaces.clear(),
            // Packets of interfaces beyond the limit are counted as [`Reason::UnknownInterface`].
            Block::InterfaceDescription(_) if self.interfaces.len() >= MAX_INTERFACES => {}
            Block::InterfaceDescription(interface) => {
                self.interfaces.push(InterfaceBlock::new(interface, self.order));
            }
            Block::EnhancedPacket(packet) => {
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let bytes = PACKET_AT..PACKET_AT + packet.packet_data().len();
                return self.frame(packet.if_id, |interface| CapturedFrame {
                    link: interface.link,
                    bytes,
                    original_len: packet.origlen,
                    time: interface.time(units),
                });
            }
            Block::SimplePacket(packet) => {
                let captured = packet.packet_data().len();
                return self.frame(0, |interface| CapturedFrame {
                    link: interface.link,
                    bytes: SIMPLE_PACKET_AT..SIMPLE_PACKET_AT + captured.min(interface.snap_len),
                    original_len: packet.origlen,
                    time: None,
                });
            }
            Block::Unknown(_) if self.order.u32(block, 0) == PACKET_BLOCK => return self.packet_block(block),
            _ => {}
        }
        NextRecord::Other
    }

    /// Decodes a Packet Block: interface and drop count (16 bits each), time, captured and original
    /// length, frame, options.
    fn packet_block(&self, block: &[u8]) -> NextRecord {
        // The block's length is repeated in its last 4 bytes.
        let Some(frames) = block.len().checked_sub(PACKET_AT + 4) else {
            return NextRecord::Unread(Reason::MalformedBlock);
        };
        let [high, low, captured, original_len] = [12, 16, 20, 24].map(|at| self.order.u32(block, at));
        if captured as usize > frames {
            return NextRecord::Unread(Reason::MalformedBlock);
        }
        self.frame(self.order.u16(block, 8).into(), |interface| CapturedFrame {
            link: interface.link,
            bytes: PACKET_AT..PACKET_AT + captured as usize,
            original_len,
            time: interface.time(u64::from(high) << 32 | u64::from(low)),
        })
    }

    fn frame(&self, interface: u32, of: impl FnOnce(&InterfaceBlock) -> CapturedFrame) -> NextRecord {
        match self.interfaces.get(interface as usize) {
            Some(interface) => NextRecord::Frame(of(interface)),
            None => NextRecord::Unread(Reason::UnknownInterface),
        }
    }
}

/// Fields of an Interface Description Block.
struct InterfaceBlock {
    link: u16,
    /// Snap length: the most bytes kept of a frame.
    snap_len: usize,
    /// Ticks per second of timestamps; `None` if the resolution overflows.
    units: Option<u128>,
    /// Offset added to each timestamp, in seconds.
    offset_s: i64,
}

impl InterfaceBlock {
    fn new(block: &InterfaceDescriptionBlock<'_>, order: ByteOrder) -> Self {
        let exponent = u32::from(block.if_tsresol & 0x7f);
        let is_binary = block.if_tsresol & 0x80 != 0;
        Self {
            link: block.linktype.0 as u16,
            snap_len: if block.snaplen == 0 { usize::MAX } else { block.snaplen as usize },
            units: if is_binary { 1u128.checked_shl(exponent) } else { 10u128.checked_pow(exponent) },
            // `pcap-parser` always reads this option as little-endian.
            offset_s: if order == ByteOrder::Big {
                block.if_tsoffset.swap_bytes()
            } else {
                block.if_tsoffset
            },
        }
    }

    fn time(&self, units: u64) -> Option<Duration> {
        let per_second = self.units?;
        let seconds = (u128::from(units) / per_second) as u64;
        let rest = u128::from(units) % per_second;
        // The product overflows only if a tick is far below a nanosecond; the fraction is then
        // dropped.
        let nanoseconds = rest.checked_mul(1_000_000_000).map_or(0, |product| product / per_second);
        Some(Duration::new(seconds.saturating_add_signed(self.offset_s), nanoseconds as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Interface Description Block.
    fn block(if_tsresol: u8) -> Vec<u8> {
        let mut block = 1u32.to_le_bytes().to_vec();
        block.extend(32u32.to_le_bytes());
        block.extend([101, 0, 0, 0, 0, 0, 0, 0]);
        block.extend([9, 0, 1, 0, if_tsresol, 0, 0, 0, 0, 0, 0, 0]);
        block.extend(32u32.to_le_bytes());
        block
    }

    #[test]
    fn a_file_of_nothing_but_interfaces_does_not_fill_the_memory() {
        let (block, mut section) = (block(6), PcapngSection::none());
        for _ in 0..MAX_INTERFACES + 1_000 {
            assert!(matches!(section.step(&block), NextRecord::Other));
        }
        assert_eq!(section.interfaces.len(), MAX_INTERFACES);
    }

    fn interface(if_tsresol: u8) -> InterfaceBlock {
        let block = block(if_tsresol);
        let Ok((_, Block::InterfaceDescription(block))) = parse_block_le(&block) else {
            panic!("an interface")
        };
        InterfaceBlock::new(&block, ByteOrder::Little)
    }

    #[test]
    fn units_of_time_are_powers_of_ten_or_of_two() {
        let seven = Duration::from_secs(7);
        let half = Duration::from_millis(500);
        assert_eq!(interface(6).time(7_500_000), Some(seven + half));
        assert_eq!(interface(9).time(7_500_000_000), Some(seven + half));
        assert_eq!(interface(0).time(7), Some(seven));
        assert_eq!(interface(12).time(7_500_000_000_999), Some(seven + half));
        assert_eq!(interface(0x80 | 10).time(7 << 10 | 512), Some(seven + half));
        assert_eq!(interface(0x80 | 127).time(u64::MAX).map(|time| time.as_secs()), Some(0));
        assert_eq!(interface(127).time(1), None, "10^127 units a second");
    }

    #[test]
    fn a_time_of_any_unit_is_exact_to_the_nanosecond() {
        let now = 1_700_000_000_123_456_789u64;
        assert_eq!(interface(9).time(now), Some(Duration::from_nanos(now)));
        assert_eq!(interface(6).time(now / 1000), Some(Duration::from_micros(now / 1000)));
    }
}
