//! Multi-packets whose packets share outer packets ([`Aggregation`]).

use crate::aggregation::{Aggregation, OuterPackets};
use crate::platform::Platform;
use crate::report::OuterReport;

/// The option in a running simulation.
pub(crate) struct Aggregate {
    rule: Aggregation,
    /// Bytes by which `b` exceeds the inner packet: what an engine processes for ESP.
    esp_bytes: u32,
    /// Bytes of inner packets of each SA in the window.
    in_window: Vec<u64>,
    sum: OuterPackets,
}

impl Aggregate {
    /// The option of a platform that has it.
    pub(crate) fn of(platform: &Platform) -> Option<Self> {
        let esp_bytes = platform.source.esp_bytes;
        let rule = Aggregation::new(platform.scheduler.aggregation?, esp_bytes);
        Some(Self { rule, esp_bytes, in_window: Vec::new(), sum: OuterPackets::default() })
    }

    /// Blocks by which a packet of `bytes` enlarges the multi-packet of its SA, as it enters the
    /// window. The scheduler adds them up, so that it predicts with the blocks of outer packets.
    pub(crate) fn enter(&mut self, sa: u32, bytes: u32) -> u32 {
        let sa = sa as usize;
        if self.in_window.len() <= sa {
            self.in_window.resize(sa + 1, 0);
        }
        let before = self.in_window[sa];
        let after = before + u64::from(bytes - self.esp_bytes);
        self.in_window[sa] = after;
        (self.rule.outer(after).blocks - self.rule.outer(before).blocks) as u32
    }

    /// The outer packets of a multi-packet, as it leaves the window.
    pub(crate) fn leave(&mut self, sa: u32, packets: usize, bytes: u64) -> OuterPackets {
        let inner = bytes - packets as u64 * u64::from(self.esp_bytes);
        self.in_window[sa as usize] -= inner;
        let outer = self.rule.outer(inner);
        self.sum.packets += outer.packets;
        self.sum.wire_bytes += outer.wire_bytes;
        outer
    }

    pub(crate) fn report(&self) -> OuterReport {
        OuterReport { packets: self.sum.packets, wire_bytes: self.sum.wire_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_packets_add_up_to_those_of_their_outer_packets() {
        let mut platform = Platform::open("pci-accelerators").expect("it comes with the program");
        assert!(Aggregate::of(&platform).is_none());
        platform.scheduler.aggregation = Some(1500);
        let mut aggregate = Aggregate::of(&platform).expect("it is on");
        // 44, 84 and 124 bytes: 3, 6 and 8 blocks. Another SA does not change them.
        let blocks = [(7, 40), (7, 40), (0, 40), (7, 40)].map(|(sa, bytes)| aggregate.enter(sa, bytes));
        assert_eq!(blocks, [3, 3, 3, 2]);
        assert_eq!(aggregate.leave(7, 3, 120).blocks, 8);
        assert_eq!(aggregate.enter(7, 40), 3);
        assert_eq!(aggregate.report(), OuterReport { packets: 1, wire_bytes: 52 + 128 });
    }
}
