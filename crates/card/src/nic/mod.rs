//! The card as a network interface: what leaves is sealed in flight, what comes in is opened before the host sees it.
//!
//! [`Nic`] is the driver alone: nothing in it waits, and the card works only in [`Nic::step`]. [`pair`] puts one on a thread.
//! Every frame that is sent passes X1, those that are not to be sealed too, so that order is kept.

mod counters;
mod sas;
mod thread;

use std::collections::VecDeque;

use zeroize::Zeroize;

pub use counters::NicCounters;
pub use thread::{Arrival, Full, NicControl, NicPort, pair};

use crate::command::{
    Code, Direction, Inbound, Operation, PREFIX_BYTES, Pipeline, Route, STATUS_BYTES, Sa, prefix,
};
use crate::device::{CYCLES, Device, LINE_LOSSES};
use crate::error::CardError;
use crate::line::{LINE_BYTES, Line};
use crate::rings::{Answer, Completion, RINGS_BYTES, Rings};
use sas::{Order, Sas};

/// Buffers each way.
const BUFFERS: usize = 64;
/// Bytes of one: any frame behind its prefix or status.
const BUFFER_BYTES: usize = (PREFIX_BYTES + LINE_BYTES).next_multiple_of(64);
const TRANSMIT_BUFFERS: usize = RINGS_BYTES;
const RECEIVE_BUFFERS: usize = TRANSMIT_BUFFERS + BUFFERS * BUFFER_BYTES;
const WINDOW_BYTES: usize = RECEIVE_BUFFERS + BUFFERS * BUFFER_BYTES;
/// Cycles in which something must come of what is under way: twice what the longest frame takes in the slowest function.
const PATIENCE_CYCLES: u64 = 500_000;
/// The cookie of packets; commands have that of their pipeline behind it.
const PACKET_COOKIE: u32 = 0;
/// Bytes of an ESP header.
const ESP_BYTES: usize = 8;

/// What is to be done with a frame in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// The outbound SA's number.
    pub sa: u32,
    /// Where the ESP header begins, in bytes from the frame's start. Header and IV are written, the payload is plain with its ESP
    /// trailer, and the ICV's bytes at the frame's end are room.
    pub esp_at: u16,
    /// The upper half of an extended sequence number.
    pub seq_high: Option<[u8; 4]>,
}

/// What is under way in the card.
#[derive(Default)]
struct Flight {
    /// Buffers of the transmit ring that the card has not read yet, oldest first: how many bytes of each to wipe then.
    posted: VecDeque<usize>,
    /// Buffers of the transmit ring ever taken.
    buffers: usize,
    /// Commands without answer, by pipeline: what their place stands for when they are done.
    commands: [VecDeque<(u8, Option<u32>)>; 2],
    /// Packets that are neither on the line nor refused.
    leaving: u64,
    /// Frames from the line without status.
    arriving: u64,
    /// Cycles without any sign of work.
    silent: u64,
    /// Whether the doorbells are to be rung.
    is_rung: bool,
}

/// A frame that waits for room; its bytes are kept beside.
type Held = Option<usize>;

/// A card, its line, and all that the driver knows of it.
pub struct Nic {
    device: Device,
    rings: Rings,
    line: Box<dyn Line>,
    sas: Sas,
    /// Whose packets each place of X2's cache opens, as the statuses read so far say.
    opens: [Option<u32>; 256],
    flight: Flight,
    towards: (Held, Vec<u8>),
    from: (Held, Vec<u8>),
    losses: u32,
    counters: NicCounters,
}

impl Nic {
    /// A card out of reset on a line, without SAs.
    ///
    /// # Errors
    /// [`CardError`] if it does not answer as a GRIP card.
    pub fn new(line: Box<dyn Line>) -> Result<Self, CardError> {
        let mut device = Device::new(WINDOW_BYTES)?;
        let sas = Sas::new(device.built());
        let mut nic = Self {
            rings: Rings::start(&mut device),
            device,
            line,
            sas,
            opens: [None; 256],
            flight: Flight::default(),
            towards: (None, vec![0; LINE_BYTES]),
            from: (None, vec![0; LINE_BYTES]),
            losses: 0,
            counters: NicCounters::default(),
        };
        nic.offer_all();
        Ok(nic)
    }

    /// Functions built into X1 and X2, a bit each.
    pub fn built(&mut self) -> [u16; 2] {
        self.device.built()
    }

    /// The card's count of cycles since reset, which wraps.
    pub fn cycles(&mut self) -> u32 {
        self.device.read(CYCLES)
    }

    /// What has been counted so far.
    pub fn counters(&self) -> &NicCounters {
        &self.counters
    }

    /// Takes an SA under a number, in the place of what stood there: inbound with an SPI, else outbound. It holds for all
    /// packets that are transmitted after it.
    ///
    /// # Errors
    /// [`CardError::Unfit`] if the card has no function for it, another function is in the slot and in use, or another SA's SPI has its place
    /// in the map. What had the number is gone then, too.
    pub fn install(&mut self, number: u32, sa: Sa, inbound: Option<Inbound>) -> Result<(), CardError> {
        self.sas.install(number, sa, inbound)
    }

