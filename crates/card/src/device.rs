//! A card with the memory it sees: registers, and time.

use zeroize::Zeroize;

use crate::error::CardError;
use crate::ffi::{Card, Ran, Sent};

pub(crate) const ID: u8 = 0x00;
pub(crate) const CONTROL: u8 = 0x04;
const CAPABILITIES: u8 = 0x08;
pub(crate) const TRANSMIT: u8 = 0x10;
pub(crate) const RECEIVE: u8 = 0x20;
pub(crate) const COMPLETION: u8 = 0x30;
pub(crate) const IRQ_COUNT: u8 = 0x40;
pub(crate) const IRQ_ACK: u8 = 0x48;
pub(crate) const CYCLES: u8 = 0x64;
/// Frames from the line that came broken, and that found no room.
pub(crate) const LINE_LOSSES: [u8; 2] = [0x78, 0x7c];

const GRIP: u32 = u32::from_be_bytes(*b"GRIP");

/// A card and its window of host memory.
pub(crate) struct Device {
    card: Card,
    pub(crate) memory: Vec<u8>,
}

impl Device {
    /// A card that answers with its identification.
    pub(crate) fn new(window_bytes: usize) -> Result<Self, CardError> {
        let card = Card::new().ok_or(CardError::Absent)?;
        let mut device = Self { card, memory: vec![0; window_bytes] };
        let id = device.read(ID);
        if id == GRIP { Ok(device) } else { Err(CardError::NotGrip(id)) }
    }

    /// See [`Card::bus`].
    pub(crate) fn set_bus(&mut self, clocks: u32, cycles: u32) {
        self.card.bus(clocks, cycles);
    }

    pub(crate) fn read(&mut self, address: u8) -> u32 {
        self.card.read(&mut self.memory, address)
    }

    pub(crate) fn write(&mut self, address: u8, value: u32) {
        self.card.write(&mut self.memory, address, value);
    }

    /// The functions built into X1 and X2, a bit each.
    pub(crate) fn built(&mut self) -> [u16; 2] {
        let capabilities = self.read(CAPABILITIES);
        [capabilities as u16, (capabilities >> 16) as u16]
    }

    /// Writes parts behind each other into the window; their bytes together.
    pub(crate) fn put(&mut self, at: usize, parts: &[&[u8]]) -> usize {
        let mut end = at;
        for part in parts {
            self.memory[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        end - at
    }

    /// Lets the card work until it interrupts; `false` if it did not within so many cycles.
    pub(crate) fn run(&mut self, cycles: u64) -> Result<bool, CardError> {
        match self.card.run(&mut self.memory, cycles) {
            Ran::Interrupt => Ok(true),
            Ran::OutOfCycles => Ok(false),
            Ran::Strayed => Err(CardError::Strayed),
        }
    }

    /// Puts a frame on the line to the card; `false` while the line holds enough of them.
    pub(crate) fn line_offer(&mut self, frame: &[u8]) -> bool {
        self.card.offer(frame)
    }

    /// The next frame that the card has sent; its length, written to the front of `room`.
    pub(crate) fn line_take(&mut self, room: &mut [u8]) -> Result<Option<usize>, CardError> {
        match self.card.take(room) {
            Sent::Nothing => Ok(None),
            Sent::Frame(frame) => Ok(Some(frame.len())),
            Sent::Broken => Err(CardError::Broken),
        }
    }
}

impl Drop for Device {
    /// Commands that were never read have keys in them.
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}
