//! From the host to the card: packets to seal or to forward, and commands that install SAs.

#![allow(unsafe_code)]

use convoy_packet::Frame;

use super::fragments;
use super::sas::Order;
use super::{
    BUFFERS, COMMAND_BYTES, COMMANDS, COOKIE_BITS, ESP_BYTES, ETHERNET_BYTES, Nic, PACKET_COOKIE, Posted,
    Seal,
};
use crate::command::{CommandDirection, Operation, PREFIX_BYTES, Pipeline, Route, prefix};
use crate::device::Segment;
use crate::ffi::Span;
use crate::line::LINE_BYTES;

impl Nic {
    /// Sends a frame, which returns to its pool once the card has read it. One that cannot be
    /// sealed, is longer than [`LINE_BYTES`], is empty, or has no room for a prefix
    /// ([`PREFIX_BYTES`]) before it, is dropped and counted.
    ///
    /// # Errors
    /// The frame, if there is no room now.
    pub fn transmit(&mut self, mut frame: Frame, seal: Option<Seal>) -> Result<(), Frame> {
        if frame.len() > LINE_BYTES || frame.is_empty() || frame.headroom() < PREFIX_BYTES {
            self.counters.refused += 1;
            return Ok(());
        }
        self.post_orders();
        if !self.sas.orders.is_empty() || self.free() == 0 {
            return Err(frame);
        }
        let Some(seal) = seal else {
            self.counters.raw += 1;
            self.post_packet(Operation::Pass(Route::Line), 0, frame);
            return Ok(());
        };
        if self.free() < 2 && !self.sas.is_at_hand(seal.sa, seal.seq_high.is_some()) {
            return Err(frame);
        }
        let Some(end) = self.sealable(&frame, seal) else {
            self.counters.refused += 1;
            return Ok(());
        };
        frame.truncate(end);
        let Some((place, order)) = self.sas.place(seal.sa, seal.seq_high.is_some()) else { return Ok(()) };
        if let Some(order) = order {
            self.post_order(order);
        }
        let (direction, route, seq_high) =
            (CommandDirection::Seal, Route::Line, seal.seq_high.unwrap_or_default());
        self.counters.sealed += 1;
        self.post_packet(Operation::Crypto { direction, route, esp_at: seal.esp_at, seq_high }, place, frame);
        Ok(())
    }

    /// Sends a copy of bytes that are in no frame of a pool, as [`Self::transmit`]; `false` if
    /// there is no room now.
    pub fn transmit_copy(&mut self, bytes: &[u8], seal: Option<Seal>) -> bool {
        let Some(mut frame) = self.receiving.fresh() else { return false };
        if frame.fill(bytes).is_err() {
            self.counters.refused += 1;
            return true;
        }
        self.transmit(frame, seal).is_ok()
    }

    /// Where the frame ends without the room for the ICV; `None` if its SA cannot seal it.
    fn sealable(&self, frame: &[u8], seal: Seal) -> Option<usize> {
        let entry = self.sas.get(seal.sa).filter(|entry| entry.inbound.is_none())?;
        let payload_at = usize::from(seal.esp_at) + ESP_BYTES + entry.sa.algorithm.cipher.iv_bytes();
        let end = frame.len().checked_sub(entry.sa.icv_bytes.into())?;
        (payload_at < end).then_some(end)
    }

    fn free(&self) -> usize {
        BUFFERS - self.flight.posted.len()
    }

    fn post_packet(&mut self, operation: Operation, place: u8, mut frame: Frame) {
        let frames = fragments::frames(&frame, self.line_mtu);
        self.counters.fragmented += u64::from(frames > 1);
        let cookie = PACKET_COOKIE | frames << COOKIE_BITS;
        let mut head = prefix(operation, place, frame.len() as u16, cookie);
        let is_sealed = matches!(operation, Operation::Crypto { .. });
        self.wanted.inspection(&frame, is_sealed).request(&mut head, ETHERNET_BYTES);
        frame.prepend(PREFIX_BYTES).expect("was checked").copy_from_slice(&head);
        let span = self.flight.count % BUFFERS;
        let segment = Segment::mapped(span, &frame);
        // SAFETY: the frame stays in the queue of what was posted, where nothing accesses it, until
        // it was unmapped or another card has replaced this one.
        self.device.map(span, unsafe { Span::new(frame.as_mut_ptr(), frame.len()) });
        self.post(Pipeline::X1, segment, Posted { wipe: 0, frame: Some(frame) });
        self.flight.leaving += u64::from(frames);
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
        let at = self.command_at();
        let segment = Segment::window(at, self.device.put(at, &[&head, body]));
        self.post(order.pipeline, segment, Posted { wipe: segment.len, frame: None });
        self.flight.commands[order.pipeline as usize].push_back(order.effect);
    }

    /// Where the window has room for the next command.
    fn command_at(&self) -> usize {
        COMMANDS + self.flight.count % BUFFERS * COMMAND_BYTES
    }

    /// Posts what the card finds at a segment. The cookie tells the place, also that of a frame.
    fn post(&mut self, pipeline: Pipeline, segment: Segment, posted: Posted) {
        let cookie = self.command_at() as u32;
        self.rings.transmit(&mut self.device, pipeline, &[segment], cookie);
        self.flight.count += 1;
        self.flight.posted.push_back(posted);
        self.flight.is_rung = true;
    }
}