    /// Forgets an SA, here and on the card.
    pub fn remove(&mut self, number: u32) {
        self.sas.remove(number);
    }

    /// Has a frame sent; `false` if there is no room now. One that the card cannot seal is dropped and counted.
    pub fn transmit(&mut self, frame: &[u8], seal: Option<Seal>) -> bool {
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

    /// The frame without room for the ICV, if it is one that its SA can seal.
    fn sealable<'a>(&self, frame: &'a [u8], seal: Seal) -> Option<&'a [u8]> {
        let entry = self.sas.get(seal.sa).filter(|entry| entry.inbound.is_none())?;
        let payload_at = usize::from(seal.esp_at) + ESP_BYTES + entry.sa.algorithm.iv_bytes();
        let end = frame.len().checked_sub(entry.sa.icv_bytes.into())?;
        (payload_at < end && frame.len() <= LINE_BYTES).then_some(&frame[..end])
    }

    /// Lets the card work for some cycles, and gives what came from the line to `receive`: the SA that it was opened for, and the
    /// frame, without ICV and what followed it if it was opened.
    ///
    /// # Errors
    /// Any [`CardError`] but `Unfit`: call [`Self::reset`] then.
    pub fn step(
        &mut self,
        cycles: u64,
        receive: &mut dyn FnMut(Option<u32>, &[u8]),
    ) -> Result<(), CardError> {
        // A line without room makes the card's time stand still: frames on a wire cannot wait.
        if !self.hand_out()? {
            return Ok(());
        }
        self.take_in();
        self.post_orders();
        if self.flight.is_rung {
            self.rings.ring(&mut self.device);
            self.flight.is_rung = false;
        }
        self.device.run(cycles)?;
        self.flight.silent += cycles;
        self.complete(receive)?;
        self.hand_out()?;
        self.watch()
    }

    /// Whether nothing is under way: the card then has nothing to do until the next frame.
    pub fn is_idle(&self) -> bool {
        let flight = &self.flight;
        flight.posted.is_empty()
            && flight.commands.iter().all(VecDeque::is_empty)
            && flight.leaving + flight.arriving == 0
            && self.towards.0.is_none()
            && self.from.0.is_none()
            && self.sas.orders.is_empty()
    }

    /// Sets the card anew after an error. The SAs stay installed, what was under way is lost.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn reset(&mut self) -> Result<(), CardError> {
        self.counters.device_errors += 1;
        self.counters.lost += self.flight.leaving + self.flight.arriving;
        self.device = Device::new(WINDOW_BYTES)?;
        self.rings = Rings::start(&mut self.device);
        (self.flight, self.opens, self.losses) = (Flight::default(), [None; 256], 0);
        self.sas.restore();
        self.offer_all();
        Ok(())
    }

    /// Whether a frame waits for room on the line.
    pub(crate) fn is_line_full(&self) -> bool {
        self.from.0.is_some()
    }

    /// The line, to wait for.
    pub(crate) fn line(&self) -> &dyn Line {
        &*self.line
    }

    fn offer_all(&mut self) {
        for buffer in 0..BUFFERS {
            self.rings.offer(&mut self.device, RECEIVE_BUFFERS + buffer * BUFFER_BYTES, BUFFER_BYTES);
        }
        self.flight.is_rung = true;
    }

    fn free(&self) -> usize {
        BUFFERS - self.flight.posted.len()
    }

    fn post_packet(&mut self, operation: Operation, place: u8, frame: &[u8]) {
        let head = prefix(operation, place, frame.len() as u16, PACKET_COOKIE);
        self.post(Pipeline::X1, &[&head, frame], 0);
        self.flight.leaving += 1;
    }

    /// Brings commands into the ring while there is room.
    fn post_orders(&mut self) {
        while self.free() != 0
            && let Some(order) = self.sas.orders.pop_front()
        {
            self.post_order(order);
        }
    }

    fn post_order(&mut self, order: Order) {
        let body: &[u8] = order.body.as_ref().map_or(&[], |body| &body[..]);
        let cookie = PACKET_COOKIE + 1 + order.pipeline as u32;
        let head = prefix(order.operation, order.place, body.len() as u16, cookie);
        self.post(order.pipeline, &[&head, body], PREFIX_BYTES + body.len());
        self.flight.commands[order.pipeline as usize].push_back((order.place, order.number));
    }

    fn post(&mut self, pipeline: Pipeline, parts: &[&[u8]], wipe: usize) {
        let at = TRANSMIT_BUFFERS + self.flight.buffers % BUFFERS * BUFFER_BYTES;
        let len = self.device.put(at, parts);
        self.rings.transmit(&mut self.device, pipeline, at, len, at as u32);
        self.flight.buffers += 1;
        self.flight.posted.push_back(wipe);
        self.flight.is_rung = true;
    }

    /// Frames from the line to the card, as many as it has room for.
    fn take_in(&mut self) {
        loop {
            let (held, buffer) = &mut self.towards;
            if held.is_none() {
                match self.line.receive(buffer) {
                    Ok(received) => *held = received,
                    Err(_) => self.counters.line_errors += 1,
                }
            }
            let Some(len) = *held else { return };
            if !self.device.line_offer(&buffer[..len]) {
                return;
            }
            *held = None;
            self.flight.arriving += 1;
        }
    }

    /// Frames from the card to the line; `false` if that has no room.
    fn hand_out(&mut self) -> Result<bool, CardError> {
        loop {
            let (held, buffer) = &mut self.from;
            if held.is_none() {
                *held = self.device.line_take(buffer)?;
                if held.is_some() {
                    self.flight.silent = 0;
                    self.flight.leaving = self.flight.leaving.saturating_sub(1);
                }
            }
            let Some(len) = *held else { return Ok(true) };
            match self.line.send(&buffer[..len]) {
                Ok(true) => self.counters.sent += 1,
                Ok(false) => return Ok(false),
                Err(_) => self.counters.line_errors += 1,
            }
            *held = None;
        }
    }

    fn complete(&mut self, receive: &mut dyn FnMut(Option<u32>, &[u8])) -> Result<(), CardError> {
        let mut is_any = false;
        while let Some(completion) = self.rings.next(&self.device)? {
            is_any = true;
            match completion {
                Completion::Transmitted(at) => {
                    let wipe = self.flight.posted.pop_front().ok_or(CardError::Cookie(at))?;
                    self.device.memory[at as usize..][..wipe].zeroize();
                }
                Completion::Received(at, answer) => {
                    self.answer(&answer, receive)?;
                    self.rings.offer(&mut self.device, at as usize, BUFFER_BYTES);
                    self.flight.is_rung = true;
                }
            }
        }
        if is_any {
            self.flight.silent = 0;
            self.rings.acknowledge(&mut self.device);
        }
        Ok(())
    }

    fn answer(
        &mut self,
        answer: &Answer,
        receive: &mut dyn FnMut(Option<u32>, &[u8]),
    ) -> Result<(), CardError> {
        let status = answer.status;
        if status.is_from_line {
            self.arrived(answer, receive);
            return Ok(());
        }
        let pipeline = match status.cookie {
            PACKET_COOKIE => {
                self.counters.refused += 1;
                self.flight.leaving = self.flight.leaving.saturating_sub(1);
                return Ok(());
            }
            1 => Pipeline::X1,
            2 => Pipeline::X2,
            other => return Err(CardError::Cookie(other)),
        };
        let command = self.flight.commands[pipeline as usize].pop_front();
        let (place, number) = command.ok_or(CardError::Cookie(status.cookie))?;
        if status.code != Code::Ok {
            return Err(CardError::Refused(status.code));
        }
        if pipeline == Pipeline::X2 {
            self.opens[usize::from(place)] = number;
        }
        Ok(())
    }

    fn arrived(&mut self, answer: &Answer, receive: &mut dyn FnMut(Option<u32>, &[u8])) {
        self.flight.arriving = self.flight.arriving.saturating_sub(1);
        let status = answer.status;
        let number = self.opens[usize::from(status.sa)];
        match (status.code, number) {
            (Code::Ok, Some(number)) if status.is_opened => {
                self.counters.opened += 1;
                receive(Some(number), answer.frame(&self.device));
            }
            (Code::WrongIcv, Some(number)) => *self.counters.wrong_icv.entry(number).or_default() += 1,
            // Opened by keys that nobody has any more.
            (Code::Ok, None) if status.is_opened => self.counters.refused += 1,
            _ if status.len != 0 => {
                self.counters.passed += 1;
                receive(None, answer.frame(&self.device));
            }
            _ => self.counters.malformed += 1,
        }
    }

    /// What came from the line and found no room has no status; what else has none is an error in the end.
    fn watch(&mut self) -> Result<(), CardError> {
        if self.flight.silent == 0 || self.is_idle() {
            self.flight.silent = 0;
            return Ok(());
        }
        if self.flight.arriving != 0 {
            let losses = LINE_LOSSES.iter().fold(0_u32, |sum, at| sum.wrapping_add(self.device.read(*at)));
            let new = u64::from(losses.wrapping_sub(self.losses));
            self.losses = losses;
            self.counters.overrun += new;
            self.flight.arriving = self.flight.arriving.saturating_sub(new);
        }
        if self.flight.silent > PATIENCE_CYCLES {
            return Err(CardError::Silent(self.flight.silent));
        }
        Ok(())
    }
}

const _: () = assert!(BUFFER_BYTES >= STATUS_BYTES + LINE_BYTES);

#[cfg(test)]
mod tests;
