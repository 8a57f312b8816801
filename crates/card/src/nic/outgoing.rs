//! From the host to the card: packets to seal or to forward, and commands that install SAs.

use super::sas::Order;
use super::{BUFFER_BYTES, BUFFERS, ESP_BYTES, ETHERNET_BYTES, Nic, PACKET_COOKIE, Seal, TRANSMIT_BUFFERS};
use crate::command::{Direction, Operation, PREFIX_BYTES, Pipeline, Route, prefix};
use crate::line::LINE_BYTES;

impl Nic {
    /// Sends a frame; `false` if there is no room now. A frame that cannot be sealed, or is longer
    /// than [`LINE_BYTES`], is dropped and counted.
    pub fn transmit(&mut self, frame: &[u8], seal: Option<Seal>) -> bool {
        if frame.len() > LINE_BYTES {
            self.counters.refused += 1;
            return true;
        }
        self.post_orders();
        if !self.sas.orders.is_empty() || self.free() == 0 {
            return false;
        }
        let Some(seal) = seal else {
            self.counters.raw += 1;
            self.post_packet(Operation::Pass(Route::Line), 0, frame);
            return true;
        };
        if self.free() < 2 && !self.sas.is_at_hand(seal.sa, seal.seq_high.is_some()) {
            return false;
        }
        let Some(frame) = self.sealable(frame, seal) else {
            self.counters.refused += 1;
            return true;
        };
        let Some((place, order)) = self.sas.place(seal.sa, seal.seq_high.is_some()) else { return true };
        if let Some(order) = order {
            self.post_order(order);
        }
        let (direction, route, seq_high) = (Direction::Seal, Route::Line, seal.seq_high.unwrap_or_default());
        self.counters.sealed += 1;
        self.post_packet(Operation::Crypto { direction, route, esp_at: seal.esp_at, seq_high }, place, frame);
        true
    }

    /// The frame without the room for the ICV; `None` if its SA cannot seal it.
    fn sealable<'a>(&self, frame: &'a [u8], seal: Seal) -> Option<&'a [u8]> {
        let entry = self.sas.get(seal.sa).filter(|entry| entry.inbound.is_none())?;
        let payload_at = usize::from(seal.esp_at) + ESP_BYTES + entry.sa.algorithm.cipher.iv_bytes();
        let end = frame.len().checked_sub(entry.sa.icv_bytes.into())?;
        (payload_at < end).then_some(&frame[..end])
    }

    fn free(&self) -> usize {
        BUFFERS - self.flight.posted.len()
    }

    fn post_packet(&mut self, operation: Operation, place: u8, frame: &[u8]) {
        let mut head = prefix(operation, place, frame.len() as u16, PACKET_COOKIE);
        let is_sealed = matches!(operation, Operation::Crypto { .. });
        self.wanted.inspection(frame, is_sealed).request(&mut head, ETHERNET_BYTES);
        self.post(Pipeline::X1, &[&head, frame], 0);
        self.flight.leaving += 1;
    }

    /// Posts waiting commands while the ring has room.
    pub(super) fn post_orders(&mut self) {
        while self.free() != 0
            && let Some(order) = self.sas.orders.pop_front()
        {
            self.post_order(order);
        }
    }

    fn post_order(&mut self, order: Order) {
        let body = order.body.as_bytes();
        let cookie = PACKET_COOKIE + 1 + order.pipeline as u32;
        let head = prefix(order.operation, order.place, body.len() as u16, cookie);
        self.post(order.pipeline, &[&head, body], PREFIX_BYTES + body.len());
        self.flight.commands[order.pipeline as usize].push_back(order.effect);
    }

    fn post(&mut self, pipeline: Pipeline, parts: &[&[u8]], wipe: usize) {
        let at = TRANSMIT_BUFFERS + self.flight.buffers % BUFFERS * BUFFER_BYTES;
        let len = self.device.put(at, parts);
        self.rings.transmit(&mut self.device, pipeline, at, len, at as u32);
        self.flight.buffers += 1;
        self.flight.posted.push_back(wipe);
        self.flight.is_rung = true;
    }
}
