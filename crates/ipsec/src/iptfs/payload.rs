//! A payload of AGGFRAG that is being filled, or waits for its turn.

use convoy_packet::Frame;

/// One AGGFRAG payload, with its header.
#[derive(Debug)]
pub(super) struct Payload {
    pub(super) frame: Frame,
    /// Bytes that may be appended.
    pub(super) room: usize,
    /// The traffic class of the packet that begins it.
    pub(super) traffic_class: u8,
    pub(super) opened_ns: u64,
    /// Whether it was left open at the end of a round, because more input was at hand.
    pub(super) is_kept: bool,
    /// Whether it ends within a packet, which goes on in the next.
    pub(super) goes_on: bool,
}

impl Payload {
    /// A payload that begins now.
    pub(super) fn of(frame: Frame, room: usize, traffic_class: u8, now_ns: u64) -> Self {
        Self { frame, room, traffic_class, opened_ns: now_ns, is_kept: false, goes_on: false }
    }

    /// Pads it to `len` bytes, and returns how many that took. One that ends within a packet was
    /// full when the path took less, and stays so long: padding would be read as the packet's rest.
    pub(super) fn pad_to(&mut self, len: usize) -> u64 {
        if self.goes_on {
            return 0;
        }
        let short = len.saturating_sub(self.frame.len());
        self.frame.append(short).map_or(0, |tail| {
            tail.fill(0);
            short as u64
        })
    }
}
