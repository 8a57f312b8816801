//! The card and its memory window: register access and simulated time.

use zeroize::Zeroize;

use crate::clock::LINE_MHZ;
use crate::command::STATUS_BYTES;
use crate::error::CardError;
use crate::ffi::{Card, MAPPED, Memory, Ran, SPAN_SHIFT, Sent, Span};
use crate::model::Model;

pub(crate) const ID: u8 = 0x00;
pub(crate) const CONTROL: u8 = 0x04;
const CAPABILITIES: u8 = 0x08;
pub(crate) const TRANSMIT: u8 = 0x10;
pub(crate) const RECEIVE: u8 = 0x20;
pub(crate) const COMPLETION: u8 = 0x30;
pub(crate) const IRQ_COUNT: u8 = 0x40;
pub(crate) const IRQ_TIME: u8 = 0x44;
pub(crate) const IRQ_ACK: u8 = 0x48;
pub(crate) const LINE_MTU: u8 = 0x4c;
pub(crate) const CYCLES: u8 = 0x64;
/// Registers that count frames from the line: those that were damaged, and those dropped for lack
/// of room.
pub(crate) const LINE_LOSSES: [u8; 2] = [0x78, 0x7c];

const GRIP: u32 = u32::from_be_bytes(*b"GRIP");

/// Consecutive bytes on the card's bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) at: u32,
    pub(crate) len: usize,
}

impl Segment {
    /// Bytes of the window.
    pub(crate) fn window(at: usize, len: usize) -> Self {
        Self { at: at as u32, len }
    }

    /// Where the bus finds bytes of the host's memory once they are mapped as the span `number`.
    ///
    /// # Panics
    /// If they are too many for a span.
    pub(crate) fn mapped(number: usize, bytes: &[u8]) -> Self {
        let lead = bytes.as_ptr().addr() % WORD_BYTES;
        assert!(lead + bytes.len() <= 1 << SPAN_SHIFT, "a span is longer than any frame");
        Self { at: MAPPED + ((number as u32) << SPAN_SHIFT) + lead as u32, len: bytes.len() }
    }
}

/// A word of the card's bus.
const WORD_BYTES: usize = 8;

/// A card, its window of host memory, and what else of that it may access.
pub(crate) struct Device {
    card: Card,
    model: Model,
    pub(crate) memory: Vec<u8>,
    spans: Vec<Span>,
}

impl Device {
    /// Makes a card of this model and checks its identification register.
    pub(crate) fn new(model: Model, window_bytes: usize) -> Result<Self, CardError> {
        let card = Card::new(model.number).ok_or(CardError::Absent)?;
        let mut device = Self { card, model, memory: vec![0; window_bytes], spans: Vec::new() };
        device.card.line_clock(LINE_MHZ, model.routed_mhz());
        let id = device.read(ID);
        if id == GRIP { Ok(device) } else { Err(CardError::NotGrip(id)) }
    }

    /// Sets the card's clock, to which those of the line and of the host's bus are relative.
    pub(crate) fn set_bus(&mut self, bus_mhz: u32, card_mhz: u32) {
        self.card.bus(bus_mhz, card_mhz);
        self.card.line_clock(LINE_MHZ, card_mhz);
    }

    pub(crate) fn read(&mut self, address: u8) -> u32 {
        self.card.read(Memory { window: &mut self.memory, spans: &self.spans }, address)
    }

    pub(crate) fn write(&mut self, address: u8, value: u32) {
        self.card.write(Memory { window: &mut self.memory, spans: &self.spans }, address, value);
    }

    /// Maps the span `number`, instead of what was mapped as that.
    pub(crate) fn map(&mut self, number: usize, span: Span) {
        if self.spans.len() <= number {
            self.spans.resize(number + 1, Span::NOTHING);
        }
        self.spans[number] = span;
    }

    /// Maps nothing as the span `number` any more.
    pub(crate) fn unmap(&mut self, number: usize) {
        self.map(number, Span::NOTHING);
    }

    /// The status that the card has written at this bus address: in the window, or at the start of
    /// a span. `None` if there is no room for one.
    pub(crate) fn written(&self, at: u32) -> Option<[u8; STATUS_BYTES]> {
        match at.checked_sub(MAPPED) {
            None => self.memory.get(at as usize..)?.first_chunk().copied(),
            Some(behind) => self.spans.get((behind >> SPAN_SHIFT) as usize)?.start(),
        }
    }

    /// Maps nothing but the window any more.
    pub(crate) fn unmap_all(&mut self) {
        self.spans.clear();
    }

    /// The card's model, to make another one like it.
    pub(crate) fn model(&self) -> Model {
        self.model
    }

    /// Masks of the functions that are built into X1 and X2 and may be loaded.
    pub(crate) fn functions(&mut self) -> [u16; 2] {
        let capabilities = self.read(CAPABILITIES);
        [capabilities as u16, (capabilities >> 16) as u16].map(|built| built & self.model.functions)
    }

    /// Writes `parts` one after the other into the window and returns their total length.
    pub(crate) fn put(&mut self, at: usize, parts: &[&[u8]]) -> usize {
        let mut end = at;
        for part in parts {
            self.memory[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        end - at
    }

    /// Runs the card until it interrupts; `false` if it has not after `cycles`.
    pub(crate) fn run(&mut self, cycles: u64) -> Result<bool, CardError> {
        match self.card.run(Memory { window: &mut self.memory, spans: &self.spans }, cycles) {
            Ran::Interrupt => Ok(true),
            Ran::OutOfCycles => Ok(false),
            Ran::Strayed => Err(CardError::Strayed),
        }
    }

    /// Queues a frame on the line to the card; `false` if the queue is full.
    pub(crate) fn line_offer(&mut self, frame: &[u8]) -> bool {
        self.card.offer(frame)
    }

    /// Writes the next frame that the card has sent to the start of `room`, and returns its length.
    pub(crate) fn line_take(&mut self, room: &mut [u8]) -> Result<Option<usize>, CardError> {
        match self.card.take(room) {
            Sent::Nothing => Ok(None),
            Sent::Frame(frame) => Ok(Some(frame.len())),
            Sent::Broken => Err(CardError::Broken),
        }
    }
}

impl Drop for Device {
    /// Commands that the card has not read contain keys, so the window is wiped.
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}
